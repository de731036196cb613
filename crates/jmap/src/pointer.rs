//! JSON pointers (RFC 6901), without the leading `/`, which JMAP's patches omit (RFC 8620 §5.3).

use std::fmt;

use sealpost_base::limits::{JMAP_POINTER_BYTES, JMAP_POINTER_PARTS};

/// The parts of a pointer, unescaped; at least one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Vec<Box<str>>);

/// Why a string is no pointer that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerError {
    /// `~` without `0` or `1` after it (RFC 6901 §3).
    Escape,
    /// Longer than [`JMAP_POINTER_BYTES`], or of more than [`JMAP_POINTER_PARTS`] parts.
    TooLong,
}

impl fmt::Display for PointerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointerError::Escape => f.write_str("~ must be followed by 0 or 1"),
            PointerError::TooLong => {
                write!(f, "longer than {JMAP_POINTER_BYTES} bytes or {JMAP_POINTER_PARTS} parts")
            }
        }
    }
}

impl Pointer {
    /// Reads `a/b`, which RFC 6901 writes `/a/b`.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.len() > JMAP_POINTER_BYTES || text.split('/').count() > JMAP_POINTER_PARTS {
            return Err(PointerError::TooLong);
        }
        text.split('/').map(unescaped).collect::<Result<_, _>>().map(Pointer)
    }

    /// The parts; names of members, also when they are digits.
    pub fn parts(&self) -> &[Box<str>] {
        &self.0
    }

    /// The first part: the property of the object.
    pub fn property(&self) -> &str {
        self.0.first().map_or("", |part| part)
    }

    /// What follows the first part, if anything does.
    pub fn below(&self) -> Option<Pointer> {
        (self.0.len() > 1).then(|| Pointer(self.0[1..].to_vec()))
    }

    /// Whether all parts of this one begin the other.
    pub fn is_prefix_of(&self, other: &Pointer) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{}", part.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

fn unescaped(part: &str) -> Result<Box<str>, PointerError> {
    let mut pieces = part.split('~');
    let mut text = String::from(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (character, rest) = match piece.as_bytes().first() {
            Some(b'0') => ('~', &piece[1..]),
            Some(b'1') => ('/', &piece[1..]),
            _ => return Err(PointerError::Escape),
        };
        text.push(character);
        text.push_str(rest);
    }
    Ok(text.into())
}
