//! HZ (RFC 1843): GB 2312 between `~{` and `~}`. Streaming; damage becomes U+FFFD.

use super::pairs::{Pairs, Set};

/// Decodes one text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Hz {
    chinese: bool,
    /// After `~`.
    tilde: bool,
    pairs: Pairs,
}

impl Hz {
    /// A new encoded-word begins; if the previous one ended in Chinese, that continues only if the
    /// next escape ends it, or if it ended inside an escape or a character.
    pub(super) fn begin_word(&mut self, continued: bool, out: &mut String) {
        if self.chinese && !(continued || self.tilde || self.pairs.is_half()) {
            self.pairs.end(out);
            self.chinese = false;
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        for &byte in bytes {
            self.byte(byte, out);
        }
        self.pairs.decode(out);
    }

    pub(super) fn finish(mut self, out: &mut String) {
        self.pairs.end(out);
        if self.tilde {
            out.push('~');
        }
    }

    fn byte(&mut self, byte: u8, out: &mut String) {
        if std::mem::take(&mut self.tilde) {
            match byte {
                b'{' => self.chinese = true,
                b'}' => self.chinese = false,
                // A line that continues in the next one.
                b'\n' => {}
                b'\r' => self.tilde = true,
                b'~' => out.push('~'),
                _ => {
                    out.push('~');
                    self.byte(byte, out);
                }
            }
            return;
        }
        match byte {
            b'~' if !self.pairs.is_half() => {
                self.pairs.end(out);
                self.tilde = true;
            }
            // Text labelled HZ that is raw GB 2312.
            0xa1..=0xfe => self.pairs.push(Set::Gb2312, byte, out),
            0x21..=0x7e if self.chinese => self.pairs.push(Set::Gb2312, byte, out),
            _ => {
                self.pairs.end(out);
                // A line ends in ASCII.
                self.chinese &= byte != b'\n';
                out.push(if byte.is_ascii() { char::from(byte) } else { char::REPLACEMENT_CHARACTER });
            }
        }
    }
}

/// Where the escapes in `bytes` are, and whether they switch back to ASCII.
pub(super) fn escapes(bytes: &[u8]) -> Vec<(usize, bool)> {
    let escapes = bytes.array_windows().enumerate().filter(|(_, pair)| matches!(*pair, b"~{" | b"~}"));
    escapes.map(|(at, pair)| (at, pair == b"~}")).collect()
}
