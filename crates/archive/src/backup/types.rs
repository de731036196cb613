//! What a backup says of its account, its folders and their messages.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result};
use sealpost_imap::types::DateTime;
use serde::{Deserialize, Serialize};

use super::{Flags, FolderName};

/// The account whose mail is in a backup: server and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
pub struct Source {
    /// The server's name, in lower case. Its port is left out: it differs between ways to connect.
    #[n(0)]
    pub host: String,
    /// The account's name there.
    #[n(1)]
    pub user: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.user, self.host)
    }
}

/// How a server tells mailboxes apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// If it differs from before, UIDs do not refer to the earlier messages (RFC 3501 §2.3.1.1).
    pub uidvalidity: u32,
    /// Stays with the mailbox when it is renamed (RFC 8474 §4.1), from servers that have it.
    pub mailboxid: Option<String>,
}

/// Whether a backup can store a mailbox: it needs a name and a UIDVALIDITY.
///
/// # Errors
/// `Invalid` if it has no name, or no UIDVALIDITY (RFC 3501 §2.3.1.1).
pub(super) fn check_identity(folder: &FolderName, server: &Identity) -> Result<()> {
    if folder.as_str().is_empty() {
        return Err(Error::invalid("the server lists a folder without a name; it cannot be backed up"));
    }
    if server.uidvalidity == 0 {
        let why = "the server sends no UIDVALIDITY for it, so its UIDs cannot be trusted";
        return Err(Error::invalid(format!("{folder} cannot be backed up: {why}")));
    }
    Ok(())
}

/// Whether the backed-up mailbox is another one than the server's mailbox of that name now.
pub(super) fn is_another(uidvalidity: u32, mailboxid: Option<&str>, server: &Identity) -> bool {
    let other = |(id, now): (&str, &String)| id != now;
    uidvalidity != server.uidvalidity || mailboxid.zip(server.mailboxid.as_ref()).is_some_and(other)
}

/// A folder of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFolder {
    /// Its name.
    pub name: FolderName,
    /// The folder that it was before it was superseded.
    pub was: Option<FolderName>,
    /// Which mailbox of the server it is.
    pub identity: Identity,
    /// Messages in the backup that the server has too, as far as the backup knows.
    pub messages: u64,
    /// Messages in the backup that the server no longer has.
    pub gone: u64,
    /// What the last commit recorded about the server.
    pub resume: Resume,
    /// Its files are as the last commit left them, as far as can be seen without reading them.
    /// Otherwise it has to be opened to find out what is missing.
    pub as_left: bool,
    /// The run that made the last commit also closed the folder: files for other programs are up to
    /// date with it.
    pub closed: bool,
}

impl BackupFolder {
    /// The folder that it is, or was before it was superseded.
    pub fn place(&self) -> &FolderName {
        self.was.as_ref().unwrap_or(&self.name)
    }
}

/// Up to where a folder is in step with the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resume {
    /// All changes up to here are in the backup (RFC 7162 §3.1.2.1); 0: not known.
    pub highestmodseq: u64,
    /// The server's UIDNEXT; 0: not known.
    pub uidnext: u32,
    /// Every message below `uidnext` is in the backup. Otherwise the UIDs have to be compared.
    pub whole: bool,
}

/// The data of a message besides its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Its UID.
    pub uid: u32,
    /// Its flags.
    pub flags: Flags,
    /// When the server received it.
    pub internaldate: Option<DateTime>,
}

/// A message of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The UID it has on the server.
    pub uid: u32,
    /// Its flags.
    pub flags: Flags,
    /// When the server received it.
    pub internaldate: Option<DateTime>,
    /// Bytes that [`Folder::read`](super::Folder::read) gives.
    pub size: u64,
    /// The server no longer has it.
    pub gone: bool,
}
