//! [`Watermarks`]: the latest state of a store that this node has read, to detect a store that goes
//! back.
//!
//! An attacker with write access to a bucket can remove the newest objects of a log, or the newest
//! version of a record, and the rest is authentic: an earlier state of the account, with withdrawn
//! passwords and UIDs that would be assigned a second time. Nothing in the bucket shows it. So a
//! node keeps, outside of it, the last position of each log and the last version of each account's
//! and alias's record that it has read, and refuses contradictions:
//!
//! - a record that is older than one that was read, or that is missing ([`Watermarks::record`]);
//! - a usage record that is older: the usage is counted again;
//! - an account whose list of slots is older than one that was read;
//! - the last use of an OAuth grant, the keys of a shared mailbox, or an account's push subscriptions, if
//!   older than what was read. These records end by being deleted, so a missing one is another matter: only
//!   the caller knows whether it has ended ([`Watermarks::record_since`]);
//! - an append to a log that ends before a position that was read ([`Watermarks::may_follow`]). The
//!   rest of the log can be read.
//!
//! Vacation texts are named in the account's record. The keys that sign mail and pushes are not among them.
//!
//! It also keeps the authentic mark of a bucket that this node has read last
//! ([`Watermarks::store_mark`]), because the attacker can remove that, too.
//!
//! It is written now and then, not with each change, and bounded: of very many accounts the node
//! knows those that it has seen last. Restoring a backup looks like going back; the operator
//! confirms it ([`Watermarks::confirm`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealpost_base::{AccountId, Error, Position, Result, limits};
use sealpost_files::owner;
use sealpost_vault::server_key::{KeyId, MAC_BYTES, Macs, Purpose, ServerKeys};

#[cfg(test)]
mod tests;

/// What the file is called, in the data directory.
pub const FILE: &str = "watermarks";

/// "Sealpost watermarks", version 1.
const MAGIC: [u8; 4] = *b"SPW\x01";
/// Magic and key; how often going back was confirmed; how many logs and records.
const HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4;
/// Bytes of the path of a record.
const PATH_BYTES: usize = 1024;
/// Bytes of the file.
const FILE_BYTES: usize = HEAD_BYTES
    + limits::WATERMARKS * (16 + 8)
    + (RecordKind::ALL * limits::WATERMARKS + STORES) * (2 + PATH_BYTES + 8)
    + MAC_BYTES;
/// Stores whose marks are remembered: a node has one, and another now and then.
const STORES: usize = 8;
/// What the paths of stores begin with in the file, where they are among those of records.
const STORE: &str = "store/";
/// What the operator does about it.
const REMEDY: &str = "after restoring a backup, run `sealpost store confirm-restore`; otherwise restore the \
                      missing objects";

/// What was seen. Cloning shares it. The default remembers as long as the process runs.
#[derive(Clone, Default)]
pub struct Watermarks(Arc<Inner>);

#[derive(Default)]
struct Inner {
    file: Option<(PathBuf, Macs)>,
    table: Mutex<WatermarkTable>,
    /// What this process writes is in the file at once: it ends soon.
    at_once: AtomicBool,
}

struct WatermarkTable {
    /// How often an operator has confirmed that the store went back.
    confirmed: u64,
    logs: LruCache<AccountId, u64>,
    /// By [`RecordKind`].
    records: [LruCache<Box<str>, u64>; RecordKind::ALL],
    /// The marks of stores.
    stores: BTreeMap<Box<str>, u64>,
    /// What is known to have gone back.
    back: BTreeSet<String>,
    /// Something is not in the file.
    dirty: bool,
}

/// Each kind has a limit of its own.
#[derive(Clone, Copy)]
enum RecordKind {
    /// An account's or an alias's.
    Name = 0,
    /// The [list of slots](crate::AccountRecord::slot_list) of an account, by its number.
    SlotList = 1,
    /// How much an account holds, and to whom its vacation response was sent.
    Usage = 2,
    /// The last use of an OAuth grant or a web login.
    Login = 3,
    /// The keys of a shared mailbox.
    Share = 4,
    /// The push subscriptions of an account.
    Push = 5,
}

impl RecordKind {
    /// How many there are.
    const ALL: usize = 6;

    fn of(directory: &str) -> Option<Self> {
        let (root, _) = directory.split_once('/').filter(|_| directory.len() <= PATH_BYTES)?;
        match root {
            "accounts" | "aliases" => Some(RecordKind::Name),
            "slots" => Some(RecordKind::SlotList),
            "usage" | "vacations" => Some(RecordKind::Usage),
            "logins" => Some(RecordKind::Login),
            "shares" => Some(RecordKind::Share),
            "push" => Some(RecordKind::Push),
            _ => None,
        }
    }

    /// Whether records of this kind end by being deleted: whether a missing or older one is refused is for
    /// the reader to decide.
    fn ends(self) -> bool {
        matches!(self, RecordKind::Login | RecordKind::Share | RecordKind::Push)
    }
}

impl Default for WatermarkTable {
    fn default() -> Self {
        let (logs, records) = (LruCache::unbounded(), std::array::from_fn(|_| LruCache::unbounded()));
        let (stores, back) = (BTreeMap::new(), BTreeSet::new());
        WatermarkTable { confirmed: 0, logs, records, stores, back, dirty: false }
    }
}

impl Watermarks {
    /// The watermarks in the file at `path`, and those read from now on. An invalid file is
    /// reported, and starts empty.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    pub fn load(path: &Path, keys: &ServerKeys) -> Result<Self> {
        let macs = keys.macs(Purpose::Watermark);
        let table = match read(path, &macs)? {
            OnDisk::WatermarkTable(table) => *table,
            OnDisk::None => WatermarkTable::default(),
            OnDisk::Damaged => {
                let path = path.display();
                tracing::warn!(%path, "the watermarks of this node cannot be read; starting with none");
                WatermarkTable::default()
            }
        };
        Ok(Watermarks(Arc::new(Inner {
            file: Some((path.to_owned(), macs)),
            table: Mutex::new(table),
            at_once: AtomicBool::new(false),
        })))
    }

    /// Forgets the watermarks of a store that went back, after the operator's confirmation: in the
    /// file, which running processes read when they write to it.
    ///
    /// # Errors
    /// `Retry` if the file cannot be read or written.
    pub fn confirm(path: &Path, keys: &ServerKeys) -> Result<()> {
        let macs = keys.macs(Purpose::Watermark);
        let confirmed = match read(path, &macs)? {
            OnDisk::WatermarkTable(table) => table.confirmed,
            // More than any process may know of.
            OnDisk::Damaged => u64::from(u32::MAX),
            OnDisk::None => 0,
        };
        write(
            path,
            &macs,
            &WatermarkTable { confirmed: confirmed.saturating_add(1), ..WatermarkTable::default() },
        )
    }

    /// A record has this newest version now, by what the store says; `None`: there is none.
    ///
    /// # Errors
    /// `Retry` if a later version was seen: it is not to be used.
    pub fn record(&self, directory: &str, found: Option<u64>) -> Result<()> {
        self.record_since(directory, self.version_of(directory), found)
    }

    /// As [`Watermarks::record`], of a version that a read has found which began when `before` was the last
    /// version seen: what other tasks have seen meanwhile is no contradiction.
    ///
    /// # Errors
    /// `Retry` if `before` is later than what was found.
    pub fn record_since(&self, directory: &str, before: Option<u64>, found: Option<u64>) -> Result<()> {
        let Some(kind) = RecordKind::of(directory) else { return Ok(()) };
        let mut table = self.table();
        if let Some(before) = before
            && found.is_none_or(|found| found < before)
        {
            let is = found.map_or_else(|| "is gone".to_owned(), |found| format!("is at {found}"));
            let how = format!("was at version {before} and {is}");
            return Err(table.rolled_back(format!("the record {directory}"), how));
        }
        if let Some(found) = found {
            table.raise(kind, directory, found);
        }
        Ok(())
    }

    /// As [`Watermarks::record`], without a contradiction: a version that is not later says nothing.
    pub fn saw_record(&self, directory: &str, found: u64) {
        if let Some(kind) = RecordKind::of(directory) {
            self.table().raise(kind, directory, found);
        }
    }

    /// Whether the reader of a record decides what a missing or older version of it means.
    pub(crate) fn is_readers_matter(directory: &str) -> bool {
        RecordKind::of(directory).is_some_and(RecordKind::ends)
    }

    /// The last version that was seen of the record `directory`.
    pub fn version_of(&self, directory: &str) -> Option<u64> {
        let kind = RecordKind::of(directory)?;
        self.table().records[kind as usize].get(directory).copied()
    }

    /// Whether a later version was seen of the record `directory`; reports nothing.
    pub fn is_behind(&self, directory: &str, found: Option<u64>) -> bool {
        self.version_of(directory).is_some_and(|known| found.is_none_or(|found| found < known))
    }

    /// The mark of the store of that name that was seen last.
    pub fn store_mark(&self, store: &str) -> Option<u64> {
        self.table().stores.get(store).copied()
    }

    /// The store of that name has this mark now.
    pub fn saw_store_mark(&self, store: &str, mark: u64) {
        let mut table = self.table();
        if store.len() + STORE.len() > PATH_BYTES || table.stores.insert(store.into(), mark) == Some(mark) {
            return;
        }
        while table.stores.len() > STORES {
            let other = table.stores.keys().find(|other| ***other != *store).cloned();
            other.map(|other| table.stores.remove(&other));
        }
        table.dirty = true;
    }

    /// There is an authentic entry of the account's log at this position.
    pub fn saw(&self, account: AccountId, position: Position) {
        let mut table = self.table();
        if table.logs.get(&account).is_none_or(|known| *known < position.0) {
            table.logs.put(account, position.0);
            if table.logs.len() > limits::WATERMARKS {
                table.logs.pop_lru();
            }
            table.forward(&log_name(account));
        }
    }

    /// Whether an entry may follow the one at `end`, where the store says that the account's log ends.
    ///
    /// # Errors
    /// `Retry` if there was a later one.
    pub fn may_follow(&self, account: AccountId, end: Position) -> Result<()> {
        let mut table = self.table();
        match table.logs.get(&account).copied() {
            Some(known) if end.0 < known => {
                let what = format!("had entry {known} and ends at {}", end.0);
                Err(table.rolled_back(log_name(account), what))
            }
            _ => Ok(()),
        }
    }

    /// How much is known to have gone back.
    pub fn back(&self) -> usize {
        self.table().back.len()
    }

    /// The last position that was seen of each log.
    pub fn logs(&self) -> Vec<(AccountId, Position)> {
        self.table().logs.iter().map(|(account, position)| (*account, Position(*position))).collect()
    }

    /// The last version that was seen of each account's and alias's record.
    pub fn records(&self) -> Vec<(String, u64)> {
        self.of_kinds(&[RecordKind::Name])
    }

    /// The same of records that end by being deleted: one that is missing may have ended.
    pub fn records_that_end(&self) -> Vec<(String, u64)> {
        self.of_kinds(&[RecordKind::Login, RecordKind::Share, RecordKind::Push])
    }

    fn of_kinds(&self, kinds: &[RecordKind]) -> Vec<(String, u64)> {
        let table = self.table();
        let records = kinds.iter().flat_map(|kind| table.records[*kind as usize].iter());
        records.map(|(directory, version)| (directory.to_string(), *version)).collect()
    }

    /// The same, for a command: what it writes is noted at once ([`Watermarks::wrote`]), because
    /// nothing is when it has ended.
    #[must_use]
    pub fn at_once(self) -> Self {
        self.0.at_once.store(true, Ordering::Relaxed);
        self
    }

    /// This process has written a version of a record. Blocks for a moment in a command.
    pub fn wrote(&self) {
        if self.0.at_once.load(Ordering::Relaxed)
            && self.table().dirty
            && let Err(error) = self.save()
        {
            tracing::warn!(%error, "cannot record a change in the watermarks: this node would not notice its \
                                    loss");
        }
    }

    /// Writes what is not in the file. Other processes may write to it: what they saw is taken over. Blocks.
    ///
    /// # Errors
    /// `Retry` if it cannot be written.
    pub fn save(&self) -> Result<()> {
        let Some((path, macs)) = &self.0.file else { return Ok(()) };
        let there = read(path, macs)?;
        let mut table = self.table();
        if let OnDisk::WatermarkTable(there) = there {
            table.take_over(*there);
        }
        if !table.dirty {
            return Ok(());
        }
        // The disk is waited for while others note what they see; small, and seldom.
        let bytes = encode(macs, &table);
        table.dirty = false;
        drop(table);
        write_bytes(path, &bytes).inspect_err(|_| self.table().dirty = true)
    }

    /// Writes all of it, also if it is in the file: under another key now.
    ///
    /// # Errors
    /// As [`Watermarks::save`].
    pub fn rewrite(&self) -> Result<()> {
        let is_something = {
            let mut table = self.table();
            let is_nothing = table.logs.is_empty()
                && table.records.iter().all(LruCache::is_empty)
                && table.stores.is_empty();
            table.dirty = !(is_nothing && table.confirmed == 0);
            table.dirty
        };
        if is_something { self.save() } else { Ok(()) }
    }

    fn table(&self) -> MutexGuard<'_, WatermarkTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatermarkTable {
    fn rolled_back(&mut self, what: String, how: String) -> Error {
        if self.back.len() < limits::LOGGED_ERRORS && self.back.insert(what.clone()) {
            tracing::error!(%what, %how, "the store has gone back: {REMEDY}");
        }
        Error::retry(format!("{what} {how}: {REMEDY}"))
    }

    /// There is this version of a record.
    fn raise(&mut self, kind: RecordKind, directory: &str, found: u64) {
        let records = &mut self.records[kind as usize];
        // Also one that is not news becomes the one that was seen last.
        let known = records.get(directory).copied();
        if known.is_none_or(|known| known < found) {
            records.put(directory.into(), found);
            if records.len() > limits::WATERMARKS {
                records.pop_lru();
            }
            self.forward(&format!("the record {directory}"));
        }
    }

    /// It is there again, or later.
    fn forward(&mut self, what: &str) {
        self.dirty = true;
        self.back.remove(what);
    }

    fn take_over(&mut self, there: WatermarkTable) {
        if there.confirmed > self.confirmed {
            tracing::warn!("an operator confirmed a restore: this node discards its earlier watermarks");
            *self = WatermarkTable { dirty: self.dirty, ..there };
            return;
        }
        for (account, position) in there.logs.iter() {
            if self.logs.peek(account).is_none_or(|known| known < position) {
                self.logs.put(*account, *position);
            }
        }
        for (records, there) in self.records.iter_mut().zip(&there.records) {
            for (directory, version) in there {
                if records.peek(directory).is_none_or(|known| known < version) {
                    records.put(directory.clone(), *version);
                }
            }
            while records.len() > limits::WATERMARKS {
                records.pop_lru();
            }
        }
        for (store, mark) in there.stores {
            // What this process saw is later.
            self.stores.entry(store).or_insert(mark);
        }
        while self.logs.len() > limits::WATERMARKS {
            self.logs.pop_lru();
        }
    }
}

fn log_name(account: AccountId) -> String {
    format!("the log of {account}")
}

/// What there is of a file.
enum OnDisk {
    None,
    Damaged,
    WatermarkTable(Box<WatermarkTable>),
}

fn read(path: &Path, macs: &Macs) -> Result<OnDisk> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => {
            Ok(decode(macs, &bytes).map_or(OnDisk::Damaged, |table| OnDisk::WatermarkTable(Box::new(table))))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(OnDisk::None),
        Err(e) => Err(failed(path, e)),
    }
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::retry(path.display().to_string()).with_source(owner::explained(path, e))
}

fn write(path: &Path, macs: &Macs, table: &WatermarkTable) -> Result<()> {
    write_bytes(path, &encode(macs, table))
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let written = owner::create_anew(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    });
    written.map_err(|e| failed(path, e))
}

fn encode(macs: &Macs, table: &WatermarkTable) -> Vec<u8> {
    let records: usize = table.records.iter().map(LruCache::len).sum();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + table.logs.len() * 24 + records * 64);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&macs.current().0);
    bytes.extend_from_slice(&table.confirmed.to_be_bytes());
    for count in [table.logs.len(), records + table.stores.len()] {
        bytes.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    }
    // What was seen last comes first, and is put last when it is read.
    for (account, position) in &table.logs {
        bytes.extend_from_slice(&account.0);
        bytes.extend_from_slice(&position.to_be_bytes());
    }
    let stores: Vec<_> =
        table.stores.iter().map(|(store, mark)| (format!("{STORE}{store}"), *mark)).collect();
    let records = table.records.iter().flatten().map(|(directory, version)| (&**directory, *version));
    for (directory, version) in records.chain(stores.iter().map(|(store, mark)| (&**store, *mark))) {
        bytes.extend_from_slice(&u16::try_from(directory.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend_from_slice(directory.as_bytes());
        bytes.extend_from_slice(&version.to_be_bytes());
    }
    let mac = macs.sign(&[&bytes]);
    bytes.extend_from_slice(&mac);
    bytes
}

fn decode(macs: &Macs, bytes: &[u8]) -> Option<WatermarkTable> {
    let (signed, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
    let mut rest = signed.strip_prefix(&MAGIC)?;
    if !macs.verify(KeyId(take(&mut rest)?), &[signed], mac) {
        return None;
    }
    let confirmed = u64::from_be_bytes(take(&mut rest)?);
    let (logs, records) = (u32::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
    let mut table = WatermarkTable { confirmed, ..WatermarkTable::default() };
    let (mut all_logs, mut all_records) = (Vec::new(), Vec::new());
    for _ in 0..logs {
        all_logs.push((AccountId(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?)));
    }
    for _ in 0..records {
        let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
        let (directory, after) = rest.split_at_checked(length)?;
        rest = after;
        all_records.push((std::str::from_utf8(directory).ok()?.into(), u64::from_be_bytes(take(&mut rest)?)));
    }
    for (account, position) in all_logs.into_iter().rev() {
        table.logs.put(account, position);
    }
    for (directory, version) in all_records.into_iter().rev() {
        let directory: Box<str> = directory;
        match directory.strip_prefix(STORE) {
            Some(store) => drop(table.stores.insert(store.into(), version)),
            None => {
                if let Some(kind) = RecordKind::of(&directory) {
                    table.records[kind as usize].put(directory, version);
                }
            }
        }
    }
    rest.is_empty().then_some(table)
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*taken)
}
