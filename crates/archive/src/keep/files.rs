//! Directories that are on disk, and files that are there whole or not at all.
//!
//! A copy never follows a symbolic link below its own directory: whoever may put something into it, as the mail program that
//! it is for, is not to have files elsewhere read, restored to a server, or written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use sealpost_base::{Error, Result};
use sealpost_files::owner;

use crate::io_error;

/// The path with more at the end of its name.
pub fn longer(path: &Path, end: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(end);
    longer.into()
}

/// Opens a file of a copy to read it.
///
/// # Errors
/// What the file system says; `InvalidInput` for a symbolic link, and what is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_file_with(OpenOptions::new().read(true), path)
}

/// As [`open_file`], with these options.
///
/// # Errors
/// As [`open_file`].
pub fn open_file_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // A pipe is opened at once, and refused.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let opened = options.custom_flags(i32::try_from(flags).unwrap_or_default()).open(path);
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() => not_followed(),
        _ => e,
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

fn not_followed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link, which a copy does not follow")
}

/// Whether something of that name is there that is neither a file nor a directory, or whether `below` leads through such a thing to
/// somewhere else than into `root`.
pub fn leads_elsewhere(root: &Path, below: &str) -> bool {
    let mut path = root.to_owned();
    Path::new(below).components().any(|component| {
        path.push(component);
        let is_name = matches!(component, Component::Normal(_));
        !is_name || fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir())
    })
}

/// As [`make_directory`], of one below the copy's own directory, which is there.
///
/// # Errors
/// `Invalid` if something else has its name; `Retry` if it cannot be made.
pub fn make_directory_in(root: &Path, below: &Path) -> Result<()> {
    let mut path = root.to_owned();
    for component in below.components() {
        path.push(component);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) => {
                let what = if metadata.is_symlink() {
                    "a symbolic link, which a copy does not follow"
                } else {
                    "no directory"
                };
                return Err(Error::invalid(format!("{} is {what}", path.display())));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => make_directory(&path)?,
            Err(e) => return Err(io_error(path, e)),
        }
    }
    Ok(())
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

/// Makes a file that is to take the place of `path`, with its mode; if there is none, only its owner can read the new one.
///
/// # Errors
/// What the file system says.
pub fn in_place_of(path: &Path, temporary: &Path) -> io::Result<File> {
    let file = owner::create_anew(temporary)?;
    if let Ok(before) = fs::symlink_metadata(path)
        && before.is_file()
    {
        file.set_permissions(before.permissions())?;
    }
    Ok(file)
}

/// Writes a file that takes the place of `path` when it is complete and on disk. `temporary` is in the same directory.
///
/// # Errors
/// What `write` says; `Retry` if it cannot be written. `path` is as it was then.
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

/// Renames a file that nothing could be made of; nothing if there is none.
///
/// # Errors
/// `Retry` if that fails.
pub fn put_aside(path: &Path) -> Result<Option<PathBuf>> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let aside = aside(path);
    fs::rename(path, &aside).map_err(|e| io_error(path, e))?;
    sync_directory_of(path)?;
    Ok(Some(aside))
}

/// As [`put_aside`], of a file that also stays where it is, until another one takes its place.
///
/// # Errors
/// `Retry` if it cannot be done.
pub fn link_aside(path: &Path) -> Result<PathBuf> {
    let aside = aside(path);
    // Not every file system has links.
    let copy = || {
        let mut to = owner::create(&aside)?;
        io::copy(&mut open_file(path)?, &mut to)?;
        to.sync_all()
    };
    fs::hard_link(path, &aside).or_else(|_| copy()).map_err(|e| io_error(&aside, e))?;
    sync_directory_of(&aside)?;
    Ok(aside)
}

/// A name for what is damaged, which nothing has.
fn aside(path: &Path) -> PathBuf {
    let numbered = (1u32..).map(|n| longer(path, &format!(".damaged-{n}")));
    let mut free = numbered.filter(|aside| fs::symlink_metadata(aside).is_err());
    free.next().unwrap_or_else(|| path.with_extension("damaged"))
}
