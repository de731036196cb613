//! The charset that a body declares: by a byte order mark, or in HTML by `<meta>` (HTML standard,
//! §13.2.3, "prescan a byte stream to determine its encoding") or the XML declaration of XHTML.

use super::label::{self, Decoding};
use super::utf32::Order;

/// Bytes of HTML that are searched for `<meta>`.
const PRESCAN_BYTES: usize = 1024;
/// Bytes of the longest byte order mark.
const MARK_BYTES: usize = 4;

/// The beginning of a body, held until the charset is known.
#[derive(Debug)]
pub(super) struct Sniff {
    html: bool,
    held: Vec<u8>,
}

impl Sniff {
    pub(super) fn new(html: bool) -> Self {
        Sniff { html, held: Vec::new() }
    }

    /// Takes the next bytes; once there are enough, returns how to decode, and all bytes so far
    /// without their mark.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<(Decoding, Vec<u8>)> {
        self.held.extend_from_slice(bytes);
        let enough = if self.html {
            PRESCAN_BYTES
        } else if matches!(self.held.first(), Some(0 | 0xef | 0xfe | 0xff)) {
            MARK_BYTES
        } else {
            1
        };
        (self.held.len() >= enough).then(|| self.decide())
    }

    /// Decides at the end of the body.
    pub(super) fn finish(mut self) -> (Decoding, Vec<u8>) {
        self.decide()
    }

    fn decide(&mut self) -> (Decoding, Vec<u8>) {
        let mut held = std::mem::take(&mut self.held);
        if let Some((decoding, mark)) = marked(&held) {
            held.drain(..mark);
            return (decoding, held);
        }
        let beginning = &held[..held.len().min(PRESCAN_BYTES)];
        let said = if self.html { prescan(beginning).or_else(|| xml_declaration(beginning)) } else { None };
        (said.unwrap_or(Decoding::Guess), held)
    }
}

/// The charset of a byte order mark, and how many of its bytes are to be dropped: the decoder drops
/// the rest.
fn marked(bytes: &[u8]) -> Option<(Decoding, usize)> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Some((Decoding::Utf8, 3)),
        [0, 0, 0xfe, 0xff, ..] => Some((Decoding::Utf32(Order::Big), 0)),
        [0xff, 0xfe, 0, 0, ..] => Some((Decoding::Utf32(Order::Little), 0)),
        [0xfe, 0xff, ..] => Some((Decoding::Whatwg(encoding_rs::UTF_16BE), 0)),
        [0xff, 0xfe, ..] => Some((Decoding::Whatwg(encoding_rs::UTF_16LE), 0)),
        _ => None,
    }
}

/// The charset of a label in the text: the text is readable as ASCII, so it is not UTF-16.
fn of_text(label: &[u8]) -> Option<Decoding> {
    let label = std::str::from_utf8(label).ok()?.trim();
    if label.eq_ignore_ascii_case("x-user-defined") {
        return Some(Decoding::Whatwg(encoding_rs::WINDOWS_1252));
    }
    match label::find(label)? {
        Decoding::Whatwg(encoding) if encoding.output_encoding() != encoding => Some(Decoding::Utf8),
        Decoding::Utf16 | Decoding::Utf32(_) => Some(Decoding::Utf8),
        decoding => Some(decoding),
    }
}

/// `<?xml version="1.0" encoding="…"?>`
fn xml_declaration(bytes: &[u8]) -> Option<Decoding> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let mut at = Cursor(&rest[..memchr::memchr(b'>', rest)?]);
    std::iter::from_fn(|| at.attribute())
        .find(|(name, _)| name == b"encoding")
        .and_then(|(_, value)| of_text(&value))
}

fn prescan(bytes: &[u8]) -> Option<Decoding> {
    let mut at = Cursor(bytes);
    loop {
        at.0 = &at.0[memchr::memchr(b'<', at.0)?..];
        if at.0.starts_with(b"<!--") {
            // The dashes at the beginning may also be those of the end.
            at.0 = &at.0[2..];
            at.0 = &at.0[memchr::memmem::find(at.0, b"-->")? + 3..];
        } else if at.is_tag(b"meta") {
            at.0 = &at.0[b"<meta".len()..];
            if let Some(decoding) = meta(&mut at) {
                return Some(decoding);
            }
        } else if matches!(at.0, [_, b'/', letter, ..] | [_, letter, ..] if letter.is_ascii_alphabetic()) {
            at.skip(|byte| !byte.is_ascii_whitespace() && byte != b'>');
            while at.attribute().is_some() {}
        } else if matches!(at.0, [_, b'!' | b'/' | b'?', ..]) {
            at.0 = &at.0[memchr::memchr(b'>', at.0)?..];
        } else {
            at.0 = &at.0[1..];
        }
    }
}

/// The charset that the attributes of a `<meta>` declare.
fn meta(at: &mut Cursor) -> Option<Decoding> {
    let (mut pragma, mut needs_pragma, mut charset) = (false, false, None);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while let Some((name, value)) = at.attribute() {
        // Of a repeated attribute the first counts.
        if seen.contains(&name) {
            continue;
        }
        match &name[..] {
            b"http-equiv" => pragma |= value == b"content-type",
            b"content" if charset.is_none() => {
                if let Some(label) = charset_of_content(&value) {
                    (charset, needs_pragma) = (of_text(label), true);
                }
            }
            b"charset" => (charset, needs_pragma) = (of_text(&value), false),
            _ => {}
        }
        seen.push(name);
    }
    charset.filter(|_| pragma || !needs_pragma)
}

/// The charset in `text/html; charset=…` (HTML standard, "extracting a character encoding from a
/// meta element").
fn charset_of_content(value: &[u8]) -> Option<&[u8]> {
    let mut rest = value;
    loop {
        rest = &rest[memchr::memmem::find(rest, b"charset")? + b"charset".len()..];
        let Some(said) = rest.trim_ascii_start().strip_prefix(b"=") else { continue };
        let said = said.trim_ascii_start();
        return match said {
            [quote @ (b'"' | b'\''), inside @ ..] => Some(&inside[..memchr::memchr(*quote, inside)?]),
            _ => {
                let end = said.iter().position(|b| b.is_ascii_whitespace() || *b == b';');
                Some(&said[..end.unwrap_or(said.len())])
            }
        };
    }
}

/// A position in the bytes.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn skip(&mut self, keep: impl Fn(u8) -> bool) -> &[u8] {
        let end = self.0.iter().position(|byte| !keep(*byte)).unwrap_or(self.0.len());
        let (skipped, rest) = self.0.split_at(end);
        self.0 = rest;
        skipped
    }

    /// Whether a tag with this name begins here.
    fn is_tag(&self, name: &[u8]) -> bool {
        let named = self.0.get(1..1 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        named && self.0.get(1 + name.len()).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/')
    }

    /// The next attribute of a tag, name and value in lower case; `None` at the end of the tag, or
    /// of the bytes.
    fn attribute(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b'/');
        if matches!(self.0.first(), None | Some(b'>')) {
            return None;
        }
        // A name may begin with `=`.
        let mut name = vec![self.0[0].to_ascii_lowercase()];
        self.0 = &self.0[1..];
        let more = self.skip(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'=' | b'/' | b'>'));
        name.extend(more.to_ascii_lowercase());
        self.skip(|byte| byte.is_ascii_whitespace());
        let Some(rest) = self.0.strip_prefix(b"=") else { return Some((name, Vec::new())) };
        self.0 = rest;
        self.skip(|byte| byte.is_ascii_whitespace());
        let value = match *self.0.first()? {
            quote @ (b'"' | b'\'') => {
                self.0 = &self.0[1..];
                let value = self.skip(|byte| byte != quote).to_ascii_lowercase();
                // Cut off at the end of the examined bytes: the rest is unknown.
                self.0 = &self.0[self.0.len().min(1)..];
                value
            }
            _ => self.skip(|byte| !byte.is_ascii_whitespace() && byte != b'>').to_ascii_lowercase(),
        };
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(html: &str) -> Option<&'static str> {
        match prescan(html.as_bytes()).or_else(|| xml_declaration(html.as_bytes()))? {
            Decoding::Whatwg(encoding) => Some(encoding.name()),
            Decoding::Utf8 => Some("UTF-8"),
            Decoding::Guess => Some("guess"),
            Decoding::Iso2022(_) => Some("ISO-2022"),
            _ => Some("other"),
        }
    }

    #[test]
    fn meta_is_read_as_browsers_do() {
        for (html, expected) in [
            ("<meta charset=koi8-r>", Some("KOI8-R")),
            ("<META CHARSET = 'windows-1251' >", Some("windows-1251")),
            ("<meta charset=\"gb2312\"/>", Some("GBK")),
            ("<meta/charset=big5>", Some("Big5")),
            ("<meta http-equiv=Content-Type content='text/html; charset=iso-8859-2'>", Some("ISO-8859-2")),
            ("<meta content='text/html;charset = \"euc-kr\"; x' http-equiv='content-type'/>", Some("EUC-KR")),
            ("<meta content='text/html; charset=koi8-r'>", None),
            ("<meta name=x content=y><meta charset=koi8-r>", Some("KOI8-R")),
            ("<meta charset=nonsense><meta charset=koi8-r>", Some("KOI8-R")),
            ("<meta charset=utf-16>", Some("UTF-8")),
            ("<meta charset=utf-32>", Some("UTF-8")),
            ("<meta charset=x-user-defined>", Some("windows-1252")),
            ("<meta charset=iso-2022-jp>", Some("ISO-2022")),
            ("<!-- <meta charset=koi8-r> -->x", None),
            ("<!--><meta charset=koi8-r>", Some("KOI8-R")),
            ("<p title='<meta charset=koi8-r>'>", None),
            ("<!doctype html><?x y?></p a=b><title>x</title><meta charset=koi8-r>", Some("KOI8-R")),
            ("a < b <metal charset=big5><meta charset=koi8-r charset=big5>", Some("KOI8-R")),
            ("<?xml version='1.0' encoding='windows-1250'?><html>", Some("windows-1250")),
            ("<?xml version='1.0' encoding='windows-1250'?><meta charset=koi8-r>", Some("KOI8-R")),
            ("<meta charset=", None),
            ("<meta", None),
            ("", None),
        ] {
            assert_eq!(said(html), expected, "{html}");
        }
    }

    #[test]
    fn marks_go_first() {
        let decide = |bytes: &[u8]| {
            let mut sniff = Sniff::new(true);
            assert!(sniff.push(bytes).is_none());
            let (decoding, held) = sniff.finish();
            (decoding, held.len())
        };
        assert_eq!(decide(b"\xef\xbb\xbf<meta charset=koi8-r>"), (Decoding::Utf8, 21));
        assert_eq!(decide(b"\xff\xfe<\0"), (Decoding::Whatwg(encoding_rs::UTF_16LE), 4));
        assert_eq!(decide(b"\xff\xfe\0\0<\0\0\0"), (Decoding::Utf32(Order::Little), 8));
        assert_eq!(decide(b"\0\0\xfe\xff"), (Decoding::Utf32(Order::Big), 4));
        assert_eq!(decide(b"plain"), (Decoding::Guess, 5));
    }

    #[test]
    fn only_the_beginning_counts() {
        let late = format!("{}<meta charset=koi8-r>", " ".repeat(PRESCAN_BYTES - 10));
        let mut sniff = Sniff::new(true);
        assert_eq!(sniff.push(late.as_bytes()).unwrap().0, Decoding::Guess);
        // Text is not held where no mark is possible.
        assert!(Sniff::new(false).push(b"a").is_some());
    }
}
