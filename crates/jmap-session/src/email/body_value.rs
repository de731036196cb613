//! The text of a part (RFC 8621 §4.1.4, EmailBodyValue): decoded piece by piece, and cut at the limit of the
//! client or of the server.

use sealpost_jmap::email::EmailBodyValue;
use sealpost_mime::decode::charset::{CharsetDecoder, is_guessed, is_known};
use sealpost_mime::decode::{Encoding, TransferDecoder};
use sealpost_mime::structure::StoredPart;

/// How far back, in bytes, a cut in HTML looks for the start of a tag. A longer tag is cut.
const TAG_BYTES: usize = 16 * 1024;
/// Bytes decoded at once; bounds the buffers.
const SLICE_BYTES: usize = 8 * 1024;

/// Decodes the text of one part.
pub(crate) struct BodyText {
    transfer: TransferDecoder,
    charset: CharsetDecoder,
    /// Set for text that should be UTF-8: holds the bytes of a split character, and whether all were valid.
    utf8: Option<Utf8Check>,
    is_html: bool,
    is_problem: bool,
    most: usize,
    value: String,
    bytes: Vec<u8>,
    decoded: String,
    /// The last character was CR, held back until the next one.
    held_cr: bool,
}

impl BodyText {
    /// A decoder for a text part; it keeps at most `most` bytes of text.
    pub(crate) fn new(part: &StoredPart<'_>, most: usize) -> Self {
        let label = part.param("charset");
        let label = label.as_deref();
        let is_html = part.subtype == "html";
        let is_plain = ["7bit", "8bit", "binary"].iter().any(|name| part.encoding.eq_ignore_ascii_case(name));
        let encoding = part.transfer_encoding();
        let is_encoding_known = is_plain || matches!(encoding, Encoding::Base64 | Encoding::QuotedPrintable);
        BodyText {
            transfer: TransferDecoder::new(encoding),
            charset: CharsetDecoder::of_body(label, is_html),
            utf8: is_guessed(label).then(Utf8Check::default),
            is_html,
            is_problem: !is_encoding_known || label.is_some_and(|label| !is_known(label)),
            most,
            value: String::new(),
            bytes: Vec::new(),
            decoded: String::new(),
            held_cr: false,
        }
    }

    /// Whether the text is complete, so that further bytes change nothing.
    pub(crate) fn is_full(&self) -> bool {
        self.value.len() > self.most
    }

    /// Takes the next bytes of the part, as in the message.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for slice in bytes.chunks(SLICE_BYTES) {
            if self.is_full() {
                return;
            }
            self.transfer.push(slice, &mut self.bytes);
            self.take_bytes();
        }
    }

    /// Ends the part and returns its text.
    pub(crate) fn finish(mut self) -> EmailBodyValue {
        if !self.is_full() {
            let transfer = std::mem::replace(&mut self.transfer, TransferDecoder::new(Encoding::Identity));
            transfer.finish(&mut self.bytes);
            self.take_bytes();
            self.is_problem |= self.utf8.as_ref().is_some_and(Utf8Check::is_cut);
            let charset = std::mem::replace(&mut self.charset, CharsetDecoder::new(None));
            charset.finish(&mut self.decoded);
            self.take_text();
            if self.held_cr {
                self.value.push('\r');
            }
        }
        let is_truncated = self.is_full();
        if is_truncated {
            self.cut();
        }
        EmailBodyValue { value: self.value, is_encoding_problem: self.is_problem, is_truncated }
    }

    fn take_bytes(&mut self) {
        if let Some(check) = &mut self.utf8 {
            self.is_problem |= !check.push(&self.bytes);
        }
        self.charset.push(&self.bytes, &mut self.decoded);
        self.bytes.clear();
        self.take_text();
    }

    /// Appends decoded text, with CRLF replaced by LF.
    fn take_text(&mut self) {
        if self.utf8.is_none() {
            self.is_problem |= self.decoded.contains(char::REPLACEMENT_CHARACTER);
        }
        let mut text = self.decoded.as_str();
        if self.held_cr && !text.is_empty() {
            self.held_cr = false;
            if !text.starts_with('\n') {
                self.value.push('\r');
            }
        }
        if let Some(before) = text.strip_suffix('\r') {
            (text, self.held_cr) = (before, true);
        }
        for (index, line) in text.split("\r\n").enumerate() {
            if index > 0 {
                self.value.push('\n');
            }
            self.value.push_str(line);
        }
        self.decoded.clear();
    }

    /// Cuts the text at a character boundary and outside any tag.
    fn cut(&mut self) {
        self.value.truncate(self.value.floor_char_boundary(self.most));
        if !self.is_html {
            return;
        }
        let from = self.value.floor_char_boundary(self.value.len().saturating_sub(TAG_BYTES));
        let end = &self.value[from..];
        if let Some(open) = end.rfind('<').filter(|open| !end[*open..].contains('>')) {
            self.value.truncate(from + open);
        }
    }
}

/// Checks whether bytes in pieces are UTF-8.
#[derive(Default)]
struct Utf8Check {
    /// The first bytes of a character that a piece boundary splits.
    held: Vec<u8>,
}

impl Utf8Check {
    fn push(&mut self, bytes: &[u8]) -> bool {
        let mut bytes = bytes;
        while !self.held.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return true };
            self.held.push(*first);
            bytes = rest;
            match std::str::from_utf8(&self.held) {
                Ok(_) => self.held.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    self.held.clear();
                    return false;
                }
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                self.held.extend_from_slice(&bytes[error.valid_up_to()..]);
                true
            }
            Err(_) => false,
        }
    }

    fn is_cut(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sealpost_mime::structure::StoredStructure;
    use sealpost_mime::text::NoText;
    use sealpost_mime::{Scanner, Structure};

    use super::*;

    fn scanned(message: &[u8]) -> Structure {
        let mut scanner = Scanner::with_sink(NoText);
        scanner.push(message);
        scanner.finish().0
    }

    fn value(header: &str, body: &[u8], most: usize, piece: usize) -> EmailBodyValue {
        let structure = scanned(format!("{header}\r\n\r\n").as_bytes());
        let stored = StoredStructure::of(&structure);
        let mut text = BodyText::new(&stored.parts[0], most);
        body.chunks(piece).for_each(|piece| text.push(piece));
        text.finish()
    }

    fn told(header: &str, body: &[u8], most: usize) -> (String, bool, bool) {
        let EmailBodyValue { value, is_encoding_problem, is_truncated } = value(header, body, most, 3);
        (value, is_encoding_problem, is_truncated)
    }

    #[test]
    fn text_is_decoded_with_lf() {
        let told = |header: &str, body: &[u8]| {
            let (text, is_problem, _) = told(header, body, 1000);
            (text, is_problem)
        };
        let latin = "Content-Type: text/plain; charset=iso-8859-1";
        assert_eq!(told(latin, b"caf\xe9\r\n\r\r\n\r"), ("café\n\r\n\r".into(), false));
        let base64 = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64";
        assert_eq!(told(base64, b"w6kNCg=="), ("é\n".into(), false));
        assert_eq!(told("X: y", "é".as_bytes()), ("é".into(), false), "UTF-8 without a label");
        assert_eq!(told("X: y", b"caf\xe9"), ("café".into(), true), "neither UTF-8 nor labelled");
        assert_eq!(told("Content-Type: text/plain; charset=x-unknown", b"a"), ("a".into(), true));
        assert_eq!(told("Content-Transfer-Encoding: x-own", b"a"), ("a".into(), true));
        assert_eq!(told("Content-Type: text/plain; charset=shift_jis", b"a\x81"), ("a\u{fffd}".into(), true));
    }

    #[test]
    fn cuts_are_not_inside_of_characters_and_tags() {
        let plain = "Content-Type: text/plain; charset=utf-8";
        assert_eq!(told(plain, "aéb".as_bytes(), 2), ("a".into(), false, true));
        assert_eq!(told(plain, "aéb".as_bytes(), 4), ("aéb".into(), false, false));
        assert_eq!(told(plain, b"1 < 2 and more", 6).0, "1 < 2 ");
        let html = "Content-Type: text/html; charset=utf-8";
        assert_eq!(told(html, b"<p>a <a href='x'>b</a>", 10), ("<p>a ".into(), false, true));
        assert_eq!(told(html, b"<p>a <a href='x'>b</a>", 17).0, "<p>a <a href='x'>");
    }

    proptest! {
        #[test]
        fn pieces_and_cuts_change_nothing_before_them(
            body in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'<'), any::<u8>()], 0..200),
            label in "utf-8|us-ascii|iso-8859-1|utf-16le|shift_jis|iso-2022-jp|x",
            encoding in "7bit|base64|quoted-printable",
            (piece, most) in (1usize..40, 0usize..100),
        ) {
            let header = format!("Content-Type: text/plain; charset={label}\r\nContent-Transfer-Encoding: {encoding}");
            let whole = value(&header, &body, usize::MAX - 1, usize::MAX);
            prop_assert!(!whole.is_truncated);
            prop_assert_eq!(&value(&header, &body, usize::MAX - 1, piece), &whole);
            let cut = value(&header, &body, most, piece);
            prop_assert!(cut.value.len() <= most);
            prop_assert!(whole.value.starts_with(&cut.value));
            prop_assert_eq!(cut.is_truncated, whole.value.len() > most);
        }
    }
}
