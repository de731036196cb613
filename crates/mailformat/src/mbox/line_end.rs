//! The line end that a message does not end in, in an export that keeps all bytes.
//!
//! A separator begins a line, so a message that does not end in a line end gets one. What tells
//! that it is not the message's own is the empty line behind it: CRLF, while it is LF behind all
//! other messages of such an export. For a message that ends in CR, whose line end would become one
//! with it, there are two.

/// What stands behind a message whose last byte this is, no LF.
pub(super) fn missing(last: u8) -> &'static [u8] {
    match last {
        b'\r' => b"\n\n\r\n",
        _ => b"\n\r\n",
    }
}

/// Bytes at the end of a message that have to be seen together.
const HELD: usize = 3;

/// Takes it off again.
#[derive(Debug, Default)]
pub(super) struct LineEnd {
    held: Vec<u8>,
}

impl LineEnd {
    /// Takes the next bytes of a message; leaves in `bytes` what is known to be the message's.
    pub(super) fn push(&mut self, bytes: &mut Vec<u8>) {
        self.held.append(bytes);
        let known = self.held.len().saturating_sub(HELD);
        bytes.extend(self.held.drain(..known));
    }

    /// The last bytes of a message. `closed`: the empty line that follows it.
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
