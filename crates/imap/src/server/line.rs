//! [`Line`]: an answer to a continuation request, which may be a password.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// One line without its end. It may be a secret: wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Line(Zeroizing<Vec<u8>>);

impl Line {
    /// Takes a copy of the bytes.
    pub fn new(line: &[u8]) -> Self {
        Line(Zeroizing::new(line.to_vec()))
    }
}

impl Deref for Line {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line of {} bytes", self.0.len())
    }
}
