//! The one kind of failure that is kept apart from others: the command line asks for what cannot
//! be, so nothing was done, and trying again does not help.

use std::fmt;

/// What is wrong with the command line, for the user.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
