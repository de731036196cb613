//! Mail archives outside the store: mbox, Maildir and single messages, read and written as streams.
//!
//! Every reader is a [`Source`]: it goes from message to message and hands out each one in pieces, so that a
//! file of any size, with lines of any length, is read in constant memory (Maildir: plus the names of one
//! folder's files). Nothing here knows the store; `cli` joins the two.
//!
//! **Line ends.** Mail travels with CRLF, archives on disk usually keep LF. A message whose first line ends in
//! CRLF is taken exactly as it is; otherwise every bare LF becomes CRLF ([`lines`]). Writers turn CRLF back into
//! LF unless told to keep the bytes exactly.
//!
//! **Other files.** What a file is depends on what is in it, not on its name: `recognize` tells mail from other files,
//! `packed` unpacks what is compressed, within limits.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use sealpost_base::{Result, Timestamp};

pub mod client;
pub mod date;
pub mod discover;
pub mod eml;
pub mod flags;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod input;
pub mod keep;
pub mod lines;
pub mod maildir;
pub mod mbox;
mod packed;
pub mod pull;
pub mod push;
mod recognize;
pub mod refetch;
pub mod restored;
mod same;
mod spool;
pub mod takeout;
pub mod verify;

/// What an archive says about a message besides its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// When it was received, if the archive knows.
    pub received: Option<Timestamp>,
    /// When its file was last changed: a last resort for the date.
    pub modified: Option<Timestamp>,
    /// IMAP system flags and keywords, sorted, each once; `None` if the archive says nothing of flags.
    pub flags: Option<Vec<String>>,
    /// Labels of Gmail, if it is a file of Google Takeout.
    pub labels: Option<takeout::Labels>,
    /// The envelope sender, if the archive kept it.
    pub sender: Option<String>,
    /// Where it stands: a file, with the byte offset for an mbox. For messages to the user.
    pub place: String,
    /// A pseudo-message in which another mail program keeps notes of its own; not mail.
    pub internal: bool,
}

/// Messages one after the other, each in pieces.
pub trait Source {
    /// Goes to the next message (skipping what is left of this one); `None` after the last.
    ///
    /// # Errors
    /// `Retry` if a file cannot be read, `Invalid` if it is not what it should be. After an error about one
    /// message the next call goes on behind it where the format allows that.
    fn next_message(&mut self) -> Result<Option<Meta>>;

    /// The next piece of the message, never empty and at most about 128 KiB; `None` at its end.
    ///
    /// # Errors
    /// `Retry` if the file cannot be read.
    fn next_chunk(&mut self) -> Result<Option<&[u8]>>;

    /// Bytes of the archive read so far, for a progress bar.
    fn bytes_done(&self) -> u64;
}
