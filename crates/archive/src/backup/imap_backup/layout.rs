//! The paths of files in imap-backup's format, and how they are opened after crashes and outside
//! changes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sealpost_base::{Kind, Result, limits};
use sealpost_files::{io_error, length, make_directory_in, open_file};

use super::adopt::{Paths, adopt, adopt_to_read, is_earlier, reads_back, save_orphans, text};
use super::files::{MboxFiles, is_published};
use super::{json, name, rewrite};
use crate::backup::contents::Contents;
use crate::backup::damaged::rename_damaged;
use crate::backup::file_backup::{FoundFolder, Layout, Purpose};
use crate::backup::journal::{Commit, Header, Journal, Message};
use crate::backup::reading::{Reading, Scratch, first_existing};
use crate::backup::{Flags, FolderName};

/// `FOLDER.mbox`, `FOLDER.imap`, `FOLDER.sealpost`.
pub struct ImapBackup;

impl Layout for ImapBackup {
    type Files = MboxFiles;

    fn place(&self, folder: &FolderName) -> String {
        name::path(folder.as_str())
    }

    fn directory<'a>(&self, place: &'a str) -> &'a str {
        place.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    fn parts(&self, root: &Path, place: &str) -> Vec<PathBuf> {
        ["mbox", "imap", "mirror", "sealpost"].map(|end| root.join(format!("{place}.{end}"))).to_vec()
    }

    fn find(&self, root: &Path) -> Result<Vec<FoundFolder>> {
        let mut found = Vec::new();
        walk(root, "", 0, &mut found)?;
        Ok(found)
    }

    fn prepare(&self, root: &Path, place: &str) -> Result<()> {
        make_directory_in(root, Path::new(self.directory(place)))
    }

    fn put_in_place(&self, root: &Path, place: &str, bytes: u64) -> Result<()> {
        rewrite::put_in_place(&self.paths(root, place), bytes)
    }

    fn is_as_left(&self, root: &Path, place: &str, last: &Commit) -> Result<bool> {
        let paths = self.paths(root, place);
        let json = length(&paths.json)?;
        let mbox = length(&paths.mbox)?;
        Ok(match last.shown {
            Some(shown) => shown == json && mbox == last.data,
            None => (json > 0 || last.present + last.gone == 0) && mbox >= last.data,
        })
    }

    fn foreign_size(&self, root: &Path, place: &str) -> Result<Option<(u64, u64)>> {
        let paths = self.paths(root, place);
        let file = open_file(&paths.json).map_err(|e| io_error(&paths.json, e))?;
        let mut messages = 0;
        let read = json::read(file, |_| messages += 1);
        let bytes = length(&paths.mbox)?;
        Ok(read.is_ok().then_some((messages, bytes)))
    }

    fn foreign(&self, root: &Path, place: &str) -> Result<Option<(FolderName, u32)>> {
        let Ok(file) = open_file(&self.paths(root, place).json) else { return Ok(None) };
        let named =
            |head: json::JsonHeader| (FolderName::new(name::name(place), Some('/')), head.uid_validity);
        Ok(json::head(file).map(named))
    }

    fn read(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        scratch: &Scratch,
    ) -> Result<(Reading, Contents)> {
        let mut paths = self.paths(root, place);
        // A killed run left a move, or the replacement by rewritten files, unfinished.
        if let Some(to) = &header.moving_to {
            let there = self.paths(root, to);
            paths.mbox = first_existing([paths.mbox, there.mbox]);
            paths.json = first_existing([paths.json, there.json]);
        }
        if let Some(bytes) = header.rewritten {
            let mbox = rewrite::rewritten(&paths.mbox);
            if length(&mbox)? == bytes && bytes > 0 {
                paths.mbox = mbox;
            }
            paths.json = first_existing([rewrite::rewritten(&paths.json), paths.json]);
        }
        let journal = match Contents::open_to_read(&paths.journal, scratch) {
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => None,
            journal => Some(journal?),
        };
        let (contents, notices) = match journal {
            // It has no later changes of another program.
            Some(contents)
                if is_published(&paths.json, header.uidvalidity, &contents)?.is_some()
                    || is_earlier(&paths.json, &contents)? != Some(false) =>
            {
                (contents, Vec::new())
            }
            journal => {
                paths.journal = scratch.path();
                adopt_to_read(&paths, header, journal.as_ref())?
            }
        };
        let mbox = paths.mbox;
        let text = move |message: &Message, _: &Flags| -> Result<Box<dyn Read>> {
            Ok(Box::new(text(&mbox, message.offset, message.length)?))
        };
        Ok((Reading::new(Box::new(text), notices), contents))
    }

    fn open(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        purpose: Purpose,
    ) -> Result<(MboxFiles, Contents)> {
        let paths = self.paths(root, place);
        if paths.journal.exists() {
            return open_ours(&paths, header, purpose);
        }
        match adopt(&paths, header.clone(), None) {
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                begin_anew(&paths, header, &e.to_string())
            }
            adopted => adopted,
        }
    }
}

impl ImapBackup {
    fn paths(&self, root: &Path, place: &str) -> Paths {
        let mut parts = self.parts(root, place).into_iter();
        let (mbox, json, _, journal) =
            (parts.next(), parts.next(), parts.next(), parts.next().unwrap_or_default());
        Paths { mbox: mbox.unwrap_or_default(), json: json.unwrap_or_default(), journal }
    }
}

/// Unreadable files are put aside, complete, and the folder begins empty.
fn begin_anew(paths: &Paths, header: Header, why: &str) -> Result<(MboxFiles, Contents)> {
    let mut renamed = Vec::new();
    for path in [&paths.mbox, &paths.json] {
        renamed.extend(rename_damaged(path)?.map(|path| path.display().to_string()));
    }
    let folder = header.folder.clone();
    let contents = Contents::new(Journal::create(&paths.journal, header.clone())?);
    let mut files = MboxFiles::open(paths.mbox.clone(), paths.json.clone(), header.uidvalidity, 0, None)?;
    files.notice(format!(
        "{folder}: {why}. No data was removed: the old files are now {}",
        renamed.join(" and ")
    ));
    Ok((files, contents))
}

fn open_ours(paths: &Paths, header: Header, purpose: Purpose) -> Result<(MboxFiles, Contents)> {
    rewrite::remove_unfinished(paths);
    let mut contents = Contents::read(&paths.journal, |_, _| {})?;
    let uidvalidity = header.uidvalidity;
    let (length, last) = (length(&paths.mbox)?, *contents.journal.last());
    let published = is_published(&paths.json, uidvalidity, &contents)?;
    if published.is_none() && is_earlier(&paths.json, &contents)? == Some(false) {
        return adopt(paths, header, Some(contents));
    }
    // Since the last complete run, another program rewrote it: any message may be elsewhere, or
    // another one.
    let changed = last.shown.is_some() && length != last.data;
    let (mut end, mut lost, mut first_lost, mut differ) = (0, Vec::new(), u64::MAX, false);
    for message in contents.messages()? {
        let (_, message) = message?;
        let ends = message.offset + message.length;
        let differs = ends <= length && changed && !reads_back(paths, &contents, &message)?;
        if differs || ends > length {
            lost.push(message.uid);
            first_lost = first_lost.min(message.offset);
            differ |= differs;
        } else {
            end = end.max(ends);
        }
    }
    let some_lost = !lost.is_empty();
    let what =
        if differ { "another program changed messages in the mbox" } else { "the mbox has become shorter" };
    if some_lost && purpose == Purpose::Read {
        let mut files =
            MboxFiles::open(paths.mbox.clone(), paths.json.clone(), uidvalidity, length, published)?;
        files.notice(contents.unreadable(lost.len(), what));
        return Ok((files, contents));
    }
    let published = published.filter(|_| !some_lost);
    // A complete run leaves nothing behind its last message.
    let ours = if length < last.data { end } else { last.data };
    let orphans = save_orphans(paths, ours.min(first_lost), last.shown.is_some())?;
    let mut files = MboxFiles::open(paths.mbox.clone(), paths.json.clone(), uidvalidity, end, published)?;
    if some_lost {
        files.notice(contents.forget(&lost, end, what)?);
    } else if end < last.data {
        contents.commit(end, &last.resume())?;
    }
    if let Some(orphans) = orphans {
        files.notice(format!(
            "{}: another program changed the mbox; its data from the first difference on is in {}",
            header.folder,
            orphans.display()
        ));
    }
    if last.shown.is_some() && published.is_none() && !some_lost {
        files.notice(format!("{}: its .imap file was removed or changed; written again", header.folder));
    }
    if published.is_none() && (some_lost || paths.json.exists() || contents.known.present() > 0) {
        files.publish(&contents)?;
    }
    Ok((files, contents))
}

fn walk(root: &Path, below: &str, depth: usize, found: &mut Vec<FoundFolder>) -> Result<()> {
    if depth > limits::MAILBOX_LEVELS {
        return Ok(());
    }
    let directory = root.join(below);
    for entry in fs::read_dir(&directory).map_err(|e| io_error(&directory, e))? {
        let entry = entry.map_err(|e| io_error(&directory, e))?;
        let kind = entry.file_type().map_err(|e| io_error(entry.path(), e))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if kind.is_dir() {
            walk(root, &path, depth + 1, found)?;
        } else if !kind.is_file() {
            continue;
        } else if let Some(place) = path.strip_suffix(".sealpost") {
            found.push(FoundFolder { place: place.to_owned(), foreign: None });
        } else if let Some(place) = path.strip_suffix(".imap")
            && !root.join(format!("{place}.sealpost")).exists()
        {
            let file = open_file(&entry.path()).map_err(|e| io_error(entry.path(), e))?;
            // Without a UIDVALIDITY it is put aside when the folder is opened.
            let uidvalidity = json::head(file).map_or(0, |head| head.uid_validity);
            let name = FolderName::new(name::name(place), Some('/'));
            found.push(FoundFolder { place: place.to_owned(), foreign: Some((name, uidvalidity)) });
        }
    }
    Ok(())
}
