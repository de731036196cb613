//! Line ends, converted as the bytes pass through: LF to CRLF on the way in, CRLF to LF on the way out.

/// How a message on disk ends its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnds {
    /// LF: every bare LF becomes CRLF when read. A CRLF found among them stays one.
    Lf,
    /// As on the wire: taken byte for byte, bare LF and all.
    Exact,
}

impl LineEnds {
    /// Decides by the first lines of a message, or by its first bytes if the line is longer. A line
    /// that ends in CR CR LF does not decide: it looks the same in either.
    pub fn of_first_line(bytes: &[u8]) -> Self {
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            match line {
                [.., b'\r', b'\r', b'\n'] => {}
                [.., b'\r', b'\n'] => return LineEnds::Exact,
                _ => return LineEnds::Lf,
            }
        }
        LineEnds::Lf
    }
}

/// LF to CRLF over pieces.
#[derive(Debug, Default)]
pub struct ToCrlf {
    after_cr: bool,
}

impl ToCrlf {
    /// Appends `bytes` to `out` with every bare LF as CRLF.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            let after_cr = if at == 0 { self.after_cr } else { bytes[at - 1] == b'\r' };
            if !after_cr {
                out.extend_from_slice(&bytes[from..at]);
                out.extend_from_slice(b"\r\n");
                from = at + 1;
            }
        }
        out.extend_from_slice(&bytes[from..]);
        if let Some(last) = bytes.last() {
            self.after_cr = *last == b'\r';
        }
    }
}

/// CRLF to LF over pieces. A CR without a following LF stays, and so does CR CR LF, which
/// [`ToCrlf`] leaves alone too: with one CR less it would come back as CRLF.
#[derive(Debug, Default)]
pub struct ToLf {
    after: After,
}

/// The last bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum After {
    #[default]
    Text,
    /// A CR that is held until the next byte is known.
    HeldCr,
    /// CR CR, already written.
    Crs,
}

impl ToLf {
    /// Appends `bytes` to `out` with every CRLF as LF. A CR at the very end is held until the next
    /// byte is known.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some((first, rest)) = bytes.split_first() {
            (self.after, bytes) = match (self.after, first) {
                (After::Text, _) => {
                    let text = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
                    out.extend_from_slice(&bytes[..text]);
                    match bytes.get(text + 1..) {
                        Some(rest) => (After::HeldCr, rest),
                        None => (After::Text, &[][..]),
                    }
                }
                (After::HeldCr, b'\r') => {
                    out.extend_from_slice(b"\r\r");
                    (After::Crs, rest)
                }
                (After::HeldCr, b'\n') => {
                    out.push(b'\n');
                    (After::Text, rest)
                }
                (After::HeldCr, _) => {
                    out.push(b'\r');
                    (After::Text, bytes)
                }
                (After::Crs, byte) => {
                    out.push(*byte);
                    (if *byte == b'\r' { After::Crs } else { After::Text }, rest)
                }
            };
        }
    }

    /// Ends the message: writes a CR that is still held.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.after) == After::HeldCr {
            out.push(b'\r');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to_lf(pieces: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut convert) = (Vec::new(), ToLf::default());
        pieces.iter().for_each(|piece| convert.push(piece, &mut out));
        convert.finish(&mut out);
        out
    }

    fn to_crlf(pieces: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut convert) = (Vec::new(), ToCrlf::default());
        pieces.iter().for_each(|piece| convert.push(piece, &mut out));
        out
    }

    #[test]
    fn known_answers() {
        assert_eq!(to_crlf(&[b"a\nb\r".to_vec(), b"\nc\r\n".to_vec()]), b"a\r\nb\r\nc\r\n");
        assert_eq!(to_lf(&[b"a\r\nb\r".to_vec(), b"\nc\rd\r\r\ne\r".to_vec()]), b"a\nb\nc\rd\r\r\ne\r");
        assert_eq!(LineEnds::of_first_line(b"a\r\nb\n"), LineEnds::Exact);
        assert_eq!(LineEnds::of_first_line(b"a\nb\r\n"), LineEnds::Lf);
        assert_eq!(LineEnds::of_first_line(b""), LineEnds::Lf);
        assert_eq!(LineEnds::of_first_line(b"a\r\r\nb\nc\r\n"), LineEnds::Lf);
        assert_eq!(LineEnds::of_first_line(b"a\r\r\nb\r\n"), LineEnds::Exact);
        assert_eq!(LineEnds::of_first_line(b"\r\n"), LineEnds::Exact);
    }

    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'x')];
        proptest::collection::vec(proptest::collection::vec(byte, 0..6), 0..8)
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(pieces in pieces()) {
            let whole = [pieces.concat()];
            prop_assert_eq!(to_lf(&pieces), to_lf(&whole));
            prop_assert_eq!(to_crlf(&pieces), to_crlf(&whole));
        }

        #[test]
        fn crlf_text_survives_the_way_out_and_in(lines in proptest::collection::vec("[a-z\r]{0,5}", 0..8)) {
            let wire: Vec<u8> = lines.iter().flat_map(|l| [l.as_bytes(), b"\r\n"].concat()).collect();
            let disk = to_lf(std::slice::from_ref(&wire));
            prop_assert_eq!(to_crlf(&[disk]), wire);
        }
    }
}
