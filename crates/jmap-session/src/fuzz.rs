//! Entry points for fuzz targets and corpus replay: the readers of ids and messages from outside.

use sealpost_jmap::email::{HeaderForm, HeaderProperty};
use sealpost_mime::Scanner;
use sealpost_mime::structure::StoredStructure;
use sealpost_mime::text::NoText;

use crate::blob::BlobName;
use crate::email::show;
use crate::{mdn, submission};

/// Reads a blob id. Each blob has one id.
pub fn blob_id(id: &[u8]) {
    let Ok(text) = std::str::from_utf8(id) else { return };
    if let Some(name) = BlobName::parse(text) {
        assert_eq!(name.to_string(), text);
        if let Some(part) = name.part(&[1, 2]).and_then(|part| part.id()) {
            assert!(BlobName::parse(part.as_str()).is_some());
        }
    }
}

/// Shows a message as an email: every header field in every form, all parts, all texts.
pub fn email(message: &[u8]) {
    let mut scanner = Scanner::with_sink(NoText);
    scanner.push(message);
    let (structure, _) = scanner.finish();
    let stored = StoredStructure::of(&structure);
    let header = usize::try_from(structure.root.header.end).unwrap_or(usize::MAX);
    let header = &message[..header.min(message.len())];
    for (name, _) in sealpost_mime::header::fields(header).take(64) {
        for form in HeaderForm::ALL {
            let name = String::from_utf8_lossy(name);
            if let Some(property) = HeaderProperty::new(&name, *form, true) {
                show::header(header, &property);
            }
        }
    }
    show::body(message, &stored);
}

/// Reads the header of a message that is sent, and of one whose sender wants a notification. What is written
/// of it has no line that the server did not mean.
pub fn sending(header: &[u8]) {
    for identity in ["me@here.example", "*@here.example"] {
        if let Ok(envelope) = submission::envelope_of(header, identity) {
            let senders = [envelope.mail_from.email.as_str()];
            assert!(senders.iter().all(|sender| sender_matches(identity, sender)), "{senders:?}");
        }
    }
    if let Some(message) = mdn::notification_about(header) {
        let is_bare = |line: &str| line.trim_end_matches("\r\n").contains(['\r', '\n']);
        assert!(!message.split_inclusive("\r\n").any(is_bare), "{message:?}");
        let (head, _) = message.split_once("\r\n\r\n").unwrap_or_default();
        let names = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        let names: Vec<_> = names.map(|line| line.split(':').next().unwrap_or_default()).collect();
        assert!(names.iter().all(|name| mdn::FIELDS_OF_HEADER.contains(name)), "{names:?}");
    }
}

fn sender_matches(identity: &str, sender: &str) -> bool {
    sealpost_submission::sender::matches_pattern(identity, sender)
}
