//! Any bytes are a key record and a message; cut anywhere, the verdicts on the message's signatures
//! are the same.

use sealpost_mailauth::dkim::{KeyLookup, KeyRecord, SignedMessage, Verdict, Verifier};

/// A message, up to the first NUL the text of a key record before it.
///
/// # Panics
/// If cutting the body changes a verdict, or if a message passes although its key is not one.
pub fn fuzz_mailauth_dkim(data: &[u8]) {
    let (key, message) = data.split_at(memchr::memchr(0, data).unwrap_or(0));
    let records = [String::from_utf8_lossy(key).into_owned()];
    let header_end = memchr::memmem::find(message, b"\r\n\r\n").map_or(message.len(), |at| at + 4);
    let (header, body) = message.split_at(header_end);
    let whole = verified(header, &[body]);
    let pieces: Vec<&[u8]> = body.chunks(3).collect();
    let cut = verified(header, &pieces);
    assert_eq!(whole.len(), cut.len());
    for index in 0..whole.len() {
        let verdict = whole.verify(index, KeyLookup::Records(&records), 0);
        assert_eq!(
            verdict,
            cut.verify(index, KeyLookup::Records(&records), 0),
            "cutting changes the verdict"
        );
        let passes = matches!(verdict, Verdict::Pass { .. });
        assert!(!passes || KeyRecord::parse(&records[0]).is_ok(), "a message passes without a key");
    }
}

fn verified(header: &[u8], pieces: &[&[u8]]) -> SignedMessage {
    let mut verifier = Verifier::new(header);
    for piece in pieces {
        verifier.push(piece);
    }
    verifier.finish()
}
