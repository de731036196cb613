//! The changes since a log position, for JMAP (RFC 8620 §5.2): messages, threads, mailboxes.
//!
//! The reply consists of the rows that changed since then and of bounded tombstones
//! ([`super::visible`]). `None` means that the position is too long ago: some tombstones since then
//! were dropped, and a client fetches everything again (cannotCalculateChanges).
//!
//! A shared mailbox is a log of its own: what becomes of its messages is in the changes of that
//! log, and a message that moved there is destroyed here and created there, under the same id.

use std::collections::BTreeMap;

use sealpost_base::{MailboxId, ObjectId, Position, UidValidity};

use super::AccountState;
use super::mailbox::{Mailbox, Row};
use super::messages::MessageNumber;
use super::sync_point::{Changes, ObjectKind, SyncPoint, page_end};
use super::visible::Departure;
use crate::event::SpecialUse;
use crate::thread::ThreadId;

/// What became of mailboxes between two points. Each mailbox is in it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxChanges {
    /// The changes.
    pub changes: Vec<MailboxChanged>,
    /// The second point: the next one to ask for.
    pub upto: SyncPoint<UidValidity>,
    /// Something changed after that.
    pub more: bool,
}

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
    /// The changes of messages after `since`, up to a point before which at most `most` of them changed.
    /// A message is created when it gets its first visible placement, and destroyed when it loses its last
    /// one; changes of its flags and mailboxes are updates. A change that another one follows after that
    /// point may be reported with that one alone. `None` if `since` is too long ago.
    ///
    /// Reads one column of the rows of all mailboxes that changed since then; takes 48 bytes for
    /// each message that changed, of at most twice `most`, and for each tombstone since then.
    pub fn email_changes(
        &self,
        since: impl Into<SyncPoint<ObjectId>>,
        most: usize,
    ) -> Option<Changes<ObjectId>> {
        let since = since.into();
        let mut found = ChangeCollector::new(since, most);
        for departure in self.departed.messages.since(since.position)?.map(Departure::unpack) {
            found.departed(departure.object, departure.appeared, departure.at);
        }
        let parted = self.departed.parted.since(since.position)?;
        let parted = parted.map(|[at, number]| (MessageNumber(number as u32), Position(at)));
        let rows = self.changed_rows(since.position).map(|row| (row.message, row.modseq));
        for (number, at) in rows.chain(parted) {
            if let (Some(appeared), Some(object)) =
                (self.visible_since(number), self.messages.first_object(number))
            {
                found.changed(object, at, Some(appeared));
            }
        }
        let mut changes = found.finish(self.position, |_, now| now);
        // A copy that came back from another log is the same message to clients.
        let upto = changes.upto;
        let back = changes.destroyed.extract_if(.., |object| self.showed(*object, upto.of(*object)));
        changes.updated.extend(back);
        // Nor is it new if the first one has been there.
        let known = changes.created.extract_if(.., |object| self.showed(*object, since.of(*object)));
        changes.updated.extend(known);
        Some(changes)
    }

    /// What became of threads after `since`: which got their first visible message, lost their last
    /// one, or have others than before; otherwise as [`AccountState::email_changes`]. `None` also
    /// if there are no maps ([`crate::Account::with_maps`]).
    ///
    /// Costs as much as [`AccountState::email_changes`], and reads the messages of each thread that
    /// changed.
    pub fn thread_changes(
        &self,
        since: impl Into<SyncPoint<ThreadId>>,
        most: usize,
    ) -> Option<Changes<ThreadId>> {
        let since = since.into();
        let maps = self.maps()?;
        let mut found = ChangeCollector::new(since, most);
        for departure in self.departed.messages.since(since.position)?.map(Departure::unpack) {
            found.departed(departure.thread, departure.appeared, departure.at);
        }
        for row in self.changed_rows(since.position) {
            if let (Some(appeared), Some(thread)) =
                (self.visible_since(row.message), self.thread(row.message))
                && appeared > since.position
            {
                found.changed(thread, appeared, None);
            }
        }
        Some(found.finish(self.position, |thread, _| {
            maps.thread(thread).filter_map(|number| self.visible_since(number)).min()
        }))
    }

    /// What became of mailboxes after `since`, links included, up to a point before which at most `most`
    /// of them changed. `None` if that is too long ago, or a nonexistent parent came or went since then
    /// ([`AccountState::nonexistent_parents`]). A mailbox that was made and deleted in between may be
    /// reported as deleted alone.
    ///
    /// With maps, a mailbox is among them also if only the unread threads of it changed, by what
    /// happened to messages in other ones. Costs what [`AccountState::thread_changes`] does.
    pub fn mailbox_changes(
        &self,
        since: impl Into<SyncPoint<UidValidity>>,
        most: usize,
    ) -> Option<MailboxChanges> {
        let since = since.into();
        if since.position < self.parents_changed {
            return None;
        }
        let threads = self.mailboxes_of_changed_threads(since.position);
        let trash = self.trash_may_have_changed(since.position)?;
        let mut found = Vec::new();
        for mailbox in self.mailboxes.values() {
            let (id, validity) = (mailbox.id, mailbox.uid_validity);
            let known = since.of(validity);
            let counts = [Some(mailbox.counts_changed), threads.get(&id).copied(), trash];
            let counts = counts.into_iter().flatten().max().filter(|at| *at > known);
            if mailbox.created > known {
                found.push(((mailbox.created, validity), MailboxChanged::Created(id)));
            } else if mailbox.properties_changed > known {
                found.push(((mailbox.properties_changed, validity), MailboxChanged::Properties(id)));
            } else if let Some(at) = counts {
                found.push(((at, validity), MailboxChanged::Counts(id)));
            }
        }
        for [at, created, validity] in self.departed.mailboxes.since(since.position)? {
            if let Some(validity) = std::num::NonZeroU32::new(validity as u32).map(UidValidity)
                && (created..at).contains(&since.of(validity).0)
            {
                found.push(((Position(at), validity), MailboxChanged::Destroyed(validity)));
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        let order: Vec<(Position, UidValidity)> = found.iter().map(|(at, _)| *at).collect();
        let end = page_end(&order, most);
        let upto = end.unwrap_or(self.position.into());
        found.retain(|((at, validity), _)| *at <= upto.of(*validity));
        let changes = found.into_iter().map(|(_, change)| change).collect();
        Some(MailboxChanges { changes, upto, more: end.is_some() })
    }

    /// When objects of that kind changed last, or may have: there are no changes of them after that.
    /// Follows from the rest of the state, so it is the same on all nodes. For threads there must be maps.
    pub fn last_change(&self, kind: ObjectKind) -> Position {
        let departed = &self.departed;
        let emails = || {
            // A new mailbox has a mod-sequence before it has messages.
            let had_any =
                |mailbox: &&Mailbox| mailbox.highest_modseq > mailbox.created || !mailbox.is_empty();
            let rows = self.mailboxes.values().filter(had_any).map(|mailbox| mailbox.highest_modseq);
            let gone = [departed.messages.last(), departed.parted.last()];
            rows.chain(gone).max().unwrap_or_default()
        };
        match kind {
            ObjectKind::Emails => emails(),
            ObjectKind::Threads => departed.messages.last().max(departed.appeared),
            ObjectKind::Mailboxes => {
                let changed = |mailbox: &Mailbox| {
                    mailbox.created.max(mailbox.properties_changed).max(mailbox.counts_changed)
                };
                let mailboxes = self.mailboxes.values().map(changed);
                let gone = [departed.mailboxes.last(), self.parents_changed, emails()];
                mailboxes.chain(gone).max().unwrap_or_default()
            }
            ObjectKind::AddressBooks => self.contacts.last_change_of_books(),
            ObjectKind::Cards => self.contacts.last_change_of_cards(),
        }
    }

    /// Messages that lost their last visible placement after `since`, each with its thread and when it
    /// did, whether or not they existed before. `None` if that is too long ago. A client that knows
    /// another copy of one, in another log, must learn of it.
    pub fn departed_since(
        &self,
        since: Position,
    ) -> Option<impl Iterator<Item = (ObjectId, ThreadId, Position)>> {
        let departed = self.departed.messages.since(since)?.map(Departure::unpack);
        Some(departed.map(|departure| (departure.object, departure.thread, departure.at)))
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

    /// The mailboxes with messages of threads of which a message changed, each with the last such change.
    fn mailboxes_of_changed_threads(&self, since: Position) -> BTreeMap<MailboxId, Position> {
        let mut mailboxes = BTreeMap::new();
        let Some(maps) = self.maps() else { return mailboxes };
        let number = |row: u64| MessageNumber(row as u32);
        let rows = self.changed_rows(since).map(|row| (self.messages.thread(row.message), row.modseq));
        let parted = self.departed.parted.since(since).into_iter().flatten();
        let parted = parted.map(|[at, row]| (self.messages.thread(number(row)), Position(at)));
        let gone = self.departed.messages.since(since).into_iter().flatten().map(Departure::unpack);
        let gone = gone.map(|departure| (Some(departure.thread), departure.at));
        let mut threads: BTreeMap<ThreadId, Position> = BTreeMap::new();
        for (thread, at) in rows.chain(gone).chain(parted) {
            let Some(thread) = thread else { continue };
            let last = threads.entry(thread).or_insert(at);
            *last = at.max(*last);
        }
        for (thread, at) in threads {
            let visible = maps.thread(thread).filter(|number| self.is_visible(*number));
            for (mailbox, _) in visible.flat_map(|number| maps.placements(number)) {
                let last = mailboxes.entry(mailbox).or_insert(at);
                *last = at.max(*last);
            }
        }
        mailboxes
    }

    /// When another mailbox may have become the trash since then, or none: threads are unread in other
    /// mailboxes than they were. Which one it was is not kept, so any mailbox that lost a special use
    /// since then, or may have, counts. The inner `None` if there is none; the outer one if that is too
    /// long ago.
    fn trash_may_have_changed(&self, since: Position) -> Option<Option<Position>> {
        let is_trash = |mailbox: &Mailbox| mailbox.special_uses().contains(SpecialUse::Trash);
        let changed = self.mailboxes.values().filter_map(|mailbox| {
            let made = Some(mailbox.created).filter(|_| is_trash(mailbox));
            if mailbox.created > since { made } else { Some(mailbox.properties_changed) }
        });
        let gone = self.departed.mailboxes.since(since)?.map(|[at, ..]| Position(at));
        Some(changed.chain(gone).filter(|at| *at > since).max())
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
    since: SyncPoint<T>,
    most: usize,
    changes: Vec<Change<T>>,
    /// From when to when something was there that went after `since`.
    departed: BTreeMap<T, Vec<(Position, Position)>>,
    /// Changes after this point are left out.
    end: Option<SyncPoint<T>>,
}

impl<T: Copy + Ord> ChangeCollector<T> {
    pub(super) fn new(since: SyncPoint<T>, most: usize) -> Self {
        ChangeCollector { since, most, changes: Vec::new(), departed: BTreeMap::new(), end: None }
    }

    /// Something was there from `appeared` on, and went at `at`.
    pub(super) fn departed(&mut self, what: T, appeared: Position, at: Position) {
        self.departed.entry(what).or_default().push((appeared, at));
        let first = if appeared > self.since.of(what) { appeared } else { at };
        self.changed(what, first, None);
    }

    /// Something changed at a position, and is there since `now`.
    pub(super) fn changed(&mut self, what: T, at: Position, now: Option<Position>) {
        let known = self.since.of(what);
        if at <= known {
            return;
        }
        let appeared = now.filter(|appeared| *appeared > known);
        let at = appeared.map_or(at, |appeared| appeared.min(at));
        // Left out or not, whether it is there now has to be known of what went before.
        if self.has(what, at) || self.departed.contains_key(&what) {
            self.changes.push(Change { what, at, now });
        }
        if self.changes.len() > self.most.max(64).saturating_mul(2).saturating_add(self.departed.len()) {
            self.tidy();
        }
    }

    /// Whether a change is not behind the end.
    fn has(&self, what: T, at: Position) -> bool {
        self.end.is_none_or(|end| at <= end.of(what))
    }

    /// Each thing once; what follows the first `most` of them goes.
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
        let here = self.changes.iter().filter(|change| self.has(change.what, change.at));
        let mut order: Vec<(Position, T)> = here.map(|change| (change.at, change.what)).collect();
        order.sort_unstable();
        if let Some(end) = page_end(&order, self.most) {
            let departed = &self.departed;
            let stays = |change: &Change<T>| change.at <= end.of(change.what);
            self.changes.retain(|change| stays(change) || departed.contains_key(&change.what));
            self.end = Some(end);
        }
    }

    /// `since_when` says since when something is there that is there now, given what was found of that.
    pub(super) fn finish(
        mut self,
        now: Position,
        since_when: impl Fn(T, Option<Position>) -> Option<Position>,
    ) -> Changes<T> {
        self.tidy();
        let upto = self.end.unwrap_or(now.into());
        let (created, updated, destroyed) = (Vec::new(), Vec::new(), Vec::new());
        let mut changes = Changes { created, updated, destroyed, upto, more: self.end.is_some() };
        self.changes.sort_unstable_by_key(|change| (change.at, change.what));
        for change in self.changes.iter().filter(|change| change.at <= upto.of(change.what)) {
            let there_since = since_when(change.what, change.now);
            let departed = self.departed.get(&change.what).map(Vec::as_slice).unwrap_or_default();
            let is_there_at = |position: Position| {
                there_since.is_some_and(|since| since <= position)
                    || departed.iter().any(|(from, to)| *from <= position && position < *to)
            };
            match (is_there_at(self.since.of(change.what)), is_there_at(upto.of(change.what))) {
                (false, true) => changes.created.push(change.what),
                (true, true) => changes.updated.push(change.what),
                (true, false) => changes.destroyed.push(change.what),
                (false, false) => {}
            }
        }
        changes
    }
}
