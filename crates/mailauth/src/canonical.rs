//! Canonicalization of headers and bodies, so that signatures survive some changes in transit (RFC
//! 6376 §3.4).
//!
//! Lines end with CRLF here. A bare CR or LF is a byte like others: changing one breaks the
//! signature.

/// Which changes in transit a signature survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Canonicalization {
    /// Only empty lines at the end (RFC 6376 §3.4.1, §3.4.3); the default without `c=`.
    #[default]
    Simple,
    /// Folding, runs of white space and white space at line ends too (RFC 6376 §3.4.2, §3.4.4).
    Relaxed,
}

impl Canonicalization {
    /// Its name in `c=`.
    pub fn name(self) -> &'static str {
        match self {
            Canonicalization::Simple => "simple",
            Canonicalization::Relaxed => "relaxed",
        }
    }

    /// The one that is called `name`; names are compared without case (RFC 6376 §3.5: ABNF literals).
    pub fn named(name: &str) -> Option<Self> {
        [Canonicalization::Simple, Canonicalization::Relaxed]
            .into_iter()
            .find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// Adds one header field, `field` with its name and its line ends, to `out`; without the last CRLF.
pub fn header_field(canonicalization: Canonicalization, field: &[u8], out: &mut Vec<u8>) {
    let field = field.strip_suffix(b"\r\n").or_else(|| field.strip_suffix(b"\n")).unwrap_or(field);
    if canonicalization == Canonicalization::Simple {
        out.extend_from_slice(field);
        return;
    }
    let colon = memchr::memchr(b':', field).unwrap_or(field.len());
    let (name, value) = field.split_at(colon);
    out.extend(name.trim_ascii_end().iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    // RFC 6376 §3.4.2: unfold, then make runs of white space one space, and drop it at both ends.
    let mut space = false;
    let begin = out.len();
    for &byte in value.get(1..).unwrap_or_default() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => space = true,
            _ => {
                if space && out.len() > begin {
                    out.push(b' ');
                }
                space = false;
                out.push(byte);
            }
        }
    }
}

/// Bytes of canonical body that are collected before they are handed on.
const BUFFER_BYTES: usize = 4096;

/// A body on its way to a hash: takes pieces of any size, hands the canonical bytes on.
///
/// Memory: a buffer of 4 KiB. Runs of empty lines are counted and not kept.
#[derive(Debug)]
pub struct BodyCanonicalizer {
    canonicalization: Canonicalization,
    /// Line ends that count only if something follows.
    line_ends: u64,
    /// A CR that may be the first half of a line end.
    cr: bool,
    /// Pending white space, which counts as one space only if the line continues; relaxed form
    /// only.
    space: bool,
    /// Whether anything was handed on.
    is_empty: bool,
    buffer: Vec<u8>,
}

impl BodyCanonicalizer {
    /// One for a body that has not begun.
    pub fn new(canonicalization: Canonicalization) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        BodyCanonicalizer { canonicalization, line_ends: 0, cr: false, space: false, is_empty: true, buffer }
    }

    /// Takes the next piece of the body; `sink` gets the canonical bytes known so far.
    pub fn push(&mut self, mut piece: &[u8], sink: &mut impl FnMut(&[u8])) {
        while let Some((&byte, rest)) = piece.split_first() {
            if self.cr {
                self.cr = false;
                if byte == b'\n' {
                    self.space = false;
                    self.line_ends += 1;
                    piece = rest;
                    continue;
                }
                self.content(b"\r", sink);
            }
            match byte {
                b'\r' => {
                    self.cr = true;
                    piece = rest;
                }
                b' ' | b'\t' if self.canonicalization == Canonicalization::Relaxed => {
                    self.space = true;
                    piece = rest;
                }
                _ => {
                    let end = self.run(piece);
                    self.content(&piece[..end], sink);
                    piece = &piece[end..];
                }
            }
        }
    }

    /// The length of the run that is passed unchanged; at least 1.
    fn run(&self, piece: &[u8]) -> usize {
        let end = match self.canonicalization {
            Canonicalization::Simple => memchr::memchr(b'\r', piece),
            Canonicalization::Relaxed => memchr::memchr3(b'\r', b' ', b'\t', piece),
        };
        end.unwrap_or(piece.len())
    }

    /// The body is over; `sink` gets the rest.
    pub fn finish(mut self, sink: &mut impl FnMut(&[u8])) {
        if self.cr {
            self.cr = false;
            self.content(b"\r", sink);
        }
        // RFC 6376 §3.4.3: a body ends with one CRLF, and an empty one is CRLF. §3.4.4: relaxed, an
        // empty one is empty.
        if self.canonicalization == Canonicalization::Simple || !self.is_empty {
            self.put(b"\r\n", sink);
        }
        sink(&self.buffer);
    }

    /// Content of a line, after the line ends and the white space that now count.
    fn content(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        for _ in 0..std::mem::take(&mut self.line_ends) {
            self.put(b"\r\n", sink);
        }
        if std::mem::take(&mut self.space) {
            self.put(b" ", sink);
        }
        self.put(bytes, sink);
        self.is_empty = false;
    }

    fn put(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            sink(&self.buffer);
            self.buffer.clear();
            if bytes.len() >= BUFFER_BYTES {
                sink(bytes);
                return;
            }
        }
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
