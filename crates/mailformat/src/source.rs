//! A stream of messages from a file.

use sealpost_base::{Result, Timestamp};

use crate::takeout;

/// The archive's data about a message besides its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// When it was received, if the archive knows.
    pub received: Option<Timestamp>,
    /// When its file was last changed: a last resort for the date.
    pub modified: Option<Timestamp>,
    /// IMAP system flags and keywords, sorted, each once; `None` if the archive has no flags.
    pub flags: Option<Vec<String>>,
    /// Labels of Gmail, if it is a file of Google Takeout.
    pub labels: Option<takeout::Labels>,
    /// The envelope sender, if the archive kept it.
    pub sender: Option<String>,
    /// Its place: a file, with the byte offset for an mbox. For messages to the user.
    pub place: String,
    /// A pseudo-message in which another mail program keeps its own notes; not mail.
    pub internal: bool,
}

/// Messages one after the other, each in pieces.
pub trait Source {
    /// Goes to the next message (skipping the rest of this one); `None` after the last.
    ///
    /// # Errors
    /// `Retry` if a file cannot be read, `Invalid` if its contents are wrong. After an error about
    /// one message the next call continues after it where the format allows that.
    fn next_message(&mut self) -> Result<Option<Meta>>;

    /// The next piece of the message, never empty and at most about 128 KiB; `None` at its end.
    ///
    /// # Errors
    /// `Retry` if the file cannot be read.
    fn next_chunk(&mut self) -> Result<Option<&[u8]>>;

    /// Bytes of the archive read so far, for a progress bar.
    fn bytes_done(&self) -> u64;
}
