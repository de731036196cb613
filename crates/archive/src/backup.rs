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
use std::fmt;
use std::io::Read;

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::types::DateTime;
use serde::{Deserialize, Serialize};

pub mod bodies;
pub(crate) mod claim;
mod contents;
pub mod convert;
pub(crate) mod damaged;
pub(crate) mod digest;
mod direct_writer;
mod file_backup;
mod folder;
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

pub use known::{KnownMessages, Run};

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

/// The notice that a folder is superseded: it no longer belongs to the backup, and is restored from
/// only on request.
fn superseded_notice(folder: &FolderName, before: u32, now: u32, place: &str) -> String {
    let became = if before == now { String::new() } else { format!(" (UIDVALIDITY {before} became {now})") };
    format!(
        "{folder}: the server has a new mailbox with this name{became}; the backup's old folder is superseded \
         and is now {place}; --include-superseded restores and exports it"
    )
}

/// The names of superseded folders: each is its folder's name with the UIDVALIDITY, and a number if
/// that name is taken.
fn name_superseded<T>(
    superseded: impl Iterator<Item = (String, u32, T)>,
    is_taken: impl Fn(&str) -> bool,
) -> BTreeMap<String, T> {
    let mut named = BTreeMap::new();
    for (folder, uidvalidity, one) in superseded {
        let plain = format!("{folder}-{uidvalidity}");
        let numbered = (1u32..).map(|n| format!("{plain}-{n}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !is_taken(name) && !named.contains_key(name));
        named.insert(name.unwrap_or(plain), one);
    }
    named
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

/// The request to [`Backup::evict_bodies`].
pub struct EvictBodies<'a> {
    /// Folders that are in step with the server, which were found unchanged there.
    pub in_step: &'a [FolderName],
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Called with how many bodies were evicted, and their bytes on disk.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Default for EvictBodies<'_> {
    fn default() -> Self {
        EvictBodies { in_step: &[], dry_run: false, stop: &|| false, progress: &|_, _| {} }
    }
}

/// Bodies of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyCounts {
    /// Messages with their bodies.
    pub kept: u64,
    /// Bytes on disk of bodies, also of recently deleted messages.
    pub kept_bytes: u64,
    /// Messages with evicted bodies.
    pub without: u64,
    /// Bytes on disk that these bodies took.
    pub without_bytes: u64,
    /// The limit in bytes, if there is one.
    pub limit: Option<u64>,
    /// Bodies that were just evicted, or would be.
    pub now: u64,
    /// Their bytes on disk.
    pub now_bytes: u64,
    /// Messages that were to be evicted and are damaged: they stay.
    pub damaged: Vec<String>,
}

/// A folder's name, in UTF-8, and its hierarchy delimiter; `None`: it has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    name: Box<str>,
    delimiter: Option<char>,
}

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
fn check_identity(folder: &FolderName, server: &Identity) -> Result<()> {
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
fn is_another(uidvalidity: u32, mailboxid: Option<&str>, server: &Identity) -> bool {
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
    /// Bytes that [`Folder::read`] gives.
    pub size: u64,
    /// The server no longer has it.
    pub gone: bool,
}

/// A message's flags: system flags as bits, keywords, and Gmail's labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Bits of [`Flags::SEEN`] and the others. `\Recent` is never among them: it is not a property
    /// of the message.
    pub system: u8,
    /// Keywords and flags of extensions (these with their backslash), sorted, each once.
    pub keywords: Vec<Box<str>>,
    /// Gmail's labels (X-GM-LABELS), in UTF-8, sorted, each once; `\Inbox` and the like with their backslash.
    pub labels: Vec<Box<str>>,
}

impl FolderName {
    /// A name from its UTF-8 form.
    pub fn new(name: impl Into<Box<str>>, delimiter: Option<char>) -> Self {
        FolderName { name: name.into(), delimiter }
    }

    /// The name, as the server writes it, decoded.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// What separates its levels on the server.
    pub fn delimiter(&self) -> Option<char> {
        self.delimiter
    }

    /// Its levels, from the top.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        // NUL cannot be part of a name that came over IMAP.
        self.name.split(self.delimiter.unwrap_or('\0'))
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Flags {
    /// `\Seen`
    pub const SEEN: u8 = 1;
    /// `\Answered`
    pub const ANSWERED: u8 = 2;
    /// `\Flagged`
    pub const FLAGGED: u8 = 4;
    /// `\Deleted`
    pub const DELETED: u8 = 8;
    /// `\Draft`
    pub const DRAFT: u8 = 16;

    /// The system flags with their bits.
    pub const SYSTEM: [(u8, &'static str); 5] = [
        (Self::SEEN, "\\Seen"),
        (Self::ANSWERED, "\\Answered"),
        (Self::FLAGGED, "\\Flagged"),
        (Self::DELETED, "\\Deleted"),
        (Self::DRAFT, "\\Draft"),
    ];

    /// System flags alone.
    pub fn of_system(system: u8) -> Self {
        Flags { system, ..Flags::default() }
    }

    /// Flags from their names, in any order; `\Recent` is left out.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Flags::default();
        for name in names {
            flags.add(name);
        }
        flags
    }

    /// Adds the flag called `name`, unless it is there (flags compare without case, RFC 3501
    /// §2.3.2) or `\Recent`.
    pub fn add(&mut self, name: &str) {
        if let Some((bit, _)) = Self::SYSTEM.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)) {
            self.system |= bit;
        } else if !name.eq_ignore_ascii_case("\\Recent")
            && !self.keywords.iter().any(|have| have.eq_ignore_ascii_case(name))
        {
            let at = self.keywords.partition_point(|have| **have < *name);
            self.keywords.insert(at, name.into());
        }
    }

    /// The names of all flags, labels not included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let system = Self::SYSTEM.iter().filter(|(bit, _)| self.system & bit != 0).map(|(_, name)| *name);
        system.chain(self.keywords.iter().map(|keyword| &**keyword))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_sets() {
        let flags = Flags::from_names(["\\seen", "b", "\\Recent", "a", "B", "\\Draft"]);
        assert_eq!(flags.names().collect::<Vec<_>>(), ["\\Seen", "\\Draft", "a", "b"]);
    }

    #[test]
    fn names_have_levels() {
        let levels = |name: &str, delimiter| {
            FolderName::new(name, delimiter).levels().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(levels("a/b.c", Some('/')), ["a", "b.c"]);
        assert_eq!(levels("a/b.c", Some('.')), ["a/b", "c"]);
        assert_eq!(levels("a/b.c", None), ["a/b.c"]);
    }
}
