//! The backup of a mailbox of another server: what a format on disk has to implement, and what the
//! engine that fills it may rely on.
//!
//! [`Backup`] is one account's copy, [`Folder`] one folder of it. Implementations decide how things
//! are on disk; the engine (`pull`) knows nothing but these traits. Calls come from blocking
//! threads, never from async code, and for one folder from one thread at a time; several folders of
//! a backup may be open at once.
//!
//! **Transactions.** What a folder received since its last [`Folder::commit`] is stored completely
//! or not at all, however the process ends, and is durable when `commit` returns. A folder that is
//! dropped forgets what was not committed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::types::DateTime;

pub mod bodies;
pub(crate) mod claim;
mod contents;
pub mod convert;
pub(crate) mod damaged;
pub(crate) mod digest;
mod direct_writer;
mod evict;
mod file_backup;
mod flags;
mod folder;
mod folder_name;
#[cfg(test)]
pub(crate) mod format_tests;
#[doc(hidden)]
pub mod fuzzing;
pub mod imap_backup;
mod journal;
mod known;
mod line_ends;
pub mod maildir;
pub mod ownership;
mod ranges;
mod reading;
pub mod sealed;
pub(crate) mod sent;
mod stored_message;
mod superseded;
mod types;

pub use evict::{BodyCounts, EvictBodies};
pub use flags::Flags;
pub use folder_name::FolderName;
pub use known::{KnownMessages, Run};
use superseded::{name_superseded, superseded_notice};
pub use types::{Arrived, BackupFolder, Identity, Resume, Source, Stored};
use types::{check_identity, is_another};

/// One account's copy, in one of the formats.
pub trait Backup: Send + Sync {
    /// The folders of the backup, in no particular order. Must not read data that grows with the
    /// number of messages: a pull that finds nothing new opens nothing else.
    ///
    /// # Errors
    /// `Retry` if it cannot be read, `Corrupt` if it is damaged.
    fn folders(&self) -> Result<Vec<BackupFolder>>;

    /// Superseded folders, under names that no other folder has: [`Backup::open_to_read`] opens them by
    /// these.
    ///
    /// # Errors
    /// As [`Backup::folders`].
    fn superseded(&self) -> Result<Vec<BackupFolder>> {
        Ok(Vec::new())
    }

    /// Opens a folder to change it, and creates it if it does not exist. A folder that the backup
    /// has under another name with the same MAILBOXID was renamed, and is renamed here. If its
    /// UIDVALIDITY differs from the server's, the folder becomes superseded
    /// ([`Backup::superseded`]) and a new one begins.
    ///
    /// # Errors
    /// `Conflict` if it is open already, by this process or another one; `Invalid` if the name
    /// cannot be kept; `Retry`, `Corrupt`.
    fn open(&self, folder: &FolderName, server: &Identity) -> Result<Box<dyn Folder>>;

    /// Opens a folder as it is, for restore, verify and export.
    ///
    /// # Errors
    /// `NotFound` if the backup does not have it; as [`Backup::open`].
    fn open_to_read(&self, folder: &FolderName) -> Result<Box<dyn Folder>>;

    /// Opens a superseded folder by its name in [`Backup::superseded`], to take messages out of it.
    ///
    /// # Errors
    /// As [`Backup::open_to_read`].
    fn open_superseded(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        self.open_to_read(folder)
    }

    /// Messages, and bytes on disk, of a folder that another program left here and no pull has
    /// taken over: [`Backup::folders`] lists none of them. `None` for other folders, or if its
    /// files cannot be read. Changes nothing.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    fn foreign_size(&self, _folder: &FolderName) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// The account whose mail it holds; `None`: not recorded yet.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    fn source(&self) -> Result<Option<Source>> {
        Ok(None)
    }

    /// Records the account whose mail it holds.
    ///
    /// # Errors
    /// `Retry` if it cannot be written.
    fn set_source(&self, _source: &Source) -> Result<()> {
        Ok(())
    }

    /// Evicts bodies until the rest fit, if the backup was opened with a limit and its format
    /// supports it: of messages that the server has in folders that are in step. Returns what was
    /// done; `None` if there is no limit.
    ///
    /// # Errors
    /// What the backup reports. Bodies evicted until then stay evicted.
    fn evict_bodies(&self, _request: &EvictBodies<'_>) -> Result<Option<BodyCounts>> {
        Ok(None)
    }

    /// How many bodies are kept and how many are not; `None` if the format keeps all.
    ///
    /// # Errors
    /// What the backup says.
    fn bodies(&self) -> Result<Option<BodyCounts>> {
        Ok(None)
    }

    /// Repairs made when folders were opened that were not reported yet.
    fn unreported(&self) -> Vec<String> {
        Vec::new()
    }

    /// What of the backup cannot be read at all, and in which folder, if that is known:
    /// [`Backup::folders`] does not list it.
    fn unreadable(&self) -> Vec<String> {
        Vec::new()
    }

    /// The backup is not used any more: temporary files are removed. Without this call they are
    /// removed later.
    fn end(&self) {}
}

/// A backup that does not exist: it has no folders and stores nothing.
pub struct EmptyBackup;

impl Backup for EmptyBackup {
    fn folders(&self) -> Result<Vec<BackupFolder>> {
        Ok(Vec::new())
    }

    fn open(&self, folder: &FolderName, _: &Identity) -> Result<Box<dyn Folder>> {
        self.open_to_read(folder)
    }

    fn open_to_read(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        Err(Error::not_found(format!("the backup does not exist, and so has no {folder}")))
    }
}

/// One folder of a backup, opened.
pub trait Folder: Send {
    /// The messages in it, uncommitted changes included.
    fn known(&self) -> &KnownMessages;

    /// What the last commit recorded about the server; the default if there was none.
    fn resume(&self) -> Resume;

    /// Begins a message of `size` bytes as reported by the server. One message at a time.
    ///
    /// # Errors
    /// `Retry` if it cannot be written (a full disk), `Limit` if it is too large for this format.
    fn begin(&mut self, size: u64) -> Result<()>;

    /// The next bytes of the message, exactly as received.
    ///
    /// # Errors
    /// As [`Folder::begin`]. The message is to be abandoned then.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// The message is complete. If its UID is known already, the new bytes are dropped, unless
    /// [`Folder::replace`] named the UID.
    ///
    /// # Errors
    /// As [`Folder::begin`].
    fn finish(&mut self, message: &Arrived) -> Result<()>;

    /// A complete message: as [`Folder::begin`], [`Folder::write`] and [`Folder::finish`].
    ///
    /// # Errors
    /// As [`Folder::begin`]; what began is to be abandoned then.
    fn put(&mut self, message: &Arrived, bytes: Vec<u8>) -> Result<()> {
        self.begin(bytes.len() as u64)?;
        self.write(&bytes)?;
        self.finish(message)
    }

    /// The message begun last did not arrive completely: it is as if it had never begun.
    ///
    /// # Errors
    /// `Retry` if what was written cannot be taken back; nothing but dropping the folder is possible then.
    fn abandon(&mut self) -> Result<()>;

    /// Sets the flags of a message. If the message is not known, nothing happens.
    ///
    /// # Errors
    /// `Retry`.
    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()>;

    /// The flags that the backup can store instead of these, as the number and the size of keywords
    /// are limited. `None`: it can store these.
    fn fitting(&mut self, _flags: &Flags) -> Option<Flags> {
        None
    }

    /// The server no longer has the message, and it is removed here too.
    ///
    /// # Errors
    /// `Retry`.
    fn remove(&mut self, uid: u32) -> Result<()>;

    /// The server no longer has the message; the backup keeps it and marks it
    /// ([`KnownMessages::is_deleted_upstream`]).
    ///
    /// # Errors
    /// `Retry`.
    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()>;

    /// Messages that have to be replaced. The next message with such a UID replaces the stored one
    /// in one transaction, with the known flags and its own date; until then the stored one stays.
    fn replace(&mut self, uids: &UidSet);

    /// Whether a message with this UID is accepted: none is stored, or it is to be replaced.
    fn takes(&self, uid: u32) -> bool;

    /// Gives these messages other UIDs, by their present ones: they were put back on the server and
    /// got new UIDs there. Messages that are missing, or whose new UID is taken, keep theirs.
    /// Nothing else may be uncommitted; the change is durable on return. Returns how many.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`: some may have new UIDs then, and the folder can only be dropped.
    fn renumber(&mut self, uids: &BTreeMap<u32, u32>) -> Result<u64>;

    /// Messages that were taken over from a program that keeps no dates, and whose date is still
    /// unknown: as many as one run may set.
    fn undated(&self) -> UidSet {
        UidSet::new()
    }

    /// When the server received a message of [`Folder::undated`]. Kept once the folder is closed.
    fn date(&mut self, _uid: u32, _received: DateTime) {}

    /// The known messages of the folder are in step with the server: every message that the server
    /// no longer has was reported ([`Folder::mark_deleted_upstream`]).
    fn in_step(&mut self) {}

    /// SHA-256 of a message with an evicted body, which is fetched when it is read; `None` if the
    /// body is here.
    ///
    /// # Errors
    /// `NotFound` if there is no such message; `Retry`, `Corrupt`.
    fn evicted(&self, _uid: u32) -> Result<Option<[u8; 32]>> {
        Ok(None)
    }

    /// Messages with evicted bodies whose server copies are lost, as opening the folder found:
    /// another UIDVALIDITY.
    fn lost(&self) -> u64 {
        0
    }

    /// Messages that the backup had when it was opened and that can no longer be listed. They are
    /// fetched again.
    fn unread(&self) -> u64 {
        0
    }

    /// The first bytes of a committed message, at most `most`; of one with an evicted body, those
    /// of them that are here.
    ///
    /// # Errors
    /// As [`Folder::read`].
    fn head(&self, uid: u32, most: usize) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        let read = self.read(uid)?.take(most as u64).read_to_end(&mut head);
        read.map_err(|e| Error::retry("it cannot be read").with_source(e))?;
        Ok(head)
    }

    /// Makes everything since the last commit durable, together with `resume`.
    ///
    /// # Errors
    /// `Retry`: nothing of it is in the backup then, and the folder can only be dropped.
    fn commit(&mut self, resume: &Resume) -> Result<()>;

    /// The run is done with the folder: files of the backup that other programs read are brought up
    /// to date. Without this call that happens when the folder is opened next; nothing that was
    /// committed depends on it.
    ///
    /// # Errors
    /// `Retry`.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    /// Damage, or changes by another program, that were repaired when the folder was opened: for
    /// the user.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The committed messages, in the order of the backup, those that are gone from the server included.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`; an error of an item is about that message, and the next one follows.
    fn messages(&self) -> Result<Box<dyn Iterator<Item = Result<Stored>> + '_>>;

    /// The exact bytes of a committed message.
    ///
    /// # Errors
    /// `NotFound` if there is no such message; `Retry`, `Corrupt`, also while reading.
    fn read(&self, uid: u32) -> Result<Box<dyn Read + '_>>;
}

/// Those of these new UIDs that can be given: the message exists, each UID is for one message, and
/// no other message has it.
pub(crate) fn possible(known: &KnownMessages, uids: &BTreeMap<u32, u32>) -> BTreeMap<u32, u32> {
    let mut taken = BTreeSet::new();
    let can = |(from, to): &(u32, u32)| known.contains(*from) && *to > 0 && !known.contains(*to);
    let possible = uids.iter().map(|(from, to)| (*from, *to)).filter(can);
    possible.filter(|(_, to)| taken.insert(*to)).collect()
}

/// Whether a message is one of those that are to be replaced.
fn is_among(uids: &UidSet, uid: u32) -> bool {
    Uid::new(uid).is_some_and(|uid| uids.contains(uid))
}
