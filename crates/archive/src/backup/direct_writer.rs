//! [`Appending`]: a file that grows at its end, by hundreds of megabytes if necessary, and is
//! synced on request.
//!
//! Data that a pull writes is not read again soon, and all of it has to reach the disk. Through the
//! page cache every byte is copied, page by page, and a sync then waits for the disk; with
//! `O_DIRECT` the disk takes whole pieces from memory, on a separate thread, while the next one is
//! filled. That is two to three times as fast ([decision
//! 37](../../../../docs/decisions/0037-writing-past-the-cache.md)), and leaves the cache to others.
//!
//! Only whole blocks can be written directly. The rest of the last one goes through the cache when
//! the file is synced, and once more with the block that it begins. Where a file system has no
//! direct writes, everything goes through the cache.
//!
//! A failed write is reported too late to know which bytes it concerned, so nothing more is written
//! to the file then, and no sync succeeds: it has to be cut and opened again.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use sealpost_files::{open_file_with, owner};

/// Direct writes begin and end at multiples of this, in the file and in memory: no disk has larger
/// blocks.
const BLOCK: usize = 4096;
/// Bytes of a write.
const PIECE: usize = 512 * 1024;
/// One piece is filled while the others are written.
const PIECES: usize = 3;
/// Data in the cache begins to go to the disk after so many bytes, so that a sync waits for the
/// last of them alone.
const AHEAD: u64 = 8 * 1024 * 1024;

/// A file that grows at its end.
pub struct Appending {
    /// For writes through the cache.
    file: File,
    /// The bytes after the whole pieces.
    piece: Piece,
    /// Where in the file it begins, a multiple of [`BLOCK`].
    at: u64,
    /// How many bytes of it are in the file.
    kept: usize,
    /// Written to since the last sync.
    dirty: bool,
    disk: Disk,
    failed: bool,
    /// Writes beyond this size fail as on a full disk.
    #[cfg(test)]
    pub full_at: Option<u64>,
}

impl Appending {
    /// Opens, or creates, a file that only its owner may read, and cuts it to `length` bytes.
    ///
    /// # Errors
    /// The file system's error; `UnexpectedEof` if it is shorter.
    pub fn open(path: &Path, length: u64) -> io::Result<Self> {
        let open = || open_file_with(OpenOptions::new().read(true).write(true), path);
        let file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => owner::create(path)?,
            opened => opened?,
        };
        if file.metadata()?.len() > length {
            file.set_len(length)?;
        }
        let mut appending = Appending {
            file,
            piece: Piece::default(),
            at: 0,
            kept: 0,
            dirty: false,
            disk: Disk::Idle(direct(path)),
            failed: false,
            #[cfg(test)]
            full_at: None,
        };
        appending.go_to(length)?;
        Ok(appending)
    }

    /// Its bytes, including those that are not written yet.
    pub fn length(&self) -> u64 {
        self.at + self.piece.length as u64
    }

    /// Cuts it to `length` bytes. Works also after an error, but the file must not be written to
    /// then.
    ///
    /// # Errors
    /// The file system's error.
    pub fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.disk.settle().is_err() {
            self.failed = true;
        }
        self.piece.length =
            self.piece.length.min(usize::try_from(length.saturating_sub(self.at)).unwrap_or(PIECE));
        if !self.failed && length >= self.at && self.kept <= self.piece.length {
            return Ok(());
        }
        self.dirty = true;
        self.file.set_len(length.min(self.file.metadata()?.len()))?;
        if self.failed { Ok(()) } else { self.go_to(length) }
    }

    /// Everything is on disk on return.
    ///
    /// # Errors
    /// The file system's error: the contents of the disk are unknown then.
    pub fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        let synced = self.disk.settle().and_then(|()| self.write_rest()).and_then(|()| match self.dirty {
            // The cut has to be durable, too.
            true => self.file.sync_all(),
            false => Ok(()),
        });
        self.failed = synced.is_err();
        self.dirty = false;
        synced
    }

    fn check(&self) -> io::Result<()> {
        match self.failed {
            true => Err(io::Error::other("an earlier write to the file failed")),
            false => Ok(()),
        }
    }

    /// Appends continue after the first `length` bytes of the file.
    fn go_to(&mut self, length: u64) -> io::Result<()> {
        let rest = (length % BLOCK as u64) as usize;
        (self.at, self.kept) = (length - rest as u64, rest);
        self.piece.length = 0;
        self.piece.grow(rest);
        self.file.read_exact_at(self.piece.bytes_mut(), self.at)
    }

    /// Writes the full piece, except for the blocks that the file has, and continues with another
    /// one.
    fn hand_over(&mut self) -> io::Result<()> {
        self.check_full()?;
        let begins = self.kept / BLOCK * BLOCK;
        let full = std::mem::replace(&mut self.piece, self.disk.spare()?);
        self.disk.write(&self.file, Job { piece: full, begins, at: self.at + begins as u64 })?;
        (self.at, self.kept, self.dirty) = (self.at + PIECE as u64, 0, true);
        Ok(())
    }

    /// Writes the rest through the cache.
    fn write_rest(&mut self) -> io::Result<()> {
        let rest = &self.piece.bytes()[self.kept..];
        if !rest.is_empty() {
            self.check_full()?;
            self.file.write_all_at(rest, self.at + self.kept as u64)?;
            (self.kept, self.dirty) = (self.piece.length, true);
        }
        Ok(())
    }

    #[cfg(test)]
    fn check_full(&self) -> io::Result<()> {
        match self.full_at {
            Some(full_at) if self.length() > full_at => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests have disks that are full")]
    fn check_full(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends. After an error, which may concern earlier bytes, the file has to be opened again.
impl Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        let taken = self.piece.fill(bytes);
        if self.piece.length == PIECE {
            self.hand_over().inspect_err(|_| self.failed = true)?;
        }
        Ok(taken)
    }

    /// Does nothing: data is on disk after [`Appending::sync`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory that begins at a multiple of [`BLOCK`].
#[derive(Default)]
struct Piece {
    /// Empty until it is used.
    memory: Vec<u8>,
    begins: usize,
    length: usize,
}

impl Piece {
    /// Makes room for `more` bytes, or for as many as fit; returns for how many.
    fn grow(&mut self, more: usize) -> usize {
        if self.memory.is_empty() {
            self.memory = vec![0; PIECE + BLOCK];
            self.begins = self.memory.as_ptr().align_offset(BLOCK);
        }
        let more = more.min(PIECE - self.length);
        self.length += more;
        more
    }

    /// Takes as much of `bytes` as fits.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let (from, taken) = (self.length, self.grow(bytes.len()));
        self.bytes_mut()[from..].copy_from_slice(&bytes[..taken]);
        taken
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begins..self.begins + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begins..self.begins + self.length]
    }
}

/// A piece, its first byte to write, and the position in the file.
struct Job {
    piece: Piece,
    begins: usize,
    at: u64,
}

/// Writes whole pieces.
enum Disk {
    /// No thread yet: the file, opened for direct writes, if possible.
    Idle(Option<File>),
    /// On a thread.
    Busy(Thread),
}

struct Thread {
    /// `None` while it is being ended.
    to: Option<Sender<Job>>,
    back: Receiver<io::Result<Piece>>,
    /// Pieces that the thread has.
    away: usize,
    /// Pieces that it has returned.
    spare: Vec<Piece>,
    handle: Option<JoinHandle<()>>,
}

impl Disk {
    /// A piece to fill, as soon as there is one.
    fn spare(&mut self) -> io::Result<Piece> {
        match self {
            Disk::Busy(thread) if thread.spare.is_empty() && thread.away + 1 >= PIECES => thread.wait()?,
            _ => {}
        }
        let mut piece = match self {
            Disk::Busy(thread) => thread.spare.pop().unwrap_or_default(),
            Disk::Idle(_) => Piece::default(),
        };
        piece.length = 0;
        Ok(piece)
    }

    /// Sends a piece to the thread, to be written to `file`.
    fn write(&mut self, file: &File, job: Job) -> io::Result<()> {
        if let Disk::Idle(direct) = self {
            let writing = Writing { cached: file.try_clone()?, direct: direct.take(), waiting: 0 };
            *self = Disk::Busy(Thread::start(writing)?);
        }
        match self {
            Disk::Busy(thread) => thread.give(job),
            Disk::Idle(_) => Err(ended()),
        }
    }

    /// Waits until everything is written.
    fn settle(&mut self) -> io::Result<()> {
        let Disk::Busy(thread) = self else { return Ok(()) };
        while thread.away > 0 {
            thread.wait()?;
        }
        Ok(())
    }
}

impl Thread {
    fn start(mut writing: Writing) -> io::Result<Self> {
        let (to, jobs) = channel::<Job>();
        let (done, back) = channel();
        let handle = Builder::new().name("sealpost-disk".into()).spawn(move || {
            while let Ok(Job { piece, begins, at }) = jobs.recv() {
                let written = writing.write(&piece.bytes()[begins..], at);
                if done.send(written.map(|()| piece)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Thread { to: Some(to), back, away: 0, spare: Vec::new(), handle: Some(handle) })
    }

    fn give(&mut self, job: Job) -> io::Result<()> {
        self.away += 1;
        self.to.as_ref().and_then(|to| to.send(job).ok()).ok_or_else(ended)
    }

    /// Waits for a piece.
    fn wait(&mut self) -> io::Result<()> {
        let back = self.back.recv().map_err(|_| ended())?;
        self.away -= 1;
        self.spare.push(back?);
        Ok(())
    }
}

impl Drop for Thread {
    /// The thread must not write to the file any more when it is opened again.
    fn drop(&mut self) {
        self.to = None;
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that writes a file has ended")
}

/// The file, as the thread uses it.
struct Writing {
    cached: File,
    /// `None`: the file system has no direct writes.
    direct: Option<File>,
    /// Bytes in the cache that are not on disk.
    waiting: u64,
}

impl Writing {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            match direct.write_all_at(bytes, at) {
                // It requires another alignment, or wrote a part of a block: the write through the
                // cache shows why.
                Err(e) if e.kind() == ErrorKind::InvalidInput => self.direct = None,
                written => return written,
            }
        }
        self.cached.write_all_at(bytes, at)?;
        self.waiting += bytes.len() as u64;
        if self.waiting >= AHEAD {
            self.waiting = 0;
            self.cached.sync_data()?;
        }
        Ok(())
    }
}

/// The file for direct writes. Not every file system has them, and btrfs does not compress direct
/// writes, although the file owner may have asked for it.
#[cfg(target_os = "linux")]
fn direct(path: &Path) -> Option<File> {
    const BTRFS: u32 = 0x9123_683e;
    let flags = i32::try_from((rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::NOFOLLOW).bits()).ok()?;
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
    (rustix::fs::fstatfs(&file).ok()?.f_type as u32 != BTRFS).then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn direct(_: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests;
