//! What a directory holds, before anything in it is opened or made.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sealpost_base::Error;

use super::target::Format;
use crate::exit::Usage;

/// Folders of an mbox copy are directories within each other; deeper ones are not looked into.
const DEPTH: usize = 8;

/// Which format the copy in `directory` has; `None`: there is none.
///
/// # Errors
/// If it cannot be read.
pub fn format(directory: &Path) -> Result<Option<Format>> {
    let has = |name: &str| directory.join(name).exists();
    Ok(if has("objects.sqlite") {
        Some(Format::Sealpost)
    } else if has("cur") {
        Some(Format::Maildir)
    } else if has_mbox(directory, DEPTH).with_context(|| directory.display().to_string())? {
        Some(Format::Mbox)
    } else {
        None
    })
}

/// Whether a copy in `wanted` can be opened in `directory`; `make`: it may be begun there.
///
/// # Errors
/// `NotFound` if there is none and none may be begun; `Usage` if what is there is in another format.
pub fn check(wanted: Format, directory: &Path, make: bool) -> Result<()> {
    let shown = directory.display();
    match format(directory)? {
        Some(found) if found != wanted => bail!(Usage(format!(
            "the copy in {shown} is not {} but {}: say --format {}, or name another directory",
            name(wanted),
            name(found),
            name(found)
        ))),
        None if !make => {
            Err(Error::not_found(format!("there is no copy in {shown}: is the directory right?")).into())
        }
        _ => Ok(()),
    }
}

/// As `--format` has it.
fn name(format: Format) -> &'static str {
    match format {
        Format::Sealpost => "sealpost",
        Format::Mbox => "mbox",
        Format::Maildir => "maildir",
    }
}

fn has_mbox(directory: &Path, depth: usize) -> std::io::Result<bool> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let mut below = Vec::new();
    for entry in entries {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_or_nothing_is_not_taken_for_an_empty_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("maildir/cur")).unwrap();
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
