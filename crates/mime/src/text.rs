//! The searchable text of a message, and the sinks a scanner can write it to.

use sealpost_base::{Error, Result, limits};

use crate::fold;

/// Receives the decoded and folded text of a message, in order, in pieces cut anywhere between two
/// characters.
pub trait TextSink {
    /// A piece of the top-level header: `name: value\n` for each field, decoded (RFC 2047) and folded.
    fn header(&mut self, folded_line: &str);
    /// A piece of the body: text parts decoded and folded, headers of nested messages, names of
    /// attachments. Line ends separate them: within a text they are spaces.
    fn body(&mut self, folded_text: &str);
    /// A piece of text that is searched with the body without being visible: titles of HTML and
    /// targets of links. A line end follows each of them.
    fn aside(&mut self, folded_text: &str);
    /// True once nothing more is wanted; the scanner then stops decoding text.
    fn full(&self) -> bool {
        false
    }
}

/// Discards the text, for callers that need the structure alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NoText;

impl TextSink for NoText {
    fn header(&mut self, _: &str) {}
    fn body(&mut self, _: &str) {}
    fn aside(&mut self, _: &str) {}
    fn full(&self) -> bool {
        true
    }
}

/// Searchable text of a message, as stored with it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Text {
    /// One line `name: value\n` for each top-level header field, decoded and folded, runs of white
    /// space made one space; lines that are not fields unchanged.
    pub headers: String,
    /// Decoded, folded text of the text parts, in order; nested messages with their headers. After
    /// it the text that is not visible ([`TextSink::aside`]).
    pub body: String,
    /// The message has more text than `limits::TEXT_BYTES`; a search that finds nothing here must
    /// read the message.
    pub truncated: bool,
}

impl Text {
    /// Whether `stored` is this text as folded by this or an older version: those kept line ends
    /// between ideographs as spaces.
    pub fn is_stored_as(&self, stored: &Text) -> bool {
        let (text, before) = (self.body.as_str(), stored.body.as_str());
        let is_same = match (self.truncated, stored.truncated) {
            (false, false) => text == before || fold::equal_but_for_lines(text, before),
            // With fewer spaces, more text fits.
            (true, true) => fold::begin_alike_but_for_lines(text, before),
            _ => fold::begin_alike_but_for_lines(text, before) && stored.truncated,
        };
        is_same && self.headers == stored.headers
    }
}

/// It also names the version of the folding: a search string that is folded differently would not
/// be found.
const VERSION: u8 = 3;
const PREFIX: usize = 6;

impl Text {
    /// The stored form: version, truncated flag, length of the headers (u32, little-endian), headers, body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PREFIX + self.headers.len() + self.body.len());
        // A sink without a cap can collect more than 4 GiB of headers only from a message that is
        // larger than that; text beyond the length field is cut and marked.
        let headers = cut(&self.headers, u32::MAX as usize);
        let truncated = self.truncated || headers.len() < self.headers.len();
        out.extend([VERSION, u8::from(truncated)]);
        out.extend((headers.len() as u32).to_le_bytes());
        out.extend(headers.as_bytes());
        out.extend(self.body.as_bytes());
        out
    }

    /// The text that [`Text::encode`] wrote; `Corrupt` if these bytes are something else, or of
    /// another version.
    pub fn decode(bytes: &[u8]) -> Result<Text> {
        let corrupt = || Error::corrupt("stored message text is not readable");
        let (prefix, rest) = bytes.split_first_chunk::<PREFIX>().ok_or_else(corrupt)?;
        let [version, flag @ (0 | 1), length @ ..] = *prefix else {
            return Err(corrupt());
        };
        if version != VERSION {
            return Err(Error::corrupt(format!(
                "stored message text has version {version}; this program reads version {VERSION}"
            )));
        }
        let length = u32::from_le_bytes(length) as usize;
        let (headers, body) = rest.split_at_checked(length).ok_or_else(corrupt)?;
        let utf8 = |b: &[u8]| std::str::from_utf8(b).map(str::to_owned).map_err(|_| corrupt());
        Ok(Text { headers: utf8(headers)?, body: utf8(body)?, truncated: flag == 1 })
    }
}

/// Collects [`Text`] up to a number of bytes, headers and body together; the rest is dropped and
/// marked as truncated.
#[derive(Debug, Clone)]
pub struct CappedText {
    text: Text,
    aside: String,
    room: usize,
}

impl Default for CappedText {
    fn default() -> Self {
        Self::new(limits::TEXT_BYTES)
    }
}

impl CappedText {
    /// Keeps at most `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        CappedText { text: Text::default(), aside: String::new(), room: bytes }
    }

    /// The collected text.
    pub fn into_text(mut self) -> Text {
        if !self.aside.is_empty() && !self.text.body.is_empty() && !self.text.body.ends_with('\n') {
            self.text.body.push('\n');
        }
        self.text.body.reserve_exact(self.aside.len());
        self.text.body.push_str(&self.aside);
        self.text
    }

    /// The part of `piece` that still fits. After the first cut nothing fits, so pieces do not
    /// matter.
    fn take<'a>(&mut self, piece: &'a str) -> &'a str {
        let fits = cut(piece, self.room);
        self.room -= fits.len();
        if fits.len() < piece.len() {
            self.room = 0;
            self.text.truncated = true;
        }
        fits
    }
}

impl TextSink for CappedText {
    fn header(&mut self, folded_line: &str) {
        let fits = self.take(folded_line);
        self.text.headers.push_str(fits);
    }

    fn body(&mut self, folded_text: &str) {
        let fits = self.take(folded_text);
        self.text.body.push_str(fits);
    }

    fn aside(&mut self, folded_text: &str) {
        let fits = self.take(folded_text);
        self.aside.push_str(fits);
    }

    fn full(&self) -> bool {
        self.text.truncated
    }
}

/// The longest prefix of `s` of at most `bytes` bytes that ends between two characters.
fn cut(s: &str, bytes: usize) -> &str {
    &s[..s.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_reads_back() {
        let text = Text { headers: "subject: é\n".into(), body: "körper".into(), truncated: true };
        assert_eq!(Text::decode(&text.encode()).unwrap(), text);
        for bytes in [
            &b""[..],
            b"\x03\x00\x05\x00\x00\x00abc",
            b"\x02\0\0\0\0\0",
            b"\x04\0\0\0\0\0",
            b"\x03\x02\0\0\0\0",
            b"\x03\0\0\0\0\0\xff",
        ] {
            assert!(Text::decode(bytes).is_err());
        }
    }

    #[test]
    fn the_cap_is_exact_and_does_not_split_characters() {
        let mut sink = CappedText::new(6);
        sink.header("ab");
        sink.body("cdé");
        assert!(!sink.full());
        let mut one = CappedText::new(5);
        one.header("ab");
        one.body("cdéf");
        one.body("g");
        let text = one.into_text();
        assert_eq!((text.headers.as_str(), text.body.as_str(), text.truncated), ("ab", "cd", true));
        assert_eq!(sink.into_text().body, "cdé");
    }

    #[test]
    fn aside_text_comes_after_the_body() {
        let mut sink = CappedText::new(12);
        for piece in ["a", "b"] {
            sink.body(piece);
            sink.aside("link\n");
        }
        assert_eq!(sink.clone().into_text().body, "ab\nlink\nlink\n");
        sink.aside("x");
        assert!(sink.full());
    }

    #[test]
    fn default_cap_is_the_named_limit() {
        let mut sink = CappedText::default();
        for _ in 0..3 {
            sink.body(&"x".repeat(limits::TEXT_BYTES / 2));
        }
        let text = sink.into_text();
        assert_eq!((text.body.len(), text.truncated), (limits::TEXT_BYTES, true));
    }
}
