//! Counts `Received` fields while the header streams: too many of them show a loop (RFC 5321 §6.3).

use memchr::memchr;

const NAME: &[u8] = b"Received:";

/// Counts the hosts that a message has passed. It keeps only the first bytes of the present line.
#[derive(Debug, Default)]
pub(super) struct Hops {
    count: usize,
    /// The first bytes of the line so far.
    line: [u8; NAME.len()],
    filled: usize,
    body: bool,
}

impl Hops {
    /// Reads the next bytes of the message.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let (Some(&byte), false) = (bytes.first(), self.body) {
            if self.filled == NAME.len() && byte != b'\n' {
                // The rest of the line does not matter.
                bytes = &bytes[memchr(b'\n', bytes).unwrap_or(bytes.len())..];
                continue;
            }
            bytes = &bytes[1..];
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if byte == b'\n' {
            self.body = matches!(self.line[..self.filled], [] | [b'\r']);
            self.filled = 0;
            return;
        }
        self.line[self.filled] = byte;
        self.filled += 1;
        if self.filled == NAME.len() && self.line.eq_ignore_ascii_case(NAME) {
            self.count += 1;
        }
    }

    /// `Received` fields so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_header_counts_and_only_whole_names() {
        let message = b"Received: a\r\n\tReceived: folded\r\nreceived:b\nX-Received: no\r\nReceive: no\r\n\r\nReceived: body\r\n";
        for cut in 1..message.len() {
            let mut hops = Hops::default();
            message.chunks(cut).for_each(|piece| hops.push(piece));
            assert_eq!(hops.count(), 2, "cut every {cut}");
        }
    }

    #[test]
    fn a_message_may_begin_with_its_body() {
        let mut hops = Hops::default();
        hops.push(b"\r\nReceived: body\r\n");
        assert_eq!(hops.count(), 0);
    }
}
