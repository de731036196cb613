//! Streaming quoted-printable (RFC 2045 §6.7): text and binary data, in lines of at most 76
//! characters.

/// Characters of an encoded line, its soft break included.
const LINE_CHARS: usize = 76;

/// Encodes bytes cut anywhere. CRLF stays a line end; a CR or LF alone is encoded.
#[derive(Debug, Default)]
pub(super) struct Quoted {
    /// Characters of the present line.
    column: usize,
    /// A space, a tab or a CR whose meaning depends on the next byte.
    held: Option<u8>,
}

impl Quoted {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            match (self.held.take(), byte) {
                (Some(b'\r'), b'\n') => {
                    self.column = 0;
                    out.extend_from_slice(b"\r\n");
                    continue;
                }
                // RFC 2045 §6.7 rule 3: white space before a line end is encoded; whether one comes
                // is not yet clear.
                (Some(held), b'\r') if held != b'\r' => self.code(held, out),
                (Some(b'\r'), _) => self.code(b'\r', out),
                (Some(held), _) => self.plain(held, out),
                (None, _) => {}
            }
            match byte {
                b' ' | b'\t' | b'\r' => self.held = Some(byte),
                b'!'..=b'~' if byte != b'=' => self.plain(byte, out),
                _ => self.code(byte, out),
            }
        }
    }

    /// Ends the part.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(held) = self.held.take() {
            self.code(held, out);
        }
        self.column = 0;
    }

    fn plain(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.reserve(1, out);
        out.push(byte);
    }

    fn code(&mut self, byte: u8, out: &mut Vec<u8>) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        self.reserve(3, out);
        out.extend_from_slice(&[b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }

    /// Breaks the line softly if `chars` more would leave no room for a break (RFC 2045 §6.7 rule
    /// 5).
    fn reserve(&mut self, chars: usize, out: &mut Vec<u8>) {
        if self.column + chars > LINE_CHARS - 1 {
            out.extend_from_slice(b"=\r\n");
            self.column = 0;
        }
        self.column += chars;
    }
}
