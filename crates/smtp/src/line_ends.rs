//! Makes every line end of a message CRLF (RFC 5321 §2.3.8: CR and LF never leave alone).
//!
//! A bare CR or LF is how one message is smuggled inside another: some servers end lines, and
//! messages, with it. Here each of them becomes CRLF, and the last line gets the end that it may
//! lack.

use bytes::BytesMut;

/// Converts a message in pieces, cut anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineEndNormalizer {
    /// Whether the last byte was a CR, which is held back.
    cr: bool,
    /// Whether bytes were written since the last CRLF.
    in_line: bool,
}

impl LineEndNormalizer {
    /// A converter at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `piece` to `out` with its line ends made CRLF.
    pub fn push(&mut self, piece: &[u8], out: &mut BytesMut) {
        let mut rest = piece;
        if self.cr && !rest.is_empty() {
            self.cr = false;
            self.end_line(out);
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\r', b'\n', rest) {
            let (line, after) = rest.split_at(end);
            self.text(line, out);
            rest = match after {
                [b'\r'] => {
                    self.cr = true;
                    return;
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => {
                    self.end_line(out);
                    after
                }
                [] => return,
            };
        }
        self.text(rest, out);
    }

    /// Ends the last line, if it has no end yet.
    pub fn finish(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.cr) || self.in_line {
            self.end_line(out);
        }
    }

    fn text(&mut self, text: &[u8], out: &mut BytesMut) {
        self.in_line |= !text.is_empty();
        out.extend_from_slice(text);
    }

    fn end_line(&mut self, out: &mut BytesMut) {
        self.in_line = false;
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalized(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut lines, mut out) = (LineEndNormalizer::new(), BytesMut::new());
        for piece in pieces {
            lines.push(piece, &mut out);
        }
        lines.finish(&mut out);
        out.to_vec()
    }

    #[test]
    fn known_answers() {
        for (message, sent) in [
            ("", ""),
            ("a\r\n", "a\r\n"),
            ("a", "a\r\n"),
            ("a\nb\rc\r\n", "a\r\nb\r\nc\r\n"),
            ("\n.\n", "\r\n.\r\n"),
            ("\r\r\n", "\r\n\r\n"),
            ("a\r", "a\r\n"),
            ("\r\n\n\r", "\r\n\r\n\r\n"),
        ] {
            assert_eq!(normalized(&[message.as_bytes()]), sent.as_bytes(), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn cuts_change_nothing_and_no_bare_end_remains(
            message in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a')], 0..24),
            cut in 0usize..24,
        ) {
            let cut = cut.min(message.len());
            let out = normalized(&[&message]);
            prop_assert_eq!(&out, &normalized(&[&message[..cut], &message[cut..]]));
            let bytes: Vec<&[u8]> = message.chunks(1).collect();
            prop_assert_eq!(&out, &normalized(&bytes));
            for (i, &byte) in out.iter().enumerate() {
                match byte {
                    b'\r' => prop_assert_eq!(out.get(i + 1), Some(&b'\n')),
                    b'\n' => prop_assert!(i > 0 && out[i - 1] == b'\r'),
                    _ => {}
                }
            }
            prop_assert_eq!(&out, &normalized(&[&out]), "clean text is unchanged");
        }
    }
}
