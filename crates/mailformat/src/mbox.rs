//! mbox: many messages in one file, each after a line that begins `From `.
//!
//! Four kinds of file carry that name. They differ in how a line of a message that begins `From `
//! is kept apart from the separator:
//!
//! | variant | `From ` at a line's start is written as | where a message ends |
//! |---|---|---|
//! | mboxo | `>From ` (a `>From ` that was there stays: not reversible) | next `From ` line |
//! | mboxrd | one `>` more on every `>*From ` | next `From ` line |
//! | mboxcl | as mboxo | after `Content-Length` bytes of body |
//! | mboxcl2 | unchanged | after `Content-Length` bytes of body |
//!
//! A `Content-Length` counts only if it leads to a separator or the end of the file; each is
//! checked separately, and a message without a valid one is read up to the next separator. Files of
//! unknown variants are read as mboxrd; whether messages with lengths have quoted lines is detected
//! at the start of the file.
//!
//! Fields in which mail programs keep flags belong to the file, not to the message: they become
//! flags and are removed. A message's own fields of these names stay: `head` decides which are
//! which, `own_fields` quotes them.

mod body;
mod head;
mod line_end;
mod own_fields;
pub mod reader;
mod separator;
mod window;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::{MboxReader, Options};
pub use separator::FromLine;
pub use writer::{Envelope, MboxWriter};

/// Whether a file that begins with `text` is an mbox.
pub(crate) fn begins_mbox(text: &[u8]) -> bool {
    let blank = text.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    separator::separator(&text[blank..], separator::PreviousLine::Start).is_some()
}

/// How an mbox file keeps `From ` lines of messages apart from separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// `>From ` for `From `.
    O,
    /// One `>` more on `>*From `.
    Rd,
    /// `Content-Length`, and quoting as [`Variant::O`].
    Cl,
    /// `Content-Length`, no quoting.
    Cl2,
}

impl Variant {
    /// Whether messages carry their length.
    pub fn has_length(self) -> bool {
        matches!(self, Variant::Cl | Variant::Cl2)
    }
}

impl std::str::FromStr for Variant {
    type Err = sealpost_base::Error;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "mboxo" => Ok(Variant::O),
            "mboxrd" => Ok(Variant::Rd),
            "mboxcl" => Ok(Variant::Cl),
            "mboxcl2" => Ok(Variant::Cl2),
            _ => {
                Err(sealpost_base::Error::invalid(format!("{s:?} is none of mboxo, mboxrd, mboxcl, mboxcl2")))
            }
        }
    }
}
