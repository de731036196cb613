//! The local backend: SQLite for small objects and the names of all, files for large ones.

use std::fmt;

/// An object whose bytes are not there although its row is: damage, not absence.
#[derive(Debug)]
pub(crate) struct Damaged(pub String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}
