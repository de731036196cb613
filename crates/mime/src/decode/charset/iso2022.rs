//! ISO-2022-JP and its extensions (RFC 1468, RFC 1554, RFC 2237), ISO-2022-KR (RFC 1557) and
//! ISO-2022-CN (RFC 1922): codes that are switched by escapes. Streaming; damage becomes U+FFFD.
//!
//! One decoder for all, because real text uses the escapes of one under the name of another. A
//! redundant escape, or one followed by another, is no error. The characters of CNS 11643 in
//! ISO-2022-CN are not known.

use super::pairs::{Pairs, Set};

/// The codes before the first escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    Japanese,
    Korean,
    Chinese,
}

/// Decodes one text that arrives in pieces.
#[derive(Debug)]
pub(super) struct Iso2022 {
    variant: Variant,
    /// The code of the bytes 0x21 to 0x7e.
    g0: Code,
    /// Their code after SO.
    g1: Code,
    /// The code of characters after ESC N.
    g2: Code,
    shifted: bool,
    /// After ESC N or ESC O: the next character has this code.
    single: Option<Code>,
    /// An incomplete escape, without ESC.
    escape: Option<Vec<u8>>,
    pairs: Pairs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Ascii,
    /// The Latin half of JIS X 0201.
    Roman,
    /// Its other half.
    Katakana,
    Double(Set),
    /// The upper halves of ISO 8859-1 and ISO 8859-7 (RFC 1554).
    Latin1,
    Greek,
}

/// Bytes of an escape after ESC.
const ESCAPE_BYTES: usize = 4;

impl Iso2022 {
    pub(super) fn new(variant: Variant) -> Self {
        let g1 = match variant {
            Variant::Japanese => Code::Katakana,
            Variant::Korean => Code::Double(Set::Ksx1001),
            Variant::Chinese => Code::Double(Set::Gb2312),
        };
        let (g0, g2) = (Code::Ascii, Code::Double(Set::Unknown));
        Iso2022 { variant, g0, g1, g2, shifted: false, single: None, escape: None, pairs: Pairs::default() }
    }

    /// A new encoded-word begins; if the previous one ended in another code than ASCII, that
    /// continues only if the next escape ends it, or if it ended inside an escape or a character.
    pub(super) fn begin_word(&mut self, continued: bool, out: &mut String) {
        let is_cut = self.escape.is_some() || self.single.is_some() || self.pairs.is_half();
        let continued = continued || is_cut;
        if (self.shifted || self.g0 != Code::Ascii) && !continued {
            self.pairs.end(out);
            self.g0 = Code::Ascii;
            self.shifted = false;
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
        if self.escape.is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut String) {
        if let Some(mut escape) = self.escape.take() {
            escape.push(byte);
            return self.escape(escape, out);
        }
        match byte {
            0x1b | 0x0e | 0x0f => {
                self.pairs.end(out);
                match byte {
                    0x1b => self.escape = Some(Vec::with_capacity(ESCAPE_BYTES)),
                    _ => self.shifted = byte == 0x0e,
                }
            }
            // Sets of 96 have characters there as well.
            0x20 | 0x7f if matches!(self.single, Some(Code::Latin1 | Code::Greek)) => {
                let code = self.single.take().unwrap_or(Code::Ascii);
                self.sign(code, byte, out);
            }
            0x21..=0x7e => {
                let code = if self.shifted { self.g1 } else { self.g0 };
                let code = self.single.unwrap_or(code);
                self.sign(code, byte, out);
                if !self.pairs.is_half() {
                    self.single = None;
                }
            }
            0xa1..=0xfe => self.eight_bit(byte, out),
            _ => {
                self.pairs.end(out);
                // Lines begin with SI (RFC 1557, RFC 1922).
                self.shifted &= byte != b'\n';
                out.push(if byte.is_ascii() { char::from(byte) } else { char::REPLACEMENT_CHARACTER });
            }
        }
    }

    /// 8-bit text labelled as 7-bit.
    fn eight_bit(&mut self, byte: u8, out: &mut String) {
        match (self.variant, self.g1) {
            (Variant::Japanese, _) if byte <= 0xdf => self.sign(Code::Katakana, byte & 0x7f, out),
            (Variant::Japanese, _) => {
                self.pairs.end(out);
                out.push(char::REPLACEMENT_CHARACTER);
            }
            (_, g1) => self.sign(g1, byte & 0x7f, out),
        }
    }

    /// One byte of a character in that code.
    fn sign(&mut self, code: Code, byte: u8, out: &mut String) {
        let Code::Double(set) = code else {
            self.pairs.end(out);
            out.push(match (code, byte) {
                (Code::Roman, b'\\') => '¥',
                (Code::Roman, b'~') => '‾',
                (Code::Katakana, 0x21..=0x5f) => offset(0xff61, byte - 0x21),
                (Code::Katakana, _) => char::REPLACEMENT_CHARACTER,
                (Code::Latin1, _) => char::from(byte | 0x80),
                (Code::Greek, _) => greek(byte | 0x80),
                _ => char::from(byte),
            });
            return;
        };
        self.pairs.push(set, byte, out);
    }

    /// Bytes after ESC: intermediate ones and one that ends the escape (ISO 2022 §13).
    fn escape(&mut self, escape: Vec<u8>, out: &mut String) {
        let intermediate = matches!(escape.last(), Some(0x20..=0x2f));
        if intermediate && escape.len() < ESCAPE_BYTES {
            self.escape = Some(escape);
            return;
        }
        if !self.designate(&escape) {
            // An unknown escape: the bytes after ESC are text.
            out.push(char::REPLACEMENT_CHARACTER);
            escape.into_iter().for_each(|byte| self.byte(byte, out));
        }
    }

    fn designate(&mut self, escape: &[u8]) -> bool {
        match *escape {
            [b'(', end] => return single(end).map(|code| self.g0 = code).is_some(),
            [b')', end] => return single(end).map(|code| self.g1 = code).is_some(),
            [b'$', end @ (b'@' | b'A' | b'B')] | [b'$', b'(', end] => self.g0 = double(end),
            [b'$', b')', end] => self.g1 = double(end),
            [b'$', b'*', end] => self.g2 = double(end),
            // The planes of CNS 11643 from the third on.
            [b'$', b'+', _] => {}
            [b'.', b'A'] => self.g2 = Code::Latin1,
            [b'.', b'F'] => self.g2 = Code::Greek,
            [b'N'] => self.single = Some(self.g2),
            [b'O'] => self.single = Some(Code::Double(Set::Unknown)),
            // "Identify revised registration", which comes before ESC $ B.
            [b'&', _] => {}
            _ => return false,
        }
        true
    }
}

fn single(end: u8) -> Option<Code> {
    match end {
        b'B' | b'A' | b'@' => Some(Code::Ascii),
        // The second one is a mistake that was common: the Swedish set for the Japanese one.
        b'J' | b'H' => Some(Code::Roman),
        b'I' => Some(Code::Katakana),
        _ => None,
    }
}

fn double(end: u8) -> Code {
    Code::Double(match end {
        b'@' | b'B' | b'O' | b'Q' => Set::Jis0208,
        b'D' => Set::Jis0212,
        // ISO-IR-165 has GB 2312 and more.
        b'A' | b'E' => Set::Gb2312,
        b'C' => Set::Ksx1001,
        _ => Set::Unknown,
    })
}

fn offset(first: u32, by: u8) -> char {
    char::from_u32(first + u32::from(by)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn greek(byte: u8) -> char {
    let bytes = [byte];
    let decoded = encoding_rs::ISO_8859_7.decode_without_bom_handling(&bytes).0;
    decoded.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Where escapes in `bytes` begin that switch codes, and whether they switch back to ASCII.
pub(super) fn escapes(bytes: &[u8]) -> Vec<(usize, bool)> {
    let returns = |at: usize| match (bytes[at], &bytes[at + 1..]) {
        (0x0f, _) => Some(true),
        (0x0e, _) => Some(false),
        (_, [b'(', b'B' | b'J', ..] | [b'(']) => Some(true),
        (_, [b'(', ..] | [b'$', b'@' | b'A' | b'B' | b'(', ..]) => Some(false),
        _ => None,
    };
    memchr::memchr3_iter(0x1b, 0x0e, 0x0f, bytes).filter_map(|at| Some((at, returns(at)?))).collect()
}
