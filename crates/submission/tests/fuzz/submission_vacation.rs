//! Any bytes are a message to an account with a vacation response: cut anywhere, it says the same, it
//! is not held, and the reply to it is a message that gets no reply.

use sealpost_base::limits;
use sealpost_mime::header::raw_fields;
use sealpost_submission::vacation::original::{Addressed, HeaderScan, Original};
use sealpost_submission::vacation::reply::reply;
use sealpost_submission::vacation::settings::VacationSettings;
use sealpost_submission::vacation::unanswerable::Unanswerable;

const TO: &str = "joe@elsewhere.example";

/// # Panics
/// If cutting the message changes what is found, or the reply is not one message with the fields that
/// it must have.
pub fn fuzz_submission_vacation(data: &[u8]) {
    let original = scanned(data, data.len().max(1));
    for cut in [1, 7] {
        assert_eq!(scanned(data, cut), original, "cutting changes it");
    }
    let found: Vec<Addressed> = original.addressed().take(4).collect();
    let found = found.into_iter().filter(|found| !found.address.contains(char::is_control));
    let plain = Addressed { address: "me@here.example".to_owned(), name: String::new() };
    let texts = [original.subject.clone(), None];
    for from in found.chain([plain]) {
        for html in &texts {
            let text = original.subject.clone();
            let settings = VacationSettings { text, html: html.clone(), ..VacationSettings::default() };
            check(&reply(&settings, &original, &from, TO, "0123456789abcdef"));
        }
    }
}

fn scanned(data: &[u8], cut: usize) -> Original {
    let mut scan = HeaderScan::default();
    data.chunks(cut).for_each(|piece| scan.push(piece));
    scan.finish()
}

fn check(message: &[u8]) {
    let text = String::from_utf8_lossy(message).replace("\r\n", "");
    assert!(!text.contains(['\r', '\n']), "a bare CR or LF: {text:?}");
    let end = message.windows(4).position(|end| end == b"\r\n\r\n").expect("a header") + 4;
    let names: Vec<_> =
        raw_fields(&message[..end]).map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
    let wanted = ["From", "To", "Subject", "In-Reply-To", "References", "Auto-Submitted", "MIME-Version"];
    let others = ["Content-Type", "Content-Transfer-Encoding"];
    assert!(names.iter().all(|name| wanted.iter().chain(&others).any(|known| known == name)), "{names:?}");
    for name in ["From", "To", "Subject", "Auto-Submitted"] {
        assert_eq!(names.iter().filter(|found| *found == name).count(), 1, "{name} in {names:?}");
    }
    // RFC 5322 §2.1.1.
    assert!(message.split(|byte| *byte == b'\n').all(|line| line.len() <= 999));
    assert!(message.len() < 8 * limits::VACATION_HEADER_BYTES);
    // RFC 3834 §2: two responders never answer each other.
    assert_eq!(scanned(message, message.len()).unanswerable, Some(Unanswerable::Automatic));
}
