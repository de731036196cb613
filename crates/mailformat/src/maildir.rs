//! Maildir: a message per file, its flags in the file's name, folders as directories.
//!
//! Both ways to keep subfolders are read: Maildir++ (`.Parent.Child` beside `cur`) and nested directories.
//! Names are written as Maildir++, in modified UTF-7 as other servers keep them.
//!
//! The date received is the file's modification time or the time its name begins with, whichever is
//! earlier: a server that keeps the date sets the first (and an appended old message has a newer
//! name), while copying the folder without care for dates makes the first newer than the second.

pub mod folder;
pub mod name;
pub mod reader;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::MaildirReader;
pub use writer::{MaildirWriter, Placed};

/// Dovecot's file that gives names to the keyword letters `a` to `z` of a folder's file names.
pub(crate) const KEYWORDS_FILE: &str = "dovecot-keywords";
