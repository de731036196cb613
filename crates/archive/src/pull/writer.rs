//! The thread that writes one folder: it takes what the connections bring and commits it in transactions.
//!
//! Its queue is bounded (`work.rs`), so that a slow disk slows the connections down instead of filling the
//! memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, Error, Kind, Result, counted};
use tokio::sync::mpsc;

use super::report::{Failure, Observer, UNREAD_REPORTED};
use super::returning::Returning;
use super::reunite::Reunited;
use super::work::{FromConnections, Piece, Work};
use crate::backup::{Arrived, Flags, Folder, Resume, Stored};
use crate::same::{Hasher, is_same};

/// Most duplicate messages that are reported one by one.
const TWINS_REPORTED: usize = 20;
/// Most lost bodies that are reported one by one.
const LOST_REPORTED: usize = 1000;

/// Messages, bytes and time after which to commit: all of it shares a sync, and a crash loses what
/// came since.
const COMMIT_MESSAGES: u64 = 2048;
const COMMIT_BYTES: u64 = 64 * 1024 * 1024;
const COMMIT_AFTER: Duration = Duration::from_secs(2);

/// What was written.
#[derive(Debug, Default)]
pub(super) struct CommitStats {
    /// Messages that are committed now and were not there before.
    pub(super) new: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Messages that were there before under other UIDs.
    pub(super) recognized: u64,
    /// Messages that were there twice.
    pub(super) doubles: u64,
    /// Messages whose flags changed.
    pub(super) flags: u64,
    /// Messages that the server no longer has.
    pub(super) gone: u64,
    /// Messages with evicted bodies that the server no longer has: these bodies are lost.
    pub(super) lost: u64,
    /// The UIDs of some of these.
    pub(super) lost_of: Vec<u32>,
    /// Messages that this format cannot store.
    pub(super) failed: Vec<Failure>,
    /// Some of the messages whose flags or date cannot be parsed.
    pub(super) unread: Vec<Failure>,
    /// How many there are of these.
    pub(super) unread_all: u64,
}

/// Writes one folder.
pub(super) struct Writer {
    folder: Box<dyn Folder>,
    name: String,
    delete: bool,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    resume: Resume,
    reunited: Reunited,
    /// What may come back under other UIDs, once the gone messages are known.
    returning: Option<Returning>,
    written: CommitStats,
    open: PendingBatch,
    /// Unconfirmed messages, and their bytes.
    unconfirmed: HashMap<u32, u64>,
}

/// What was given to the folder since the last commit.
#[derive(Debug, Default)]
struct PendingBatch {
    messages: u64,
    recognized: u64,
    bytes: u64,
    changes: u64,
    since: Option<Duration>,
}

impl Writer {
    /// A writer that records `resume` with its commits until [`Work::Resume`] changes it.
    pub(super) fn new(
        folder: Box<dyn Folder>,
        name: &str,
        reunited: Reunited,
        delete: bool,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let resume = Resume { whole: false, ..folder.resume() };
        let recognized = reunited.recognized;
        let written = CommitStats { lost: folder.lost(), recognized, ..CommitStats::default() };
        Writer {
            folder,
            name: name.to_owned(),
            delete,
            clock,
            observer,
            resume,
            reunited,
            returning: None,
            written,
            open: PendingBatch::default(),
            unconfirmed: HashMap::new(),
        }
    }

    /// Writes until all senders are gone, commits, and closes the folder. Returns what was
    /// committed, and the error if the backup cannot be written.
    pub(super) fn run(mut self, work: FromConnections) -> (CommitStats, Result<()>) {
        let done = self.write(work);
        let done = done.and_then(|()| self.folder.close());
        (self.written, done)
    }

    fn write(&mut self, from: FromConnections) -> Result<()> {
        let FromConnections { mut work, hold_up } = from;
        for notice in self.folder.notices() {
            self.observer.note(&notice);
        }
        while let Some(next) = work.blocking_recv() {
            self.take(next)?;
            let is_due = *hold_up.borrow()
                || self.open.messages >= COMMIT_MESSAGES
                || self.open.bytes >= COMMIT_BYTES
                || self.is_old();
            if is_due && self.unconfirmed.is_empty() {
                self.commit()?;
            }
            let waits = is_due && !self.unconfirmed.is_empty();
            hold_up.send_if_modified(|held_up| std::mem::replace(held_up, waits) != waits);
        }
        // No command has confirmed these messages.
        let unconfirmed = self.unconfirmed.keys().copied().collect();
        self.undo(unconfirmed)?;
        self.commit()
    }

    /// Drops unconfirmed messages.
    fn undo(&mut self, uids: Vec<u32>) -> Result<()> {
        for uid in uids {
            if let Some(bytes) = self.unconfirmed.remove(&uid) {
                self.folder.remove(uid)?;
                self.open.messages -= 1;
                self.open.bytes -= bytes;
                self.changed();
            }
        }
        Ok(())
    }

    fn take(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Messages(messages) => {
                for (arrived, bytes) in messages {
                    self.message(arrived, bytes, true)?;
                }
            }
            Work::Unconfirmed(messages) => {
                for (arrived, bytes) in messages {
                    self.message(arrived, bytes, false)?;
                }
            }
            Work::Confirmed(uids) => self.unconfirmed.retain(|uid, _| !uids.contains(uid)),
            Work::Undo(uids) => self.undo(uids)?,
            Work::Large(size, pieces) => self.large(size, pieces)?,
            Work::Flags(changes) => {
                for (uid, flags) in changes {
                    self.flags(uid, &flags)?;
                }
            }
            Work::Dates(dates) => {
                for (uid, received) in dates {
                    self.folder.date(uid, received);
                }
            }
            Work::Unread(unread) => self.unread(unread),
            Work::DeletedUpstream(uids) => {
                for uid in uids.iter() {
                    self.mark_deleted_upstream(uid.get())?;
                }
            }
            Work::InStep => {
                self.folder.in_step();
                self.heal()?;
                // More may be gone than was known.
                self.returning = None;
            }
            Work::Resume(resume) => {
                self.resume = resume;
                self.changed();
            }
        }
        Ok(())
    }

    fn message(&mut self, mut arrived: Arrived, bytes: Vec<u8>, confirmed: bool) -> Result<()> {
        if self.is_stored(&arrived)? {
            return Ok(());
        }
        let size = bytes.len() as u64;
        let before = self.returned(&arrived, size, || sha256(&bytes))?;
        self.fit(&mut arrived);
        let stored = self.folder.put(&arrived, bytes);
        self.stored(stored, (arrived.uid, confirmed), size, before)
    }

    fn large(&mut self, size: u64, mut pieces: mpsc::Receiver<Piece>) -> Result<()> {
        let mut stored = self.folder.begin(size);
        let (mut received, mut last) = (0, None);
        let mut hash = self.returning()?.may_be(size).then(Hasher::new);
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Piece::Bytes(bytes) => {
                    received += bytes.len() as u64;
                    if let Some(hash) = &mut hash {
                        hash.push(&bytes);
                    }
                    if stored.is_ok() {
                        stored = self.folder.write(&bytes);
                    }
                }
                Piece::End(arrived) => last = Some((arrived, true)),
                Piece::Unconfirmed(arrived) => last = Some((arrived, false)),
            }
        }
        let Some((mut arrived, confirmed)) = last else {
            // It did not arrive, so a size error does not matter, unless nothing can be written any
            // more.
            stored.or_else(|e| if is_about_the_message(&e) { Ok(()) } else { Err(e) })?;
            return self.folder.abandon();
        };
        if stored.is_ok() && self.is_stored(&arrived)? {
            return self.folder.abandon();
        }
        let before = match hash {
            Some(hash) => self.returned(&arrived, received, || hash.finish())?,
            None => None,
        };
        self.fit(&mut arrived);
        let stored = stored.and_then(|()| self.folder.finish(&arrived));
        self.stored(stored, (arrived.uid, confirmed), received, before)
    }

    /// The UID that the arriving message had before, if the server had it under another one.
    fn returned(
        &mut self,
        arrived: &Arrived,
        size: u64,
        hash: impl FnOnce() -> [u8; 32],
    ) -> Result<Option<u32>> {
        // A message that is fetched again keeps its identity.
        if !self.returning()?.may_be(size) || self.folder.known().contains(arrived.uid) {
            return Ok(None);
        }
        let (returning, folder) = (self.returning.as_mut(), &*self.folder);
        Ok(returning.and_then(|returning| returning.take(folder, arrived, size, hash())))
    }

    /// What may come back under other UIDs.
    fn returning(&mut self) -> Result<&Returning> {
        if self.returning.is_none() {
            self.returning = Some(Returning::of(&*self.folder, &self.reunited.expected)?);
        }
        Ok(self.returning.get_or_insert_default())
    }

    /// Removes messages that the server no longer has and has under other UIDs, as the record of
    /// restores lists: bytes, date and flags are the same. The others are reported.
    fn heal(&mut self) -> Result<()> {
        let twins = std::mem::take(&mut self.reunited.twins);
        let twins: Vec<_> =
            twins.into_iter().filter(|(uid, _)| self.folder.known().is_deleted_upstream(*uid)).collect();
        if twins.is_empty() {
            return Ok(());
        }
        let named: HashSet<u32> = twins.iter().flat_map(|(uid, twin)| [*uid, *twin]).collect();
        let stored: HashMap<u32, Stored> = {
            let stored = self.folder.messages()?.filter_map(Result::ok);
            stored.filter(|stored| named.contains(&stored.uid)).map(|stored| (stored.uid, stored)).collect()
        };
        let mut stay = Vec::new();
        for (uid, twin) in twins {
            let known = self.folder.known();
            if !(known.contains(uid) && known.contains(twin)) {
                continue;
            }
            let alike = stored.get(&uid).zip(stored.get(&twin)).is_some_and(|(old, new)| {
                let same_date = old.internaldate.zip(new.internaldate).is_none_or(|(a, b)| a == b);
                same_date && known.flags(uid) == known.flags(twin)
            });
            if alike && is_same(&*self.folder, uid, &*self.folder, twin) {
                self.folder.remove(uid)?;
                self.written.doubles += 1;
                self.changed();
            } else {
                stay.push(format!("{uid} and {twin}"));
            }
        }
        if !stay.is_empty() {
            let (name, more) = (&self.name, stay.len().saturating_sub(TWINS_REPORTED));
            let n = counted(stay.len(), "message stays", "messages stay");
            stay.truncate(TWINS_REPORTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.observer.note(&format!(
                "{name}: {n} in the backup twice, because bytes, date or flags changed in a \
                 restore: UID {}{more}",
                stay.join(", ")
            ));
        }
        Ok(())
    }

    /// Whether the message is in the backup already, and stays; then only its flags are taken.
    fn is_stored(&mut self, arrived: &Arrived) -> Result<bool> {
        let there = !self.folder.takes(arrived.uid);
        if there {
            self.flags(arrived.uid, &arrived.flags)?;
        }
        Ok(there)
    }

    /// The result of storing a message; `before`: the UID it had, which the server no longer has.
    fn stored(
        &mut self,
        stored: Result<()>,
        (uid, confirmed): (u32, bool),
        bytes: u64,
        before: Option<u32>,
    ) -> Result<()> {
        match stored {
            Ok(()) => {
                self.open.messages += 1;
                // A returned message has the bytes that were here before: it is not unconfirmed.
                if !confirmed && before.is_none() {
                    self.unconfirmed.insert(uid, bytes);
                }
                if let Some(before) = before {
                    self.folder.remove(before)?;
                    self.open.recognized += 1;
                }
                self.open.bytes += bytes;
                self.changed();
                Ok(())
            }
            Err(e) if is_about_the_message(&e) => {
                self.folder.abandon()?;
                self.written.failed.push(Failure { uid, reason: e.to_string() });
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()> {
        let fitting = self.folder.fitting(flags);
        let fits = fitting.as_ref().unwrap_or(flags);
        if self.folder.known().differs(uid, fits) {
            self.folder.flags(uid, fits)?;
            self.left_out(uid, flags, fits);
            self.written.flags += 1;
            self.changed();
        }
        Ok(())
    }

    /// Removes those of a message's flags that the backup cannot store.
    fn fit(&mut self, arrived: &mut Arrived) {
        if let Some(fits) = self.folder.fitting(&arrived.flags) {
            self.left_out(arrived.uid, &arrived.flags, &fits);
            arrived.flags = fits;
        }
    }

    /// Reports how many of a message's keywords the backup cannot store.
    fn left_out(&mut self, uid: u32, flags: &Flags, fits: &Flags) {
        let words = |flags: &Flags| flags.keywords.len() + flags.labels.len();
        let all = words(flags);
        let left_out = all.saturating_sub(words(fits));
        if left_out > 0 {
            let reason = format!(
                "{left_out} of its {all} keywords and labels left out: the backup has reached its limit on \
                 keywords"
            );
            self.unread([Failure { uid, reason }]);
        }
    }

    fn unread(&mut self, unread: impl IntoIterator<Item = Failure>) {
        for failure in unread {
            self.written.unread_all += 1;
            if self.written.unread.len() < UNREAD_REPORTED {
                self.written.unread.push(failure);
            }
        }
    }

    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()> {
        let known = self.folder.known();
        if !known.contains(uid) || (known.is_deleted_upstream(uid) && !self.delete) {
            return Ok(());
        }
        // The server was the last to have it. A message that cannot be checked is not reported as
        // lost.
        if self.folder.evicted(uid).is_ok_and(|evicted| evicted.is_some()) {
            self.written.lost += 1;
            if !self.delete && self.written.lost_of.len() < LOST_REPORTED {
                self.written.lost_of.push(uid);
            }
        }
        if self.delete {
            self.folder.remove(uid)?
        } else {
            self.folder.mark_deleted_upstream(uid)?
        }
        self.written.gone += 1;
        self.changed();
        Ok(())
    }

    fn changed(&mut self) {
        self.open.changes += 1;
        if self.open.since.is_none() {
            self.open.since = Some(self.clock.monotonic());
        }
    }

    fn is_old(&self) -> bool {
        self.open.since.is_some_and(|since| self.clock.monotonic().saturating_sub(since) >= COMMIT_AFTER)
    }

    fn commit(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        if open.changes == 0 {
            return Ok(());
        }
        let mut resume = self.resume;
        resume.whole &= self.written.failed.is_empty();
        self.folder.commit(&resume)?;
        self.written.new += open.messages - open.recognized;
        self.written.recognized += open.recognized;
        self.written.bytes += open.bytes;
        if open.messages > 0 {
            self.observer.stored(&self.name, open.messages, open.bytes);
        }
        Ok(())
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Hasher::new();
    hash.push(bytes);
    hash.finish()
}

/// Whether the backup refuses this message only, and may take the next one.
fn is_about_the_message(error: &Error) -> bool {
    matches!(error.kind(), Kind::Limit | Kind::Invalid)
}
