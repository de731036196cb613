//! The missing line end of a message, in an export that keeps all bytes.
//!
//! A separator begins a line, so a message without a final line end gets one. The empty line after
//! it shows that it was added: CRLF, while it is LF after all other messages of such an export. A
//! message that ends in CR, which would merge with the line end, gets two.

/// The bytes after a message with this last byte, which is no LF.
pub(super) fn missing(last: u8) -> &'static [u8] {
    match last {
        b'\r' => b"\n\n\r\n",
        _ => b"\n\r\n",
    }
}

/// Bytes at the end of a message that have to be examined together.
const HELD: usize = 3;

/// Removes it again.
#[derive(Debug, Default)]
pub(super) struct LineEnd {
    held: Vec<u8>,
}

impl LineEnd {
    /// Takes the next bytes of a message; leaves in `bytes` those that certainly belong to it.
    pub(super) fn push(&mut self, bytes: &mut Vec<u8>) {
        self.held.append(bytes);
        let known = self.held.len().saturating_sub(HELD);
        bytes.extend(self.held.drain(..known));
    }

    /// The last bytes of a message. `closed`: the empty line after it.
    pub(super) fn finish(self, closed: Option<&[u8]>) -> Vec<u8> {
        let mut held = self.held;
        let is_bare = held.ends_with(b"\n") && !held.ends_with(b"\r\n");
        if closed == Some(b"\r\n") && is_bare {
            held.pop();
            if held.ends_with(b"\r\n") {
                held.pop();
            }
        }
        held
    }
}
