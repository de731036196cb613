//! Content-Transfer-Encoding (RFC 2045 §6): quoted-printable and base64, decoded as bytes arrive,
//! tolerant of damage.

/// How a body is encoded (RFC 2045 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// `7bit`, `8bit`, `binary`, and unknown ones: the bytes are taken unchanged.
    #[default]
    Identity,
    /// `quoted-printable`.
    QuotedPrintable,
    /// `base64`.
    Base64,
    /// `x-uuencode` and similar: known to be an encoding, not decoded.
    Opaque,
}

impl Encoding {
    /// The encoding that a Content-Transfer-Encoding value names, in any case.
    pub fn named(value: &str) -> Encoding {
        let is = |names: &[&str]| names.iter().any(|name| value.eq_ignore_ascii_case(name));
        if is(&["base64"]) {
            Encoding::Base64
        } else if is(&["quoted-printable"]) {
            Encoding::QuotedPrintable
        } else if is(&["x-uuencode", "x-uue", "uuencode", "x-yencode", "x-binhex"]) {
            Encoding::Opaque
        } else {
            Encoding::Identity
        }
    }
}

/// Decodes one body that arrives in pieces.
#[derive(Debug, Clone)]
pub struct TransferDecoder(State);

#[derive(Debug, Clone)]
enum State {
    Identity,
    Base64 { bits: u32, count: u8 },
    QuotedPrintable { state: Quoted, white: White },
}

/// The state of a quoted-printable decoder.
#[derive(Debug, Clone, Copy)]
enum Quoted {
    Text,
    /// After `=`.
    Equals,
    /// After `=` and one hexadecimal digit.
    Digit(u8),
    /// After `=` and white space: a soft line break if the line ends here (RFC 2045 §6.7 (3)).
    Space,
}

/// White space at the end of the received part of a line: "Any white space at the end of a line
/// must be deleted, as it will necessarily have been added by intermediate transport agents" (RFC
/// 2045 §6.7 (3)).
#[derive(Debug, Clone, Default)]
struct White {
    held: Vec<u8>,
    /// There is more of it than is held: then it is text.
    long: bool,
}

/// White space at the end of a line that may be deleted, in bytes.
const WHITE_BYTES: usize = 128;

impl White {
    /// Text that ends with its bytes, or at a line end if there is one in it.
    fn text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let (line, ends) = match line.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (line, false),
            };
            let solid = line.iter().rposition(|byte| !b" \t\r".contains(byte)).map_or(0, |at| at + 1);
            if solid > 0 {
                self.keep(out);
                out.extend_from_slice(&line[..solid]);
            }
            self.hold(&line[solid..], out);
            if ends {
                self.end_line(out);
            }
        }
    }

    fn hold(&mut self, white: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(white);
        if self.long || self.held.len() > WHITE_BYTES {
            self.long = true;
            out.append(&mut self.held);
        }
    }

    /// Other bytes follow: it was not the end of the line.
    fn keep(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        self.long = false;
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.held.last() == Some(&b'\r') {
            out.push(b'\r');
        }
        out.push(b'\n');
        self.held.clear();
        self.long = false;
    }
}

impl TransferDecoder {
    /// A decoder for `encoding`; an opaque encoding is passed through.
    pub fn new(encoding: Encoding) -> Self {
        TransferDecoder(match encoding {
            Encoding::Identity | Encoding::Opaque => State::Identity,
            Encoding::Base64 => State::Base64 { bits: 0, count: 0 },
            Encoding::QuotedPrintable => {
                State::QuotedPrintable { state: Quoted::Text, white: White::default() }
            }
        })
    }

    /// Appends the decoded `bytes`; never more than `bytes` plus the held ones: about a hundred
    /// bytes.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.0 {
            State::Identity => out.extend_from_slice(bytes),
            State::Base64 { bits, count } => base64(bits, count, bytes, out),
            State::QuotedPrintable { state, white } => quoted_printable(state, white, bytes, out),
        }
    }

    /// Ends the body: held bytes are written unchanged, an incomplete base64 quantum as far as
    /// possible.
    pub fn finish(self, out: &mut Vec<u8>) {
        match self.0 {
            State::Base64 { bits, count } => base64_tail(bits, count, out),
            State::QuotedPrintable { state, mut white } => {
                white.keep(out);
                if let Quoted::Digit(d) = state {
                    out.extend([b'=', d]);
                }
            }
            _ => {}
        }
    }
}

const SKIP: u8 = 0xff;
const PAD: u8 = 0xfe;

/// The value of each byte: 0–63, [`PAD`] for `=`, [`SKIP`] for everything to be ignored (RFC 2045 §6.8).
const BASE64: [u8; 256] = {
    let mut table = [SKIP; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table[b'=' as usize] = PAD;
    table
};

fn base64(bits: &mut u32, count: &mut u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() / 4 * 3 + 3);
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        if *count == 0
            && let Some((quad, tail)) = rest.split_first_chunk::<4>()
        {
            let [a, b, c, d] = quad.map(|byte| BASE64[byte as usize]);
            if (a | b | c | d) < 64 {
                let v = u32::from(a) << 18 | u32::from(b) << 12 | u32::from(c) << 6 | u32::from(d);
                out.extend_from_slice(&v.to_be_bytes()[1..]);
                rest = tail;
                continue;
            }
        }
        match BASE64[byte as usize] {
            SKIP => {}
            // Padding ends a quantum, not the body: concatenated base64 continues after it.
            PAD => {
                base64_tail(*bits, *count, out);
                (*bits, *count) = (0, 0);
            }
            value => {
                *bits = *bits << 6 | u32::from(value);
                *count += 1;
                if *count == 4 {
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                    (*bits, *count) = (0, 0);
                }
            }
        }
        rest = tail;
    }
}

/// The one or two whole bytes of an incomplete quantum.
fn base64_tail(bits: u32, count: u8, out: &mut Vec<u8>) {
    match count {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend([(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|d| d as u8)
}

fn quoted_printable(state: &mut Quoted, white: &mut White, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        let mut next = tail;
        *state = match *state {
            Quoted::Text => {
                let plain = memchr::memchr(b'=', rest).unwrap_or(rest.len());
                white.text(&rest[..plain], out);
                next = rest.get(plain + 1..).unwrap_or_default();
                if plain < rest.len() {
                    white.keep(out);
                    Quoted::Equals
                } else {
                    Quoted::Text
                }
            }
            Quoted::Equals => match byte {
                b'\n' => Quoted::Text,
                b' ' | b'\t' | b'\r' => Quoted::Space,
                _ if hex(byte).is_some() => Quoted::Digit(byte),
                // RFC 2045 §6.7: damaged data is left unchanged.
                _ => {
                    out.push(b'=');
                    next = rest;
                    Quoted::Text
                }
            },
            Quoted::Digit(high) => match (hex(high), hex(byte)) {
                (Some(h), Some(l)) => {
                    out.push(h << 4 | l);
                    Quoted::Text
                }
                _ => {
                    out.extend([b'=', high]);
                    next = rest;
                    Quoted::Text
                }
            },
            Quoted::Space => match byte {
                b'\n' => Quoted::Text,
                b' ' | b'\t' | b'\r' => Quoted::Space,
                _ => {
                    out.extend(b"= ");
                    next = rest;
                    Quoted::Text
                }
            },
        };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(encoding: Encoding, pieces: &[&[u8]]) -> String {
        let mut decoder = TransferDecoder::new(encoding);
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| decoder.push(piece, &mut out));
        decoder.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn base64_decoding_ignores_other_characters() {
        let b64 = |s: &str| decode(Encoding::Base64, &[s.as_bytes()]);
        assert_eq!(b64("aGVsbG8="), "hello");
        assert_eq!(b64("aGVs\r\nbG8"), "hello");
        assert_eq!(b64("aGVs!!bG8=\r\naGVsbG8="), "hellohello");
        assert_eq!(b64("a"), "");
    }

    #[test]
    fn quoted_printable_forgives() {
        let qp = |s: &str| decode(Encoding::QuotedPrintable, &[s.as_bytes()]);
        assert_eq!(qp("caf=C3=A9 =\r\nau=20lait"), "café au lait");
        assert_eq!(qp("soft=  \r\nbreak"), "softbreak");
        assert_eq!(qp("soft=\nbreak"), "softbreak");
        assert_eq!(qp("1+1=2 =zz =4"), "1+1=2 =zz =4");
        assert_eq!(qp("=c3=a9"), "é");
        // White space at the end of a line was added in transit; encoded white space was not.
        assert_eq!(qp("hello  \r\na \t =\r\nb=20 \nc \r\n"), "hello\r\na \t b \nc\r\n");
        assert_eq!(qp("a b\tc \t"), "a b\tc \t");
        let long = " ".repeat(WHITE_BYTES);
        assert_eq!(qp(&format!("a{long}\n")), "a\n");
        assert_eq!(qp(&format!("a{long} \n")), format!("a{long} \n"));
    }

    #[test]
    fn names_in_any_case() {
        assert_eq!(Encoding::named("BASE64"), Encoding::Base64);
        assert_eq!(Encoding::named("Quoted-Printable"), Encoding::QuotedPrintable);
        assert_eq!(Encoding::named("8-bit"), Encoding::Identity);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn cuts_do_not_matter(pieces in proptest::collection::vec("[=A-F0-9 \r\nz]{0,7}|[ \t]{50,140}", 0..6)) {
            for encoding in [Encoding::Base64, Encoding::QuotedPrintable] {
                let parts: Vec<&[u8]> = pieces.iter().map(|p| p.as_bytes()).collect();
                prop_assert_eq!(decode(encoding, &parts), decode(encoding, &[pieces.concat().as_bytes()]));
            }
        }
    }
}
