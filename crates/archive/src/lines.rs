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
    /// Tells from the first line of a message, or from its first bytes if the line is longer.
    pub fn of_first_line(bytes: &[u8]) -> Self {
        match memchr::memchr(b'\n', bytes) {
            Some(at) if at > 0 && bytes[at - 1] == b'\r' => LineEnds::Exact,
            _ => LineEnds::Lf,
        }
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

/// CRLF to LF over pieces. A CR that no LF follows stays.
#[derive(Debug, Default)]
pub struct ToLf {
    held_cr: bool,
}

impl ToLf {
    /// Appends `bytes` to `out` with every CRLF as LF. A CR at the very end is held until what follows is known.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Some((last, _)) = bytes.split_last() else { return };
        if self.held_cr && bytes[0] != b'\n' {
            out.push(b'\r');
        }
        self.held_cr = *last == b'\r';
        let bytes = if self.held_cr { &bytes[..bytes.len() - 1] } else { bytes };
        let mut from = 0;
        for at in memchr::memchr_iter(b'\r', bytes) {
            if bytes.get(at + 1) == Some(&b'\n') {
                out.extend_from_slice(&bytes[from..at]);
                from = at + 1;
            }
        }
        out.extend_from_slice(&bytes[from..]);
    }

    /// Ends the message: gives out a CR that is still held.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.held_cr) {
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
        assert_eq!(to_lf(&[b"a\r\nb\r".to_vec(), b"\nc\rd\r\r\ne\r".to_vec()]), b"a\nb\nc\rd\r\ne\r");
        assert_eq!(LineEnds::of_first_line(b"a\r\nb\n"), LineEnds::Exact);
        assert_eq!(LineEnds::of_first_line(b"a\nb\r\n"), LineEnds::Lf);
        assert_eq!(LineEnds::of_first_line(b""), LineEnds::Lf);
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
        fn crlf_text_survives_the_way_out_and_in(lines in proptest::collection::vec("[a-z]{0,5}", 0..8)) {
            let wire: Vec<u8> = lines.iter().flat_map(|l| [l.as_bytes(), b"\r\n"].concat()).collect();
            let disk = to_lf(std::slice::from_ref(&wire));
            prop_assert_eq!(to_crlf(&[disk]), wire);
        }
    }
}
