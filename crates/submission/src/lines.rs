//! Converts line ends to CRLF while a message streams.

/// Makes every line end CRLF, also a bare LF and a bare CR. It only remembers whether the last byte was CR.
#[derive(Debug, Default)]
pub struct LineEnds {
    after_cr: bool,
    /// Whether the output so far ends with a line end, or is empty.
    unfinished: bool,
}

impl LineEnds {
    /// Appends the next bytes of the message to `out`, at most twice as many.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(&first) = bytes.first() {
            if first == b'\n' {
                // After CR the line end is written already.
                if !self.after_cr {
                    self.end_line(out);
                }
                self.after_cr = false;
                bytes = &bytes[1..];
                continue;
            }
            if first == b'\r' {
                self.end_line(out);
                self.after_cr = true;
                bytes = &bytes[1..];
                continue;
            }
            let text = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..text]);
            (self.after_cr, self.unfinished) = (false, true);
            bytes = &bytes[text..];
        }
    }

    /// Ends the message and its last line, if that has no end.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if self.unfinished {
            self.end_line(out);
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        self.unfinished = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(message: &[u8], cut: usize) -> Vec<u8> {
        let (mut ends, mut out) = (LineEnds::default(), Vec::new());
        message.chunks(cut).for_each(|piece| ends.push(piece, &mut out));
        ends.finish(&mut out);
        out
    }

    #[test]
    fn every_line_end_becomes_crlf() {
        for (message, expected) in [
            ("", ""),
            ("a", "a\r\n"),
            ("a\r\n", "a\r\n"),
            ("a\nb\rc\r\nd", "a\r\nb\r\nc\r\nd\r\n"),
            ("\r\r\n\n", "\r\n\r\n\r\n"),
            ("a\r\n.\r\nb", "a\r\n.\r\nb\r\n"),
            ("a\n.\nb", "a\r\n.\r\nb\r\n"),
        ] {
            for cut in 1..=message.len().max(1) {
                assert_eq!(run(message.as_bytes(), cut), expected.as_bytes(), "{message:?} cut every {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bare_cr_or_lf_is_left(message in "[a\r\n.]{0,40}", cut in 1usize..7) {
            let out = run(message.as_bytes(), cut);
            let text = String::from_utf8(out.clone()).unwrap();
            prop_assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
            prop_assert!(text.is_empty() || text.ends_with("\r\n"));
            // Text with CRLF alone stays as it is.
            prop_assert_eq!(run(&out, cut), out);
        }
    }
}
