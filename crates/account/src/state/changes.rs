//! The changes since a log position, for JMAP (RFC 8620 §5.2): messages, threads, mailboxes.
//!
//! The reply consists of the rows that changed since then and of bounded tombstones
//! ([`super::visible`]). `None` means that the position is too long ago: some tombstones since then
//! were dropped, and a client fetches everything again (cannotCalculateChanges).
//!
//! A shared mailbox is a log of its own: what becomes of its messages is in the changes of that
//! log, and a message that moved there is destroyed here and created there, under the same id.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::{MailboxId, ObjectId, Position, UidValidity};

use super::AccountState;
use super::mailbox::{Mailbox, Row};
use super::messages::MessageNumber;
pub use super::records::Changes;
use super::visible::Departure;
use crate::event::SpecialUse;
use crate::thread::ThreadId;

/// How a mailbox changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MailboxChanged {
    /// It was not there before.
    Created(MailboxId),
    /// Its name, its parent, its special uses, its subscription or its sort order changed, and
    /// perhaps its counts.
    Properties(MailboxId),
    /// Its counts changed, or may have, and nothing else.
    Counts(MailboxId),
    /// It is not there any more; with this UIDVALIDITY it had its id ([`crate::object_id::mailbox_id`]).
    Destroyed(UidValidity),
}

impl AccountState {
    /// The changes of messages after `since`, up to a position before which at most `most` of them
    /// changed. A message is created when it gets its first visible placement, and destroyed when
    /// it loses its last one; changes of its flags and mailboxes are updates. A change that another
    /// one follows after that position may be reported with that one alone. `None` if `since` is
    /// too long ago, or more than `most` messages changed at one position.
    ///
    /// Reads one column of the rows of all mailboxes that changed since then; takes 48 bytes for
    /// each message that changed, of at most twice `most`, and for each tombstone since then.
    pub fn email_changes(&self, since: Position, most: usize) -> Option<Changes<ObjectId>> {
        let mut found = ChangeCollector::new(since, most);
        for departure in self.departed.messages.since(since)?.map(Departure::unpack) {
            found.departed(departure.object, departure.appeared, departure.at);
        }
        let parted = self.departed.parted.since(since)?;
        let parted = parted.map(|[at, number]| (MessageNumber(number as u32), Position(at)));
        let rows = self.changed_rows(since).map(|row| (row.message, row.modseq));
        for (number, at) in rows.chain(parted) {
            if let (Some(appeared), Some(object)) =
                (self.visible_since(number), self.messages.first_object(number))
            {
                found.changed(object, at, Some(appeared));
            }
        }
        let mut changes = found.finish(self.position, |_, now| now)?;
        // A copy that came back from another log is the same message to clients.
        let upto = changes.upto;
        let back = changes.destroyed.extract_if(.., |object| self.showed(*object, upto));
        changes.updated.extend(back);
        // Nor is it new if the first one has been there.
        let known = changes.created.extract_if(.., |object| self.showed(*object, since));
        changes.updated.extend(known);
        Some(changes)
    }

    /// What became of threads after `since`: which got their first visible message, lost their last
    /// one, or have others than before; otherwise as [`AccountState::email_changes`]. `None` also
    /// if there are no maps ([`crate::Account::with_maps`]).
    ///
    /// Costs as much as [`AccountState::email_changes`], and reads the messages of each thread that
    /// changed.
    pub fn thread_changes(&self, since: Position, most: usize) -> Option<Changes<ThreadId>> {
        let maps = self.maps()?;
        let mut found = ChangeCollector::new(since, most);
        for departure in self.departed.messages.since(since)?.map(Departure::unpack) {
            found.departed(departure.thread, departure.appeared, departure.at);
        }
        for row in self.changed_rows(since) {
            if let (Some(appeared), Some(thread)) =
                (self.visible_since(row.message), self.thread(row.message))
                && appeared > since
            {
                found.changed(thread, appeared, None);
            }
        }
        found.finish(self.position, |thread, _| {
            maps.thread(thread).filter_map(|number| self.visible_since(number)).min()
        })
    }

    /// What became of mailboxes after `since`, links included, by id. `None` if that is too long
    /// ago, or a nonexistent parent came or went since then
    /// ([`AccountState::nonexistent_parents`]).
    ///
    /// With maps, a mailbox is among them also if only the unread threads of it changed, by what
    /// happened to messages in other ones. Costs what [`AccountState::thread_changes`] does.
    pub fn mailbox_changes(&self, since: Position) -> Option<Vec<MailboxChanged>> {
        if since < self.parents_changed {
            return None;
        }
        let mut changes: BTreeMap<MailboxId, MailboxChanged> = BTreeMap::new();
        for id in self.mailboxes_of_changed_threads(since) {
            changes.insert(id, MailboxChanged::Counts(id));
        }
        if self.trash_may_have_changed(since)? {
            changes.extend(self.mailboxes.keys().map(|id| (*id, MailboxChanged::Counts(*id))));
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

    /// Messages that lost their last visible placement after `since`, each with its thread, whether
    /// or not they existed before. `None` if that is too long ago. A client that knows another copy
    /// of one, in another log, must learn of it.
    pub fn departed_since(&self, since: Position) -> Option<impl Iterator<Item = (ObjectId, ThreadId)>> {
        let departed = self.departed.messages.since(since)?.map(Departure::unpack);
        Some(departed.map(|departure| (departure.object, departure.thread)))
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

    /// Whether another mailbox may have been the trash at `since`, or none: then threads are unread
    /// in other mailboxes than they were. Which one it was is not kept, so any mailbox that lost a
    /// special use since then, or may have, counts. `None` if that is too long ago.
    fn trash_may_have_changed(&self, since: Position) -> Option<bool> {
        let is_trash = |mailbox: &Mailbox| mailbox.special_uses().contains(SpecialUse::Trash);
        let changed = self.mailboxes.values().any(|mailbox| {
            let is_new = mailbox.created > since;
            if is_new { is_trash(mailbox) } else { mailbox.properties_changed > since }
        });
        Some(changed || self.departed.mailboxes.since(since)?.next().is_some())
    }

    /// Whether a message that clients know by that object has been visible since that position, for
    /// the maps to tell.
    fn showed(&self, object: ObjectId, position: Position) -> bool {
        let since = |number| self.visible_since(number).is_some_and(|since| since <= position);
        self.maps().is_some_and(|maps| maps.messages(object).any(since))
    }

    fn changed_rows(&self, since: Position) -> impl Iterator<Item = Row> {
        self.mailboxes.values().flat_map(move |mailbox| mailbox.changed_since(since))
    }
}

/// Something that changed.
struct Change<T> {
    what: T,
    /// Where it first did, as far as that is known.
    at: Position,
    /// Since when it is there, if it is there now and that is known.
    now: Option<Position>,
}

/// What changed, with what has to be known to tell how; of too much, what changed first.
pub(super) struct ChangeCollector<T> {
    since: Position,
    most: usize,
    changes: Vec<Change<T>>,
    /// From when to when something was there that went after `since`.
    departed: BTreeMap<T, Vec<(Position, Position)>>,
    /// Changes after this position are left out.
    cut: Option<Position>,
}

impl<T: Copy + Ord> ChangeCollector<T> {
    pub(super) fn new(since: Position, most: usize) -> Self {
        ChangeCollector { since, most, changes: Vec::new(), departed: BTreeMap::new(), cut: None }
    }

    /// Something was there from `appeared` on, and went at `at`.
    pub(super) fn departed(&mut self, what: T, appeared: Position, at: Position) {
        self.departed.entry(what).or_default().push((appeared, at));
        let first = if appeared > self.since { appeared } else { at };
        self.changed(what, first, None);
    }

    /// Something changed at a position after `since`, and is there since `now`.
    pub(super) fn changed(&mut self, what: T, at: Position, now: Option<Position>) {
        let appeared = now.filter(|appeared| *appeared > self.since);
        let at = appeared.map_or(at, |appeared| appeared.min(at));
        // Left out or not, whether it is there now has to be known of what went before.
        if self.cut.is_none_or(|cut| at <= cut) || self.departed.contains_key(&what) {
            self.changes.push(Change { what, at, now });
        }
        if self.changes.len() > 2 * self.most.max(64) + self.departed.len() {
            self.tidy();
        }
    }

    /// Each thing once; more than `most` of them go, in whole positions.
    fn tidy(&mut self) {
        self.changes.sort_unstable_by_key(|change| change.what);
        self.changes.dedup_by(|next, kept| {
            let same = next.what == kept.what;
            if same {
                kept.at = kept.at.min(next.at);
                kept.now = kept.now.into_iter().chain(next.now).min();
            }
            same
        });
        self.changes.sort_unstable_by_key(|change| (change.at, change.what));
        if self.changes.len() > self.most {
            let cut = Position(self.changes[self.most].at.0 - 1);
            let departed = &self.departed;
            self.changes.retain(|change| change.at <= cut || departed.contains_key(&change.what));
            self.cut = Some(self.cut.map_or(cut, |before| before.min(cut)));
        }
    }

    /// `since_when` says since when something is there that is there now, given what was found of that.
    pub(super) fn finish(
        mut self,
        now: Position,
        since_when: impl Fn(T, Option<Position>) -> Option<Position>,
    ) -> Option<Changes<T>> {
        self.tidy();
        let upto = self.cut.unwrap_or(now);
        if self.cut.is_some() && upto <= self.since {
            // Too much at the first position that has anything: no page could hold it.
            return None;
        }
        let (created, updated, destroyed) = (Vec::new(), Vec::new(), Vec::new());
        let mut changes = Changes { created, updated, destroyed, upto, more: self.cut.is_some() };
        for change in self.changes.iter().filter(|change| change.at <= upto) {
            let there_since = since_when(change.what, change.now);
            let departed = self.departed.get(&change.what).map(Vec::as_slice).unwrap_or_default();
            let is_there_at = |position: Position| {
                there_since.is_some_and(|since| since <= position)
                    || departed.iter().any(|(from, to)| *from <= position && position < *to)
            };
            match (is_there_at(self.since), is_there_at(upto)) {
                (false, true) => changes.created.push(change.what),
                (true, true) => changes.updated.push(change.what),
                (true, false) => changes.destroyed.push(change.what),
                (false, false) => {}
            }
        }
        Some(changes)
    }
}
