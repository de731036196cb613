//! What a directory holds, before anything in it is opened or made.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use sealpost_base::Error;

use super::target::Format;
use crate::exit::Usage;

/// Folders of an mbox copy are directories within each other; deeper ones are not looked into.
const DEPTH: usize = 8;

/// Which format the backup in `directory` has; `None`: there is none.
///
/// # Errors
/// If it cannot be read.
pub fn format(directory: &Path) -> Result<Option<Format>> {
    let unreadable = || directory.display().to_string();
    Ok(if directory.join("objects.sqlite").exists() {
        Some(Format::Sealpost)
    } else if has_maildir(directory).with_context(unreadable)? {
        Some(Format::Maildir)
    } else if has_mbox(directory, DEPTH).with_context(unreadable)? {
        Some(Format::Mbox)
    } else {
        None
    })
}

/// Whether a backup in `wanted` can be opened in `directory`; `make`: it may be created there.
///
/// # Errors
/// `NotFound` if there is none and none may be begun; `Usage` if what is there is in another format.
pub fn check(wanted: Format, directory: &Path, make: bool) -> Result<()> {
    let shown = directory.display();
    match format(directory)? {
        Some(found) if found != wanted => bail!(Usage(format!(
            "the backup in {shown} has the format {1}, not {0}: use --format {2}, or another directory",
            name(wanted),
            name(found),
            name(found)
        ))),
        None if !make => Err(no_copy(directory).into()),
        _ => Ok(()),
    }
}

/// Nothing in a directory is a backup.
pub fn no_copy(directory: &Path) -> Error {
    Error::not_found(format!("no backup in {}: check the directory", directory.display()))
}

/// As `--format` has it.
fn name(format: Format) -> &'static str {
    match format {
        Format::Sealpost => "sealpost",
        Format::Mbox => "mbox",
        Format::Maildir => "maildir",
    }
}

/// INBOX is in the directory itself, other folders in directories whose names begin with a dot; any
/// of them may be missing.
fn has_maildir(directory: &Path) -> io::Result<bool> {
    let mut maildirs = entries(directory)?.filter_map(|entry| entry.ok()).map(|entry| entry.path());
    let folder = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    Ok(directory.join("cur").is_dir() || maildirs.any(|path| folder(&path) && path.join("cur").is_dir()))
}

fn has_mbox(directory: &Path, depth: usize) -> io::Result<bool> {
    let mut below = Vec::new();
    for entry in entries(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            below.push(path);
        } else if path.extension().is_some_and(|extension| extension == "mbox" || extension == "imap") {
            return Ok(true);
        }
    }
    for directory in below.iter().filter(|_| depth > 0) {
        if has_mbox(directory, depth - 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is in a directory; nothing if it is not there.
fn entries(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        entries => Ok(Some(entries?).into_iter().flatten()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_not_taken_for_an_empty_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        // A folder that is not INBOX.
        fs::create_dir_all(path("maildir/.Work/cur")).unwrap();
        fs::create_dir_all(path("mbox/Work")).unwrap();
        fs::write(path("mbox/Work/2024.mbox"), "").unwrap();
        fs::create_dir_all(path("sealpost")).unwrap();
        fs::write(path("sealpost/objects.sqlite"), "").unwrap();
        fs::create_dir_all(path("empty")).unwrap();
        for wanted in [Format::Sealpost, Format::Mbox, Format::Maildir] {
            for other in [Format::Sealpost, Format::Mbox, Format::Maildir] {
                let checked = check(wanted, &path(name(other)), true);
                assert_eq!(checked.is_ok(), wanted == other, "{wanted:?} in {other:?}");
            }
            for nothing in ["empty", "nosuch"] {
                assert!(check(wanted, &path(nothing), true).is_ok());
                assert!(check(wanted, &path(nothing), false).is_err());
            }
        }
        assert!(!path("nosuch").exists());
    }
}
