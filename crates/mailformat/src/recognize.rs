//! The kind of a file, by its beginning: an mbox, a message, or something else, which is named.
//!
//! A file is an mbox if it begins with a separator (RFC 4155), and a message if it begins with a
//! header of fields (RFC 5322 §2.2). Many other files begin with a word and a colon, so a file
//! without the extension of a message (`.eml`) must have a field that is specific to mail. A
//! leading byte order mark belongs to the file, and so does a `From ` line before a single message.

use std::fmt;

use crate::header::{field_name, is_mail_field, lines};
use crate::mbox::begins_mbox;

/// U+FEFF in UTF-8: several editors put it at the beginning of files.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes at the start of a file that are examined.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;

/// Mail in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mail {
    /// Many messages.
    Mbox,
    /// One.
    Message,
}

/// Why a file is not mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMail {
    /// It is empty.
    Empty,
    /// It may contain mail, which has to be extracted first.
    Container(&'static str),
    /// It is mail in another program's own format: its name, and what to do.
    Foreign(&'static str, &'static str),
    /// It has a compression that is not supported here.
    Compressed(&'static str),
    /// It is encrypted.
    Encrypted(&'static str),
    /// It is text in UTF-16.
    Utf16,
    /// It is of another known kind.
    Other(&'static str),
    /// Its kind is unknown.
    Unknown,
}

impl fmt::Display for NotMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotMail::Empty => f.write_str("there is nothing in it"),
            NotMail::Container(what) => write!(f, "{what}; unpack it and import the files in it"),
            NotMail::Foreign(what, remedy) => write!(f, "{what}; {remedy}"),
            NotMail::Compressed(how) => write!(f, "compressed with {how}; decompress it first"),
            NotMail::Encrypted(how) => write!(f, "encrypted with {how}; decrypt it first"),
            NotMail::Utf16 => {
                f.write_str("UTF-16 text, which no mail is; save it as UTF-8, or export it again")
            }
            NotMail::Other(what) => write!(f, "{what}, not mail"),
            NotMail::Unknown => {
                f.write_str("not mail: it begins with neither a mail header nor a \"From \" line")
            }
        }
    }
}

/// The kind of a file that begins with `head`, and perhaps ends there. `named`: its extension is
/// that of a message.
pub(crate) fn recognize(head: &[u8], named: bool) -> Result<Mail, NotMail> {
    if let Some(other) = signature(head) {
        return Err(other);
    }
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    if text.trim_ascii_start().is_empty() {
        return Err(NotMail::Empty);
    }
    if is_emlx(text) {
        return Err(NotMail::Foreign("a message of Apple Mail (.emlx)", "export its mailbox as mbox"));
    }
    if is_message(text, named) {
        return Ok(Mail::Message);
    }
    match begins_mbox(text) {
        true => Ok(Mail::Mbox),
        false => Err(NotMail::Unknown),
    }
}

/// The kind of a file by a signature that mail cannot have.
pub(crate) fn signature(head: &[u8]) -> Option<NotMail> {
    if is_tar(head) {
        return Some(NotMail::Container("a tar archive"));
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || is_ascii_in_utf16(head) {
        return Some(NotMail::Utf16);
    }
    SIGNATURES.iter().find(|(begins, _)| head.starts_with(begins)).map(|(_, what)| *what)
}

/// Bytes before the header of a message that is alone in its file: a byte order mark, and lines of
/// an mbox, perhaps of a previous one (`>From `).
pub(crate) fn before_header(head: &[u8]) -> usize {
    let mut at = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    for line in lines(&head[at..]) {
        let from = line.strip_prefix(b">").unwrap_or(line).starts_with(b"From ");
        if !from || !line.ends_with(b"\n") {
            break;
        }
        at += line.len();
    }
    if field_name(&head[at..]).is_some() { at } else { 0 }
}

/// Whether a header begins there, perhaps after a `From ` line if the file's extension is that of a
/// message.
fn is_message(text: &[u8], named: bool) -> bool {
    if named {
        return field_name(&text[before_header(text)..]).is_some();
    }
    let mut fields = lines(text).take_while(|line| !matches!(*line, b"\n" | b"\r\n"));
    let is_first = |line: &[u8]| field_name(line).is_some();
    let mail = |line: &[u8]| field_name(line).is_some_and(is_mail_field);
    fields.next().is_some_and(|first| is_first(first) && (mail(first) || fields.any(mail)))
}

/// A line with the message's length, then the message.
fn is_emlx(text: &[u8]) -> bool {
    let mut lines = lines(text);
    let number = lines.next().map_or(&b""[..], <[u8]>::trim_ascii);
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    is_number && lines.next().is_some_and(|line| field_name(line).is_some())
}

/// Whether the head is that of a tar archive, of any kind: its checksum is right (POSIX.1-1988
/// §10.1.1).
fn is_tar(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<512>() else { return false };
    let digits = std::str::from_utf8(&head[148..156]).unwrap_or_default();
    let sum = u32::from_str_radix(digits.trim_matches([' ', '\0']), 8);
    // The checksum's own bytes count as blanks.
    let bytes =
        head.iter().enumerate().map(|(at, b)| u32::from(if (148..156).contains(&at) { b' ' } else { *b }));
    head[0] != 0 && sum.is_ok_and(|sum| sum == bytes.sum::<u32>())
}

/// `F\0r\0o\0m\0`, in either byte order.
fn is_ascii_in_utf16(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<8>() else { return false };
    let of = |zero: usize| {
        head.iter().enumerate().all(|(at, b)| if at % 2 == zero { *b == 0 } else { b.is_ascii_graphic() })
    };
    of(0) || of(1)
}

const SIGNATURES: &[(&[u8], NotMail)] = &[
    (b"PK\x03\x04", NotMail::Container("a zip archive (or a document that is one)")),
    (b"PK\x05\x06", NotMail::Container("an empty zip archive")),
    (b"PK\x07\x08", NotMail::Container("a part of a zip archive")),
    (b"7z\xbc\xaf\x27\x1c", NotMail::Container("a 7z archive")),
    (b"Rar!\x1a\x07", NotMail::Container("a rar archive")),
    (b"MSCF\0\0\0\0", NotMail::Container("a cabinet archive")),
    (b"!<arch>\n", NotMail::Container("an ar archive")),
    (b"07070", NotMail::Container("a cpio archive")),
    (b"!BDN", NotMail::Foreign("an Outlook data file (.pst, .ost)", "convert it to mbox first (readpst)")),
    (b"\xcf\xad\x12\xfe", NotMail::Foreign("an Outlook Express mailbox (.dbx)", "convert it to mbox first")),
    (b"JMF6", NotMail::Foreign("an Outlook Express mailbox (.mbx)", "convert it to mbox first")),
    (b"JMF9", NotMail::Foreign("an Outlook Express mailbox (.mbx)", "convert it to mbox first")),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        NotMail::Foreign("an Outlook message (.msg) or an Office document", "save the message as .eml"),
    ),
    (b"*mbx*\r\n", NotMail::Foreign("a mailbox of UW IMAP (mbx)", "convert it to mbox first (mailutil)")),
    (b"SPKEEP", NotMail::Other("the journal of a copy that `archive` made")),
    (b"LZIP", NotMail::Compressed("lzip")),
    (b"]\0\0", NotMail::Compressed("lzma")),
    (b"\x89LZO\0", NotMail::Compressed("lzop")),
    (b"\x04\x22\x4d\x18", NotMail::Compressed("lz4")),
    (b"Dovecot-LZ4", NotMail::Compressed("lz4, by Dovecot")),
    (b"\x1f\x9d", NotMail::Compressed("compress")),
    (b"\x1f\xa0", NotMail::Compressed("compress")),
    (b"age-encryption.org/", NotMail::Encrypted("age")),
    (b"-----BEGIN AGE ENCRYPTED", NotMail::Encrypted("age")),
    (b"-----BEGIN PGP MESSAGE", NotMail::Encrypted("PGP")),
    (b"Salted__", NotMail::Encrypted("OpenSSL")),
    (b"SQLite format 3\0", NotMail::Other("an SQLite database")),
    (b"// <!-- <mdb:mork", NotMail::Other("an index of Thunderbird (.msf)")),
    (b"\x89PNG\r\n\x1a\n", NotMail::Other("a PNG picture")),
    (b"\xff\xd8\xff", NotMail::Other("a JPEG picture")),
    (b"GIF87a", NotMail::Other("a GIF picture")),
    (b"GIF89a", NotMail::Other("a GIF picture")),
    (b"RIFF", NotMail::Other("a picture, a sound or a film")),
    (b"%PDF-", NotMail::Other("a PDF document")),
    (b"{\\rtf", NotMail::Other("an RTF document")),
    (b"<!DOCTYPE", NotMail::Other("an HTML or XML document")),
    (b"<!doctype", NotMail::Other("an HTML document")),
    (b"<html", NotMail::Other("an HTML document")),
    (b"<HTML", NotMail::Other("an HTML document")),
    (b"<?xml", NotMail::Other("an XML document")),
    (b"BEGIN:VCARD", NotMail::Other("an address book (vCard)")),
    (b"BEGIN:VCALENDAR", NotMail::Other("a calendar (iCalendar)")),
    (b"\x7fELF", NotMail::Other("a program")),
    (b"MZ\x90\0", NotMail::Other("a program")),
    (b"#!", NotMail::Other("a script")),
    (b"bplist00", NotMail::Other("a property list")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_distinguished_from_other_files() {
        let mbox = Ok(Mail::Mbox);
        let message = Ok(Mail::Message);
        for (head, named, expected) in [
            (&b"From a@b.c Thu Jan  1 00:00:10 1970\nA: b\n"[..], false, mbox),
            (b"\r\n\nFrom - \nSubject: x\n", false, mbox),
            (b"\xef\xbb\xbfFrom a@b.c Thu Jan  1 00:00:10 1970\nA: b\n", false, mbox),
            (b"From here on it rained\nall day.\n", false, Err(NotMail::Unknown)),
            (b"Subject: x\n", false, message),
            (b"X-Note: y\r\nMessage-ID: <x@y>\r\n\r\n", false, message),
            (b"\xef\xbb\xbfSubject: x\n\ny\n", false, message),
            (b"name: x\nversion: 1\n\nSubject: y\n", false, Err(NotMail::Unknown)),
            (b"name: x\nversion: 1\n", true, message),
            (b"Dear all\n\nSubject: x\n", true, Err(NotMail::Unknown)),
            (b"From a@b.c\nA: b\n", true, message),
            (b">From a@b.c Thu Jan  1 00:00:10 1970\r\nA: b\r\n", true, message),
            (b"\xef\xbb\xbfFrom - \r\nA: b\r\n", true, message),
            (b"From here on it rained\nall day.\n", true, Err(NotMail::Unknown)),
            (b"http://example.org/\n", true, Err(NotMail::Unknown)),
            (b"", true, Err(NotMail::Empty)),
            (b"\n\r\n \t\n", false, Err(NotMail::Empty)),
            (b"\xef\xbb\xbf", false, Err(NotMail::Empty)),
            (b"\xff\xfeS\0u\0b\0j\0", true, Err(NotMail::Utf16)),
            (b"S\0u\0b\0j\0e\0c\0t\0", true, Err(NotMail::Utf16)),
            (b"\0S\0u\0b\0j\0e\0c\0t", true, Err(NotMail::Utf16)),
            (b"\x89PNG\r\n\x1a\n\0\0", true, Err(NotMail::Other("a PNG picture"))),
            (b"BEGIN:VCARD\r\nFN: x\r\n", true, Err(NotMail::Other("an address book (vCard)"))),
            (b"\0\0\0\0", false, Err(NotMail::Unknown)),
            (
                b"1234      \nSubject: x\n",
                true,
                Err(NotMail::Foreign("a message of Apple Mail (.emlx)", "export its mailbox as mbox")),
            ),
        ] {
            assert_eq!(recognize(head, named), expected, "{:?} {named}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn tar_archives_are_known_by_their_checksum() {
        let mut head = vec![0; 512];
        head[..12].copy_from_slice(b"mail/one.eml");
        head[148..156].copy_from_slice(b"        ");
        let sum: u32 = head.iter().map(|b| u32::from(*b)).sum();
        assert_eq!(recognize(&head, false), Err(NotMail::Unknown));
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert_eq!(recognize(&head, false), Err(NotMail::Container("a tar archive")));
        assert!(!is_tar(&[0; 512]));
    }

    #[test]
    fn finds_the_length_of_lines_before_the_header() {
        for (head, before) in [
            (&b"A: b\n"[..], 0),
            (b"\xef\xbb\xbfA: b\n", 3),
            (b"From a@b.c\r\nA: b\n", 12),
            (b"\xef\xbb\xbfFrom - x\n>From y\nA: b\n", 20),
            (b"From here on\nno header\n", 0),
            (b"From a@b.c", 0),
            (b"", 0),
        ] {
            assert_eq!(before_header(head), before, "{:?}", String::from_utf8_lossy(head));
        }
    }
}
