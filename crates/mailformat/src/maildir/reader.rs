//! Reads one Maildir folder, in the order in which its messages arrived.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sealpost_base::{Kind, Result, Timestamp};
use sealpost_files::{io_error, open_file};

use super::{KEYWORDS_FILE, name};
use crate::eml::{MessageFile, modified};

use crate::{Meta, Source};

/// Bytes of a keywords file that are read.
const KEYWORDS_FILE_BYTES: u64 = 64 * 1024;

/// The messages of one folder (`cur` and `new`); its subfolders are sources of their own.
pub struct MaildirReader {
    folder: PathBuf,
    keywords: Vec<String>,
    waiting: VecDeque<Entry>,
    file: Option<MessageFile>,
    done: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: Option<Timestamp>,
    name: OsString,
    seen: bool,
}

impl Entry {
    /// Maildir names are printable ASCII; a message under another is a message all the same.
    fn text(&self) -> Cow<'_, str> {
        self.name.to_string_lossy()
    }

    fn directory(&self) -> &'static str {
        if self.seen { "cur" } else { "new" }
    }
}

impl MaildirReader {
    /// Reads the folder at `folder`. Names are listed now; a message that arrives later is not
    /// seen.
    ///
    /// # Errors
    /// If `cur` cannot be listed.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut entries = Vec::new();
        for seen in [true, false] {
            list(&folder.join(if seen { "cur" } else { "new" }), seen, &mut entries)?;
        }
        entries.sort_unstable();
        Ok(MaildirReader {
            folder: folder.to_owned(),
            keywords: keywords(&folder.join(KEYWORDS_FILE)),
            waiting: entries.into(),
            file: None,
            done: 0,
        })
    }

    /// Messages not yet read.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Another program may have renamed the file since, for other flags or from `new` to `cur`.
    fn find_renamed(&self, entry: &Entry) -> Result<Option<Entry>> {
        let name = entry.text();
        let unique = unique(&name);
        let mut entries = Vec::new();
        list(&self.folder.join("cur"), true, &mut entries)?;
        Ok(entries.into_iter().find(|other| self::unique(&other.text()) == unique))
    }

    fn open_entry(&mut self, entry: &Entry) -> Result<Meta> {
        let path = self.folder.join(entry.directory()).join(&entry.name);
        // It was a file when it was listed.
        if fs_is_link(&path) {
            return Err(sealpost_base::Error::invalid(format!("{} is a symbolic link", path.display())));
        }
        let (file, metadata) = MessageFile::open(&path)?;
        self.file = Some(file);
        self.done += metadata.len();
        let modified = modified(&metadata);
        let received = match (entry.time, modified.filter(|at| at.0 > 0)) {
            (Some(named), Some(changed)) => Some(named.min(changed)),
            (named, changed) => named.or(changed),
        };
        let flags = if entry.seen { name::flags(&entry.text(), &self.keywords) } else { Vec::new() };
        let flags = Some(flags);
        Ok(Meta { received, modified, flags, place: path.display().to_string(), ..Meta::default() })
    }
}

/// The part of a file name that stays when flags change.
pub(super) fn unique(name: &str) -> &str {
    name.split([':', ';', '!', ',']).next().unwrap_or(name)
}

fn list(directory: &Path, seen: bool, entries: &mut Vec<Entry>) -> Result<()> {
    if fs_is_link(directory) {
        let why = "is a symbolic link, which is not followed; name what it leads to";
        return Err(sealpost_base::Error::invalid(format!("{} {why}", directory.display())));
    }
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !seen => return Ok(()),
        Err(e) => return Err(io_error(directory, e)),
    };
    for entry in listing {
        let entry = entry.map_err(|e| io_error(directory, e))?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let mut entry = Entry { time: None, name: entry.file_name(), seen };
        if is_file && !entry.text().starts_with('.') {
            entry.time = name::time(&entry.text());
            entries.push(entry);
        }
    }
    Ok(())
}

fn fs_is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

pub(super) fn keywords(path: &Path) -> Vec<String> {
    use std::io::Read;
    let mut text = Vec::new();
    match open_file(path).and_then(|file| file.take(KEYWORDS_FILE_BYTES).read_to_end(&mut text)) {
        Ok(_) => name::read_keywords(&String::from_utf8_lossy(&text)),
        Err(_) => Vec::new(),
    }
}

impl Source for MaildirReader {
    fn next_message(&mut self) -> Result<Option<Meta>> {
        self.file.take().map_or(Ok(()), MessageFile::end)?;
        let Some(entry) = self.waiting.pop_front() else { return Ok(None) };
        match self.open_entry(&entry) {
            Err(e) if e.kind() == Kind::NotFound => match self.find_renamed(&entry)? {
                Some(renamed) => self.open_entry(&renamed).map(Some),
                None => Err(e),
            },
            result => result.map(Some),
        }
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        match &mut self.file {
            Some(file) => file.next_chunk(),
            None => Ok(None),
        }
    }

    fn bytes_done(&self) -> u64 {
        self.done
    }
}
