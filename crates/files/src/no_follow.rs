//! Files below a directory, without symbolic links: a user who may write into a backup or a
//! Maildir, as its mail program does, must not make this process read, restore to a server, or
//! write files elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use rustix::fs::OFlags;
use rustix::io::Errno;
use sealpost_base::{Error, Result};

use crate::{io_error, make_directory};

/// Opens a file of a copy to read it.
///
/// # Errors
/// File system errors; `InvalidInput` for a symbolic link, and for anything that is no file.
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

/// Whether something of that name is there that is neither a file nor a directory, or whether
/// `below` leads through such a thing to somewhere else than into `root`.
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
