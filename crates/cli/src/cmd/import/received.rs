//! When a message was received, if its archive does not know: the header may.

use sealpost_base::Timestamp;
use sealpost_mime::header::{date, fields, unfold};

/// Bytes at the start of a message that are searched for its date.
pub const HEAD_BYTES: usize = 64 * 1024;

/// The date of the first Received field, which the last host wrote (RFC 5321 §4.4), or else of the
/// Date field.
pub fn from_header(head: &[u8]) -> Option<Timestamp> {
    let mut sent = None;
    for (name, value) in fields(&head[..head.len().min(HEAD_BYTES)]) {
        if name.eq_ignore_ascii_case(b"received") {
            let value = unfold(value);
            if let Some(received) = value.rsplit_once(';').and_then(|(_, at)| date::parse(at)) {
                return Some(Timestamp::from_seconds(received.seconds));
            }
        } else if sent.is_none() && name.eq_ignore_ascii_case(b"date") {
            sent = date::parse(&unfold(value));
        }
    }
    sent.map(|date| Timestamp::from_seconds(date.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_then_date() {
        let sent = "Date: Thu, 1 Jan 1970 00:01:00 +0000\r\n";
        let received = "Received: from a by b;\r\n\tThu, 1 Jan 1970 00:02:00 +0000\r\n";
        let seconds = |head: &str| from_header(head.as_bytes()).map(Timestamp::seconds);
        assert_eq!(seconds(&format!("{sent}{received}\r\n")), Some(120));
        assert_eq!(seconds(&format!("Received: nonsense\r\n{sent}\r\n")), Some(60));
        assert_eq!(seconds(&format!("\r\n{sent}")), None);
    }
}
