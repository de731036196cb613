//! Finds the facts that forwarding needs while a message streams.

use memchr::memchr;
use sealpost_base::limits;
use sealpost_queue::envelope::{Facts, TlsDemand};

/// The field with the mark of an alias that has forwarded the message.
pub(super) const MARK_FIELD: &str = "X-Sealpost-Forwarded";
/// Bytes of a header line that are scanned.
const LINE_BYTES: usize = limits::MESSAGE_ID_BYTES + 64;

/// The facts of a message so far. Its lines must end with CRLF.
#[derive(Default)]
pub(super) struct Scan {
    /// The marks that show a loop.
    marks: Vec<String>,
    line: Vec<u8>,
    in_body: bool,
    pub(super) facts: Facts,
    pub(super) tls: TlsDemand,
    pub(super) message_id: Option<String>,
    /// Whether it has one of the marks.
    pub(super) is_marked: bool,
}

impl Scan {
    /// A scan for those marks.
    pub(super) fn new(marks: Vec<String>) -> Self {
        Scan { marks, ..Scan::default() }
    }

    /// Scans the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let (false, false) = (self.in_body, bytes.is_empty()) {
            let end = memchr(b'\n', bytes);
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.facts.utf8_header |= !line.is_ascii();
            let kept = line.len().min(LINE_BYTES.saturating_sub(self.line.len()));
            self.line.extend_from_slice(&line[..kept]);
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
        self.facts.eight_bit |= !bytes.is_ascii();
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line == b"\r\n" {
            self.in_body = true;
            return;
        }
        let Some(colon) = memchr(b':', &line) else { return };
        let name = line[..colon].trim_ascii_end();
        let is = |field: &str| name.eq_ignore_ascii_case(field.as_bytes());
        let value = line[colon + 1..].trim_ascii();
        if is("Received") {
            self.facts.received = self.facts.received.saturating_add(1);
        } else if is(MARK_FIELD) {
            self.is_marked |= self.marks.iter().any(|mark| mark.as_bytes() == value);
        } else if is("TLS-Required") && value.eq_ignore_ascii_case(b"no") {
            // RFC 8689 §3.
            self.tls = TlsDemand::Waive;
        } else if is("Message-ID") && self.message_id.is_none() {
            let id = std::str::from_utf8(value).ok().filter(|id| !id.is_empty());
            self.message_id = id.filter(|id| id.len() <= limits::MESSAGE_ID_BYTES).map(str::to_owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_however_the_message_is_cut() {
        let message = "Received: a\r\n\tReceived: folded\r\nreceived: b\r\nMessage-ID: <1@x>\r\nX: y\r\n\
                       X-Sealpost-Forwarded: abcd\r\nTLS-Required: No\r\n\r\nReceived: body\u{e9}\r\n";
        for cut in 1..message.len() {
            let mut scan = Scan::new(vec!["ff".to_owned(), "abcd".to_owned()]);
            message.as_bytes().chunks(cut).for_each(|piece| scan.push(piece));
            assert_eq!((scan.facts.received, scan.facts.eight_bit, scan.facts.utf8_header), (2, true, false));
            assert!(scan.is_marked && scan.tls == TlsDemand::Waive);
            assert_eq!(scan.message_id.as_deref(), Some("<1@x>"));
        }
        let mut scan = Scan::new(vec!["abc".to_owned()]);
        scan.push("Subject: \u{e9}\r\nX-Sealpost-Forwarded: abcd\r\n".as_bytes());
        assert!(!scan.is_marked && scan.facts.utf8_header && !scan.facts.eight_bit);
    }

    #[test]
    fn long_lines_are_not_held() {
        let mut scan = Scan::default();
        (0..1000).for_each(|_| scan.push(&[b'x'; 1000]));
        assert!(scan.line.len() <= LINE_BYTES);
        scan.push(b"\r\nReceived: a\r\n\r\n");
        assert!(scan.in_body && scan.facts.received == 1);
    }
}
