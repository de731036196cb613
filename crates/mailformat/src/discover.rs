//! Finds the mail in a file or a directory tree: mbox files, Maildirs with their subfolders, files
//! with one message.
//!
//! The kind of a file depends on its contents ([`crate::recognize`]), whether it was named or
//! found. Symbolic links are not followed, and the depth is limited: a tree cannot cause endless
//! recursion. Files that are not mail are reported, with the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sealpost_base::{Error, Result, limits};
use sealpost_files::io_error;

use crate::eml::{EmlReader, modified};
use crate::input::Input;
use crate::maildir::{MaildirReader, folder};
use crate::mbox::{MboxReader, Options, Variant};
use crate::packed::Compression;
use crate::recognize::{Mail, recognize};
use crate::spool::Spool;

use crate::Source;

/// The name of standard input.
pub const STDIN: &str = "-";

/// The kind of a file or directory.
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
pub struct FoundArchive {
    /// The file, or the Maildir folder.
    pub path: PathBuf,
    /// Its kind.
    pub format: Format,
    /// The mailbox for it, with `/` between levels.
    pub mailbox: String,
    /// Its size in bytes.
    pub bytes: u64,
    compression: Option<Compression>,
    /// An input that cannot be opened a second time.
    stream: Mutex<Option<Input>>,
}

impl FoundArchive {
    fn new(path: &Path, format: Format, mailbox: String, bytes: u64) -> Self {
        let path = path.to_owned();
        FoundArchive { path, format, mailbox, bytes, compression: None, stream: Mutex::default() }
    }

    /// Opens it for reading. An mbox that is compressed, or no regular file, is first read into an
    /// unnamed file on the disk of `spool`.
    ///
    /// # Errors
    /// If it cannot be opened, or its kind has changed.
    pub fn open(&self, options: Options, spool: &Path) -> Result<Box<dyn Source + Send>> {
        if self.format == Format::Maildir {
            return Ok(Box::new(MaildirReader::open(&self.path)?));
        }
        // imap-backup, and backups in its format, keep flags beside the mbox and headers unchanged.
        let ignore_flags = options.ignore_flags || self.path.with_extension("imap").is_file();
        let options = Options { ignore_flags, ..options };
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.format == Format::Mbox && self.compression.is_none() && stream.is_none() {
            return Ok(Box::new(MboxReader::open(&self.path, options)?));
        }
        let name = self.path.display().to_string();
        let modified = fs::metadata(&self.path).ok().and_then(|m| modified(&m)).filter(|_| stream.is_none());
        let input = match stream {
            Some(input) => input,
            None => Input::open(&self.path).map_err(|e| io_error(&self.path, e))?,
        };
        if self.format == Format::Eml {
            return Ok(Box::new(EmlReader::new(input, name, self.bytes, modified)));
        }
        let behind = input.behind();
        let spooled = Spool::of(input.into_reader(), spool).map_err(|e| io_error(spool, e))?;
        Ok(Box::new(MboxReader::new(spooled, &name, options)?.modified(modified).behind(behind)))
    }
}

/// A file or directory that is not imported, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The results for a path.
#[derive(Default)]
pub struct Discovery {
    /// Archives, in order of their paths.
    pub found: Vec<FoundArchive>,
    /// In a directory: files that are not mail, links, directories that are too deep.
    pub skipped: Vec<Skipped>,
    /// Unreadable files, and named files that are not mail.
    pub failed: Vec<Skipped>,
}

impl Discovery {
    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        self.skipped.push(Skipped { path: path.to_owned(), reason: reason.into() });
    }

    fn fail(&mut self, path: &Path, reason: impl Into<String>) {
        self.failed.push(Skipped { path: path.to_owned(), reason: reason.into() });
    }
}

/// Examines `path`: a directory, a file, a pipe, or [`STDIN`].
///
/// # Errors
/// If `path` cannot be read.
pub fn discover(path: &Path) -> Result<Discovery> {
    let mut discovery = Discovery::default();
    if path == Path::new(STDIN) {
        let input = Input::of(std::io::stdin()).map_err(|e| io_error(path, e))?;
        named(path, input, None, &mut discovery);
        return Ok(discovery);
    }
    let metadata = fs::metadata(path).map_err(|e| io_error(path, e))?;
    if metadata.is_dir() {
        walk(path, "", 0, &mut discovery)?;
    } else {
        let input = Input::open(path).map_err(|e| io_error(path, e))?;
        named(path, input, metadata.is_file().then_some(metadata.len()), &mut discovery);
    }
    Ok(discovery)
}

/// A file that was named; without a size it is a stream.
fn named(path: &Path, input: Input, bytes: Option<u64>, out: &mut Discovery) {
    match look(path, &input, bytes.is_some()) {
        Err(Unfit { reason, .. }) => out.fail(path, reason),
        Ok(format) => {
            let mut found = FoundArchive::new(path, format, inbox(&stem(path)), bytes.unwrap_or(0));
            found.compression = input.compression();
            if bytes.is_none() {
                found.stream = Mutex::new(Some(input));
            }
            out.found.push(found);
        }
    }
}

/// Why a file is not imported.
struct Unfit {
    reason: String,
    /// It was unreadable, so it may have been mail.
    unread: bool,
}

/// The kind of a file, or a stream, by its contents.
fn look(path: &Path, input: &Input, is_file: bool) -> Result<Format, Unfit> {
    let fit = |reason: String| Unfit { reason, unread: false };
    let compression = input.compression();
    if compression.is_some() && Compression::of(input.head()).is_some() {
        return Err(fit("compressed twice; decompress it first".to_owned()));
    }
    let is_eml = has_extension(&without_compression(path), "eml");
    match (recognize(input.head(), is_eml), input.failure()) {
        (Ok(Mail::Mbox), _) => Ok(Format::Mbox),
        // A file of several messages that has this name nevertheless.
        (Ok(Mail::Message), _) if is_eml && is_file && compression.is_none() && holds_several(path) => {
            Ok(Format::Mbox)
        }
        (Ok(Mail::Message), _) => Ok(Format::Eml),
        (Err(_), Some(failure)) => Err(Unfit { reason: failure.to_string(), unread: true }),
        (Err(other), None) => Err(fit(match compression {
            Some(_) => format!("unpacked: {other}"),
            None => other.to_string(),
        })),
    }
}

/// Whether the file is an mbox with more than one message. Nothing of it is unquoted for this
/// check.
fn holds_several(path: &Path) -> bool {
    let options = Options { variant: Some(Variant::Cl2), ..Options::default() };
    let Ok(mut reader) = MboxReader::open(path, options) else { return false };
    matches!(reader.next_message(), Ok(Some(_))) && matches!(reader.next_message(), Ok(Some(_)))
}

fn walk(directory: &Path, mailbox: &str, depth: usize, out: &mut Discovery) -> Result<()> {
    if depth > limits::MAILBOX_LEVELS {
        out.skip(directory, format!("below more than {} others", limits::MAILBOX_LEVELS));
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| io_error(directory, e))? {
        let entry = entry.map_err(|e| io_error(directory, e))?;
        let kind = entry.file_type().map_err(|e| io_error(entry.path(), e))?;
        entries.push((entry.path(), kind));
    }
    entries.sort_by_cached_key(|(path, _)| in_order(path));
    let is_maildir = is_maildir(directory);
    if is_maildir {
        let bytes = size(&directory.join("cur")) + size(&directory.join("new"));
        out.found.push(FoundArchive::new(directory, Format::Maildir, inbox(mailbox), bytes));
    }
    for (path, kind) in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if kind.is_dir() {
            if is_maildir && matches!(name.as_str(), "cur" | "new" | "tmp") {
                continue;
            }
            let below = match name.strip_prefix('.') {
                Some(_) if !self::is_maildir(&path) => continue,
                Some(_) => folder::mailbox(&name),
                // Thunderbird keeps the folders below `x` in `x.sbd`, Apple Mail a folder `x` in
                // `x.mbox/mbox`.
                None => folder::level(name.trim_end_matches(".sbd").trim_end_matches(".mbox")),
            };
            // An unreadable one does not stop the others.
            if let Err(e) = walk(&path, &join(mailbox, &below), depth + 1, out) {
                out.fail(&path, without_path(&e, &path));
            }
        } else if kind.is_symlink() {
            out.skip(&path, "a symbolic link; name what it leads to");
        } else if !kind.is_file() {
            out.skip(&path, "not a file");
        } else {
            let is_known = name.starts_with('.') || (is_maildir && is_of_maildir(&name));
            if !is_known {
                file(&path, mailbox, out);
            }
        }
    }
    Ok(())
}

/// A file that was found in a directory.
fn file(path: &Path, mailbox: &str, out: &mut Discovery) {
    let opened = fs::metadata(path).and_then(|m| Ok((Input::open(path)?, m.len())));
    let (input, bytes) = match opened {
        Ok(opened) => opened,
        Err(e) => return out.fail(path, e.to_string()),
    };
    let format = match look(path, &input, true) {
        Ok(format) => format,
        Err(Unfit { reason, unread: true }) => return out.fail(path, reason),
        Err(Unfit { reason, unread: false }) => return out.skip(path, reason),
    };
    let apple = path.file_name().is_some_and(|name| name == "mbox") && !mailbox.is_empty();
    let mailbox = match format {
        Format::Mbox if apple => mailbox.to_owned(),
        Format::Mbox => inbox(&join(mailbox, &folder::level(&stem(path)))),
        _ => inbox(mailbox),
    };
    let mut found = FoundArchive::new(path, format, mailbox, bytes);
    found.compression = input.compression();
    out.found.push(found);
}

/// Names in their order, numbers by their value: files of one message are often numbered.
fn in_order(path: &Path) -> (Option<u64>, PathBuf) {
    let number = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    (number, path.to_owned())
}

fn is_maildir(path: &Path) -> bool {
    fs::symlink_metadata(path.join("cur")).is_ok_and(|m| m.is_dir())
}

/// Whether servers keep a file of that name beside the messages of a Maildir.
fn is_of_maildir(name: &str) -> bool {
    ["dovecot", "courier", "maildir", "subscriptions"].iter().any(|begins| name.starts_with(begins))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// The name that the file has when it is decompressed.
fn without_compression(path: &Path) -> PathBuf {
    let extension = path.extension().and_then(|e| e.to_str()).and_then(Compression::of_extension);
    if extension.is_some() { path.with_extension("") } else { path.to_owned() }
}

/// The file's name without an extension that only names its kind.
fn stem(path: &Path) -> String {
    let path = without_compression(path);
    let known = ["mbox", "mbx", "eml"].iter().any(|e| has_extension(&path, e));
    let name = if known { path.file_stem() } else { path.file_name() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn join(mailbox: &str, below: &str) -> String {
    if mailbox.is_empty() { below.to_owned() } else { format!("{mailbox}/{below}") }
}

/// INBOX is one name in any case (RFC 3501 §5.1), and the default for an empty name.
fn inbox(mailbox: &str) -> String {
    if mailbox.is_empty() || mailbox == STDIN || mailbox.eq_ignore_ascii_case("INBOX") {
        "INBOX".to_owned()
    } else {
        mailbox.to_owned()
    }
}

/// The text of an error without its path.
fn without_path(error: &Error, path: &Path) -> String {
    let says = error.to_string();
    let says = says.strip_prefix(&path.display().to_string()).unwrap_or(&says);
    says.trim_start_matches([':', ' ']).to_owned()
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
mod tests;
