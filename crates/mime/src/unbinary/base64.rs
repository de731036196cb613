//! Streaming base64, in lines of 76 characters (RFC 2045 §6.8).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Bytes of one line.
const LINE: usize = 57;

/// Encodes one body. Its lines are separated, not ended, by CRLF.
#[derive(Default)]
pub(super) struct Base64 {
    /// Bytes of an incomplete quantum.
    held: Vec<u8>,
    /// Bytes in the present line.
    line: usize,
}

impl Base64 {
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while self.held.len() + bytes.len() >= 3 {
            let (now, rest) = bytes.split_at(3 - self.held.len());
            let mut quantum = [0; 3];
            quantum[..self.held.len()].copy_from_slice(&self.held);
            quantum[self.held.len()..].copy_from_slice(now);
            self.held.clear();
            bytes = rest;
            self.quantum(quantum, 4, out);
        }
        self.held.extend_from_slice(bytes);
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        let mut quantum = [0; 3];
        quantum[..self.held.len()].copy_from_slice(&self.held);
        match self.held.len() {
            0 => {}
            held => {
                self.quantum(quantum, held + 1, out);
                out.extend_from_slice(&b"=="[held - 1..]);
            }
        }
    }

    fn quantum(&mut self, [a, b, c]: [u8; 3], characters: usize, out: &mut Vec<u8>) {
        if self.line == LINE {
            out.extend_from_slice(b"\r\n");
            self.line = 0;
        }
        self.line += 3;
        let bits = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
        for i in 0..characters {
            out.push(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]);
        }
    }
}
