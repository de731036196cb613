//! Line ends: formats that store LF, and the record needed to restore the exact bytes.
//!
//! Text on disk has LF where the message has CRLF. A message may also have LF alone; then the
//! lengths of runs are recorded: so many lines that end in CRLF, so many that end in LF, so many in
//! CRLF again, and so on, each a number of seven bits a byte with the eighth set in all but the
//! last (LEB128). All lines after the last run end in CRLF, so a message that follows RFC 5322
//! needs no record. A CR elsewhere is text.

/// Converts bytes of a message to text with LF, in pieces, recording what would be lost.
#[derive(Debug, Default)]
pub struct ToText {
    held_cr: bool,
    /// The line end of the run: LF alone, or CRLF.
    bare: bool,
    run: u64,
    noted: bool,
}

impl ToText {
    /// Appends `bytes` to `text`, and finished runs to `runs`. A CR at the very end is held until
    /// the next byte is known.
    pub fn push(&mut self, bytes: &[u8], text: &mut Vec<u8>, runs: &mut Vec<u8>) {
        let Some((last, _)) = bytes.split_last() else { return };
        if self.held_cr && bytes[0] != b'\n' {
            text.push(b'\r');
        }
        let held_before = std::mem::replace(&mut self.held_cr, *last == b'\r');
        let bytes = if self.held_cr { &bytes[..bytes.len() - 1] } else { bytes };
        // The next copy begins with the LF before it, so that a line is one copy.
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            let after_cr = if at == 0 { held_before } else { bytes[at - 1] == b'\r' };
            let end = if after_cr { at.saturating_sub(1).max(from) } else { at };
            text.extend_from_slice(&bytes[from..end]);
            from = at;
            self.line(!after_cr, runs);
        }
        text.extend_from_slice(&bytes[from..]);
    }

    /// Ends the message: writes a CR that is still held, and the last run if it matters. Returns
    /// whether anything was recorded.
    pub fn finish(&mut self, text: &mut Vec<u8>, runs: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.held_cr) {
            text.push(b'\r');
        }
        if self.bare {
            self.note(runs);
        }
        self.noted
    }

    fn line(&mut self, bare: bool, runs: &mut Vec<u8>) {
        if bare != self.bare {
            self.note(runs);
            (self.bare, self.run) = (bare, 0);
        }
        self.run += 1;
    }

    fn note(&mut self, runs: &mut Vec<u8>) {
        self.noted = true;
        let mut rest = self.run;
        while rest >= 0x80 {
            runs.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        runs.push(rest as u8);
    }
}

/// Converts text with LF back to bytes, in pieces. The runs are read on demand.
#[derive(Debug, Default)]
pub struct ToBytes {
    bare: bool,
    /// Lines left of the run; `None`: all that follow.
    left: Option<u64>,
    begun: bool,
}

impl ToBytes {
    /// Appends `text` to `bytes`. `next` gives the next byte of the runs; `None` when there is no more.
    ///
    /// # Errors
    /// The errors of `next`.
    pub fn push<E>(
        &mut self,
        text: &[u8],
        bytes: &mut Vec<u8>,
        mut next: impl FnMut() -> Result<Option<u8>, E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.begun, true) {
            self.left = read_run(&mut next)?;
        }
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', text) {
            while self.left == Some(0) {
                self.left = read_run(&mut next)?;
                self.bare = self.left.is_some() && !self.bare;
            }
            bytes.extend_from_slice(&text[from..at]);
            bytes.extend_from_slice(if self.bare { b"\n" } else { b"\r\n" });
            self.left = self.left.map(|left| left - 1);
            from = at + 1;
        }
        bytes.extend_from_slice(&text[from..]);
        Ok(())
    }
}

/// One number. A truncated or too large one counts as the end.
fn read_run<E>(next: &mut impl FnMut() -> Result<Option<u8>, E>) -> Result<Option<u64>, E> {
    let mut run = 0u64;
    for shift in (0..63).step_by(7) {
        let Some(byte) = next()? else { return Ok(None) };
        run |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn to_text(pieces: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>, bool) {
        let (mut text, mut runs, mut convert) = (Vec::new(), Vec::new(), ToText::default());
        pieces.iter().for_each(|piece| convert.push(piece, &mut text, &mut runs));
        let noted = convert.finish(&mut text, &mut runs);
        (text, runs, noted)
    }

    fn to_bytes(text: &[u8], runs: &[u8], piece: usize) -> Vec<u8> {
        let (mut bytes, mut convert) = (Vec::new(), ToBytes::default());
        let mut runs = runs.iter().copied();
        for piece in text.chunks(piece) {
            convert.push(piece, &mut bytes, || Ok::<_, Infallible>(runs.next())).unwrap();
        }
        bytes
    }

    #[test]
    fn known_answers() {
        assert_eq!(to_text(&[b"a\r\nb\r\n".to_vec()]), (b"a\nb\n".to_vec(), vec![], false));
        assert_eq!(to_text(&[b"a\nb\n".to_vec()]), (b"a\nb\n".to_vec(), vec![0, 2], true));
        assert_eq!(to_text(&[b"a\r".to_vec(), b"\nb\nc\r\r\n\r".to_vec()]).0, b"a\nb\nc\r\n\r");
        assert_eq!(to_text(&[b"\r\n".repeat(200), b"\n".to_vec()]).1, [0xc8, 1, 1]);
    }

    #[test]
    fn mixed_line_ends_take_two_bytes_a_change() {
        let (text, runs, _) = to_text(&[b"\r\n\n".repeat(10_000)]);
        assert_eq!((text.len(), runs.len()), (20_000, 20_000));
    }

    proptest! {
        #[test]
        fn bytes_come_back(pieces in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'x'), any::<u8>()], 0..9), 0..9),
                            piece in 1usize..9) {
            let (text, runs, noted) = to_text(&pieces);
            prop_assert_eq!(noted, !runs.is_empty());
            prop_assert_eq!(to_bytes(&text, &runs, piece), pieces.concat());
            prop_assert_eq!(to_text(&[pieces.concat()]), (text, runs, noted), "pieces do not matter");
        }

        #[test]
        fn any_runs_are_read(text in prop::collection::vec(any::<u8>(), 0..50), runs in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert!(to_bytes(&text, &runs, 7).len() >= text.len());
        }
    }
}
