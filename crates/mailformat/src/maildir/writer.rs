//! Writes one Maildir folder: each message in `tmp` first, synced, then renamed into `cur`.
//!
//! The caller names each message; an existing one is not written again, only its flags are updated.
//! So an export that was interrupted can be run again. New files and directories are accessible to
//! their owner only.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use sealpost_base::{Error, Result, Timestamp};
use sealpost_files::{io_error, make_directory_in, owner};

use super::reader::{keywords, unique};
use super::{KEYWORDS_FILE, folder, name};
use crate::lines::{LineEnds, ToLf};

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It exists with these flags.
    Unchanged,
    /// It existed; its flags were updated.
    Renamed,
    /// It does not exist: write it.
    Absent,
}

/// One folder being written.
pub struct MaildirWriter {
    path: PathBuf,
    line_ends: LineEnds,
    /// Present messages: unique name to file name.
    present: HashMap<Box<str>, Box<str>>,
    keywords: Vec<String>,
    lost_keywords: usize,
    current: Option<Current>,
}

struct Current {
    unique: String,
    path: PathBuf,
    file: BufWriter<File>,
    to_lf: ToLf,
    converted: Vec<u8>,
    bytes: u64,
}

impl MaildirWriter {
    /// The folder of `mailbox` below `root`, created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be made or read.
    pub fn open(root: &Path, mailbox: &str, line_ends: LineEnds) -> Result<Self> {
        let path = root.join(folder::directory(mailbox));
        let below = folder::directory(mailbox);
        owner::make_directory(root).map_err(|e| io_error(root, e))?;
        for part in ["tmp", "new", "cur"] {
            make_directory_in(root, &Path::new(&below).join(part))?;
        }
        if path != root {
            let mark = path.join("maildirfolder"); // Maildir++ marks subfolders so
            owner::ensure(&mark).map_err(|e| io_error(mark, e))?;
        }
        let cur = path.join("cur");
        let mut present = HashMap::new();
        for entry in fs::read_dir(&cur).map_err(|e| io_error(&cur, e))? {
            let entry = entry.map_err(|e| io_error(&cur, e))?;
            if let Ok(name) = entry.file_name().into_string() {
                present.insert(unique(&name).into(), name.into());
            }
        }
        let keywords = keywords(&path.join(KEYWORDS_FILE));
        Ok(MaildirWriter { path, line_ends, present, keywords, lost_keywords: 0, current: None })
    }

    /// Looks for the message called `unique` and updates its flags if it exists.
    ///
    /// # Errors
    /// `Invalid` if `unique` cannot be a file name's first part; `Retry` if the file cannot be renamed.
    pub fn place(&mut self, unique: &str, flags: &[String]) -> Result<Placed> {
        if unique.is_empty()
            || self::unique(unique) != unique
            || unique.contains('/')
            || unique.starts_with('.')
        {
            return Err(Error::invalid(format!("{unique:?} cannot name a message in a Maildir")));
        }
        let letters = self.letters(flags);
        let Some(name) = self.present.get(unique) else { return Ok(Placed::Absent) };
        let stem = name.split(":2,").next().unwrap_or(name);
        let wanted = format!("{stem}:2,{letters}");
        if **name == *wanted {
            return Ok(Placed::Unchanged);
        }
        let cur = self.path.join("cur");
        fs::rename(cur.join(&**name), cur.join(&wanted)).map_err(|e| io_error(cur.join(&**name), e))?;
        self.present.insert(unique.into(), wanted.into());
        Ok(Placed::Renamed)
    }

    /// Begins the message called `unique`, which [`MaildirWriter::place`] found absent.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub fn begin(&mut self, unique: &str) -> Result<()> {
        let path = self.path.join("tmp").join(unique);
        let file = owner::create_anew(&path).map_err(|e| io_error(&path, e))?;
        self.current = Some(Current {
            unique: unique.to_owned(),
            path,
            file: BufWriter::with_capacity(64 * 1024, file),
            to_lf: ToLf::default(),
            converted: Vec::new(),
            bytes: 0,
        });
        Ok(())
    }

    /// Writes the next piece of the message.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let bytes = match self.line_ends {
            LineEnds::Exact => bytes,
            LineEnds::Lf => {
                current.converted.clear();
                current.to_lf.push(bytes, &mut current.converted);
                &current.converted
            }
        };
        current.bytes += bytes.len() as u64;
        current.file.write_all(bytes).map_err(|e| io_error(&current.path, e))
    }

    /// Removes the message that was begun.
    ///
    /// # Errors
    /// If its file cannot be removed.
    pub fn abandon(&mut self) -> Result<()> {
        match self.current.take() {
            Some(current) => fs::remove_file(&current.path).map_err(|e| io_error(current.path, e)),
            None => Ok(()),
        }
    }

    /// Syncs the message, dates it, and renames it into `cur`.
    ///
    /// # Errors
    /// If any of that fails.
    pub fn end(&mut self, flags: &[String], received: Timestamp) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let letters = self.letters(flags);
        let mut rest = Vec::new();
        current.to_lf.finish(&mut rest);
        current.bytes += rest.len() as u64;
        let name = format!("{},S={}:2,{letters}", current.unique, current.bytes);
        let file_at = self.path.join("cur").join(&name);
        let finish = || {
            current.file.write_all(&rest)?;
            let file = current.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            if let Ok(since) = u64::try_from(received.0) {
                file.set_modified(UNIX_EPOCH + Duration::from_millis(since))?;
            }
            file.sync_all()?;
            fs::rename(&current.path, &file_at)
        };
        finish().map_err(|e| io_error(&file_at, e))?;
        self.present.insert(current.unique.into(), name.into());
        Ok(())
    }

    /// Writes the names of keywords and syncs the folder. Returns how many keywords found no
    /// letter: the format has 26 for a folder.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(self) -> Result<usize> {
        if !self.keywords.is_empty() {
            let path = self.path.join(KEYWORDS_FILE);
            let temporary = self.path.join("tmp").join(KEYWORDS_FILE);
            let replace = || {
                let mut file = owner::create_anew(&temporary)?;
                if let Ok(before) = fs::symlink_metadata(&path)
                    && before.is_file()
                {
                    file.set_permissions(before.permissions())?;
                }
                file.write_all(name::write_keywords(&self.keywords).as_bytes())?;
                file.sync_all()?;
                fs::rename(&temporary, &path)
            };
            replace().map_err(|e| io_error(&path, e))?;
        }
        for directory in [self.path.join("cur"), self.path.clone()] {
            File::open(&directory).and_then(|d| d.sync_all()).map_err(|e| io_error(&directory, e))?;
        }
        Ok(self.lost_keywords)
    }

    fn letters(&mut self, flags: &[String]) -> String {
        let (letters, lost) = name::letters(flags, &mut self.keywords);
        self.lost_keywords += lost;
        letters
    }
}
