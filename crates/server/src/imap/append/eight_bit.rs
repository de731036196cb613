//! Header fields with octets above 127, which only those may store who said that they know of UTF-8 (RFC 6855 §4).

/// Looks at the header of a message as it comes in, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct HeaderWatch {
    /// Whether the last octets were a line end.
    line_begins: bool,
    /// Whether anything was seen.
    begun: bool,
    over: bool,
    found: bool,
}

impl HeaderWatch {
    /// The next octets.
    pub(super) fn push(&mut self, octets: &[u8]) {
        if self.over || self.found {
            return;
        }
        for byte in octets {
            match byte {
                // An empty line ends the header (RFC 5322 §2.1), whatever line ends it has.
                b'\n' if self.line_begins || !self.begun => {
                    self.over = true;
                    return;
                }
                b'\n' => self.line_begins = true,
                b'\r' => {}
                0x80.. => {
                    self.found = true;
                    return;
                }
                _ => (self.line_begins, self.begun) = (false, true),
            }
        }
    }

    /// Whether the header had one so far.
    pub(super) fn found(&self) -> bool {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(message: &[u8]) -> bool {
        let verdicts: Vec<bool> = [1, 2, 3, message.len().max(1)]
            .into_iter()
            .map(|size| {
                let mut watch = HeaderWatch::default();
                message.chunks(size).for_each(|piece| watch.push(piece));
                watch.found()
            })
            .collect();
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "cuts do not matter");
        verdicts[0]
    }

    #[test]
    fn only_the_header_counts() {
        assert!(found("Subject: é\r\n\r\nx".as_bytes()));
        assert!(found("Subject: a\r\nTo: é".as_bytes()));
        assert!(found(b"A: b\r\r\nC: \xff\r\n"));
        assert!(!found("Subject: a\r\n\r\né".as_bytes()));
        assert!(!found("Subject: a\n\né".as_bytes()));
        assert!(!found("\r\né".as_bytes()), "no header at all");
        assert!(!found(b""));
    }
}
