//! The state of an account: a view of its log, made by [`AccountState::apply`] and by nothing else.
//!
//! Packed columns, about seventy bytes a message, shared by all sessions of the account. Replaying
//! the same entries gives the same state on every node and after every restart, byte for byte
//! (`state/chunks.rs` has the bytes).

mod applied;
mod apply;
mod bounded;
mod changes;
mod chunks;
mod contact_changes;
mod contact_events;
mod contacts;
mod deliver;
mod flag_room;
mod flags;
mod generation;
mod hierarchy;
mod links;
mod mailbox;
mod maps;
mod messages;
mod names;
mod objects;
mod packed;
mod placements;
mod records;
mod signed;
mod submissions;
mod sync_point;
mod table;
#[cfg(test)]
mod tests;
mod thread_links;
mod tombstones;
mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Bound;

pub use applied::Applied;
pub use changes::{MailboxChanged, MailboxChanges};
pub(crate) use chunks::expected_bytes;
pub use chunks::{ChunkNames, Restore};
pub use contacts::{AddressBook, Card, Contacts};
pub use flag_room::FlagRoom;
pub use flags::{FlagSet, FlagSetId, KeywordId};
pub use hierarchy::Parent;
pub use mailbox::{Mailbox, Row};
pub(crate) use maps::MAP_BYTES;
pub use maps::{MailboxCounts, MapsView};
pub use messages::{MessageFields, MessageNumber};
pub use records::{Record, Records, Weighed};
use sealpost_base::{AccountId, MailboxId, ObjectId, Position, SubmissionId, Timestamp, UidValidity};
use sealpost_vault::Epoch;
use sealpost_vault::entry::Generation;
pub use submissions::{Identities, Submissions};
pub use sync_point::{ChangeKey, Changes, ObjectKind, SyncPoint};
pub use tombstones::Tombstone;

use crate::event::{Event, FlagAction, Flags, Message, SpecialUse};
use crate::metadata::Change;
use crate::name;
pub use crate::name::INBOX;
use crate::sort_order;
use crate::submission::submission_bytes;
use flags::FlagTable;
use maps::Maps;
use messages::MessageTable;
use objects::Objects;
use thread_links::ThreadLinks;
use tombstones::Tombstones;
use visible::Departed;

/// Mailboxes that exist from the start, after the inbox.
const FIRST_MAILBOXES: [(&str, SpecialUse); 5] = [
    ("Drafts", SpecialUse::Drafts),
    ("Sent", SpecialUse::Sent),
    ("Junk", SpecialUse::Junk),
    ("Trash", SpecialUse::Trash),
    ("Archive", SpecialUse::Archive),
];

/// About the most that a message takes, a placement, and an expunged placement, in bytes. How well
/// they can be packed shows when they are.
const MESSAGE_BYTES: usize = 72;
const ROW_BYTES: usize = 12;
const TOMBSTONE_BYTES: usize = 8;
/// About the most that a tombstone takes, and a link whose thread is known.
const GONE_BYTES: usize = 32;
const LINK_BYTES: usize = 24;

/// About what a set of some flags takes, in bytes.
const FLAG_SET_BYTES: usize = 256;
/// About what a name takes beside its bytes, in bytes.
const NAME_BYTES: usize = 32;

/// Everything that the log of an account says, up to a position.
#[derive(Clone)]
pub struct AccountState {
    position: Position,
    generation: Generation,
    /// The latest epoch in which the owner sealed an entry.
    owner_epoch: Epoch,
    last_uid_validity: u32,
    next_mailbox: u32,
    mailboxes: BTreeMap<MailboxId, Mailbox>,
    by_name: BTreeMap<String, MailboxId>,
    subscriptions: BTreeSet<String>,
    messages: MessageTable,
    flags: FlagTable,
    tombstones: Tombstones,
    objects: Objects,
    thread_links: ThreadLinks,
    departed: Departed,
    contacts: Contacts,
    /// When a nonexistent parent came or went last.
    parents_changed: Position,
    identities: Identities,
    submissions: Submissions,
    /// Computed from the rest on demand, and no part of a checkpoint.
    maps: Option<Box<Maps>>,
}

impl AccountState {
    /// The state before the first entry: the inbox and the mailboxes for special uses, empty.
    ///
    /// UIDVALIDITY starts at a number made from the account's id, so that clients do not take an
    /// account created again under an old name for the old one.
    pub fn new(account: AccountId) -> Self {
        let [a, b, c, d, ..] = account.0;
        let mut state = AccountState {
            position: Position::ZERO,
            generation: Generation::default(),
            owner_epoch: Epoch::FIRST,
            last_uid_validity: u32::from_be_bytes([a, b, c, d]) >> 2,
            next_mailbox: 1,
            mailboxes: BTreeMap::new(),
            by_name: BTreeMap::new(),
            subscriptions: BTreeSet::from([INBOX.to_owned()]),
            messages: MessageTable::default(),
            flags: FlagTable::new(),
            tombstones: Tombstones::default(),
            objects: Objects::default(),
            thread_links: ThreadLinks::default(),
            departed: Departed::default(),
            contacts: Contacts::default(),
            parents_changed: Position::ZERO,
            identities: Identities::default(),
            submissions: Submissions::default(),
            maps: None,
        };
        state.add_mailbox(INBOX.to_owned(), None);
        for (name, special_use) in FIRST_MAILBOXES {
            state.add_mailbox(name.to_owned(), Some(special_use));
            state.subscriptions.insert(name.to_owned());
        }
        state
    }

    /// The identities (RFC 8621 §6).
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// The submissions (RFC 8621 §7).
    pub fn submissions(&self) -> &Submissions {
        &self.submissions
    }

    /// The submissions whose records go for another one of so many bytes: the oldest that are over. `None`
    /// if it has no room all the same.
    pub fn superfluous_submissions(&self, bytes: usize) -> Option<Vec<SubmissionId>> {
        submissions::superfluous(&self.submissions, bytes)
    }

    /// The last log position this state includes.
    pub fn position(&self) -> Position {
        self.position
    }

    /// How often UIDs were given a new meaning because the log was damaged.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The mailboxes, by name.
    pub fn mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        self.by_name.values().filter_map(|id| self.mailboxes.get(id))
    }

    /// How many mailboxes there are.
    pub fn mailbox_count(&self) -> usize {
        self.mailboxes.len()
    }

    /// The mailbox with that id, if it has not been deleted, nor become a link: then its messages
    /// are elsewhere.
    pub fn mailbox(&self, id: MailboxId) -> Option<&Mailbox> {
        self.mailboxes.get(&id).filter(|mailbox| mailbox.link.is_none())
    }

    /// The mailbox with that id, also if it is a link.
    pub fn any_mailbox(&self, id: MailboxId) -> Option<&Mailbox> {
        self.mailboxes.get(&id)
    }

    /// The mailbox of that name, which may be a link. `INBOX` may be in any case (RFC 3501 §5.1).
    pub fn mailbox_named(&self, name: &str) -> Option<&Mailbox> {
        self.mailboxes.get(self.by_name.get(&*name::canonical(name))?)
    }

    /// The inbox.
    ///
    /// # Panics
    /// Never: no event can remove it.
    pub fn inbox(&self) -> &Mailbox {
        self.mailbox_named(INBOX).expect("the inbox always exists")
    }

    /// Whether some mailbox is below `name` in the hierarchy.
    pub fn has_inferiors(&self, name: &str) -> bool {
        self.inferiors(name).next().is_some()
    }

    /// The mailboxes below `name` in the hierarchy, by name.
    pub fn inferiors<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Mailbox> + use<'a> {
        let prefix = format!("{name}/");
        let inside = prefix.clone();
        self.by_name
            .range(prefix..)
            .take_while(move |(name, _)| name.starts_with(&inside))
            .filter_map(|(_, id)| self.mailboxes.get(id))
    }

    /// The subscribed names, whether or not such mailboxes exist.
    pub fn subscriptions(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.iter().map(String::as_str)
    }

    /// Whether the name is subscribed to.
    pub fn is_subscribed(&self, name: &str) -> bool {
        self.subscriptions.contains(name)
    }

    /// Where clients show a mailbox among its siblings (RFC 8621 §2); 0 unless one has set another.
    pub fn sort_order(&self, mailbox: MailboxId) -> u32 {
        let value = self.object(&sort_order::object_of(mailbox));
        value.and_then(sort_order::order_in).unwrap_or_default()
    }

    /// The subscribed names from behind `after` on, by name; with `None` all.
    pub fn subscriptions_after(&self, after: Option<&str>) -> impl Iterator<Item = &str> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.subscriptions.range::<str, _>((begin, Bound::Unbounded)).map(String::as_str)
    }

    /// The mailboxes from behind the name `after` on, by name; with `None` all.
    pub fn mailboxes_after(&self, after: Option<&str>) -> impl Iterator<Item = &Mailbox> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.by_name.range::<str, _>((begin, Bound::Unbounded));
        names.filter_map(|(_, id)| self.mailboxes.get(id))
    }

    /// The mailbox with that special use.
    pub fn mailbox_for(&self, special_use: SpecialUse) -> Option<&Mailbox> {
        self.mailboxes.values().find(|mailbox| mailbox.special_uses().contains(special_use))
    }

    /// The message of that number, while a placement points to it.
    pub fn message(&self, number: MessageNumber) -> Option<Message> {
        self.messages.get(number)
    }

    /// What searches ask of the message of that number; cheaper than the message.
    pub fn message_fields(&self, number: MessageNumber) -> Option<MessageFields> {
        self.messages.fields(number)
    }

    /// Bytes of the message of that number; 0 if there is none.
    pub fn message_size(&self, number: MessageNumber) -> u64 {
        self.messages.size(number)
    }

    /// The object of the message of that number.
    pub fn message_object(&self, number: MessageNumber) -> Option<ObjectId> {
        self.messages.object(number)
    }

    /// The objects that first held the messages which came here from another log, or came back
    /// from one: of these alone an account may have several messages that are one to clients.
    pub fn copied_objects(&self) -> impl ExactSizeIterator<Item = ObjectId> {
        self.messages.origins()
    }

    /// How many messages there are, each counted once; expunged ones in their grace period included.
    pub fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// All messages, expunged ones in their grace period included.
    pub fn messages(&self) -> impl Iterator<Item = (MessageNumber, Message)> {
        self.messages.from(0)
    }

    /// The objects of all messages.
    pub fn message_objects(&self) -> impl Iterator<Item = ObjectId> {
        self.messages.objects()
    }

    /// The places of the message with that object, expunged ones left out. Looks through all messages.
    pub fn places_of(&self, object: ObjectId) -> Vec<(MailboxId, sealpost_base::Uid)> {
        let Some(number) = self.messages.with_object(object) else { return Vec::new() };
        let place = |mailbox: &Mailbox| {
            let row = mailbox.all_rows().find(|row| row.message == number)?;
            Some((mailbox.id(), row.uid))
        };
        self.mailboxes().filter_map(place).collect()
    }

    /// The messages with numbers from `first` on, ascending.
    pub fn messages_from(&self, first: u32) -> impl Iterator<Item = (MessageNumber, Message)> {
        self.messages.from(first)
    }

    /// The number that the next message will get.
    pub fn next_message(&self) -> u32 {
        self.messages.next()
    }

    /// How many messages have numbers from `first` to `last`.
    pub fn messages_between(&self, first: u32, last: u32) -> usize {
        self.messages.count(first, last)
    }

    /// The flags of that set.
    pub fn flags(&self, id: FlagSetId) -> &FlagSet {
        self.flags.set(id)
    }

    /// The flags of that set, by name.
    pub fn flags_by_name(&self, id: FlagSetId) -> Flags {
        let set = self.flags(id);
        let keywords = set.keywords.iter().map(|id| self.keyword_name(*id).to_owned());
        Flags { system: set.system, keywords: keywords.collect() }
    }

    /// A keyword's name as it was first written.
    pub fn keyword_name(&self, id: KeywordId) -> &str {
        self.flags.keyword_name(id)
    }

    /// The keyword of that name, in any case, if some message ever had it.
    pub fn keyword(&self, name: &str) -> Option<KeywordId> {
        self.flags.keyword(name)
    }

    /// All keywords, in the order in which they were first used.
    pub fn keywords(&self) -> &[String] {
        self.flags.keywords()
    }

    /// How many different sets of flags are in use.
    pub fn flag_set_count(&self) -> usize {
        self.flags.used_sets()
    }

    /// Expunged placements in their grace period, oldest first.
    pub fn tombstones(&self) -> impl Iterator<Item = Tombstone> {
        self.tombstones.iter()
    }

    /// How many expunged placements are in their grace period.
    pub fn tombstone_count(&self) -> usize {
        self.tombstones.len()
    }

    /// The objects of messages that `Purged { before }` would leave without any placement; at most
    /// so many of them.
    pub fn purgeable(&self, before: Timestamp, most: usize) -> Vec<ObjectId> {
        let over = self.tombstones.iter().filter(|gone| gone.at < before);
        let mut numbers: Vec<MessageNumber> = over.map(|gone| gone.message).collect();
        numbers.sort_unstable();
        let groups = numbers.chunk_by(|a, b| a == b);
        let unused = groups.filter(|group| self.messages.uses(group[0]) as usize == group.len());
        unused.filter_map(|group| self.messages.object(group[0])).take(most).collect()
    }

    /// A small per-account object.
    pub fn object(&self, name: &str) -> Option<&[u8]> {
        self.objects.by_name().get(name).map(Vec::as_slice)
    }

    /// The small per-account objects whose names start with `prefix`, by name.
    pub fn objects<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let from = self.objects.from(Bound::Included(prefix.to_owned()));
        from.take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// The small per-account objects from there on, by name.
    pub(crate) fn objects_from(&self, begin: Bound<String>) -> impl Iterator<Item = (&str, &[u8])> {
        self.objects.from(begin)
    }

    /// How many small per-account objects there are.
    pub fn object_count(&self) -> usize {
        self.objects.by_name().len()
    }

    /// The changes of metadata entries after that position, oldest first; `None` if some of them
    /// are no longer known.
    pub fn metadata_changes(&self, since: Position) -> Option<impl Iterator<Item = &Change>> {
        self.objects.changes(since)
    }

    /// Bytes of all small per-account objects together.
    pub fn objects_bytes(&self) -> usize {
        self.objects.bytes()
    }

    /// The address books of the account and the contact cards in them.
    pub fn contacts(&self) -> &Contacts {
        &self.contacts
    }

    /// The id that the next mailbox to be made will get.
    pub fn next_mailbox_id(&self) -> MailboxId {
        MailboxId(self.next_mailbox)
    }

    /// The largest UIDVALIDITY that was ever given in this account.
    pub fn last_uid_validity(&self) -> u32 {
        self.last_uid_validity
    }

    /// About how much memory this state takes, in bytes.
    pub fn memory(&self) -> usize {
        let rows: usize = self.mailboxes.values().map(Mailbox::memory).sum();
        let subscriptions: usize = self.subscriptions.iter().map(|name| NAME_BYTES + name.len()).sum();
        let packed = self.messages.heap_bytes() + self.tombstones.heap_bytes();
        let packed = packed + self.departed.heap_bytes() + self.thread_links.heap_bytes() + self.maps_bytes();
        let objects = self.objects_bytes() + self.identities.bytes() + self.submissions.bytes();
        rows + subscriptions + packed + self.flags.heap_bytes() + objects + self.contacts.memory() + 4096
    }

    /// The most rows that applying these events reads.
    pub(crate) fn rows_of(&self, events: &[Event]) -> usize {
        events.iter().map(|event| self.rows_of_one(event)).sum()
    }

    fn rows_of_one(&self, event: &Event) -> usize {
        let all_of = |mailbox: &MailboxId| self.mailboxes.get(mailbox).map_or(0, Mailbox::len);
        match event {
            Event::Copied { from: mailbox, uids, .. }
            | Event::Moved { from: mailbox, uids, .. }
            | Event::Expunged { mailbox, uids } => uids.len().min(all_of(mailbox)),
            // Some of them may be placed by the event before this one.
            Event::FlagsStored { uids, .. } => uids.len(),
            Event::MailboxDeleted { mailbox }
            | Event::Linked { mailbox, .. }
            | Event::UidValidityRaised { mailbox: Some(mailbox), .. } => all_of(mailbox),
            Event::Purged { .. } | Event::Restored { .. } => self.tombstones.len(),
            Event::AddressBookDeleted { .. } => self.contacts.len(),
            _ => 1,
        }
    }

    /// About how much more it may take once these events are applied, in bytes: what clients add
    /// again and again.
    pub(crate) fn growth(&self, events: &[Event]) -> usize {
        events.iter().map(|event| self.growth_by(event)).sum()
    }

    /// The same for so many messages that are new.
    pub(crate) fn growth_by_messages(count: usize) -> usize {
        count * (MESSAGE_BYTES + ROW_BYTES)
    }

    fn growth_by(&self, event: &Event) -> usize {
        match event {
            Event::Appended { .. } | Event::Replaced { .. } => Self::growth_by_messages(1),
            Event::CardStored { content, .. } => content.memory() + content.media.len() * MESSAGE_BYTES,
            Event::Copied { from, uids, .. } => self.mailboxes.get(from).map_or(0, |from| {
                let copied =
                    uids.ranges().map(|(first, last)| from.rows(first..=last).count()).sum::<usize>();
                // As they are now; later changes of their flags need memory as well.
                let placed: usize = self.mailboxes.values().map(Mailbox::len).sum();
                from.rows_bytes(copied).max(((placed + copied) * ROW_BYTES).saturating_sub(self.memory()))
            }),
            // At most, each set of flags that these messages have becomes a new one.
            Event::FlagsStored { uids, action, flags, .. }
                if *action != FlagAction::Remove && !flags.keywords.is_empty() =>
            {
                uids.len().min(self.flag_set_count()) * FLAG_SET_BYTES
            }
            Event::Submitted { submission } => submission_bytes(submission),
            Event::IdentityStored { identity, .. } => identity.bytes(),
            _ => 0,
        }
    }

    /// The next UIDVALIDITY; never given twice in an account.
    fn next_uid_validity(&mut self) -> UidValidity {
        self.last_uid_validity = self.last_uid_validity.saturating_add(1);
        UidValidity(NonZeroU32::new(self.last_uid_validity).unwrap_or(NonZeroU32::MIN))
    }

    fn add_mailbox(&mut self, name: String, special_use: Option<SpecialUse>) -> MailboxId {
        let id = MailboxId(self.next_mailbox);
        self.next_mailbox += 1;
        let uid_validity = self.next_uid_validity();
        if self.changes_parents(&name) {
            self.parents_changed = self.position;
        }
        self.by_name.insert(name.clone(), id);
        self.mailboxes.insert(id, Mailbox::new(id, name, uid_validity, special_use, self.position));
        id
    }
}
