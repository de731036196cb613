//! [`Flag`]: system flags and keywords (RFC 3501 §2.3.2).

use std::fmt;

use sealpost_base::limits;

use super::string::{Atom, Invalid};

/// A message flag. Keywords and extensions compare without regard to ASCII case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    /// `\Seen`
    Seen,
    /// `\Answered`
    Answered,
    /// `\Flagged`
    Flagged,
    /// `\Deleted`
    Deleted,
    /// `\Draft`
    Draft,
    /// `\Recent`: set by the server alone; a client that names it in STORE or APPEND is to be
    /// ignored or refused.
    Recent,
    /// A keyword: an atom of at most [`limits::KEYWORD_BYTES`] bytes, such as `$Forwarded`.
    Keyword(Atom),
    /// `\` and an atom, for flags not defined yet (`flag-extension`): the atom without the backslash.
    Extension(Atom),
}

/// One member of PERMANENTFLAGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermanentFlag {
    /// A flag that can be changed permanently.
    Flag(Flag),
    /// `\*`: new keywords can be made.
    Any,
}

/// Says the limit ([`limits::KEYWORD_BYTES`]).
const TOO_LONG: &str = "a flag or keyword has at most 128 bytes";
const _: () = assert!(limits::KEYWORD_BYTES == 128, "the text says it");

impl Flag {
    /// A flag from its text: `\Seen`, `$Forwarded`. `Err` for anything that the grammar excludes.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let Some(name) = text.strip_prefix('\\') else {
            if text.len() > limits::KEYWORD_BYTES {
                return Err(Invalid(TOO_LONG));
            }
            return Atom::new(text).map(Flag::Keyword).map_err(|_| Invalid("not a flag"));
        };
        for flag in [Flag::Seen, Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Draft, Flag::Recent] {
            if flag.name().eq_ignore_ascii_case(name) {
                return Ok(flag);
            }
        }
        if name.len() > limits::KEYWORD_BYTES {
            return Err(Invalid(TOO_LONG));
        }
        Atom::new(name).map(Flag::Extension).map_err(|_| Invalid("not a flag"))
    }

    /// Whether the flag begins with a backslash.
    pub fn is_system(&self) -> bool {
        !matches!(self, Flag::Keyword(_))
    }

    /// The name without the backslash.
    pub fn name(&self) -> &str {
        match self {
            Flag::Seen => "Seen",
            Flag::Answered => "Answered",
            Flag::Flagged => "Flagged",
            Flag::Deleted => "Deleted",
            Flag::Draft => "Draft",
            Flag::Recent => "Recent",
            Flag::Keyword(atom) | Flag::Extension(atom) => atom.as_str(),
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_system() { "\\" } else { "" }, self.name())
    }
}
