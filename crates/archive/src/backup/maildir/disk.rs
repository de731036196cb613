//! [`Disk`]: the file system of a folder, and syncing it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use sealpost_base::{Error, Result};
use sealpost_files::io_error;

use super::background_task::BackgroundTask;

/// From so many messages on, the whole file system is synced at once rather than one file after the
/// other, where that is possible.
pub const TOGETHER: usize = if cfg!(target_os = "linux") { 8 } else { usize::MAX };

/// After so many messages, or bytes, of a transaction they begin to go to the disk, so that its end
/// waits for the last of them alone.
const AHEAD_MESSAGES: usize = 512;
/// As [`AHEAD_MESSAGES`].
const AHEAD_BYTES: u64 = 8 * 1024 * 1024;

/// The file system of a folder.
pub struct Disk {
    /// Open as long as the folder is: a write error since then is reported once to a sync by this
    /// file descriptor.
    directory: Arc<File>,
    ahead: BackgroundTask,
    /// Written since the last write-back began.
    messages: usize,
    bytes: u64,
}

impl Disk {
    /// For data written from now on.
    ///
    /// # Errors
    /// `Retry` if the directory cannot be opened.
    pub fn of(directory: &Path) -> Result<Self> {
        let directory = File::open(directory).map_err(|e| io_error(directory, e))?;
        Ok(Disk { directory: Arc::new(directory), ahead: BackgroundTask::default(), messages: 0, bytes: 0 })
    }

    /// A message of so many bytes was written.
    ///
    /// # Errors
    /// `Retry` if data did not reach the disk.
    pub fn wrote(&mut self, bytes: u64) -> Result<()> {
        self.messages += 1;
        self.bytes += bytes;
        if TOGETHER == usize::MAX || (self.messages < AHEAD_MESSAGES && self.bytes < AHEAD_BYTES) {
            return Ok(());
        }
        (self.messages, self.bytes) = (0, 0);
        let directory = self.directory.clone();
        self.ahead.begin_if_idle(move || sync_file_system(&directory))
    }

    /// Everything written to the file system is on disk on return.
    ///
    /// # Errors
    /// `Retry` if something is not: from then on always.
    pub fn sync(&mut self) -> Result<()> {
        (self.messages, self.bytes) = (0, 0);
        let directory = self.directory.clone();
        self.ahead.begin(move || sync_file_system(&directory))?;
        self.ahead.wait()
    }
}

#[cfg(target_os = "linux")]
fn sync_file_system(directory: &File) -> Result<()> {
    let failed =
        |e| Error::retry("a written file did not reach the disk").with_source(std::io::Error::from(e));
    rustix::fs::syncfs(directory).map_err(failed)
}

/// Not used: see [`TOGETHER`].
#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &File) -> Result<()> {
    Err(Error::internal("no file system can be synced as a whole here"))
}
