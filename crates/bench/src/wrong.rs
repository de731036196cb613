//! What was asked for is wrong: the one kind of failure that is told from others, for nothing was done and trying again does not help.

use std::fmt;

/// What is wrong with it, for whoever asked.
#[derive(Debug)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}
