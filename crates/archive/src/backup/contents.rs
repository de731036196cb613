//! [`Contents`]: the journal of a folder of files, and the state that it describes.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use sealpost_base::{Error, Result, Uid, UidSet, counted};
use sealpost_imap::types::DateTime;

use super::journal::{Again, Commit, Header, Journal, Message, Record};
use super::reading::Scratch;
use super::{KnownMessages, Resume};

/// The journal of a folder and its state.
pub(super) struct Contents {
    pub journal: Journal,
    pub known: KnownMessages,
    /// Messages from another program, which kept no date.
    pub undated: UidSet,
    /// UIDs that were removed.
    removed: UidSet,
    /// UIDs that came more than once: where the last one's record begins.
    again: BTreeMap<u32, u64>,
    index: OnceCell<Vec<(u32, u64)>>,
    /// Messages that the last transaction counted and no record names: a damaged journal was taken
    /// over without them. Reset by a complete pull.
    pub unread: u64,
}

impl Contents {
    /// The state of the journal opened by `open`; `each` sees every record, too.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn read(path: &Path, each: impl FnMut(u64, &Record)) -> Result<Self> {
        Self::read_by(|take| Journal::open(path, take), each)
    }

    /// As [`Contents::read`], by [`Journal::open_to_read`].
    ///
    /// # Errors
    /// As [`Journal::open_to_read`].
    pub fn open_to_read(path: &Path, scratch: &Scratch) -> Result<Self> {
        Self::read_by(|take| Journal::open_to_read(path, scratch, take), |_, _| {})
    }

    fn read_by(
        open: impl FnOnce(&mut dyn FnMut(u64, Record) -> Result<()>) -> Result<Journal>,
        mut each: impl FnMut(u64, &Record),
    ) -> Result<Self> {
        let (mut known, mut undated) = (KnownMessages::new(), UidSet::new());
        let (mut removed, mut again) = (UidSet::new(), BTreeMap::new());
        let journal = open(&mut |at, record| {
            each(at, &record);
            note_date(&mut undated, &record);
            take(&mut known, &mut removed, &mut again, at, record);
            Ok(())
        })?;
        let last = journal.last();
        let uncounted = (last.present + last.gone).saturating_sub(known.present() + known.deleted_upstream());
        let unread = uncounted.max(last.unread.unwrap_or_default());
        Ok(Contents { journal, known, undated, removed, again, index: OnceCell::new(), unread })
    }

    /// An empty journal.
    pub fn new(journal: Journal) -> Self {
        let (known, undated) = (KnownMessages::new(), UidSet::new());
        let (removed, again) = (UidSet::new(), BTreeMap::new());
        Contents { journal, known, undated, removed, again, index: OnceCell::new(), unread: 0 }
    }

    /// Adds a record, and applies it.
    ///
    /// # Errors
    /// As [`Journal::push`].
    pub fn push(&mut self, record: Record) -> Result<()> {
        let at = self.journal.push(&record)?;
        note_date(&mut self.undated, &record);
        take(&mut self.known, &mut self.removed, &mut self.again, at, record);
        self.index = OnceCell::new();
        Ok(())
    }

    /// Counts messages that no record names.
    pub fn misses(&mut self, messages: u64) {
        self.unread = self.unread.max(messages);
    }

    /// Messages that no record named were found again, and have records now.
    pub fn found_again(&mut self, messages: u64) {
        self.unread = self.unread.saturating_sub(messages);
    }

    /// Commits, with this many bytes of data.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn commit(&mut self, data: u64, resume: &Resume) -> Result<()> {
        if resume.whole {
            self.unread = 0;
        }
        self.journal.commit(&Commit {
            unread: (self.unread > 0).then_some(self.unread),
            data,
            present: self.known.present(),
            gone: self.known.deleted_upstream(),
            highestmodseq: resume.highestmodseq,
            uidnext: resume.uidnext,
            whole: resume.whole,
            ..Commit::default()
        })
    }

    /// Forgets messages that are missing since `what` happened, so that the next pull fetches them;
    /// `data` bytes are left of the data file. Returns the notice for the user.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn forget(&mut self, lost: &[u32], data: u64, what: &str) -> Result<String> {
        let gone = lost.iter().filter(|uid| self.known.is_deleted_upstream(**uid)).count();
        for uid in lost {
            self.push(Record::Vanished { uid: *uid })?;
        }
        // If the files come back, another program put them there, and none is removed. The last
        // transaction is not redone either: it is an empty one then.
        for _ in 0..2 {
            let commit = Commit {
                present: self.known.present(),
                gone: self.known.deleted_upstream(),
                data,
                shown: Some(0),
                unread: (self.unread > 0).then_some(self.unread),
                ..Commit::default()
            };
            self.journal.commit(&commit)?;
        }
        let (folder, again) = (&self.journal.header().folder, lost.len() - gone);
        let mut text = format!("{folder}: {what}; fetching {} again", counted(again, "message", "messages"));
        if gone > 0 {
            text.push_str(&format!(
                "; {} lost because the server no longer has them",
                counted(gone, "message is", "messages are")
            ));
        }
        Ok(text)
    }

    /// The notice for the user that so many messages are missing since `what` happened, for a
    /// backup that is only read.
    pub fn unreadable(&self, lost: usize, what: &str) -> String {
        let (folder, lost) = (&self.journal.header().folder, counted(lost, "message", "messages"));
        format!(
            "{folder}: {what}; {lost} cannot be read; restore the missing files, or pull: it fetches \
             the messages that the server still has"
        )
    }

    /// Rewrites the journal with these dates for messages that have none: it replaces the old one
    /// when it is complete. The order stays.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`: the old one stays in place then.
    pub fn date(&mut self, dates: &HashMap<u32, DateTime>, path: &Path) -> Result<()> {
        let last = *self.journal.last();
        let mut again = self.write_anew(self.journal.header().clone(), |_, mut record| {
            if let Record::Message(message) = &mut record
                && let (None, Some(date)) = (message.received, dates.get(&message.uid))
            {
                (message.received, message.zone) = (Some(date.timestamp().seconds()), date.zone_minutes());
            }
            Some(record)
        })?;
        again.commit(&last)?;
        again.put_in_place(path)?;
        *self = Contents::read(path, |_, _| {})?;
        Ok(())
    }

    /// A new journal, from what `change` returns for each record and its offset; `None`: it is left
    /// out. Still to be committed.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`.
    pub fn write_anew(
        &self,
        header: Header,
        mut change: impl FnMut(u64, Record) -> Option<Record>,
    ) -> Result<Again> {
        let mut again = Again::begin(self.journal.path(), header)?;
        for record in self.journal.records()? {
            let (at, record) = record?;
            let is_message = matches!(record, Record::Message(_));
            match change(at, record) {
                Some(record) => again.add(record)?,
                None if is_message => again.leave_out_message()?,
                None => {}
            }
        }
        Ok(again)
    }

    /// Where the records of these committed messages begin, in the order of their arrival.
    ///
    /// # Errors
    /// As [`Journal::records`].
    pub fn places(&self, among: impl Fn(u32) -> bool) -> Result<Vec<(u32, u64)>> {
        let mut places = Vec::new();
        for message in self.messages()? {
            let (at, message) = message?;
            if among(message.uid) {
                places.push((message.uid, at));
            }
        }
        Ok(places)
    }

    /// Adds the line ends of a committed message of `old`, or of this journal, that begin at `at`
    /// there; returns where they begin now.
    ///
    /// # Errors
    /// As [`Journal::push`] and [`Journal::records`].
    pub fn add_line_ends(&mut self, old: Option<&Contents>, at: u64) -> Result<u64> {
        if at == 0 {
            return Ok(0);
        }
        let mut first = 0;
        let records = old.map_or(&self.journal, |old| &old.journal).records_from(at)?;
        for record in records {
            match record?.1 {
                record @ Record::LineEnds { .. } => {
                    let at = self.journal.push(&record)?;
                    first = if first == 0 { at } else { first };
                }
                Record::Message(_) | Record::Abandoned => break,
                _ => {}
            }
        }
        Ok(first)
    }

    /// Whether there may be removed messages.
    pub fn may_have_dead(&self) -> bool {
        !(self.removed.is_empty() && self.again.is_empty())
    }

    /// The committed messages that are still kept, in the order of their arrival.
    ///
    /// # Errors
    /// As [`Journal::records`], also for each.
    pub fn messages(&self) -> Result<impl Iterator<Item = Result<(u64, Message)>> + '_> {
        Ok(self.journal.records()?.filter_map(|record| match record {
            Ok((at, Record::Message(message))) => self.is_live(&message, at).then_some(Ok((at, message))),
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        }))
    }

    /// Whether the message whose record begins at `at` is still kept.
    pub fn is_live(&self, message: &Message, at: u64) -> bool {
        self.known.contains(message.uid) && self.again.get(&message.uid).is_none_or(|last| *last == at)
    }

    /// Whether there is more than one record of the message.
    pub fn has_several_records(&self, uid: u32) -> bool {
        self.again.contains_key(&uid)
    }

    /// The record of a committed message.
    ///
    /// # Errors
    /// `NotFound` if there is no such message; `Retry`, `Corrupt`.
    pub fn message(&self, uid: u32) -> Result<Message> {
        let missing = || Error::not_found(format!("the backup has no message with UID {uid}"));
        let index = match self.index.get() {
            Some(index) => index,
            None => {
                let mut index = Vec::new();
                for message in self.messages()? {
                    let (at, message) = message?;
                    index.push((message.uid, at));
                }
                index.sort_unstable();
                self.index.get_or_init(|| index)
            }
        };
        let at = index.binary_search_by_key(&uid, |(uid, _)| *uid).map_err(|_| missing())?;
        match self.journal.record_at(index[at].1)? {
            Record::Message(message) => Ok(message),
            _ => Err(missing()),
        }
    }
}

/// Updates the set of another program's messages without a date.
fn note_date(undated: &mut UidSet, record: &Record) {
    match record {
        Record::Message(message) => {
            let Some(uid) = Uid::new(message.uid) else { return };
            if message.foreign && message.received.is_none() {
                undated.push(uid);
            } else if !undated.is_empty() {
                undated.remove(uid);
            }
        }
        Record::Vanished { uid } if !undated.is_empty() => {
            Uid::new(*uid).map(|uid| undated.remove(uid));
        }
        _ => {}
    }
}

fn take(
    known: &mut KnownMessages,
    removed: &mut UidSet,
    again: &mut BTreeMap<u32, u64>,
    at: u64,
    record: Record,
) {
    match record {
        Record::Message(message) => {
            if let Some(uid) = Uid::new(message.uid)
                && (removed.contains(uid) || known.contains(message.uid))
            {
                again.insert(message.uid, at);
            }
            known.insert(message.uid, &message.flags.into_flags());
        }
        Record::Flags { uid, flags } if known.contains(uid) => {
            known.insert(uid, &flags.into_flags());
        }
        Record::Vanished { uid } => {
            known.remove(uid);
            if let Some(uid) = Uid::new(uid) {
                removed.insert(uid);
            }
        }
        Record::DeletedUpstream { uid } => known.set_deleted_upstream(uid, true),
        _ => {}
    }
}
