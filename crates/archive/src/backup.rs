//! The backup of a mailbox that lives on somebody else's server: what a format on disk has to do,
//! and what the engine that fills it may count on.
//!
//! [`Backup`] is one account's copy, [`Folder`] one folder of it. Whoever implements them decides how things are on disk;
//! the engine (`pull`) knows nothing but these traits. Calls come from blocking threads, never from
//! async code, and for one folder from one thread at a time; several folders of a backup may be
//! open at once.
//!
//! **Transactions.** What was given to a folder since its last [`Folder::commit`] is there
//! completely or not at all, whatever ends the process, and durable when `commit` returns. A folder
//! that is dropped forgets what was not committed.

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
mod octets;
pub mod ownership;
mod ranges;
mod reading;
pub mod sealed;
pub(crate) mod sent;

pub use known::{KnownMessages, Run};

/// One account's copy, in one of the formats.
pub trait Backup: Send + Sync {
    /// The folders that were kept so far, in no particular order. Must not read what grows with the number of
    /// messages: a pull that finds nothing new opens nothing else.
    ///
    /// # Errors
    /// `Retry` if it cannot be read, `Corrupt` if it is damaged.
    fn folders(&self) -> Result<Vec<BackupFolder>>;

    /// What was put aside, under names that no folder has: [`Backup::look`] opens it by these.
    ///
    /// # Errors
    /// As [`Backup::folders`].
    fn superseded(&self) -> Result<Vec<BackupFolder>> {
        Ok(Vec::new())
    }

    /// Opens a folder to change it, and makes it if it is not there. A folder that the backup has
    /// under another name with the same MAILBOXID was renamed, and is renamed here. With another
    /// UIDVALIDITY than the server's, what was kept is put aside ([`Backup::put_aside`]) and the
    /// folder begins anew.
    ///
    /// # Errors
    /// `Conflict` if it is open already, by this process or another one; `Invalid` if the name
    /// cannot be kept; `Retry`, `Corrupt`.
    fn open(&self, folder: &FolderName, server: &Identity) -> Result<Box<dyn Folder>>;

    /// Opens a folder as it is, for restore, verify and export.
    ///
    /// # Errors
    /// `NotFound` if the backup does not have it; as [`Backup::open`].
    fn look(&self, folder: &FolderName) -> Result<Box<dyn Folder>>;

    /// Opens what was put aside, by the name that it has in [`Backup::put_aside`], to take messages
    /// out of it.
    ///
    /// # Errors
    /// As [`Backup::look`].
    fn open_superseded(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        self.look(folder)
    }

    /// Messages, and bytes on disk, of a folder that another program left here and no pull has
    /// taken over: [`Backup::folders`] knows none of them. `None` for other folders, or if what is
    /// there cannot be read. Changes nothing.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    fn untaken(&self, _folder: &FolderName) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Whose mail it is; `None`: nobody has said so yet.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    fn source(&self) -> Result<Option<Source>> {
        Ok(None)
    }

    /// Says whose mail it is.
    ///
    /// # Errors
    /// `Retry` if it cannot be written.
    fn set_source(&self, _source: &Source) -> Result<()> {
        Ok(())
    }

    /// Gives up bodies until those that are kept fit, if the backup was opened with a limit and its
    /// format can: of messages that the server has in folders that are in step. What was done;
    /// `None` if there is no limit.
    ///
    /// # Errors
    /// What the backup says. What was given up until then is.
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

    /// Repairs of folders that were opened, which no message has reported yet.
    fn unreported(&self) -> Vec<String> {
        Vec::new()
    }

    /// What of the backup cannot be read at all, and in which folder, if that is known:
    /// [`Backup::folders`] does not have it.
    fn unreadable(&self) -> Vec<String> {
        Vec::new()
    }

    /// Nothing more is done with the backup: what was made for the while goes. Without it, it goes later.
    fn end(&self) {}
}

/// A backup that is not there: without folders, and nothing can be kept in it.
pub struct EmptyBackup;

impl Backup for EmptyBackup {
    fn folders(&self) -> Result<Vec<BackupFolder>> {
        Ok(Vec::new())
    }

    fn open(&self, folder: &FolderName, _: &Identity) -> Result<Box<dyn Folder>> {
        self.look(folder)
    }

    fn look(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        Err(Error::not_found(format!("the backup does not exist, and so has no {folder}")))
    }
}

/// One folder of a backup, opened.
pub trait Folder: Send {
    /// What is in it, uncommitted changes included.
    fn known(&self) -> &KnownMessages;

    /// What the last commit said about the server; the default if there was none.
    fn resume(&self) -> Resume;

    /// Begins a message of `size` bytes as far as the server says. One message at a time.
    ///
    /// # Errors
    /// `Retry` if it cannot be written (a full disk), `Limit` if it is too large for this format.
    fn begin(&mut self, size: u64) -> Result<()>;

    /// The next bytes of the message, exactly as they came.
    ///
    /// # Errors
    /// As [`Folder::begin`]. The message is to be abandoned then.
    fn write(&mut self, octets: &[u8]) -> Result<()>;

    /// The message is complete. A UID that is known already replaces nothing, unless it is to
    /// ([`Folder::replace`]): the new bytes are dropped.
    ///
    /// # Errors
    /// As [`Folder::begin`].
    fn finish(&mut self, message: &Arrived) -> Result<()>;

    /// A message that is there whole: as [`Folder::begin`], [`Folder::write`] and [`Folder::finish`].
    ///
    /// # Errors
    /// As [`Folder::begin`]; what began is to be abandoned then.
    fn put(&mut self, message: &Arrived, octets: Vec<u8>) -> Result<()> {
        self.begin(octets.len() as u64)?;
        self.write(&octets)?;
        self.finish(message)
    }

    /// The message begun last did not arrive completely: it is as if it had never begun.
    ///
    /// # Errors
    /// `Retry` if what was written cannot be taken back; nothing but dropping the folder is possible then.
    fn abandon(&mut self) -> Result<()>;

    /// The flags of a message are these now. Of a message that is not known: nothing happens.
    ///
    /// # Errors
    /// `Retry`.
    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()>;

    /// What the backup will have instead of these flags: it has room for so many words of so many
    /// bytes. `None`: these.
    fn fitting(&mut self, _flags: &Flags) -> Option<Flags> {
        None
    }

    /// The server no longer has the message, and neither shall the backup.
    ///
    /// # Errors
    /// `Retry`.
    fn remove(&mut self, uid: u32) -> Result<()>;

    /// The server no longer has the message; the backup keeps it, and knows ([`KnownMessages::is_gone`]).
    ///
    /// # Errors
    /// `Retry`.
    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()>;

    /// Messages that are no good as they are. The next one of such a UID takes the place of what is
    /// there, in one transaction, with the flags that are known and its own date; until then, what
    /// is there stays.
    fn replace(&mut self, uids: &UidSet);

    /// Whether a message of this UID is taken: it is not there, or to be replaced.
    fn takes(&self, uid: u32) -> bool;

    /// These messages have other UIDs on the server from now on, by those that they had: they were
    /// put back there, and are on the server. What is not there, or would get the UID of one that
    /// is, stays as it is. Nothing else may be uncommitted; it is durable when it returns. How
    /// many.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`: some may have them then, and nothing but dropping the folder is possible.
    fn renumber(&mut self, uids: &BTreeMap<u32, u32>) -> Result<u64>;

    /// Messages that were taken over from a program that keeps no dates, and whose date nobody has
    /// told: as many as one run may tell of.
    fn undated(&self) -> UidSet {
        UidSet::new()
    }

    /// When the server received a message of [`Folder::undated`]. Kept once the folder is closed.
    fn date(&mut self, _uid: u32, _received: DateTime) {}

    /// What the server has of the folder is known by now: everything that it has no more was told
    /// ([`Folder::gone`]).
    fn in_step(&mut self) {}

    /// SHA-256 of a message whose body is not in the backup, and was to be fetched when it is read;
    /// `None` if it is here.
    ///
    /// # Errors
    /// `NotFound` if there is no such message; `Retry`, `Corrupt`.
    fn evicted(&self, _uid: u32) -> Result<Option<[u8; 32]>> {
        Ok(None)
    }

    /// Messages with evicted bodies and whose server copies were lost by what opening the folder
    /// found: another UIDVALIDITY.
    fn lost(&self) -> u64 {
        0
    }

    /// Messages that the backup had when it was opened, and of which nothing can be said any more:
    /// what is listed is not all. They are fetched again.
    fn unread(&self) -> u64 {
        0
    }

    /// The first bytes of a committed message, at most so many; of one with an evicted body, what
    /// is here of them.
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
    /// `Retry`: nothing of it is in the backup then, and nothing but dropping the folder is possible.
    fn commit(&mut self, resume: &Resume) -> Result<()>;

    /// The run is done with the folder: what other programs read of the backup is brought up to
    /// date. Without it, that is done when the folder is opened next; nothing that was committed
    /// depends on it.
    ///
    /// # Errors
    /// `Retry`.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    /// What was found damaged, or changed by another program, and repaired when the folder was
    /// opened: for the user.
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

/// What to tell when a folder was put aside: it is no folder of the backup any more, and restored
/// from only if that is asked for.
fn put_aside_notice(folder: &FolderName, before: u32, now: u32, place: &str) -> String {
    let became = if before == now { String::new() } else { format!(" (UIDVALIDITY {before} became {now})") };
    format!(
        "{folder}: the server has a new mailbox with this name{became}; the backup's old folder is superseded \
         and is now {place}; --include-superseded restores and exports it"
    )
}

/// What is called what of what was put aside: its folder with the UIDVALIDITY, and a number if that
/// is the name of something.
fn name_aside<T>(
    aside: impl Iterator<Item = (String, u32, T)>,
    is_taken: impl Fn(&str) -> bool,
) -> BTreeMap<String, T> {
    let mut named = BTreeMap::new();
    for (folder, uidvalidity, one) in aside {
        let plain = format!("{folder}-{uidvalidity}");
        let numbered = (1u32..).map(|n| format!("{plain}-{n}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !is_taken(name) && !named.contains_key(name));
        named.insert(name.unwrap_or(plain), one);
    }
    named
}

/// Those of these new UIDs that messages can have: of messages that are there, each for one, and no
/// other one's.
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

/// What is asked of [`Backup::evict_bodies`].
pub struct EvictBodies<'a> {
    /// Folders that are what they are at the server, as they were found unchanged there.
    pub in_step: &'a [FolderName],
    /// Say what would be done.
    pub dry_run: bool,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told how many bodies there are less, and bytes on disk.
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
    /// Messages that are there whole.
    pub kept: u64,
    /// Bytes on disk of bodies, also of messages that were deleted a short while ago.
    pub kept_octets: u64,
    /// Messages with evicted bodies.
    pub without: u64,
    /// Bytes on disk that these had.
    pub without_bytes: u64,
    /// Bytes that may stay, if that is limited.
    pub limit: Option<u64>,
    /// Bodies that were given up just now, or would be.
    pub now: u64,
    /// Their bytes on disk.
    pub now_octets: u64,
    /// What was to be given up and is damaged: it stays.
    pub damaged: Vec<String>,
}

/// A folder's name, in UTF-8, and what separates its levels; `None`: it has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    name: Box<str>,
    delimiter: Option<char>,
}

/// Whose mail is in a backup: an account of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
pub struct Source {
    /// The server's name, in lower case. Its port is left out: it changes with how one connects.
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
    /// Another one than before: UIDs say nothing about the messages of before (RFC 3501 §2.3.1.1).
    pub uidvalidity: u32,
    /// Stays with the mailbox when it is renamed (RFC 8474 §4.1), from servers that have it.
    pub mailboxid: Option<String>,
}

/// Whether a backup can keep a mailbox: by what it knows it from others.
///
/// # Errors
/// `Invalid` if it has no name, or no UIDVALIDITY (RFC 3501 §2.3.1.1).
fn can_be_kept(folder: &FolderName, server: &Identity) -> Result<()> {
    if folder.as_str().is_empty() {
        return Err(Error::invalid("the server lists a folder without a name; it cannot be backed up"));
    }
    if server.uidvalidity == 0 {
        let why = "the server sends no UIDVALIDITY for it, so its UIDs cannot be trusted";
        return Err(Error::invalid(format!("{folder} cannot be backed up: {why}")));
    }
    Ok(())
}

/// Whether what a backup has of a mailbox is of another one than the server's of that name now.
fn is_another(uidvalidity: u32, mailboxid: Option<&str>, server: &Identity) -> bool {
    let other = |(id, now): (&str, &String)| id != now;
    uidvalidity != server.uidvalidity || mailboxid.zip(server.mailboxid.as_ref()).is_some_and(other)
}

/// A folder that is in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFolder {
    /// Its name.
    pub name: FolderName,
    /// Which folder it was, if it was put aside.
    pub was: Option<FolderName>,
    /// Which mailbox of the server it is.
    pub identity: Identity,
    /// Messages in the backup that the server has too, as far as the backup knows.
    pub messages: u64,
    /// Messages in the backup that the server no longer has.
    pub gone: u64,
    /// What the last commit said about the server.
    pub resume: Resume,
    /// Its files are as the last commit left them, as far as that is seen without reading them.
    /// Otherwise it has to be opened, which finds out what is missing.
    pub as_left: bool,
    /// The run that made the last commit also closed the folder: what other programs read is up to
    /// date with it.
    pub closed: bool,
}

impl BackupFolder {
    /// The folder that it is, or was before it was put aside.
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

/// What is known of a message besides its bytes.
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
