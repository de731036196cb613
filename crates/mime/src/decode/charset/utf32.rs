//! UTF-32 in either byte order. Streaming; damage becomes U+FFFD.

/// Which byte comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
    /// Decided by a byte order mark, or by the first character, which has at least one zero byte at
    /// its upper end.
    Unknown,
}

/// Decodes one text that arrives in pieces.
#[derive(Debug)]
pub(super) struct Utf32 {
    order: Order,
    held: [u8; 4],
    len: usize,
    started: bool,
}

impl Utf32 {
    pub(super) fn new(order: Order) -> Self {
        Utf32 { order, held: [0; 4], len: 0, started: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        for &byte in bytes {
            self.held[self.len] = byte;
            self.len += 1;
            if self.len == 4 {
                self.len = 0;
                self.unit(out);
            }
        }
    }

    pub(super) fn finish(self, out: &mut String) {
        if self.len > 0 {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn unit(&mut self, out: &mut String) {
        if self.order == Order::Unknown {
            // Unicode §3.10, D101: big-endian by default.
            self.order = if self.held[0] != 0 && self.held[3] == 0 { Order::Little } else { Order::Big };
        }
        let code = match self.order {
            Order::Little => u32::from_le_bytes(self.held),
            Order::Big | Order::Unknown => u32::from_be_bytes(self.held),
        };
        if std::mem::replace(&mut self.started, true) || code != 0xfeff {
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
}
