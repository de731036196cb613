//! Where Maildir folders are, and how they are opened.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sealpost_base::{Kind, Result, Uid, counted};
use sealpost_files::{io_error, make_directory_in, owner, sync_directory};

use super::adopt::{rebuild, take_over};
use super::files::{MaildirFiles, OTHER, changed, open};
use super::name;
use super::names::{self, Names};
use crate::backup::contents::Contents;
use crate::backup::file_backup::{FoundFolder, Layout, Purpose};
use crate::backup::journal::{Commit, Header, Message, Record};
use crate::backup::reading::{Reading, Scratch, first_existing};
use crate::backup::{Flags, FolderName, KnownMessages, Resume};

/// The journal of the folder in `directory`.
pub fn journal(directory: &Path) -> PathBuf {
    directory.join("sealpost.journal")
}

/// Maildir++, with our journal.
pub struct Maildir;

/// The directories of a folder, none of which is a symbolic link.
fn make_directories(root: &Path, place: &str) -> Result<()> {
    ["tmp", "new", "cur"].iter().try_for_each(|part| make_directory_in(root, &Path::new(place).join(part)))
}

impl Layout for Maildir {
    type Files = MaildirFiles;

    fn place(&self, folder: &FolderName) -> String {
        name::directory(folder)
    }

    fn superseded_prefix(&self, place: &str) -> String {
        if place.is_empty() { ".INBOX".to_owned() } else { place.to_owned() }
    }

    fn directory<'a>(&self, place: &'a str) -> &'a str {
        place
    }

    fn parts(&self, root: &Path, place: &str) -> Vec<PathBuf> {
        let directory = root.join(place);
        let parts = ["cur", "new", "tmp", ".uidvalidity", "maildirfolder"].map(|part| directory.join(part));
        parts.into_iter().chain([journal(&directory)]).collect()
    }

    fn find(&self, root: &Path) -> Result<Vec<FoundFolder>> {
        let mut places = vec![String::new()];
        for entry in fs::read_dir(root).map_err(|e| io_error(root, e))? {
            let entry = entry.map_err(|e| io_error(root, e))?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let Ok(name) = entry.file_name().into_string()
                && is_directory
                && name.starts_with('.')
            {
                places.push(name);
            }
        }
        let mut found = Vec::new();
        for place in places {
            let directory = root.join(&place);
            if journal(&directory).exists() {
                found.push(FoundFolder { place, foreign: None });
            } else if let Some(folder) = name::folder(&place)
                && let Some(uidvalidity) = names::uidvalidity(&directory)?
            {
                found.push(FoundFolder { place, foreign: Some((folder, uidvalidity)) });
            }
        }
        Ok(found)
    }

    fn foreign_size(&self, root: &Path, place: &str) -> Result<Option<(u64, u64)>> {
        let directory = root.join(place);
        let Some(uidvalidity) = names::uidvalidity(&directory)? else { return Ok(None) };
        let files = Names::new(directory, uidvalidity).unknown(&KnownMessages::new())?;
        let bytes = files.iter().filter_map(|(_, path)| Some(fs::symlink_metadata(path).ok()?.len())).sum();
        Ok(Some((files.len() as u64, bytes)))
    }

    fn prepare(&self, root: &Path, place: &str) -> Result<()> {
        make_directory_in(root, Path::new(place))
    }

    fn moved(&self, root: &Path, from: &str) -> Result<()> {
        // INBOX is the backup's own directory; others are empty now, or a user put something there.
        if !from.is_empty() {
            let _ = fs::remove_dir(root.join(from));
        }
        Ok(())
    }

    fn is_as_left(&self, root: &Path, place: &str, last: &Commit) -> Result<bool> {
        let changed = changed(&root.join(place))?;
        Ok(changed.is_some_and(|changed| last.shown.is_none_or(|shown| shown == changed)))
    }

    fn foreign(&self, root: &Path, place: &str) -> Result<Option<(FolderName, u32)>> {
        Ok(name::folder(place).zip(names::uidvalidity(&root.join(place))?))
    }

    fn read(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        scratch: &Scratch,
    ) -> Result<(Reading, Contents)> {
        let mut directory = root.join(place);
        let own = journal(&directory);
        // A killed run left the move unfinished.
        if let Some(to) = &header.moving_to
            && first_existing([directory.join("cur"), root.join(to).join("cur")]) != directory.join("cur")
        {
            directory = root.join(to);
        }
        let names = Names::new(directory, header.uidvalidity);
        let mut notices = Vec::new();
        let (found, rebuilt) = match Contents::open_to_read(&own, scratch) {
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => {
                let path = scratch.path();
                rebuild(&names, &path, header.clone())?;
                (Contents::open_to_read(&path, scratch)?, true)
            }
            found => (found?, false),
        };
        let mut contents = found;
        let folder = &header.folder;
        if rebuilt {
            let messages = counted(contents.known.uids().len(), "message", "messages");
            notices.push(format!("{folder}: its journal cannot be read; reading {messages} from the files"));
        } else {
            let (_, unknown) = names.compare(&contents.known)?;
            contents.misses(unknown.len() as u64);
        }
        let text = move |message: &Message, flags: &Flags| -> Result<Box<dyn Read>> {
            let path = match names.find(message.uid, flags)? {
                Some(path) => path,
                // A killed run left them without their names.
                None => first_existing([
                    names.arriving(&names.tmp(), message.uid),
                    names.arriving(&names.tmp().join(OTHER), message.uid),
                ]),
            };
            Ok(Box::new(open(&path, message)?))
        };
        Ok((Reading::new(Box::new(text), notices), contents))
    }

    fn open(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        purpose: Purpose,
    ) -> Result<(MaildirFiles, Contents)> {
        let directory = root.join(place);
        // The changes of the last transaction in file names.
        let (mut now, mut last) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        let names = Names::new(directory.clone(), header.uidvalidity);
        make_directories(root, place)?;
        let rebuilt = !journal(&directory).exists();
        if rebuilt {
            rebuild(&names, &journal(&directory), header.clone())?;
        }
        let mut contents = Contents::read(&journal(&directory), |_, record| match record {
            Record::Flags { uid, .. } => now.0.push(*uid),
            Record::Vanished { uid } => now.1.push(*uid),
            Record::Commit(_) => last = std::mem::take(&mut now),
            _ => {}
        })?;
        let mark = directory.join("maildirfolder");
        if !place.is_empty() && !mark.exists() {
            owner::ensure(&mark).map_err(|e| io_error(&mark, e))?;
            sync_directory(&directory)?;
        }
        let mut files = MaildirFiles::open(directory.clone(), header.uidvalidity, &contents)?;
        // If the run ended normally this was done, and another program may have changed names
        // since.
        if contents.journal.last().shown.is_none() {
            files.redo(&last.0, &last.1, &contents.known)?;
        }
        let (lost, unknown) = names.compare(&contents.known)?;
        if rebuilt {
            let messages = counted(contents.known.uids().len(), "message", "messages");
            files.notice(format!(
                "{}: its journal is missing; adopted {messages} from the files",
                header.folder
            ));
        } else if purpose == Purpose::Read {
            contents.misses(unknown.len() as u64);
        } else if !unknown.is_empty() {
            let taken = take_over(&names, &mut contents)?;
            contents.commit(0, &Resume::default())?;
            files.notice(format!(
                "{}: adopted {} that its journal does not name",
                header.folder,
                counted(taken, "message file", "message files")
            ));
        }
        let lost: Vec<u32> = lost.iter().map(Uid::get).collect();
        if !lost.is_empty() {
            let what = counted(lost.len(), "file is missing", "files are missing");
            files.notice(match purpose {
                Purpose::Change => contents.forget(&lost, 0, &what)?,
                Purpose::Read => contents.unreadable(lost.len(), &what),
            });
        }
        Ok((files, contents))
    }
}
