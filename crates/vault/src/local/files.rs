//! Files of large objects: `objects/xx/yyyy…`, named at random, written once, never renamed after
//! they are named by a row.

use std::error::Error as StdError;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use sealpost_base::{Clock, Random, SystemRandom, Timestamp};
use sealpost_files::owner::{self, Owner};

use super::store_owner::local_store_owner;
use crate::local::schema::{self, Access};
use crate::local::shared;
use crate::local::sound::{self, Extent};
use crate::local::writer::Body;

/// Files without a row are left alone for this long: their row may be about to be written, by any process.
const ORPHAN_SECONDS: i64 = 60 * 60;
/// What ends the name of a file that is overwritten before it is removed. A row would leave copies
/// behind: in pages that SQLite balanced, and in the write-ahead log.
const ERASED: &str = ".slots";
/// What follows the name of a file that is being written.
pub(super) const TEMPORARY: &str = ".tmp";
/// Time between two sweeps of one store, however often it is opened.
const SWEEP_SECONDS: i64 = 24 * 60 * 60;
/// How long a sweep compares indexes before it removes anything.
const SWEEP_TIME: Duration = Duration::from_secs(60 * 60);

/// Reads of more bytes than this look first whether the file has so many.
const LARGE_READ: usize = 1024 * 1024;

/// The directory of large objects.
pub(super) struct Files {
    root: PathBuf,
    objects: PathBuf,
    /// Whose the directory of the store is, and all that is made in it.
    owner: Owner,
    /// The directories below `objects` that this process has seen to be durable.
    durable: [AtomicBool; 256],
}

impl Files {
    /// Makes the directories if they are absent.
    pub fn open(root: &Path) -> io::Result<Self> {
        owner::make_directory(&root.join("objects")).map_err(|e| owner::explained(root, e))?;
        File::open(root).and_then(|root| root.sync_all()).map_err(|e| owner::explained(root, e))?;
        if let Some(parent) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Self::existing(root)
    }

    /// Those of a store that is there, of which nothing is changed.
    pub fn existing(root: &Path) -> io::Result<Self> {
        let owner = local_store_owner(root).map_err(|e| owner::explained(root, e))?;
        let durable = std::array::from_fn(|_| AtomicBool::new(false));
        Ok(Files { root: root.to_owned(), objects: root.join("objects"), owner, durable })
    }

    /// The directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file, maybe with others in it, of the object that a row says is in `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path(shared::place(name).0)
    }

    /// Starts a new file under a temporary name.
    pub fn create(self: &Arc<Self>) -> io::Result<NewFile> {
        self.create_as(self.new_name()?)
    }

    /// Starts a new file for the object `path`, of which nothing may stay when it is removed if it
    /// [`holds_slots`].
    pub fn create_for(self: &Arc<Self>, path: &str) -> io::Result<NewFile> {
        let end = if holds_slots(path) { ERASED } else { "" };
        self.create_as(self.new_name()? + end)
    }

    fn create_as(self: &Arc<Self>, name: String) -> io::Result<NewFile> {
        let temporary = self.temporary(&name);
        let file = self.owner.create(&temporary).map_err(|e| owner::explained(&temporary, e))?;
        if is_erased(&name) {
            // Until its row exists: a process that erases leftovers must not take it for one. Where
            // the file system has no locks, that process uses the age of files.
            let _ = file.lock();
        }
        Ok(NewFile { files: self.clone(), file: Arc::new(file), name, size: 0, kept: false })
    }

    /// A second name for the file `name`, whose bytes never change.
    pub fn link(&self, name: &str, size: u64) -> io::Result<Body> {
        let new = self.new_name()?;
        std::fs::hard_link(self.path(name), self.path(&new))?;
        self.sync_directory_of(&new)?;
        Ok(Body::File { name: new, size, _held: None })
    }

    /// The bytes `start..start + length` of the object that a row says is in `name`.
    pub fn read(&self, name: &str, start: u64, length: usize) -> io::Result<Vec<u8>> {
        let (file, offset) = shared::place(name);
        let start = start.saturating_add(offset.unwrap_or(0));
        let path = self.path(file);
        let file = File::open(&path).map_err(|e| owner::explained(&path, e))?;
        // A row that is damaged may say any size, and memory is not taken for bytes that are not there.
        let is_there = length <= LARGE_READ || file.metadata()?.len() >= start.saturating_add(length as u64);
        let step = if is_there { length } else { LARGE_READ };
        let mut bytes = Vec::with_capacity(step);
        while bytes.len() < length {
            if bytes.len() == bytes.capacity() {
                bytes.reserve_exact(step.min(length - bytes.len()));
            }
            // Into uninitialised memory, and as much as there is at once.
            let at = start + bytes.len() as u64;
            match rustix::io::pread(&file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Whether the object of `size` bytes that a row says is in `name` can be there, by the size of the file.
    pub fn has_all(&self, name: &str, size: u64) -> io::Result<bool> {
        let (file, offset) = shared::place(name);
        let path = self.path(file);
        match std::fs::metadata(&path) {
            // A shared one has others behind it.
            Ok(found) => Ok(match offset {
                Some(offset) => found.len() >= offset.saturating_add(size),
                None => found.len() == size,
            }),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(owner::explained(&path, e)),
        }
    }

    /// Gives the blocks of these parts of a file back, where the file system can; they read as zeros then.
    pub fn punch(&self, name: &str, holes: &[Range<u64>]) {
        let punch = || {
            let file = OpenOptions::new().write(true).open(self.path(name))?;
            holes.iter().try_for_each(|hole| punch(&file, hole))
        };
        if let Err(e) = punch() {
            tracing::debug!(error = %e, name, "removed objects keep their place in a file");
        }
    }

    /// Removes the file `name`, whose row is gone; what held slots is overwritten first, and stays
    /// if that fails.
    pub fn remove(&self, name: &str) {
        if may_hold_slots(name)
            && let Err(e) = overwrite(&self.path(name))
            && e.kind() != ErrorKind::NotFound
        {
            tracing::warn!(error = %e, name, "a removed account record stays: it could not be overwritten");
            return;
        }
        if let Err(e) = std::fs::remove_file(self.path(name))
            && e.kind() != ErrorKind::NotFound
        {
            tracing::warn!(error = %e, name, "a removed object's file stays until the next sweep");
        }
    }

    /// A random name in a directory that exists and is durable.
    fn new_name(&self) -> io::Result<String> {
        let random = u128::from(SystemRandom.next_u64()) << 64 | u128::from(SystemRandom.next_u64());
        let hex = format!("{random:032x}");
        let directory = &hex[..2];
        let durable = &self.durable[usize::from(u8::from_str_radix(directory, 16).unwrap_or(0))];
        if !durable.load(Ordering::Acquire) {
            let path = self.objects.join(directory);
            match self.owner.create_directory(&path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(owner::explained(&path, e)),
                // The writer of the file may not have synced it, or failed to.
                _ => File::open(&self.objects)?.sync_all()?,
            }
            durable.store(true, Ordering::Release);
        }
        Ok(format!("{}/{}", &hex[..2], &hex[2..]))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.objects.join(name)
    }

    /// Where all of them are.
    pub(super) fn objects(&self) -> &Path {
        &self.objects
    }

    /// What `name` is called until it is complete.
    fn temporary(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}{TEMPORARY}"))
    }

    fn sync_directory_of(&self, name: &str) -> io::Result<()> {
        File::open(self.path(name).parent().unwrap_or(&self.objects))?.sync_all()
    }
}

/// Whether nothing of the object `path` may stay when it is removed: account records, whose slots
/// open the account.
pub(super) fn holds_slots(path: &str) -> bool {
    path.starts_with("accounts/")
}

/// Whether the file `name` is overwritten before it is removed.
pub(super) fn is_erased(name: &str) -> bool {
    name.ends_with(ERASED)
}

/// Whether the file `name` held slots, or may have: earlier versions gave all files that were being
/// written one end.
fn may_hold_slots(name: &str) -> bool {
    is_erased(name) || name.ends_with(TEMPORARY)
}

/// Durable when it returns: a file system that has not written the zeros may drop them with the file.
fn overwrite(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let size = file.metadata()?.len();
    io::copy(&mut io::repeat(0).take(size), &mut file)?;
    file.sync_all()
}

#[cfg(target_os = "linux")]
fn punch(file: &File, hole: &Range<u64>) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, hole.start, hole.end - hole.start)?)
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &File, _: &Range<u64>) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// A file that is being written. Dropped before [`NewFile::keep`], it is removed.
pub(super) struct NewFile {
    files: Arc<Files>,
    file: Arc<File>,
    name: String,
    size: u64,
    kept: bool,
}

impl NewFile {
    /// Writes `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.file).write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// What it will be called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reserves the next `length` bytes: the file and the offset to write them at, on any thread.
    pub fn reserve(&mut self, length: usize) -> (Arc<File>, u64) {
        let offset = self.size;
        self.size += length as u64;
        (self.file.clone(), offset)
    }

    /// Makes the file durable under its name: only then may a row point to it.
    pub fn keep(mut self) -> io::Result<Body> {
        self.file.sync_all()?;
        std::fs::rename(self.files.temporary(&self.name), self.files.path(&self.name))?;
        self.kept = true;
        self.files.sync_directory_of(&self.name)?;
        let held = is_erased(&self.name).then(|| self.file.clone());
        Ok(Body::File { name: std::mem::take(&mut self.name), size: self.size, _held: held })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            let temporary = self.files.temporary(&self.name);
            // What cannot be removed now is swept up later.
            let _ = if is_erased(&self.name) { overwrite(&temporary) } else { Ok(()) };
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Removes old files without a row, on a thread of its own, at most once a day.
pub(super) fn spawn_sweep(files: Arc<Files>, database: PathBuf, clock: Arc<dyn Clock>) {
    let swept = std::thread::Builder::new().name("sealpost-sweep".into()).spawn(move || {
        match sweep(&files, &database, clock.now()) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed files that no object points to"),
            Err(e) => tracing::warn!(error = %e, "looking for files that no object points to failed"),
        }
    });
    if let Err(e) = swept {
        tracing::warn!(error = %e, "no thread to look for files that no object points to");
    }
}

pub(super) fn sweep(
    files: &Files,
    database: &Path,
    now: Timestamp,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let connection = schema::connect(database, Access::Write)?;
    let last: Option<i64> = connection
        .query_row("SELECT value FROM state WHERE name = 'swept'", [], |row| row.get(0))
        .optional()?;
    if last.is_some_and(|last| now.seconds() - last < SWEEP_SECONDS) {
        return Ok(0);
    }
    let mut removed = 0;
    // Checked before the first file is touched, and only then.
    let mut is_listed = false;
    for directory in std::fs::read_dir(&files.objects)? {
        let directory = directory?;
        let Ok(entries) = std::fs::read_dir(directory.path()) else { continue };
        for entry in entries {
            let entry = entry?;
            let name = format!(
                "{}/{}",
                directory.file_name().to_string_lossy(),
                entry.file_name().to_string_lossy()
            );
            let Some(size) = settled(&entry, now)? else { continue };
            if !shared::has_rows(&connection, &name)? {
                require_listed(&connection, files, &mut is_listed)?;
                files.remove(&name);
                removed += 1;
                continue;
            }
            let gaps = shared::gaps(&connection, &name, size)?;
            if !gaps.is_empty() {
                require_listed(&connection, files, &mut is_listed)?;
                files.punch(&name, &gaps);
            }
        }
    }
    connection.execute(
        "INSERT INTO state (name, value) VALUES ('swept', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
        [now.seconds()],
    )?;
    Ok(removed)
}

/// Before a file without a row is removed: an index that hides rows, or a row with a wrong name of
/// its file, makes it look as if a file had none. Nothing is removed then: a repair may give it
/// back its row.
pub(super) fn require_listed(
    connection: &Connection,
    files: &Files,
    is_listed: &mut bool,
) -> Result<(), Box<dyn StdError + Send + Sync>> {
    if *is_listed {
        return Ok(());
    }
    let found = sound::inspect(connection, Extent::ListedObject, SWEEP_TIME)?;
    if let Some(damage) = found.damage.first() {
        return Err(format!(
            "the database is damaged, and no file is removed (sealpost store repair): {damage}"
        )
        .into());
    }
    if found.unfinished {
        return Err("the indexes could not be compared in time, and no file is removed".into());
    }
    let mut named = connection.prepare("SELECT file FROM objects NOT INDEXED WHERE file IS NOT NULL")?;
    let mut rows = named.query([])?;
    let mut last = String::new();
    while let Some(row) = rows.next()? {
        let (file, _) = shared::place(row.get_ref(0)?.as_str()?);
        if file != last && !files.path(file).exists() {
            return Err(
                format!("the file {file} of an object is missing, and no other file is removed").into()
            );
        }
        last.clear();
        last.push_str(file);
    }
    *is_listed = true;
    Ok(())
}

/// The size of a file that has had its rows for long, or never will: the age is read before the
/// rows.
fn settled(entry: &std::fs::DirEntry, now: Timestamp) -> io::Result<Option<u64>> {
    settled_since(entry.metadata(), now)
}

/// The same of a file with this metadata.
pub(super) fn settled_since(metadata: io::Result<Metadata>, now: Timestamp) -> io::Result<Option<u64>> {
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    // The change time, unlike the modification time, is set by the rename that comes before the row.
    let changed = metadata.mtime().max(metadata.ctime());
    let old = metadata.is_file() && now.seconds() - changed >= ORPHAN_SECONDS;
    Ok(old.then_some(metadata.len()))
}
