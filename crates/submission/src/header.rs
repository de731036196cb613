//! The header of a submitted message: collects it while the message streams, then completes it (RFC 6409 §8).
//!
//! A header is held as a whole, because a signature covers it (RFC 6376 §5);
//! [`limits::SUBMISSION_HEADER_BYTES`] bounds it.

use sealpost_base::{Timestamp, limits};
use sealpost_mime::header::address::parse_list;
use sealpost_mime::header::{date, raw_fields, unfold};

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The header is larger than [`limits::SUBMISSION_HEADER_BYTES`].
    TooLarge,
    /// From is missing or has no address (RFC 5322 §3.6).
    NoFrom,
    /// There is more than one From or Sender (RFC 5322 §3.6): readers differ in which they show.
    Repeated,
    /// From or Sender has an invalid address, or too many addresses.
    Unreadable,
}

/// Splits a message into header and body. Takes lines that end with CRLF, as
/// [`super::lines::LineEnds`] makes them.
#[derive(Debug, Default)]
pub struct Collector {
    header: Vec<u8>,
    /// The start of the line that is not complete yet.
    line: usize,
    done: bool,
}

impl Collector {
    /// Takes the next bytes, up to the end of the header, and returns their number. All of them belong to the
    /// header until [`Collector::is_done`].
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let mut taken = 0;
        while !self.done && taken < bytes.len() {
            let rest = &bytes[taken..];
            let piece = memchr::memchr(b'\n', rest).map_or(rest, |lf| &rest[..=lf]);
            if self.header.len() + piece.len() > limits::SUBMISSION_HEADER_BYTES {
                return Err(Fault::TooLarge);
            }
            self.header.extend_from_slice(piece);
            taken += piece.len();
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        Ok(taken)
    }

    /// Whether the header is complete.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Bytes held so far.
    pub fn len(&self) -> usize {
        self.header.len()
    }

    /// Whether no byte has arrived yet.
    pub fn is_empty(&self) -> bool {
        self.header.is_empty()
    }

    /// The header with its empty line, and the beginning of the body that was collected with it: a line that
    /// is no field ends the header (as in Postfix and sendmail).
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if !self.done && self.line < self.header.len() {
            self.end_line();
        }
        let body = self.header.split_off(self.line);
        if body.as_slice() == b"\r\n" {
            self.header.extend_from_slice(&body);
            return (self.header, Vec::new());
        }
        self.header.extend_from_slice(b"\r\n");
        (self.header, body)
    }

    fn end_line(&mut self) {
        let line = &self.header[self.line..];
        // The first line cannot continue a field.
        let continues = self.line > 0 && matches!(line.first(), Some(b' ' | b'\t'));
        if line != b"\r\n" && (continues || is_field(line)) {
            self.line = self.header.len();
        } else {
            self.done = true;
        }
    }
}

/// `ftext = %d33-57 / %d59-126` up to the colon; white space before that is obsolete and allowed
/// (RFC 5322 §2.2, §4.5.8).
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', line) else { return false };
    let name = line[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

/// Values for fields that a header lacks.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// When the message was submitted.
    pub now: Timestamp,
    /// The part of a Message-ID before the `@`: unique, and without information.
    pub unique: &'a str,
    /// The part after it.
    pub domain: &'a str,
}

/// A header that can be signed and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The header with its empty line.
    pub bytes: Vec<u8>,
    /// The addresses in From, and in Sender if there is one: each must be one that the account may send as.
    pub senders: Vec<String>,
    /// The Message-ID with its angle brackets, present or added.
    pub message_id: String,
}

/// Completes a header that [`Collector::finish`] returned: without Bcc, Resent-Bcc and Return-Path,
/// with Date and Message-ID. The other fields stay as they are, byte for byte.
///
/// # Errors
/// Why the message cannot be sent.
pub fn complete(header: &[u8], stamp: &Stamp<'_>) -> Result<Completed, Fault> {
    let mut bytes = Vec::with_capacity(header.len() + 160);
    let (mut from, mut sender, mut dated, mut message_id) = (None, None, false, None);
    for (name, field) in raw_fields(header) {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        // RFC 5322 §3.6.3: no other recipient sees the addresses in Bcc. RFC 5321 §4.4: the server
        // that delivers adds Return-Path.
        if is("Bcc") || is("Resent-Bcc") || is("Return-Path") {
            continue;
        }
        let value = || unfold(&field[memchr::memchr(b':', field).map_or(0, |colon| colon + 1)..]);
        if is("From") && from.replace(value()).is_some() || is("Sender") && sender.replace(value()).is_some()
        {
            return Err(Fault::Repeated);
        }
        dated |= is("Date");
        if is("Message-ID") && message_id.is_none() {
            message_id = Some(value());
        }
        bytes.extend_from_slice(field);
    }
    let mut senders = addresses(&from.ok_or(Fault::NoFrom)?)?;
    if senders.is_empty() {
        return Err(Fault::NoFrom);
    }
    if let Some(sender) = sender {
        senders.extend(addresses(&sender)?);
    }
    // RFC 6409 §8.2, §8.3.
    if !dated {
        bytes.extend_from_slice(format!("Date: {}\r\n", date::format(stamp.now.seconds(), 0)).as_bytes());
    }
    let message_id = message_id.unwrap_or_else(|| {
        let id = format!("<{}@{}>", stamp.unique, stamp.domain);
        bytes.extend_from_slice(format!("Message-ID: {id}\r\n").as_bytes());
        id
    });
    bytes.extend_from_slice(b"\r\n");
    Ok(Completed { bytes, senders, message_id })
}

/// The addresses of a field that may have only addresses, names and groups.
fn addresses(value: &str) -> Result<Vec<String>, Fault> {
    let (list, more) = parse_list(value);
    if more {
        return Err(Fault::Unreadable);
    }
    let mut found = Vec::new();
    for address in list {
        match (address.mailbox, address.host) {
            (Some(mailbox), Some(host)) if !mailbox.is_empty() && !host.is_empty() => {
                found.push(format!("{mailbox}@{host}"));
            }
            // The start or the end of a group (RFC 6854 allows them in From).
            (_, None) => {}
            _ => return Err(Fault::Unreadable),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: Stamp<'_> = Stamp { now: Timestamp(0), unique: "abc", domain: "mx.example" };

    fn split(message: &str, cut: usize) -> (String, String) {
        let mut collector = Collector::default();
        let mut body = Vec::new();
        for piece in message.as_bytes().chunks(cut) {
            let taken = collector.push(piece).unwrap();
            body.extend_from_slice(&piece[taken..]);
        }
        let (header, begun) = collector.finish();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(header), text([begun, body].concat()))
    }

    fn completed(header: &str) -> Result<String, Fault> {
        complete(header.as_bytes(), &STAMP).map(|completed| String::from_utf8(completed.bytes).unwrap())
    }

    #[test]
    fn header_and_body() {
        for (message, header, body) in [
            ("A: b\r\n\r\nbody\r\n", "A: b\r\n\r\n", "body\r\n"),
            ("A: b\r\n c\r\nD : e\r\n\r\n\r\n", "A: b\r\n c\r\nD : e\r\n\r\n", "\r\n"),
            ("A: b\r\n", "A: b\r\n\r\n", ""),
            ("A: b\r\nno field\r\nC: d\r\n", "A: b\r\n\r\n", "no field\r\nC: d\r\n"),
            (
                "From me Mon Jan  1 00:00:00 2026\r\nA: b\r\n",
                "\r\n",
                "From me Mon Jan  1 00:00:00 2026\r\nA: b\r\n",
            ),
            (" a: b\r\n\r\n", "\r\n", " a: b\r\n\r\n"),
            ("\r\nbody\r\n", "\r\n", "body\r\n"),
            ("", "\r\n", ""),
        ] {
            for cut in [1, 2, 3, 7, 100] {
                assert_eq!(split(message, cut), (header.to_owned(), body.to_owned()), "{message:?} by {cut}");
            }
        }
    }

    #[test]
    fn a_header_beyond_the_limit_is_refused() {
        let field = format!("A: {}\r\n", "x".repeat(95));
        let mut collector = Collector::default();
        let fits = limits::SUBMISSION_HEADER_BYTES / field.len();
        for _ in 0..fits {
            assert_eq!(collector.push(field.as_bytes()), Ok(field.len()));
        }
        assert_eq!(collector.push(field.as_bytes()), Err(Fault::TooLarge));
        assert!(collector.len() <= limits::SUBMISSION_HEADER_BYTES);
    }

    #[test]
    fn date_and_message_id_are_added_and_bcc_is_removed() {
        let header =
            "From: a@b.example\r\nBCC: x@y,\r\n z@y\r\nReturn-Path: <q@y>\r\nResent-Bcc: r@y\r\n\r\n";
        assert_eq!(
            completed(header).unwrap(),
            "From: a@b.example\r\nDate: Thu, 01 Jan 1970 00:00:00 +0000\r\nMessage-ID: <abc@mx.example>\r\n\r\n"
        );
        let whole = "Message-Id: <1@b>\r\nDATE: now\r\nFrom: =?utf-8?Q?J=C3=A4ne?= <a@b.example>\r\n\r\n";
        assert_eq!(completed(whole).unwrap(), whole);
        assert_eq!(complete(whole.as_bytes(), &STAMP).unwrap().message_id, "<1@b>");
    }

    #[test]
    fn addresses_that_must_be_allowed() {
        let senders = |header: &str| complete(header.as_bytes(), &STAMP).map(|completed| completed.senders);
        let ok = |addresses: &[&str]| Ok(addresses.iter().map(|a| (*a).to_owned()).collect());
        assert_eq!(senders("From: A <a@b.example>\r\n\r\n"), ok(&["a@b.example"]));
        assert_eq!(senders("From: a@b, \"C, D\" <c@d>\r\nSender: e@f\r\n\r\n"), ok(&["a@b", "c@d", "e@f"]));
        assert_eq!(senders("From: Group: a@b;\r\n\r\n"), ok(&["a@b"]));
        for (header, fault) in [
            ("To: a@b\r\n\r\n", Fault::NoFrom),
            ("From:\r\n\r\n", Fault::NoFrom),
            ("From: Group:;\r\n\r\n", Fault::NoFrom),
            ("From: a@b\r\nfrom: c@d\r\n\r\n", Fault::Repeated),
            ("From: a@b\r\nSender: c@d\r\nSender: e@f\r\n\r\n", Fault::Repeated),
            ("From: just a name\r\n\r\n", Fault::Unreadable),
        ] {
            assert_eq!(senders(header), Err(fault), "{header:?}");
        }
        let many = vec!["a@b"; limits::ENVELOPE_ADDRESSES + 1].join(", ");
        assert_eq!(senders(&format!("From: {many}\r\n\r\n")), Err(Fault::Unreadable));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_it_is_cut(message in "([aA]:? ?[b\t ]{0,3}\r\n|\r\n|x{0,3}\r\n){0,8}", cut in 1usize..9) {
            let (header, body) = split(&message, cut);
            prop_assert!(header.ends_with("\r\n"));
            let joined = format!("{header}{body}");
            let without_empty_line = format!("{}{body}", &header[..header.len() - 2]);
            prop_assert!(joined == message || without_empty_line == message);
            prop_assert_eq!(split(&message, message.len().max(1)), (header, body));
        }
    }
}
