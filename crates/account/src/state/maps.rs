//! What JMAP looks things up in: message by object, placements of a message, messages of a thread,
//! and the counts of each mailbox.
//!
//! The maps are not stored, and decide nothing: they are built from the state when first needed
//! ([`crate::Account::with_maps`]), updated by every change after that, and dropped with the
//! account. A message takes about 10 bytes more then, at most [`MAP_BYTES`].

mod counts;
mod numbers;

use sealpost_base::{MailboxId, ObjectId, Uid};

use super::AccountState;
use super::messages::{MessageNumber, MessageTable};
use super::table::sorted::Sorted;
use counts::Counts;
pub use counts::MailboxCounts;
pub(super) use counts::Recount;
use numbers::Numbers;

use crate::thread::ThreadId;

/// About the most that a message takes in the maps, in bytes.
pub(crate) const MAP_BYTES: usize = 16;
/// Placements that are put into the map, or taken out, together.
const STEP: usize = 8192;

/// The maps of a state.
#[derive(Clone, Default)]
pub(super) struct Maps {
    /// Message number, mailbox and UID of every placement.
    placements: Sorted<3>,
    /// Message numbers by the object that first held the message.
    objects: Numbers,
    /// Message numbers by thread.
    threads: Numbers,
    /// `None`: to be counted again, after a large change.
    counts: Option<Counts>,
}

/// The maps of a state. No lookup reads more than its result.
#[derive(Clone, Copy)]
pub struct MapsView<'a> {
    state: &'a AccountState,
    maps: &'a Maps,
}

impl<'a> MapsView<'a> {
    /// The message that an EMAILID names, by the object in it ([`crate::object_id::object_of`]); an
    /// expunged one in its grace period too. There are several if a copy came back from another
    /// log: clients know them as one, with the placements of all.
    pub fn messages(self, object: ObjectId) -> impl Iterator<Item = MessageNumber> + 'a {
        let messages = &self.state.messages;
        let key = move |number| object_key(messages, number);
        self.maps.objects.with_key(u128::from_be_bytes(object.0), key).map(MessageNumber)
    }

    /// Where the message is, placements flagged `\Deleted` included: by mailbox, then by UID.
    pub fn placements(self, message: MessageNumber) -> impl Iterator<Item = (MailboxId, Uid)> + 'a {
        placements_of(self.maps, message)
    }

    /// The messages of a thread in the order in which they were stored, expunged ones in their
    /// grace period included (see [`AccountState::is_visible`]).
    pub fn thread(self, thread: ThreadId) -> impl Iterator<Item = MessageNumber> + 'a {
        let messages = &self.state.messages;
        let key = move |number| thread_key(messages, number);
        self.maps.threads.with_key(thread.0, key).map(MessageNumber)
    }

    /// The counts of a mailbox. `None` if all must be counted again
    /// ([`crate::Account::with_maps`]).
    pub fn counts(self, mailbox: MailboxId) -> Option<MailboxCounts> {
        self.maps.counts.as_ref().map(|counts| counts.of(mailbox))
    }
}

fn placements_of(maps: &Maps, message: MessageNumber) -> impl Iterator<Item = (MailboxId, Uid)> + '_ {
    let rows = maps.placements.beginning_with(u64::from(message.0));
    rows.filter_map(|[_, mailbox, uid]| Some((MailboxId(mailbox as u32), Uid::new(uid as u32)?)))
}

fn object_key(messages: &MessageTable, number: u32) -> u128 {
    messages.first_object(MessageNumber(number)).map_or(0, |object| u128::from_be_bytes(object.0))
}

fn thread_key(messages: &MessageTable, number: u32) -> u64 {
    messages.thread(MessageNumber(number)).map_or(0, |thread| thread.0)
}

/// Placements that come into the map, or go, collected so that each block is packed once for many.
pub(super) struct Edit {
    rows: Vec<[u64; 3]>,
    adds: bool,
}

impl Edit {
    /// They come.
    pub(super) fn adding() -> Self {
        Edit { rows: Vec::new(), adds: true }
    }

    /// They go.
    pub(super) fn removing() -> Self {
        Edit { rows: Vec::new(), adds: false }
    }

    /// One more, if there are maps.
    pub(super) fn push(
        &mut self,
        maps: &mut Option<Box<Maps>>,
        message: MessageNumber,
        mailbox: MailboxId,
        uid: Uid,
    ) {
        if let Some(maps) = maps {
            self.rows.push([message.0, mailbox.0, uid.get()].map(u64::from));
            if self.rows.len() >= STEP {
                self.flush(maps);
            }
        }
    }

    /// That was all.
    pub(super) fn finish(mut self, maps: &mut Option<Box<Maps>>) {
        if let Some(maps) = maps {
            self.flush(maps);
        }
    }

    fn flush(&mut self, maps: &mut Maps) {
        self.rows.sort_unstable();
        if self.adds {
            maps.placements.add(&self.rows);
        } else {
            maps.placements.remove(&self.rows);
        }
        self.rows.clear();
    }
}

impl AccountState {
    /// The maps, if they were made.
    pub fn maps(&self) -> Option<MapsView<'_>> {
        self.maps.as_deref().map(|maps| MapsView { state: self, maps })
    }

    /// Whether there are maps, and counts in them.
    pub(crate) fn has_maps(&self) -> bool {
        self.maps.as_ref().is_some_and(|maps| maps.counts.is_some())
    }

    /// Builds the missing maps. Reads all messages and all placements: for an account that is
    /// loaded, [`crate::Account::with_maps`] does it.
    pub fn make_maps(&mut self) {
        if self.maps.is_none() {
            let messages = &self.messages;
            let objects = Numbers::sorted(messages.numbers(), |number| object_key(messages, number));
            let threads = Numbers::sorted(messages.numbers(), |number| thread_key(messages, number));
            self.maps = Some(Box::new(Maps { objects, threads, ..Maps::default() }));
            let mut edit = Edit::adding();
            for mailbox in self.mailboxes.values() {
                for row in mailbox.all_rows() {
                    edit.push(&mut self.maps, row.message, mailbox.id, row.uid);
                }
            }
            edit.finish(&mut self.maps);
            let numbers = self.messages.numbers().map(MessageNumber);
            let appeared = numbers.filter_map(|number| self.visible_since(number)).max();
            self.departed.appeared = appeared.unwrap_or_default();
        }
        if !self.has_maps() {
            let counts = Counts::of_all(self);
            if let Some(maps) = &mut self.maps {
                maps.counts = Some(counts);
            }
        }
    }

    /// Drops all maps, to be built again.
    pub(super) fn drop_maps(&mut self) {
        self.maps = None;
    }

    /// A new message, before it is placed.
    pub(super) fn map_message(&mut self, number: MessageNumber) {
        let (Some(maps), messages) = (&mut self.maps, &self.messages) else { return };
        maps.objects.add(number.0, |number| object_key(messages, number));
        maps.threads.add(number.0, |number| thread_key(messages, number));
    }

    /// Messages were forgotten, to which nothing points.
    pub(super) fn unmap_forgotten(&mut self) {
        let (Some(maps), messages) = (&mut self.maps, &self.messages) else { return };
        maps.objects.retain(|number| messages.contains(MessageNumber(number)));
        maps.threads.retain(|number| messages.contains(MessageNumber(number)));
    }

    /// Bytes of the maps on the heap.
    pub(super) fn maps_bytes(&self) -> usize {
        self.maps.as_ref().map_or(0, |maps| {
            size_of::<Maps>()
                + maps.placements.heap_bytes()
                + maps.objects.heap_bytes()
                + maps.threads.heap_bytes()
                + maps.counts.as_ref().map_or(0, Counts::heap_bytes)
        })
    }
}
