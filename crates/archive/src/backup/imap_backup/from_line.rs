//! The line before a message: `From`, an address, and the header's own date in its own zone.

use sealpost_base::Timestamp;
use sealpost_mailformat::date::asctime;
use sealpost_mime::header::{self, address, date};

/// Bytes of a message that are searched for the header fields.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Where the header in `text` ends, if it does.
pub fn header_end(text: &[u8], from: usize) -> Option<usize> {
    if text.first() == Some(&b'\n') {
        return Some(1);
    }
    let from = from.saturating_sub(1);
    memchr::memmem::find(&text[from..], b"\n\n").map(|at| from + at + 2)
}

/// The line for a message that begins with `head`, with its LF.
///
/// The address is that of the first From field with one, else of Sender, else of Return-Path, else
/// empty. The date is that of the Date field as written, and left out if there is none that can be
/// parsed.
pub fn line(head: &[u8]) -> Vec<u8> {
    let (mut from, mut sender, mut return_path, mut sent) = (None, None, None, None);
    for (name, value) in header::fields(head) {
        let slot = match name {
            name if name.eq_ignore_ascii_case(b"from") => &mut from,
            name if name.eq_ignore_ascii_case(b"sender") => &mut sender,
            name if name.eq_ignore_ascii_case(b"return-path") => &mut return_path,
            name if name.eq_ignore_ascii_case(b"date") => {
                if sent.is_none() {
                    sent = date::parse(&header::unfold(value));
                }
                continue;
            }
            _ => continue,
        };
        if slot.is_none() {
            *slot = first_address(&header::unfold(value));
        }
    }
    let mut line = b"From ".to_vec();
    let address = from.or(sender).or(return_path).unwrap_or_default();
    line.extend_from_slice(address.as_bytes());
    if let Some(date) = sent {
        let local = date.seconds.saturating_add(i64::from(date.zone) * 60);
        line.push(b' ');
        line.extend_from_slice(asctime(Timestamp::from_seconds(local)).as_bytes());
    }
    line.push(b'\n');
    line
}

fn first_address(value: &str) -> Option<String> {
    let (addresses, _) = address::parse_list(value);
    let first = addresses.into_iter().find(sealpost_mime::envelope::Address::is_mailbox)?;
    let (mailbox, host) = (first.mailbox?, first.host?);
    let address = if host.is_empty() { mailbox } else { format!("{mailbox}@{host}") };
    Some(address.replace(char::is_control, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_imap_backup_writes_them() {
        let date = "Date: Mon, 16 Nov 2020 09:05:07 +0100\n";
        for (head, expected) in [
            (format!("From: A <a@example.org>\n{date}"), "From a@example.org Mon Nov 16 09:05:07 2020\n"),
            (format!("Sender: s@x\nReturn-Path: <r@x>\n{date}"), "From s@x Mon Nov 16 09:05:07 2020\n"),
            (format!("Return-Path: <r@x>\n{date}"), "From r@x Mon Nov 16 09:05:07 2020\n"),
            (date.to_owned(), "From  Mon Nov 16 09:05:07 2020\n"),
            ("From: a@x\nDate: never\n".to_owned(), "From a@x\n"),
            (String::new(), "From \n"),
            ("From: a@x\n\nDate: 1 Jan 2000 00:00 +0000\n".to_owned(), "From a@x\n"),
        ] {
            assert_eq!(String::from_utf8(line(head.as_bytes())).unwrap(), expected, "{head}");
        }
    }

    #[test]
    fn headers_end() {
        assert_eq!(header_end(b"a: b\n\nc", 0), Some(6));
        assert_eq!(header_end(b"a: b\n\nc", 5), Some(6));
        assert_eq!(header_end(b"\nc", 0), Some(1));
        assert_eq!(header_end(b"a: b\nc", 0), None);
    }
}
