//! Any bytes are a message of a user: cut anywhere, it becomes the same header and body, with clean
//! line ends, and a completed header is complete.

use sealpost_base::Timestamp;
use sealpost_mime::header::raw_fields;
use sealpost_submission::header::{Collector, Completed, Stamp, complete};
use sealpost_submission::lines::LineEnds;

const STAMP: Stamp<'_> = Stamp { now: Timestamp(0), unique: "0123", domain: "mx.example" };

/// # Panics
/// If cutting the message changes it, a bare CR or LF is left, or completing a completed header
/// changes it.
pub fn fuzz_submission_message(data: &[u8]) {
    let Some((header, body)) = split(data, data.len().max(1)) else { return };
    for cut in [1, 3] {
        assert!(split(data, cut).is_some_and(|(h, b)| h == header && b == body), "cutting changes it");
    }
    for part in [&header, &body] {
        let text = String::from_utf8_lossy(part).replace("\r\n", "");
        assert!(!text.contains(['\r', '\n']), "a bare CR or LF is left");
    }
    let Ok(Completed { bytes, senders, message_id }) = complete(&header, &STAMP) else { return };
    assert!(!senders.is_empty() && senders.iter().all(|sender| sender.contains('@')));
    assert!(!message_id.contains(['\r', '\n']));
    // It ends where the body begins, and nowhere before.
    assert!(bytes.ends_with(b"\r\n\r\n"));
    assert_eq!(raw_fields(&bytes).map(|(_, field)| field.len()).sum::<usize>(), bytes.len() - 2);
    let count =
        |name: &str| raw_fields(&bytes).filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).count();
    assert_eq!(count("From"), 1);
    assert!(count("Date") > 0 && count("Message-ID") > 0 && count("Bcc") == 0);
    let again = complete(&bytes, &STAMP).expect("what was completed can be");
    assert_eq!(again, Completed { bytes, senders, message_id });
}

/// Header and body of a message that comes in pieces; nothing if the header is too large.
fn split(data: &[u8], cut: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut lines, mut collector) = (LineEnds::default(), Collector::default());
    let (mut clean, mut body) = (Vec::new(), Vec::new());
    for piece in data.chunks(cut) {
        clean.clear();
        lines.push(piece, &mut clean);
        let taken = collector.push(&clean).ok()?;
        body.extend_from_slice(&clean[taken..]);
    }
    clean.clear();
    lines.finish(&mut clean);
    let taken = collector.push(&clean).ok()?;
    body.extend_from_slice(&clean[taken..]);
    let (header, begun) = collector.finish();
    Some((header, [begun, body].concat()))
}
