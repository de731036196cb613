//! The one function that changes an account's state.
//!
//! Total, deterministic, without clock, randomness or I/O. It never fails: an event that refers to something gone
//! does nothing. Limits are enforced here too, the same way on every replay; operations check them first to say why.

use std::collections::BTreeSet;

use sealpost_base::{MailboxId, Position, Timestamp, Uid, UidSet, UidValidity, limits};
use sealpost_vault::entry::{Generation, Origin};

use super::flags::{FlagSet, FlagSetId, FlagTable};
use super::graveyard::Graveyard;
use super::links::NOWHERE;
use super::mailbox::{Mailbox, Row};
use super::maps::{Edit, Recount};
use super::messages::MessageNumber;
use super::placements::Placements;
use super::visible::{Visibility, shows};
use super::{AccountState, Buried, INBOX, deliver};
use crate::event::{Batch, Event, FlagAction, Flags, Message, SpecialUse, SystemFlags};
use crate::metadata::{Change, Holder, SPECIAL_USE};
use crate::name;
use crate::special_use::SpecialUses;

/// What an event did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: what it refers to is gone, or it was so already.
    Nothing,
    /// Something with nothing to tell.
    Done,
    /// A mailbox was made.
    Created(MailboxId),
    /// Messages were placed in a mailbox.
    Placed {
        /// Where.
        mailbox: MailboxId,
        /// UIDVALIDITY there.
        uid_validity: UidValidity,
        /// The UIDs they had where they came from, ascending; empty for new messages. For one that replaced another,
        /// the other's.
        from: UidSet,
        /// Their UIDs, ascending, in the same order.
        uids: UidSet,
    },
    /// Flags were stored.
    Stored {
        /// Messages whose flags are now different.
        changed: UidSet,
        /// Messages left alone because they changed after `unchanged_since` (RFC 7162 §3.1.3 MODIFIED).
        modified: UidSet,
    },
    /// Messages went away.
    Removed(UidSet),
}

impl AccountState {
    /// Applies all events of the entry at `position`; what each did, in order.
    ///
    /// From an entry that was sealed to the public key only deliveries and offers count: whoever made it need not have
    /// been the owner.
    pub fn apply(&mut self, position: Position, origin: Origin, batch: &Batch) -> Vec<Applied> {
        self.position = position;
        let allowed = |event: &Event| {
            origin == Origin::Owner || matches!(event, Event::Delivered { .. } | Event::Offered { .. })
        };
        batch
            .events
            .iter()
            .map(|event| if allowed(event) { self.apply_event(batch.at, event) } else { Applied::Nothing })
            .collect()
    }

    /// Applies an entry that was decided on UIDs of `generation`.
    pub fn apply_decided_on(
        &mut self,
        generation: Generation,
        position: Position,
        origin: Origin,
        batch: &Batch,
    ) {
        if generation == self.generation {
            self.apply(position, origin, batch);
        } else {
            self.apply_of_another_generation(position, origin, batch);
        }
    }

    /// Applies what counts of an entry that was decided on UIDs of another generation, because its writer did not know of damage that
    /// others found, or they not of what it had read. Whatever names messages by UIDs, or a mailbox that would change or go,
    /// does nothing: they may be others. New messages count; in the inbox, if there is no such mailbox.
    fn apply_of_another_generation(&mut self, position: Position, origin: Origin, batch: &Batch) {
        let counts = self.decided_on(self.generation.next(), batch);
        self.apply(position, origin, &counts);
    }

    /// What counts of an entry that was decided on UIDs of `generation`: all of it, if that is the one of now.
    pub fn decided_on(&self, generation: Generation, batch: &Batch) -> Batch {
        if generation == self.generation {
            return batch.clone();
        }
        let events = batch.events.iter().filter_map(|event| self.regardless_of_numbers(event)).collect();
        Batch { at: batch.at, events }
    }

    fn regardless_of_numbers(&self, event: &Event) -> Option<Event> {
        let existing = |id: &MailboxId| self.mailbox(*id).map_or_else(|| self.inbox().id(), Mailbox::id);
        match event {
            Event::Appended { mailbox: to, message, flags } | Event::Replaced { to, message, flags, .. } => {
                let (mailbox, message, flags) = (existing(to), message.clone(), flags.clone());
                Some(Event::Appended { mailbox, message, flags })
            }
            Event::Restored { to, since } => Some(Event::Restored { to: existing(to), since: *since }),
            Event::UidValidityRaised { above, .. } => {
                Some(Event::UidValidityRaised { above: *above, mailbox: None })
            }
            // Its messages are in the share, whose key is here alone.
            Event::Linked { link, .. } => Some(Event::Found { link: link.clone() }),
            Event::MailboxCreated { .. }
            | Event::Subscribed { .. }
            | Event::Delivered { .. }
            | Event::Offered { .. }
            | Event::Found { .. }
            | Event::ObjectPut { .. }
            | Event::Purged { .. }
            | Event::HierarchyRenamed { .. } => Some(event.clone()),
            Event::MailboxRenamed { .. }
            | Event::MailboxDeleted { .. }
            | Event::Copied { .. }
            | Event::Moved { .. }
            | Event::FlagsStored { .. }
            | Event::Expunged { .. }
            | Event::RecentTaken { .. }
            | Event::ObjectRemoved { .. }
            | Event::SpecialUsesSet { .. } => None,
        }
    }

    /// What a renumbering does at `position`: what was given out before it, also by entries that are lost, is not given again.
    /// Nothing if that generation has begun already.
    pub fn apply_renumbering(&mut self, position: Position, generation: Generation) {
        self.position = position;
        if generation > self.generation {
            // A lost entry may have made as many mailboxes as there may be; others may have begun generations in between.
            let generations = generation.0 - self.generation.0;
            let lost = generations.saturating_mul(limits::MAILBOXES as u32);
            self.generation = generation;
            self.last_uid_validity = self.last_uid_validity.saturating_add(lost);
            self.next_mailbox = self.next_mailbox.saturating_add(lost);
            self.apply_damage(position);
        }
    }

    /// What replay does with an entry that the account's key does not open: its events are lost. Every mailbox gets a new
    /// UIDVALIDITY, on every node alike.
    pub fn apply_damage(&mut self, position: Position) {
        self.position = position;
        let ids: Vec<_> = self.mailboxes.keys().copied().collect();
        for id in ids {
            let uid_validity = self.next_uid_validity();
            if let Some(mailbox) = self.mailboxes.get_mut(&id) {
                mailbox.uid_validity = uid_validity;
                mailbox.highest_modseq = position;
            }
        }
        self.forget_departed();
    }

    /// Mailboxes have other ids: what clients know of before is too long ago.
    fn forget_departed(&mut self) {
        self.departed.forget_all(self.position);
        self.parents_changed = self.position;
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
            Event::Delivered { target, message, flags, create, .. } => {
                let to = self.destination(target.as_ref(), *create);
                self.place_new(to, message, &deliver::allowed(flags), at)
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
                self.annotated(name, put)
            }
            Event::ObjectRemoved { name } => {
                let removed = self.objects.remove(name, self.position);
                self.annotated(name, removed)
            }
            Event::Purged { before } => {
                self.purge(*before);
                Applied::Done
            }
            Event::Restored { to, since } => self.restore(*to, *since, at),
            Event::Linked { mailbox, link } => self.link_mailbox(*mailbox, link, at),
            Event::Offered { link, name, below } => self.take_offer(link, name, *below),
            Event::Found { link } => self.take_found(link),
            Event::SpecialUsesSet { mailbox, uses } => {
                self.set_special_uses(*mailbox, uses.iter().copied().collect())
            }
            Event::HierarchyRenamed { from, to } => self.rename_hierarchy(from, to),
            Event::Replaced { from, uid, to, message, flags } => {
                self.replace((*from, *uid), *to, message, flags, at)
            }
            Event::UidValidityRaised { above, mailbox } => {
                self.last_uid_validity = self.last_uid_validity.max(*above);
                let lower =
                    |id: &MailboxId| self.mailbox(*id).is_some_and(|m| m.uid_validity.0.get() <= *above);
                if let Some(id) = mailbox.filter(lower) {
                    self.renumber(id);
                }
                Applied::Done
            }
        }
    }

    fn rename(&mut self, id: MailboxId, to: &str) -> Applied {
        let Some(from) = self.mailboxes.get(&id).map(|m| m.name.clone()) else { return Applied::Nothing };
        let below_itself = to.strip_prefix(&from).is_some_and(|rest| rest.starts_with('/'));
        if from == INBOX || self.by_name.contains_key(to) || below_itself {
            return Applied::Nothing;
        }
        // RFC 3501 §6.3.5: inferior hierarchical names are renamed too.
        let inferiors = self.inferior_names(&from, to);
        self.move_names(std::iter::once((from, to.to_owned())).chain(inferiors).collect())
    }

    /// A level is no mailbox: what is below it moves.
    fn rename_hierarchy(&mut self, from: &str, to: &str) -> Applied {
        let below_itself = to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
        if from == INBOX || from == to || below_itself || self.by_name.contains_key(from) {
            return Applied::Nothing;
        }
        self.move_names(self.inferior_names(from, to))
    }

    /// The names below `from`, and what they become below `to`.
    fn inferior_names(&self, from: &str, to: &str) -> Vec<(String, String)> {
        let prefix = format!("{from}/");
        let names = self.by_name.range(prefix.clone()..).map(|(name, _)| name);
        let names = names.take_while(|name| name.starts_with(&prefix));
        names.map(|name| (name.clone(), format!("{to}/{}", &name[prefix.len()..]))).collect()
    }

    /// All or none. A new name may be one of the old ones, which is free by then: `a/b` becomes `a` above `a/b/b`.
    fn move_names(&mut self, names: Vec<(String, String)>) -> Applied {
        let old: BTreeSet<&str> = names.iter().map(|(old, _)| old.as_str()).collect();
        let taken = |new: &str| self.by_name.contains_key(new) && !old.contains(new);
        if names.is_empty() || names.iter().any(|(_, new)| taken(new) || name::check(new).is_err()) {
            return Applied::Nothing;
        }
        let parents = self.parents_now();
        let ids: Vec<_> = names.iter().map(|(old, _)| self.by_name.remove(old)).collect();
        for (id, (_, new)) in ids.into_iter().zip(names) {
            let Some(id) = id else { continue };
            self.by_name.insert(new.clone(), id);
            if let Some(mailbox) = self.mailboxes.get_mut(&id) {
                mailbox.name = new;
                mailbox.properties_changed = self.position;
            }
        }
        if self.parents_now() != parents {
            self.parents_changed = self.position;
        }
        Applied::Done
    }

    fn set_special_uses(&mut self, id: MailboxId, uses: SpecialUses) -> Applied {
        if !self.mailboxes.contains_key(&id) {
            return Applied::Nothing;
        }
        for mailbox in self.mailboxes.values_mut() {
            let now = if mailbox.id == id { uses } else { mailbox.special_uses.without(uses) };
            if now != mailbox.special_uses {
                mailbox.special_uses = now;
                mailbox.highest_modseq = self.position;
                mailbox.properties_changed = self.position;
                let holder = Holder::Mailbox(mailbox.id);
                let entry = SPECIAL_USE.to_owned();
                self.objects.note_change(Change { at: self.position, holder, entry });
            }
        }
        // What is in the trash counts in another way.
        self.forget_counts();
        Applied::Done
    }

    /// An object changed, which may be an annotation of a mailbox: then that has a new HIGHESTMODSEQ (RFC 7162 §3.2).
    fn annotated(&mut self, name: &str, changed: bool) -> Applied {
        if let (true, Some((Holder::Mailbox(id), _))) = (changed, Holder::of_object(name))
            && let Some(mailbox) = self.mailboxes.get_mut(&id)
        {
            mailbox.highest_modseq = self.position;
        }
        done(changed)
    }

    fn delete(&mut self, id: MailboxId, at: Timestamp) -> Applied {
        match self.mailboxes.get(&id) {
            None => return Applied::Nothing,
            Some(m) if m.name == INBOX => return Applied::Nothing,
            Some(_) => {}
        }
        let recount = self.recount_all_of(id);
        let Some(mailbox) = self.mailboxes.remove(&id) else { return Applied::Nothing };
        self.by_name.remove(&mailbox.name);
        if self.changes_parents(&mailbox.name) {
            self.parents_changed = self.position;
        }
        match mailbox.link {
            None => {
                let validity = mailbox.uid_validity.0.get();
                self.departed.mailboxes.push([self.position.0, mailbox.created.0, validity.into()]);
            }
            // What clients call it is in the other log.
            Some(_) => self.departed.mailboxes.forget_up_to(self.position),
        }
        if mailbox.special_uses.contains(SpecialUse::Trash) {
            self.forget_counts();
        }
        // RFC 5464 §4.1: a mailbox that is made later under the same name does not inherit them.
        self.objects.remove_of(Holder::Mailbox(id));
        self.graveyard.extend(mailbox.all_rows().map(|row| buried(id, &row, at)));
        let mut edit = Edit::removing();
        for row in mailbox.all_rows() {
            edit.push(&mut self.maps, row.message, id, row.uid);
            if shows(self.flags.set(row.flags).system) {
                self.visibility().lose(row.message);
            }
        }
        edit.finish(&mut self.maps);
        self.recounted(recount);
        Applied::Done
    }

    pub(super) fn subscribe(&mut self, name: &str, on: bool) -> Applied {
        let changed = if !on {
            self.subscriptions.remove(name)
        } else if self.subscriptions.len() < limits::MAILBOXES && name.len() <= limits::MAILBOX_NAME_BYTES {
            self.subscriptions.insert(name.to_owned())
        } else {
            false
        };
        let (position, id) = (self.position, self.by_name.get(name));
        if let (true, Some(mailbox)) = (changed, id.and_then(|id| self.mailboxes.get_mut(id))) {
            mailbox.properties_changed = position;
        }
        if changed { Applied::Done } else { Applied::Nothing }
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
            gone.graveyard.push(&buried(from, row, at));
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
        // They move out of the graveyard, so what pointed to message and flags goes on pointing to them.
        let mut placements = Placements::default();
        self.graveyard.retain(|buried| {
            let wanted = buried.at >= since && buried.mailbox != NOWHERE;
            if wanted {
                placements.push(buried.message, buried.flags);
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
        self.graveyard.retain(|buried| {
            let keep = buried.at >= before;
            if !keep {
                messages.release(buried.message);
                flags.release(buried.flags);
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
        mut gone: impl FnMut(&mut Gone<'_>, &Row),
    ) -> UidSet {
        let recount = self.recount_of(from, uids);
        let Some(mailbox) = self.mailboxes.get_mut(&from) else { return UidSet::new() };
        let (mut unseen, mut deleted, mut bytes) = (0, 0, 0u64);
        let (flags, maps, at) = (&self.flags, &mut self.maps, self.position);
        let visibility = Visibility { messages: &mut self.messages, departed: &mut self.departed, at };
        let mut parts = Gone { graveyard: &mut self.graveyard, visibility, visible: false };
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
    fn recount_all_of(&mut self, mailbox: MailboxId) -> Recount {
        self.recount(self.mailboxes.get(&mailbox).map_or(0, Mailbox::len), |state| {
            let mailbox = state.mailboxes.get(&mailbox).into_iter();
            mailbox.flat_map(Mailbox::all_rows).map(|row| row.message).collect()
        })
    }

    /// What changes when visible placements come and go now.
    fn visibility(&mut self) -> Visibility<'_> {
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

fn done(changed: bool) -> Applied {
    if changed { Applied::Done } else { Applied::Nothing }
}

fn buried(mailbox: MailboxId, row: &Row, at: Timestamp) -> Buried {
    Buried { message: row.message, mailbox, uid: row.uid, flags: row.flags, at }
}

/// What a placement that is taken out of a mailbox changes besides it.
struct Gone<'a> {
    graveyard: &'a mut Graveyard,
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
