//! What changed since a log position, as JMAP asks for it (RFC 8620 §5.2): messages, threads, mailboxes.
//!
//! The answer is made of the rows that changed since then and of bounded tombstones ([`super::visible`]). `None` means that the position
//! is too long ago: some of what went away since then is forgotten, and a client asks for everything anew (cannotCalculateChanges).
//!
//! A shared mailbox is a log of its own: what becomes of its messages is in the changes of that log, and a message that moved there is
//! destroyed here and created there, under the same id.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::{MailboxId, ObjectId, Position, UidValidity};

use super::AccountState;
use super::messages::MessageNumber;
use super::visible::Departure;
use crate::thread::ThreadId;

/// Something that changed, and at which position it last did so: until a client knows that position it has to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed<T> {
    /// For what was created, where it appeared; else the last change.
    pub at: Position,
    /// What happened to it since the position that was asked for.
    pub how: How,
    /// What.
    pub what: T,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// It was not there before.
    Created,
    /// It was there, and is different now, or may be.
    Updated,
    /// It is not there any more.
    Destroyed,
}

/// Changes in the order of their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// The changes; nothing is in it twice.
    pub changes: Vec<Changed<T>>,
    /// Everything up to here is among them: the next position to ask for.
    pub upto: Position,
    /// There are more.
    pub more: bool,
}

/// How a mailbox changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MailboxChanged {
    /// It was not there before.
    Created(MailboxId),
    /// Its name, its parent, its special uses or its subscription changed, and perhaps its counts.
    Properties(MailboxId),
    /// Its counts changed, or may have, and nothing else.
    Counts(MailboxId),
    /// It is not there any more; with this UIDVALIDITY it had its id ([`crate::object_id::mailbox_id`]).
    Destroyed(UidValidity),
}

impl AccountState {
    /// What became of messages after `since`: the first `most` changes, in whole positions. A message is created when it gets its first
    /// visible placement, and destroyed when it loses its last one; its flags and mailboxes are updates. `None` if that is too long ago,
    /// or more than `most` messages changed at one position.
    ///
    /// Looks at the rows of all mailboxes that changed since then, a column of each; takes 32 bytes for each change, of at most twice
    /// `most`, and for each tombstone since then.
    pub fn email_changes(&self, since: Position, most: usize) -> Option<Changes<ObjectId>> {
        let gone = self.departures(since)?;
        let parted = self.departed.parted.since(since)?;
        let mut found = Found::new(since, most);
        let rows = self.mailboxes.values().flat_map(|mailbox| mailbox.changed_since(since));
        let rows = rows.map(|row| (row.message, row.modseq));
        let parted = parted.map(|[at, number]| (MessageNumber(number as u32), Position(at)));
        for (number, at) in rows.chain(parted) {
            if let Some(changed) = self.change_of(number, at, since, &gone) {
                found.add(changed);
            }
        }
        for (object, was) in &gone {
            // One that is visible again is among the rows.
            if was.there && !was.back {
                // A copy that came back from another log is the same message to clients.
                let how = if self.shows(*object) { How::Updated } else { How::Destroyed };
                found.add(Changed { at: was.at, how, what: *object });
            }
        }
        found.finish(self.position)
    }

    /// What became of threads after `since`: which got their first visible message, lost their last one, or have others than before.
    /// `None` as for [`AccountState::email_changes`], or if there are no maps ([`crate::Account::with_maps`]).
    ///
    /// Costs what [`AccountState::email_changes`] does, and goes through the messages of each thread that changed.
    pub fn thread_changes(&self, since: Position, most: usize) -> Option<Changes<ThreadId>> {
        let maps = self.maps()?;
        let mut touched: BTreeMap<ThreadId, Was> = BTreeMap::new();
        for departure in self.departed.messages.since(since)?.map(Departure::unpack) {
            touched.entry(departure.thread).or_default().learn(&departure, since);
        }
        for row in self.mailboxes.values().flat_map(|mailbox| mailbox.changed_since(since)) {
            let appeared = self.messages.appeared(row.message);
            if self.is_visible(row.message)
                && appeared > since
                && let Some(thread) = self.messages.thread(row.message)
            {
                let was = touched.entry(thread).or_default();
                was.at = appeared.max(was.at);
            }
        }
        let mut found = Found::new(since, most);
        for (thread, was) in touched {
            let visible = maps.thread(thread).filter(|number| self.is_visible(*number));
            let (at, how) = match visible.map(|number| self.messages.appeared(number)).min() {
                Some(first) if first > since && !was.there => (was.first_seen(first), How::Created),
                Some(_) => (was.at, How::Updated),
                None if was.there => (was.at, How::Destroyed),
                None => continue,
            };
            found.add(Changed { at, how, what: thread });
        }
        found.finish(self.position)
    }

    /// What became of mailboxes after `since`, links included, by id. `None` if that is too long ago, or a nonexistent parent came or went
    /// since then ([`AccountState::nonexistent_parents`]).
    ///
    /// With maps, a mailbox is among them also if only the unread threads of it changed, by what happened to messages in other ones.
    /// Costs what [`AccountState::thread_changes`] does.
    pub fn mailbox_changes(&self, since: Position) -> Option<Vec<MailboxChanged>> {
        if since < self.parents_changed {
            return None;
        }
        let mut changes: BTreeMap<MailboxId, MailboxChanged> = BTreeMap::new();
        for id in self.mailboxes_of_changed_threads(since) {
            changes.insert(id, MailboxChanged::Counts(id));
        }
        for mailbox in self.mailboxes.values() {
            let id = mailbox.id;
            if mailbox.created > since {
                changes.insert(id, MailboxChanged::Created(id));
            } else if mailbox.properties_changed > since {
                changes.insert(id, MailboxChanged::Properties(id));
            } else if mailbox.counts_changed > since {
                changes.insert(id, MailboxChanged::Counts(id));
            }
        }
        let gone = self.departed.mailboxes.since(since)?;
        let gone = gone.filter(|[_, created, _]| *created <= since.0);
        let validity =
            |[_, _, validity]: [u64; 3]| std::num::NonZeroU32::new(validity as u32).map(UidValidity);
        let destroyed = gone.filter_map(validity).map(MailboxChanged::Destroyed);
        Some(changes.into_values().chain(destroyed).collect())
    }

    /// Whether the message has a visible placement.
    pub fn is_visible(&self, message: MessageNumber) -> bool {
        self.messages.visible(message) > 0
    }

    /// The thread of the message.
    pub fn thread(&self, message: MessageNumber) -> Option<ThreadId> {
        self.messages.thread(message)
    }

    /// Since when the message has a visible placement; `None` if it has none.
    pub fn visible_since(&self, message: MessageNumber) -> Option<Position> {
        self.is_visible(message).then(|| self.messages.appeared(message))
    }

    /// The mailboxes with messages of threads of which a message changed.
    fn mailboxes_of_changed_threads(&self, since: Position) -> BTreeSet<MailboxId> {
        let Some(maps) = self.maps() else { return BTreeSet::new() };
        let rows = self.mailboxes.values().flat_map(|mailbox| mailbox.changed_since(since));
        let changed = rows.filter_map(|row| self.messages.thread(row.message));
        let gone = self.departed.messages.since(since).into_iter().flatten();
        let parted = self.departed.parted.since(since).into_iter().flatten();
        let parted = parted.filter_map(|[_, number]| self.messages.thread(MessageNumber(number as u32)));
        let gone = gone.map(|row| Departure::unpack(row).thread);
        let threads: BTreeSet<ThreadId> = changed.chain(gone).chain(parted).collect();
        let messages = threads.into_iter().flat_map(|thread| maps.thread(thread));
        let visible = messages.filter(|number| self.is_visible(*number));
        visible.flat_map(|number| maps.placements(number)).map(|(mailbox, _)| mailbox).collect()
    }

    /// Whether a message that clients know by that object is visible, for the maps to tell.
    fn shows(&self, object: ObjectId) -> bool {
        self.maps().is_some_and(|maps| maps.messages(object).any(|number| self.is_visible(number)))
    }

    /// What the tombstones after `since` say of each message.
    fn departures(&self, since: Position) -> Option<BTreeMap<ObjectId, Was>> {
        let mut gone: BTreeMap<ObjectId, Was> = BTreeMap::new();
        for departure in self.departed.messages.since(since)?.map(Departure::unpack) {
            gone.entry(departure.object).or_default().learn(&departure, since);
        }
        for row in self.mailboxes.values().flat_map(|mailbox| mailbox.changed_since(since)) {
            if self.is_visible(row.message)
                && let Some(object) = self.messages.first_object(row.message)
                && let Some(was) = gone.get_mut(&object)
            {
                was.back = true;
            }
        }
        Some(gone)
    }

    fn change_of(
        &self,
        number: MessageNumber,
        at: Position,
        since: Position,
        gone: &BTreeMap<ObjectId, Was>,
    ) -> Option<Changed<ObjectId>> {
        if !self.is_visible(number) {
            return None;
        }
        let object = self.messages.first_object(number)?;
        let appeared = self.messages.appeared(number);
        let was = gone.get(&object);
        let (at, how) = if appeared <= since || was.is_some_and(|was| was.there) {
            (at, How::Updated)
        } else {
            (was.map_or(appeared, |was| was.first_seen(appeared)), How::Created)
        };
        Some(Changed { at, how, what: object })
    }
}

/// What tombstones say of a message, or of those of a thread.
#[derive(Default)]
struct Was {
    /// When it went last.
    at: Position,
    /// Whether it was visible at the position that was asked for.
    there: bool,
    /// It is visible again.
    back: bool,
    /// Where it first appeared after that position, to go again.
    appeared: Option<Position>,
}

impl Was {
    fn learn(&mut self, departure: &Departure, since: Position) {
        self.at = departure.at.max(self.at);
        self.there |= departure.spans(since);
        if departure.appeared > since {
            self.appeared = Some(self.appeared.map_or(departure.appeared, |at| at.min(departure.appeared)));
        }
    }

    /// Where something first appeared that is there since `now`. A client is told there that it was created: one that asks for the rest
    /// later, when it was there for a while, is told of an update.
    fn first_seen(&self, now: Position) -> Position {
        self.appeared.map_or(now, |at| at.min(now))
    }
}

/// The changes with the lowest positions, each thing once.
struct Found<T> {
    since: Position,
    most: usize,
    changes: Vec<Changed<T>>,
    /// Some have been left out: all of them behind this position.
    cut: Option<Position>,
}

impl<T: Copy + Ord> Found<T> {
    fn new(since: Position, most: usize) -> Self {
        Found { since, most, changes: Vec::new(), cut: None }
    }

    fn add(&mut self, changed: Changed<T>) {
        if self.cut.is_some_and(|cut| changed.at > cut) {
            return;
        }
        self.changes.push(changed);
        if self.changes.len() > 2 * self.most.max(64) {
            self.tidy();
        }
    }

    /// Each thing once, with its last change, in the order of positions; what is more than `most` goes, in whole positions.
    ///
    /// An update that is left out hides no earlier one: a thing's changes are all updates then, and the last one counts, so the
    /// client gets it with a later page.
    fn tidy(&mut self) {
        self.changes.sort_unstable_by_key(|changed| (changed.what, std::cmp::Reverse(changed.at)));
        self.changes.dedup_by_key(|changed| changed.what);
        self.changes.sort_unstable();
        if self.changes.len() > self.most {
            let behind = self.changes[self.most].at;
            let cut = Position(behind.0 - 1);
            self.changes.truncate(self.changes.partition_point(|changed| changed.at <= cut));
            self.cut = Some(cut);
        }
    }

    fn finish(mut self, now: Position) -> Option<Changes<T>> {
        self.tidy();
        let upto = self.cut.unwrap_or(now);
        // Too much at the first position that has anything: no page could hold it.
        let stuck = self.cut.is_some() && self.changes.is_empty();
        (!stuck && upto >= self.since).then_some(Changes {
            changes: self.changes,
            upto,
            more: self.cut.is_some(),
        })
    }
}
