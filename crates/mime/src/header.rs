//! Header fields: splitting, filtering and parsing.
//!
//! Nothing here fails: a value that cannot be parsed is absent or taken as plain text. A field is a
//! line and the lines after it that start with white space (RFC 5322 §2.2.3); a line ends with LF,
//! whether or not CR is before it.

pub mod address;
pub mod date;
pub mod filter;
pub mod message_id;
pub mod params;
pub mod subject;
pub mod thread;
pub mod word;

pub use filter::HeaderFilter;

use unicode_normalization::UnicodeNormalization;

use crate::decode::charset;

/// The fields of a header, in order, as (name, raw value with its line ends), up to the empty line.
/// The name is as written, without white space before the colon (RFC 5322 §4.5). Lines that belong
/// to no field are skipped.
pub fn fields(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_fields(header).filter_map(split_field)
}

/// As [`fields`], but as (name, whole field from its name to its last line end): what signatures cover.
pub fn raw_fields(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_fields(header).filter_map(|field| split_field(field).map(|(name, _)| (name, field)))
}

/// Lines and the lines that continue them, up to the empty line.
fn whole_fields(header: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = header;
    std::iter::from_fn(move || {
        let (field, after) = rest.split_at(field_end(rest));
        rest = after;
        (!line_content(field).is_empty()).then_some(field)
    })
}

/// Where the first field of `header` ends: after the last of its lines.
fn field_end(header: &[u8]) -> usize {
    let mut end = 0;
    loop {
        end = memchr::memchr(b'\n', &header[end..]).map_or(header.len(), |lf| end + lf + 1);
        let empty = line_content(&header[..end]).is_empty();
        if empty || !matches!(header.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

/// Where the header of `message` ends and its body begins: behind the first empty line, or at the end of the
/// message. It is what the scanner says of the message itself, without reading the header for more.
pub fn end(message: &[u8]) -> usize {
    let mut end = 0;
    while end < message.len() {
        let start = end;
        end = memchr::memchr(b'\n', &message[start..]).map_or(message.len(), |lf| start + lf + 1);
        if line_content(&message[start..end]).is_empty() {
            break;
        }
    }
    end
}

/// A line without its line end.
pub(crate) fn line_content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Name and value of a field; `None` if it has no name or no colon.
pub(crate) fn split_field(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr2(b':', b'\n', field).filter(|&at| field[at] == b':')?;
    let name = field[..colon].trim_ascii_end();
    // RFC 5322 §2.2: a name is printable. The `From ` line of an mbox file is not a field although
    // it has colons.
    let printable = !name.is_empty() && name.iter().all(|b| *b > b' ');
    printable.then(|| (name, &field[colon + 1..]))
}

/// A raw value as text: unfolded (RFC 5322 §2.2.3), trimmed, bytes that are not UTF-8 read as
/// windows-1252, NUL as U+FFFD.
pub fn unfold(raw: &[u8]) -> String {
    let mut value = charset::decode(None, raw);
    value.retain(|c| c != '\n' && c != '\r');
    if value.contains('\0') {
        value = value.replace('\0', "\u{fffd}");
    }
    let trimmed = value.trim_matches([' ', '\t']);
    if trimmed.len() == value.len() { value } else { trimmed.to_owned() }
}

/// A raw value for display: unfolded, encoded-words decoded, runs of white space made one space.
pub fn readable(raw: &[u8]) -> String {
    let decoded = word::decode(&unfold(raw));
    let mut out = String::with_capacity(decoded.len());
    for piece in decoded.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(piece);
    }
    out
}

/// A raw value as text (RFC 8621 §4.1.2.2): unfolded, encoded-words decoded, without control
/// characters, in Unicode's normal form C.
pub fn text(raw: &[u8]) -> String {
    normal_text(&unfold(raw))
}

/// The same of a value, or a part of one, that is unfolded already.
pub fn normal_text(unfolded: &str) -> String {
    let mut text = word::decode(unfolded);
    text.retain(|c| !c.is_control() || c == '\t');
    if text.is_ascii() { text } else { text.nfc().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_and_normal() {
        assert_eq!(text(b" =?utf-8?q?e=CC=81?=\r\n  =?utf-8?q?=00b?= c  d\r\n"), "\u{e9} b c  d");
        assert_eq!(text(b" a\tb =?x?= \x07c"), "a\tb =?x?= c");
    }

    #[test]
    fn fields_are_split_and_unfolded() {
        let header =
            b"Subject : a\r\n\tb\r\nbroken line\r\n: no name\r\nX:y\nFrom: \xe9\0\r\n \r\n\r\nBody: no\r\n";
        let found: Vec<_> =
            fields(header).map(|(n, v)| (String::from_utf8_lossy(n).into_owned(), unfold(v))).collect();
        let expect = [("Subject", "a\tb"), ("X", "y"), ("From", "é\u{fffd}")];
        assert_eq!(found, expect.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(readable(b" =?utf-8?q?a?=\r\n  =?utf-8?q?b?=   c"), "ab c");
        assert_eq!(fields(b"").count() + fields(b"\r\n").count() + fields(b"\nA: b").count(), 0);
    }
}
