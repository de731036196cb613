//! Directories that are on disk, and files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sealpost_base::Result;

use crate::{io_error, owner};

/// The path with more at the end of its name.
pub fn longer(path: &Path, end: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(end);
    longer.into()
}

/// Bytes of a file; none if it is not there.
///
/// # Errors
/// `Retry` if that cannot be known.
pub fn length(path: &Path) -> Result<u64> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(io_error(path, e)),
    }
}

/// Makes names in the directory of `path` durable.
///
/// # Errors
/// `Retry` if that fails.
pub fn sync_directory_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Makes names in `directory` durable.
///
/// # Errors
/// `Retry` if that fails.
pub fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(|e| io_error(directory, e))
}

/// Makes a directory that only its owner may enter, and those above it, durably.
///
/// # Errors
/// `Retry` if that fails.
pub fn make_directory(directory: &Path) -> Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent().filter(|p| !p.as_os_str().is_empty()) {
        make_directory(parent)?;
    }
    // One level at a time: each name is durable before there is one below it.
    owner::make_directory(directory).map_err(|e| io_error(directory, e))?;
    sync_directory_of(directory)
}

/// Creates a file that will replace `path`, with its mode; if there is none, only its owner can
/// read the new one.
///
/// # Errors
/// File system errors.
pub fn in_place_of(path: &Path, temporary: &Path) -> io::Result<File> {
    let file = owner::create_anew(temporary)?;
    if let Ok(before) = fs::symlink_metadata(path)
        && before.is_file()
    {
        file.set_permissions(before.permissions())?;
    }
    Ok(file)
}

/// Writes a file that replaces `path` when it is complete and on disk. `temporary` is in the same
/// directory.
///
/// # Errors
/// Errors of `write`; `Retry` if it cannot be written. `path` is unchanged then.
pub fn replace(
    path: &Path,
    temporary: PathBuf,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let file = in_place_of(path, &temporary).map_err(|e| io_error(&temporary, e))?;
    let mut file = BufWriter::with_capacity(64 * 1024, file);
    let written = write(&mut file).and_then(|()| {
        file.flush().and_then(|()| file.get_ref().sync_data()).map_err(|e| io_error(&temporary, e))
    });
    if let Err(e) = written {
        let _ = fs::remove_file(&temporary);
        return Err(e);
    }
    fs::rename(&temporary, path).map_err(|e| io_error(path, e))?;
    sync_directory_of(path)
}
