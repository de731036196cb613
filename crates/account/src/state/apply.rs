//! The one function that changes an account's state.
//!
//! Total, deterministic, without clock, randomness or I/O. It never fails: an event that refers to
//! something gone does nothing. Limits are enforced here too, the same way on every replay;
//! operations check them first to say why.

use sealpost_base::{MailboxId, Position, Timestamp, Uid, UidSet, limits};
use sealpost_vault::entry::Origin;

use super::flags::{FlagSet, FlagSetId, FlagTable};
use super::links::NOWHERE;
use super::mailbox::{Mailbox, Row};
use super::maps::{Edit, Recount};
use super::messages::MessageNumber;
use super::placements::Placements;
use super::tombstones::Tombstones;
use super::visible::{Visibility, shows};
use super::{AccountState, Applied, Tombstone, deliver};
use crate::event::{Batch, Event, FlagAction, Flags, Message, SystemFlags};
use crate::name;

impl AccountState {
    /// Applies all events of the entry at `position`; what each did, in order.
    ///
    /// In an entry sealed to the public key only deliveries, offers and outcomes of submissions count:
    /// its writer need not be the owner.
    pub fn apply(&mut self, position: Position, origin: Origin, batch: &Batch) -> Vec<Applied> {
        self.position = position;
        let allowed = |event: &Event| origin == Origin::Owner || event.needs_no_owner();
        batch
            .events
            .iter()
            .map(|event| if allowed(event) { self.apply_event(batch.at, event) } else { Applied::Nothing })
            .collect()
    }

    fn apply_event(&mut self, at: Timestamp, event: &Event) -> Applied {
        match event {
            Event::MailboxCreated { name, special_use } => {
                if self.by_name.contains_key(name)
                    || self.mailboxes.len() >= limits::MAILBOXES
                    || name::check(name).is_err()
                {
                    return Applied::Nothing;
                }
                Applied::Created(self.add_mailbox(name.clone(), *special_use))
            }
            Event::MailboxRenamed { mailbox, name } => self.rename(*mailbox, name),
            Event::MailboxDeleted { mailbox } => self.delete(*mailbox, at),
            Event::Subscribed { name, on } => self.subscribe(name, *on),
            Event::Delivered { target, message, flags, create, report_on, .. } => {
                let to = self.destination(target.as_ref(), *create);
                let placed = self.place_new(to, message, &deliver::allowed(flags), at);
                if let Some(submission) = report_on
                    && placed != Applied::Nothing
                {
                    self.submissions.reported(*submission, message.first_object(), self.position);
                }
                placed
            }
            Event::Appended { mailbox, message, flags } => self.place_new(*mailbox, message, flags, at),
            Event::Copied { from, uids, to } => self.copy(*from, uids, *to, at),
            Event::Moved { from, uids, to } => self.relocate(*from, uids, *to, at),
            Event::FlagsStored { mailbox, uids, action, flags, unchanged_since } => {
                self.store_flags(*mailbox, uids, *action, flags, *unchanged_since)
            }
            Event::Expunged { mailbox, uids } => self.expunge(*mailbox, uids, at),
            Event::RecentTaken { mailbox, below } => match self.mailboxes.get_mut(mailbox) {
                Some(m) if m.recent_from < *below => {
                    m.recent_from = (*below).min(m.uid_next);
                    Applied::Done
                }
                _ => Applied::Nothing,
            },
            Event::ObjectPut { name, value } => {
                let put = self.objects.put(name, value, self.position);
                self.object_changed(name, put)
            }
            Event::ObjectRemoved { name } => {
                let removed = self.objects.remove(name, self.position);
                self.object_changed(name, removed)
            }
            Event::Purged { before } => {
                self.purge(*before);
                Applied::Done
            }
            Event::Restored { to, since } => self.restore(*to, *since, at),
            Event::Linked { mailbox, link } => self.link_mailbox(*mailbox, link, at),
            Event::Offered { link, name, below, unaccepted } => {
                self.take_offer(link, name, *below, *unaccepted)
            }
            Event::Found { link } => self.take_found(link),
            Event::SpecialUsesSet { mailbox, uses } => {
                self.set_special_uses(*mailbox, uses.iter().copied().collect())
            }
            Event::HierarchyRenamed { from, to } => self.rename_hierarchy(from, to),
            Event::Replaced { from, uid, to, message, flags } => {
                self.replace((*from, *uid), *to, message, flags, at)
            }
            Event::AddressBookCreated { fields } => self.create_address_book(fields),
            Event::AddressBookChanged { book, fields } => self.change_address_book(*book, fields),
            Event::AddressBookDeleted { book } => self.delete_address_book(*book, at),
            Event::DefaultAddressBookSet { book } => self.set_default_address_book(*book),
            Event::CardStored { card, content } => self.store_card(*card, content, at),
            Event::CardDeleted { card } => self.delete_card(*card, at),
            Event::UidValidityRaised { above, mailbox } => {
                self.last_uid_validity = self.last_uid_validity.max(*above);
                let lower =
                    |id: &MailboxId| self.mailbox(*id).is_some_and(|m| m.uid_validity.0.get() <= *above);
                if let Some(id) = mailbox.filter(lower) {
                    self.renumber(id);
                }
                Applied::Done
            }
            Event::Submitted { submission } => done(self.submissions.record(submission, at, self.position)),
            Event::SubmissionOutcome { submission, news } => {
                done(self.submissions.take(*submission, news, self.position))
            }
            Event::SubmissionRemoved { submission } => {
                done(self.submissions.remove(*submission, self.position).is_some())
            }
            Event::IdentityStored { id, identity } => {
                done(self.identities.store(*id, identity, self.position))
            }
            Event::IdentityRemoved { id } => done(self.identities.remove(*id, self.position).is_some()),
        }
    }

    fn place_new(&mut self, to: MailboxId, message: &Message, flags: &Flags, at: Timestamp) -> Applied {
        if self.mailbox(to).is_none() {
            return Applied::Nothing;
        }
        let Some(number) = self.add_message(message) else { return Applied::Nothing };
        let flags = self.first_flags(flags);
        let placed = self.place(to, &Placements::one(number, flags), at);
        self.placed(to, UidSet::new(), placed)
    }

    /// A message that one placement will point to, in the thread that its links join it to.
    fn add_message(&mut self, message: &Message) -> Option<MessageNumber> {
        let thread = self.thread_links.join(message);
        let number = self.messages.add(&Message { thread, ..message.clone() }, self.position)?;
        self.map_message(number);
        Some(number)
    }

    /// The set of a new placement; without keywords, or empty, when there are too many sets.
    fn first_flags(&mut self, flags: &Flags) -> FlagSetId {
        let set = self.flags.intern_names(flags);
        let system = FlagSet { system: set.system, keywords: Vec::new() };
        let interned = self.flags.intern(&set).or_else(|| self.flags.intern(&system));
        interned.unwrap_or_else(|| self.flags.retain(FlagTable::EMPTY))
    }

    fn replace(
        &mut self,
        (from, uid): (MailboxId, Uid),
        to: MailboxId,
        message: &Message,
        flags: &Flags,
        at: Timestamp,
    ) -> Applied {
        let there = self.mailbox(from).is_some_and(|m| m.row(uid).is_some());
        if !there || self.mailbox(to).is_none() {
            return Applied::Nothing;
        }
        let Some(number) = self.add_message(message) else { return Applied::Nothing };
        // First, while the UID means what it meant: the new message may be what renumbers the mailbox.
        let uids = UidSet::range(uid, uid);
        self.expunge(from, &uids, at);
        let flags = self.first_flags(flags);
        let placed = self.place(to, &Placements::one(number, flags), at);
        self.placed(to, uids, placed)
    }

    fn copy(&mut self, from: MailboxId, uids: &UidSet, to: MailboxId, at: Timestamp) -> Applied {
        let Some(source) = self.mailboxes.get(&from).filter(|_| self.mailbox(to).is_some()) else {
            return Applied::Nothing;
        };
        let (mut placements, mut copied) = (Placements::default(), UidSet::new());
        for row in uids.ranges().flat_map(|(first, last)| source.rows(first..=last)) {
            copied.push(row.uid);
            if self.messages.retain(row.message) {
                self.flags.retain(row.flags);
                placements.push(row.message, row.flags);
            }
        }
        if copied.is_empty() {
            return Applied::Nothing;
        }
        let placed = self.place(to, &placements, at);
        self.placed(to, copied, placed)
    }

    fn relocate(&mut self, from: MailboxId, uids: &UidSet, to: MailboxId, at: Timestamp) -> Applied {
        if self.mailbox(to).is_none() {
            return Applied::Nothing;
        }
        let mut placements = Placements::default();
        let moved = self.take_rows(from, uids, |_, row| placements.push(row.message, row.flags));
        if moved.is_empty() {
            return Applied::Nothing;
        }
        let placed = self.place(to, &placements, at);
        // Only now: those that were placed never were without a visible placement.
        for (message, flags) in placements.iter() {
            if shows(self.flags.set(flags).system) {
                self.visibility().moved(message);
            }
        }
        self.placed(to, moved, placed)
    }

    pub(super) fn expunge(&mut self, from: MailboxId, uids: &UidSet, at: Timestamp) -> Applied {
        let gone = self.take_rows(from, uids, |gone, row| {
            gone.tombstones.push(&tombstone(from, row, at));
            if gone.visible {
                gone.visibility.lose(row.message);
            }
        });
        if gone.is_empty() { Applied::Nothing } else { Applied::Removed(gone) }
    }

    fn restore(&mut self, to: MailboxId, since: Timestamp, at: Timestamp) -> Applied {
        if self.mailbox(to).is_none() {
            return Applied::Nothing;
        }
        // They are tombstones no longer, so references to message and flags stay valid.
        let mut placements = Placements::default();
        self.tombstones.retain(|tombstone| {
            let wanted = tombstone.at >= since && tombstone.mailbox != NOWHERE;
            if wanted {
                placements.push(tombstone.message, tombstone.flags);
            }
            !wanted
        });
        if placements.is_empty() {
            return Applied::Nothing;
        }
        let placed = self.place(to, &placements, at);
        let deleted = Flags::system(SystemFlags::DELETED);
        self.store_flags(to, &placed, FlagAction::Remove, &deleted, None);
        self.placed(to, UidSet::new(), placed)
    }

    fn store_flags(
        &mut self,
        id: MailboxId,
        uids: &UidSet,
        action: FlagAction,
        flags: &Flags,
        unchanged_since: Option<Position>,
    ) -> Applied {
        if self.mailbox(id).is_none() {
            return Applied::Nothing;
        }
        let recount = self.recount_of(id, uids);
        let Some(mailbox) = self.mailboxes.get_mut(&id) else { return Applied::Nothing };
        let set = self.flags.intern_names(flags);
        if action != FlagAction::Remove {
            mailbox.keywords.extend(set.keywords.iter().copied());
        }
        let (mut changed, mut modified) = (UidSet::new(), UidSet::new());
        let (position, table) = (self.position, &mut self.flags);
        let (messages, departed) = (&mut self.messages, &mut self.departed);
        let mut visibility = Visibility { messages, departed, at: position };
        let (mut unseen, mut deleted) = (Counts::default(), Counts::default());
        let mut counted = SystemFlags::NONE;
        // What the row before had, and what it has now: neighbours mostly have the same.
        let mut before = None;
        for range in uids.ranges() {
            mailbox.change_flags(range, position, |row| {
                if unchanged_since.is_some_and(|modseq| row.modseq > modseq) {
                    modified.push(row.uid);
                    return None;
                }
                let after = match before {
                    Some((same, after)) if same == row.flags => table.retain(after),
                    _ => table.change(row.flags, action, &set)?,
                };
                before = Some((row.flags, after));
                let [old, new] = [row.flags, after].map(|id| table.set(id).system);
                unseen.change(!old.contains(SystemFlags::SEEN), !new.contains(SystemFlags::SEEN));
                deleted.change(old.contains(SystemFlags::DELETED), new.contains(SystemFlags::DELETED));
                counted = counted.with(old.without(new)).with(new.without(old));
                match (shows(old), shows(new)) {
                    (false, true) => visibility.gain(row.message),
                    (true, false) => visibility.lose(row.message),
                    _ => {}
                }
                table.release(row.flags);
                changed.push(row.uid);
                Some(after)
            });
        }
        mailbox.unseen = unseen.of(mailbox.unseen);
        mailbox.deleted = deleted.of(mailbox.deleted);
        if !changed.is_empty() {
            mailbox.highest_modseq = position;
        }
        let counting = [SystemFlags::SEEN, SystemFlags::DRAFT, SystemFlags::DELETED];
        if counting.iter().any(|flag| counted.contains(*flag)) {
            mailbox.counts_changed = position;
        }
        self.recounted(recount);
        if changed.is_empty() && modified.is_empty() {
            return Applied::Nothing;
        }
        Applied::Stored { changed, modified }
    }

    fn purge(&mut self, before: Timestamp) {
        let messages = &mut self.messages;
        let flags = &mut self.flags;
        self.tombstones.retain(|tombstone| {
            let keep = tombstone.at >= before;
            if !keep {
                messages.release(tombstone.message);
                flags.release(tombstone.flags);
            }
            keep
        });
        let before = self.messages.len();
        self.messages.sweep();
        if self.messages.len() < before {
            self.unmap_forgotten();
        }
    }

    /// Takes messages out of a mailbox, shows each to `gone`; which there were.
    fn take_rows(
        &mut self,
        from: MailboxId,
        uids: &UidSet,
        mut gone: impl FnMut(&mut RemovedPlacement<'_>, &Row),
    ) -> UidSet {
        let recount = self.recount_of(from, uids);
        let Some(mailbox) = self.mailboxes.get_mut(&from) else { return UidSet::new() };
        let (mut unseen, mut deleted, mut bytes) = (0, 0, 0u64);
        let (flags, maps, at) = (&self.flags, &mut self.maps, self.position);
        let visibility = Visibility { messages: &mut self.messages, departed: &mut self.departed, at };
        let mut parts = RemovedPlacement { tombstones: &mut self.tombstones, visibility, visible: false };
        let mut edit = Edit::removing();
        let removed = mailbox.remove(uids, at, |row| {
            let system = flags.set(row.flags).system;
            unseen += usize::from(!system.contains(SystemFlags::SEEN));
            deleted += usize::from(system.contains(SystemFlags::DELETED));
            bytes = bytes.saturating_add(parts.visibility.messages.size(row.message));
            edit.push(maps, row.message, from, row.uid);
            parts.visible = shows(system);
            gone(&mut parts, &row);
        });
        edit.finish(maps);
        mailbox.unseen = mailbox.unseen.saturating_sub(unseen);
        mailbox.deleted = mailbox.deleted.saturating_sub(deleted);
        mailbox.bytes = mailbox.bytes.saturating_sub(bytes);
        if !removed.is_empty() {
            mailbox.highest_modseq = at;
            mailbox.counts_changed = at;
        }
        self.recounted(recount);
        removed
    }

    /// Before placements of a mailbox change.
    fn recount_of(&mut self, mailbox: MailboxId, uids: &UidSet) -> Recount {
        let many = self.mailboxes.get(&mailbox).map_or(0, |m| m.len().min(uids.len()));
        self.recount(many, |state| {
            let mailbox = state.mailboxes.get(&mailbox).into_iter();
            let rows = mailbox.flat_map(|m| uids.ranges().flat_map(|(first, last)| m.rows(first..=last)));
            rows.map(|row| row.message).collect()
        })
    }

    /// Before all placements of a mailbox go.
    pub(super) fn recount_all_of(&mut self, mailbox: MailboxId) -> Recount {
        self.recount(self.mailboxes.get(&mailbox).map_or(0, Mailbox::len), |state| {
            let mailbox = state.mailboxes.get(&mailbox).into_iter();
            mailbox.flat_map(Mailbox::all_rows).map(|row| row.message).collect()
        })
    }

    /// What changes when visible placements come and go now.
    pub(super) fn visibility(&mut self) -> Visibility<'_> {
        Visibility { messages: &mut self.messages, departed: &mut self.departed, at: self.position }
    }

    /// Gives the placements the next UIDs of a mailbox that exists.
    fn place(&mut self, to: MailboxId, placements: &Placements, at: Timestamp) -> UidSet {
        let needed = u32::try_from(placements.len()).unwrap_or(u32::MAX);
        let exhausted =
            self.mailboxes.get(&to).is_some_and(|m| m.uid_next.get().checked_add(needed).is_none());
        if exhausted {
            self.renumber(to);
        }
        let recount =
            self.recount(placements.len(), |_| placements.iter().map(|(message, _)| message).collect());
        let Some(mailbox) = self.mailboxes.get_mut(&to) else { return UidSet::new() };
        let first = mailbox.uid_next;
        // As many as there are UIDs for.
        let uids = (first.get()..u32::MAX).filter_map(Uid::new);
        let placed = |(uid, (message, flags))| Row { uid, message, modseq: self.position, flags, saved: at };
        let rows = || uids.clone().zip(placements.iter()).map(placed);
        mailbox.extend(rows());
        let mut last = None;
        let mut before = None;
        let mut edit = Edit::adding();
        let (messages, departed) = (&mut self.messages, &mut self.departed);
        let mut visibility = Visibility { messages, departed, at: self.position };
        for row in rows() {
            let set = self.flags.set(row.flags);
            mailbox.count(set, 1);
            if before.replace(row.flags) != Some(row.flags) {
                mailbox.keywords.extend(set.keywords.iter().copied());
            }
            mailbox.bytes = mailbox.bytes.saturating_add(visibility.messages.size(row.message));
            last = Some(row.uid);
            edit.push(&mut self.maps, row.message, to, row.uid);
            if shows(set.system) {
                visibility.gain(row.message);
            }
        }
        edit.finish(&mut self.maps);
        mailbox.highest_modseq = self.position;
        mailbox.counts_changed = self.position;
        let Some(last) = last else { return UidSet::new() };
        mailbox.uid_next = Uid::new(last.get() + 1).unwrap_or(last);
        self.recounted(recount);
        UidSet::range(first, last)
    }

    fn placed(&self, mailbox: MailboxId, from: UidSet, uids: UidSet) -> Applied {
        match self.mailboxes.get(&mailbox) {
            Some(m) => Applied::Placed { mailbox, uid_validity: m.uid_validity, from, uids },
            None => Applied::Nothing,
        }
    }

    /// All UIDs are used up: start again at 1 under a new UIDVALIDITY (RFC 3501 §2.3.1.1).
    fn renumber(&mut self, id: MailboxId) {
        let uid_validity = self.next_uid_validity();
        let Some(mailbox) = self.mailboxes.get_mut(&id) else { return };
        mailbox.uid_validity = uid_validity;
        mailbox.renumber();
        let next = u32::try_from(mailbox.len()).ok().and_then(|n| n.checked_add(1)).and_then(Uid::new);
        mailbox.uid_next = next.unwrap_or(Uid::MIN);
        mailbox.recent_from = mailbox.uid_next;
        mailbox.vanished.clear();
        mailbox.vanished_floor = self.position;
        self.forget_departed();
        self.drop_maps();
    }
}

/// Whether an event did something that is not shown otherwise.
fn done(has_changed: bool) -> Applied {
    if has_changed { Applied::Done } else { Applied::Nothing }
}

pub(super) fn tombstone(mailbox: MailboxId, row: &Row, at: Timestamp) -> Tombstone {
    Tombstone { message: row.message, mailbox, uid: row.uid, flags: row.flags, at }
}

/// What a placement that is taken out of a mailbox changes besides it.
struct RemovedPlacement<'a> {
    tombstones: &'a mut Tombstones,
    visibility: Visibility<'a>,
    /// Whether it was visible.
    visible: bool,
}

/// How many more have something than before, and how many fewer.
#[derive(Default)]
struct Counts {
    more: usize,
    fewer: usize,
}

impl Counts {
    fn change(&mut self, before: bool, after: bool) {
        self.more += usize::from(after && !before);
        self.fewer += usize::from(before && !after);
    }

    fn of(&self, count: usize) -> usize {
        (count + self.more).saturating_sub(self.fewer)
    }
}

impl Mailbox {
    /// Keeps the counts of unseen and deleted messages: `by` more with these flags.
    pub(super) fn count(&mut self, flags: &FlagSet, by: isize) {
        if !flags.system.contains(SystemFlags::SEEN) {
            self.unseen = self.unseen.saturating_add_signed(by);
        }
        if flags.system.contains(SystemFlags::DELETED) {
            self.deleted = self.deleted.saturating_add_signed(by);
        }
    }
}
