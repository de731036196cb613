//! Finds the mail in a file or a directory tree: mbox files, Maildirs with their subfolders, `.eml` files.
//!
//! Symbolic links are not followed, and the depth is limited: a tree cannot send us round in circles.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sealpost_base::{Result, limits};

use crate::maildir::{MaildirReader, folder};
use crate::mbox::{MboxReader, Options};
use crate::{Source, eml::EmlReader, io_error};

/// What a file or directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Many messages in a file.
    Mbox,
    /// One folder of a Maildir.
    Maildir,
    /// One message in a file.
    Eml,
}

/// One archive that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file, or the Maildir folder.
    pub path: PathBuf,
    /// What it is.
    pub format: Format,
    /// The mailbox it stands for, `/` between levels.
    pub mailbox: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Found {
    /// Opens it for reading.
    ///
    /// # Errors
    /// If it cannot be opened, or is not what it looked like.
    pub fn open(&self, options: Options) -> Result<Box<dyn Source + Send>> {
        Ok(match self.format {
            Format::Mbox => Box::new(MboxReader::open(&self.path, options)?),
            Format::Maildir => Box::new(MaildirReader::open(&self.path)?),
            Format::Eml => Box::new(EmlReader::new(&self.path)),
        })
    }
}

/// What was found below a path, and what was passed over although it is not hidden.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Archives, in order of their paths.
    pub found: Vec<Found>,
    /// Files that are no mail, links, directories that are too deep.
    pub skipped: Vec<PathBuf>,
}

/// Looks at `path`. A single file is mail whatever it is called (an mbox if it begins `From `); in a directory
/// only files that look like mail are taken.
///
/// # Errors
/// If `path`, or a directory below it, cannot be read.
pub fn discover(path: &Path) -> Result<Discovery> {
    let mut discovery = Discovery::default();
    let metadata = fs::metadata(path).map_err(|e| io_error(path, e))?;
    if metadata.is_dir() {
        walk(path, "", 0, &mut discovery)?;
        return Ok(discovery);
    }
    let format =
        if begins_with_from(path)? || has_extension(path, "mbox") { Format::Mbox } else { Format::Eml };
    let mailbox = inbox(&stem(path));
    discovery.found.push(Found { path: path.to_owned(), format, mailbox, bytes: metadata.len() });
    Ok(discovery)
}

fn walk(directory: &Path, mailbox: &str, depth: usize, out: &mut Discovery) -> Result<()> {
    if depth > limits::MAILBOX_LEVELS {
        out.skipped.push(directory.to_owned());
        return Ok(());
    }
    let is_maildir = is_maildir(directory);
    if is_maildir {
        let bytes = size(&directory.join("cur")) + size(&directory.join("new"));
        let mailbox = inbox(mailbox);
        out.found.push(Found { path: directory.to_owned(), format: Format::Maildir, mailbox, bytes });
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| io_error(directory, e))? {
        let entry = entry.map_err(|e| io_error(directory, e))?;
        let kind = entry.file_type().map_err(|e| io_error(entry.path(), e))?;
        entries.push((entry.path(), kind));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if kind.is_dir() {
            if is_maildir && matches!(name.as_str(), "cur" | "new" | "tmp") {
                continue;
            }
            let below = match name.strip_prefix('.') {
                Some(_) if !self::is_maildir(&path) => continue,
                Some(_) => folder::mailbox(&name),
                // Thunderbird keeps the folders below `x` in `x.sbd`, Apple's Mail a folder `x` in `x.mbox/mbox`.
                None => folder::level(name.trim_end_matches(".sbd").trim_end_matches(".mbox")),
            };
            walk(&path, &join(mailbox, &below), depth + 1, out)?;
        } else if kind.is_file() && !is_maildir && !name.starts_with('.') {
            file(&path, mailbox, out)?;
        } else if !kind.is_file() {
            out.skipped.push(path);
        }
    }
    Ok(())
}

fn file(path: &Path, mailbox: &str, out: &mut Discovery) -> Result<()> {
    let bytes = fs::metadata(path).map_err(|e| io_error(path, e))?.len();
    let (format, mailbox) = if has_extension(path, "eml") {
        (Format::Eml, inbox(mailbox))
    } else if begins_with_from(path)? {
        let apple = path.file_name().is_some_and(|name| name == "mbox") && !mailbox.is_empty();
        (
            Format::Mbox,
            if apple { mailbox.to_owned() } else { inbox(&join(mailbox, &folder::level(&stem(path)))) },
        )
    } else {
        if bytes > 0 {
            out.skipped.push(path.to_owned());
        }
        return Ok(());
    };
    out.found.push(Found { path: path.to_owned(), format, mailbox, bytes });
    Ok(())
}

fn is_maildir(path: &Path) -> bool {
    fs::symlink_metadata(path.join("cur")).is_ok_and(|m| m.is_dir())
}

fn begins_with_from(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(64).read_to_end(&mut start))
        .map_err(|e| io_error(path, e))?;
    let blank = start.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    Ok(start[blank..].starts_with(b"From "))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// The file's name without an extension that only says what it is.
fn stem(path: &Path) -> String {
    let known = ["mbox", "mbx", "eml"].iter().any(|e| has_extension(path, e));
    let name = if known { path.file_stem() } else { path.file_name() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn join(mailbox: &str, below: &str) -> String {
    if mailbox.is_empty() { below.to_owned() } else { format!("{mailbox}/{below}") }
}

/// INBOX is one name in any case (RFC 3501 §5.1), and the name of what has none.
fn inbox(mailbox: &str) -> String {
    if mailbox.is_empty() || mailbox.eq_ignore_ascii_case("INBOX") {
        "INBOX".to_owned()
    } else {
        mailbox.to_owned()
    }
}

/// Bytes of the files in a directory; 0 if it cannot be read, since it only drives a progress bar.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|m| m.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_everything() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let from = "From a Thu Jan  1 00:00:10 1970\nA: b\n\n";
        for maildir in ["Mail", "Mail/.Work.2026", "Mail/Lists/rust"] {
            fs::create_dir_all(path.join(maildir).join("cur")).unwrap();
        }
        fs::create_dir_all(path.join("tb/Sent.sbd")).unwrap();
        fs::create_dir_all(path.join("apple/Old.mbox")).unwrap();
        fs::write(path.join("Mail/cur/1.x:2,S"), "A: b\n\n").unwrap();
        fs::write(path.join("Mail/dovecot.index"), "no mail").unwrap();
        for file in ["tb/Inbox", "tb/Sent", "tb/Sent.sbd/2025", "apple/Old.mbox/mbox"] {
            fs::write(path.join(file), from).unwrap();
        }
        fs::write(path.join("tb/Sent.msf"), "index").unwrap();
        fs::write(path.join("one.EML"), "A: b\r\n\r\n").unwrap();
        std::os::unix::fs::symlink(path, path.join("loop")).unwrap();
        let discovery = discover(path).unwrap();
        let found: Vec<_> = discovery.found.iter().map(|f| (f.mailbox.as_str(), f.format)).collect();
        assert_eq!(
            found,
            [
                ("Mail", Format::Maildir),
                ("Mail/Work/2026", Format::Maildir),
                ("Mail/Lists/rust", Format::Maildir),
                ("apple/Old", Format::Mbox),
                ("INBOX", Format::Eml),
                ("tb/Inbox", Format::Mbox),
                ("tb/Sent", Format::Mbox),
                ("tb/Sent/2025", Format::Mbox),
            ]
        );
        assert_eq!(discovery.skipped, [path.join("loop"), path.join("tb/Sent.msf")]);
        let single = discover(&path.join("Mail/cur/1.x:2,S")).unwrap();
        assert_eq!(single.found[0].format, Format::Eml);
        assert_eq!(discover(&path.join("Mail")).unwrap().found[0].mailbox, "INBOX");
        assert!(discover(&path.join("absent")).is_err());
    }
}
