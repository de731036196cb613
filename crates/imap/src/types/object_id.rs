//! [`ObjectId`]: a server's identifier of a mailbox, a message or a thread (RFC 8474).

use std::fmt;

use super::string::Invalid;

/// `objectid = 1*255(ALPHA / DIGIT / "_" / "-")` (RFC 8474 §7): case matters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectId(Box<str>);

/// Characters of the longest one (RFC 8474 §7).
const MOST: usize = 255;

impl ObjectId {
    /// An object id; `Err` if the text is empty, too long or holds anything else.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > MOST || !text.bytes().all(is_object_id_char) {
            return Err(Invalid("not an object id"));
        }
        Ok(ObjectId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether an object id may hold it.
pub(crate) fn is_object_id_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        assert_eq!(ObjectId::new("F2212ea87-6097_x").unwrap().as_str(), "F2212ea87-6097_x");
        assert_ne!(ObjectId::new("a"), ObjectId::new("A"), "case matters");
        assert!(ObjectId::new(&"x".repeat(MOST)).is_ok());
        for bad in ["", "a b", "(a)", "é", "a.b", &"x".repeat(MOST + 1)] {
            assert!(ObjectId::new(bad).is_err(), "{bad}");
        }
    }
}
