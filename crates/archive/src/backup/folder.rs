//! A folder with messages in files and all other data in its journal: the common part of the file
//! formats.
//!
//! A format implements [`Files`]: it takes text with LF, stores it and gives it back. Exact bytes,
//! digests, flags, transactions and the known messages are the same for all formats, and handled
//! here.
//!
//! Order of a commit: data on disk ([`Files::sync`]), journal on disk, then the files that other
//! programs read ([`Files::committed`]). If a crash interrupts the last step, it is completed when
//! the folder is opened.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::types::{Date, DateTime};

use super::claim::Claim;
use super::contents::Contents;
use super::digest::Digesting;
use super::journal::{Commit, FlagsRecord, Message, Record};
use super::line_ends::ToText;
use super::stored_message::StoredMessage;
use super::{Arrived, Flags, Folder, KnownMessages, Resume, Stored, is_among, possible};

/// Bytes of recorded line ends that are collected before they go to the journal.
const RUNS_BYTES: usize = 8 * 1024;

/// Dates that are collected before the journal is rewritten, some megabytes; a later run sets more.
const DATES: usize = 200_000;

/// How a format stores messages. Text has LF at its line ends.
pub(super) trait Files: Send {
    /// Begins a message.
    fn begin(&mut self) -> Result<()>;
    /// The next piece of its text.
    fn write(&mut self, text: &[u8]) -> Result<()>;
    /// The message is complete: returns where it begins, and how many bytes it takes.
    fn finish(&mut self, arrived: &Arrived) -> Result<(u64, u64)>;
    /// Drops the message that was begun.
    fn abandon(&mut self) -> Result<()>;
    /// A message has other flags now.
    fn flags(&mut self, uid: u32, before: &Flags, after: &Flags) -> Result<()>;
    /// Removes a message.
    fn remove(&mut self, uid: u32, flags: &Flags) -> Result<()>;
    /// Gives these messages other UIDs, and marks them as on the server. Nothing is uncommitted;
    /// the change is durable on return. Returns how many.
    fn renumber(&mut self, contents: &mut Contents, uids: &BTreeMap<u32, u32>) -> Result<u64>;
    /// Everything written is on disk on return: bytes of the data file, if there is one.
    fn sync(&mut self) -> Result<u64>;
    /// The journal records that the synced data is valid.
    fn committed(&mut self, contents: &Contents, resume: &Resume) -> Result<()>;
    /// The run ends: files for other programs are brought up to date; returns what a stat then
    /// shows of them ([`Commit::shown`]).
    fn close(&mut self, contents: &Contents) -> Result<u64>;
    /// The folder was closed: messages that are not kept are removed from the files, if it is worth
    /// it.
    fn tidy(&mut self, _contents: &Contents) -> Result<()> {
        Ok(())
    }
    /// The text of a message, and perhaps more text with LF after it.
    fn text(&self, message: &Message, flags: &Flags) -> Result<Box<dyn Read + '_>>;
    /// Damage that was found and repaired when it was opened.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A folder of files, opened.
pub(super) struct FileFolder<F> {
    files: F,
    contents: Contents,
    writing: Option<Writing>,
    text: Vec<u8>,
    /// UIDs whose next message replaces the stored one.
    replace: UidSet,
    /// Dates for messages that have none, until the folder is closed.
    dates: HashMap<u32, DateTime>,
    /// A notice besides those of the files.
    notice: Option<String>,
    /// After a failed write: the contents of the disk are unknown.
    broken: bool,
    /// No other task has the folder open.
    _claim: Claim,
}

/// The message that is arriving.
#[derive(Default)]
struct Writing {
    digesting: Digesting,
    bytes: u64,
    to_text: ToText,
    runs: Vec<u8>,
    /// Where the first record of line ends begins; 0: there is none.
    line_ends: u64,
}

impl<F: Files> FileFolder<F> {
    /// A folder whose journal was read and whose files match it.
    pub fn new(files: F, contents: Contents, claim: Claim) -> Self {
        FileFolder {
            files,
            contents,
            writing: None,
            text: Vec::new(),
            replace: UidSet::new(),
            dates: HashMap::new(),
            notice: None,
            broken: false,
            _claim: claim,
        }
    }

    /// Adds a notice for the user.
    pub fn notice(&mut self, text: Option<String>) {
        self.notice = text;
    }

    fn check(&self) -> Result<()> {
        match self.broken {
            true => Err(Error::retry("an earlier operation failed; open the folder again")),
            false => Ok(()),
        }
    }

    /// Before the first change the journal records that a run is active: this tells what a killed
    /// run leaves in the data file from what another program puts there.
    fn at_work(&mut self) -> Result<()> {
        let last = *self.contents.journal.last();
        if last.shown.is_none() || self.contents.journal.is_dirty() {
            return Ok(());
        }
        let journal = &mut self.contents.journal;
        journal.commit(&Commit { shown: None, ..last }).inspect_err(|_| self.broken = true)
    }

    fn note_runs(&mut self, least: usize) -> Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        if writing.runs.len() > least {
            let runs = std::mem::take(&mut writing.runs);
            let at = self.contents.journal.push(&Record::LineEnds { runs })?;
            if writing.line_ends == 0 {
                writing.line_ends = at;
            }
        }
        Ok(())
    }
}

impl<F: Files> Folder for FileFolder<F> {
    fn known(&self) -> &KnownMessages {
        &self.contents.known
    }

    fn resume(&self) -> Resume {
        self.contents.journal.last().resume()
    }

    fn begin(&mut self, _size: u64) -> Result<()> {
        self.check()?;
        if self.writing.is_some() {
            self.abandon()?;
        }
        self.at_work()?;
        self.files.begin()?;
        self.writing = Some(Writing::default());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        writing.digesting.push(bytes);
        writing.bytes += bytes.len() as u64;
        self.text.clear();
        writing.to_text.push(bytes, &mut self.text, &mut writing.runs);
        self.files.write(&self.text)?;
        self.note_runs(RUNS_BYTES)
    }

    fn finish(&mut self, arrived: &Arrived) -> Result<()> {
        if self.writing.is_none() {
            return Ok(());
        }
        if arrived.uid == 0 || !self.takes(arrived.uid) {
            return self.abandon();
        }
        let before = self.contents.known.flags(arrived.uid).cloned();
        let replaces = before.is_some();
        let arrived = &Arrived { flags: before.unwrap_or_else(|| arrived.flags.clone()), ..arrived.clone() };
        let Some(writing) = &mut self.writing else { return Ok(()) };
        self.text.clear();
        writing.to_text.finish(&mut self.text, &mut writing.runs);
        self.files.write(&self.text)?;
        self.note_runs(0)?;
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let (offset, length) = match self.files.finish(arrived) {
            Ok(place) => place,
            Err(e) => {
                self.files.abandon().inspect_err(|_| self.broken = true)?;
                if writing.line_ends != 0 {
                    self.contents.journal.push(&Record::Abandoned)?;
                }
                return Err(e);
            }
        };
        let message = Message {
            uid: arrived.uid,
            flags: FlagsRecord::of(&arrived.flags),
            received: arrived.internaldate.map(|date| date.timestamp().seconds()),
            zone: arrived.internaldate.map_or(0, DateTime::zone_minutes),
            bytes: writing.bytes,
            digest: writing.digesting.finish(),
            foreign: false,
            offset,
            length,
            line_ends: writing.line_ends,
        };
        if replaces {
            self.contents.push(Record::Vanished { uid: arrived.uid })?;
        }
        Uid::new(arrived.uid).map(|uid| self.replace.remove(uid));
        self.contents.push(Record::Message(message))
    }

    fn abandon(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        if writing.line_ends != 0 {
            self.contents.journal.push(&Record::Abandoned)?;
        }
        self.files.abandon().inspect_err(|_| self.broken = true)
    }

    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()> {
        self.check()?;
        let Some(before) = self.contents.known.flags(uid).filter(|before| *before != flags).cloned() else {
            return Ok(());
        };
        self.at_work()?;
        self.files.flags(uid, &before, flags)?;
        self.contents.push(Record::Flags { uid, flags: FlagsRecord::of(flags) })
    }

    fn fitting(&mut self, flags: &Flags) -> Option<Flags> {
        (!FlagsRecord::holds(flags)).then(|| FlagsRecord::of(flags).into_flags())
    }

    fn remove(&mut self, uid: u32) -> Result<()> {
        self.check()?;
        let Some(flags) = self.contents.known.flags(uid).cloned() else { return Ok(()) };
        self.at_work()?;
        self.files.remove(uid, &flags)?;
        self.contents.push(Record::Vanished { uid })
    }

    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()> {
        self.check()?;
        if !self.contents.known.contains(uid) || self.contents.known.is_deleted_upstream(uid) {
            return Ok(());
        }
        self.at_work()?;
        self.contents.push(Record::DeletedUpstream { uid })
    }

    fn replace(&mut self, uids: &UidSet) {
        self.replace = uids.clone();
    }

    fn takes(&self, uid: u32) -> bool {
        !self.contents.known.contains(uid) || is_among(&self.replace, uid)
    }

    fn renumber(&mut self, uids: &BTreeMap<u32, u32>) -> Result<u64> {
        self.check()?;
        let uids = possible(&self.contents.known, uids);
        if uids.is_empty() {
            return Ok(0);
        }
        self.at_work()?;
        self.files.renumber(&mut self.contents, &uids).inspect_err(|_| self.broken = true)
    }

    fn undated(&self) -> UidSet {
        let undated = self.contents.undated.intersection(&self.contents.known.present_uids());
        undated.slice(0..undated.len().min(DATES))
    }

    fn date(&mut self, uid: u32, received: DateTime) {
        if self.dates.len() < DATES && Uid::new(uid).is_some_and(|uid| self.contents.undated.contains(uid)) {
            self.dates.insert(uid, received);
        }
    }

    fn commit(&mut self, resume: &Resume) -> Result<()> {
        self.check()?;
        if !self.contents.journal.is_dirty() && *resume == self.resume() {
            return Ok(());
        }
        let committed = (|| {
            let data = self.files.sync()?;
            self.contents.commit(data, resume)?;
            self.files.committed(&self.contents, resume)
        })();
        committed.inspect_err(|_| self.broken = true)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.check()?;
        if self.writing.is_some() {
            self.abandon()?;
        }
        let shown = Some(self.files.close(&self.contents)?);
        let (data, last) = (self.files.sync()?, *self.contents.journal.last());
        let closed = Commit { data, shown, ..last };
        if (data, shown) != (last.data, last.shown) {
            self.contents.journal.commit(&closed)?;
        }
        // Last: if the dates fail, the rest is in order.
        if !self.dates.is_empty() {
            let path = self.contents.journal.path().to_owned();
            self.contents.date(&self.dates, &path)?;
            // The next run reads the last transaction: a short one.
            self.contents.journal.commit(&closed)?;
        }
        self.files.tidy(&self.contents)
    }

    fn unread(&self) -> u64 {
        self.contents.unread
    }

    fn notices(&mut self) -> Vec<String> {
        let mut notices = self.files.notices();
        notices.extend(self.notice.take());
        let salvaged = self.contents.journal.take_salvaged();
        let journal = &self.contents.journal;
        if let Some(salvaged) = salvaged {
            notices.push(salvaged.notice(&journal.header().folder));
        } else if journal.cut() > 0 {
            let (folder, bytes) = (&journal.header().folder, journal.cut());
            notices.push(format!(
                "{folder}: its journal ends in an incomplete record of {bytes} bytes, because a run was \
                 killed or the file was cut; the pull fetches those messages again"
            ));
        }
        notices
    }

    fn messages(&self) -> Result<Box<dyn Iterator<Item = Result<Stored>> + '_>> {
        let known = &self.contents.known;
        Ok(Box::new(self.contents.messages()?.map(move |message| {
            let (_, message) = message?;
            Ok(Stored {
                uid: message.uid,
                flags: known.flags(message.uid).cloned().unwrap_or_default(),
                internaldate: message.received.and_then(|seconds| date_time(seconds, message.zone)),
                size: message.bytes,
                gone: known.is_deleted_upstream(message.uid),
            })
        })))
    }

    fn read(&self, uid: u32) -> Result<Box<dyn Read + '_>> {
        let message = self.contents.message(uid)?;
        let flags = self.contents.known.flags(uid).cloned().unwrap_or_default();
        let text = self.files.text(&message, &flags)?;
        Ok(Box::new(StoredMessage::new(text, &self.contents.journal, &message)?))
    }
}

/// A moment in its zone.
pub(super) fn date_time(seconds: i64, zone: i16) -> Option<DateTime> {
    let local = seconds.checked_add(i64::from(zone) * 60)?;
    let second = local.rem_euclid(86_400);
    let date = Date::from_days(local.div_euclid(86_400));
    DateTime::new(date, (second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8, zone)
}
