//! The failure that is kept apart from others: the command line asks for something impossible, so
//! nothing was done, and a retry does not help.

use std::fmt;

/// The error in the command line, for the user.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
