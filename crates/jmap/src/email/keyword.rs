//! Keywords (RFC 8621 §4.1.1).

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::read::{FromJson, Mismatch};

/// A keyword of an email, in lowercase: `$seen`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Keyword(Box<str>);

impl Keyword {
    /// The keyword, if `text` is 1 to 255 printable characters of ASCII without `( ) { ] % * " \`.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"(){]%*\"\\".contains(&byte);
        let fits = (1..=255).contains(&text.len()) && text.bytes().all(allowed);
        fits.then(|| Keyword(text.to_ascii_lowercase().into()))
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromJson for Keyword {
    fn expected() -> String {
        "a keyword (1 to 255 printable ASCII characters without ( ) { ] % * \" \\)".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let keyword = value.as_str().and_then(Keyword::new);
        keyword.ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}
