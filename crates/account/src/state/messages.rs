//! The account's messages by number, each once however many placements point to it.
//!
//! Numbers are given in log order and never reused, so that replay gives the same ones, and an
//! unchanged block of them stays an unchanged checkpoint chunk.
//!
//! A message takes its id, its key and its thread, which are random, and some bytes for the rest,
//! packed in blocks.

mod block;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use sealpost_base::{ObjectId, Position, Timestamp};

use super::table::heap_bytes;
use crate::event::Message;
use crate::thread::ThreadId;
use block::Block;
pub(super) use block::NUMBERS;

/// A message of this account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct MessageNumber(#[n(0)] pub u32);

/// What searches ask of each message: all but its key and its layout, which take longer to unpack
/// than the rest, and of which no copy is left behind that would have to be overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFields {
    /// The object that first held the message, in whichever log ([`Message::first_object`]).
    pub first_object: ObjectId,
    /// INTERNALDATE.
    pub received: Timestamp,
    /// RFC822.SIZE, in bytes.
    pub size: u64,
    /// Its thread.
    pub thread: ThreadId,
}

/// What an entry of the table of first objects takes, in bytes.
const ORIGIN_BYTES: usize = 48;

/// Messages sorted by number.
#[derive(Clone, Default)]
pub(crate) struct MessageTable {
    next: u32,
    /// Each of the numbers that share their number divided by [`NUMBERS`]; those without any
    /// message are left out.
    blocks: Vec<Block>,
    /// The original objects of messages that were sealed again.
    origins: BTreeMap<u32, ObjectId>,
    len: usize,
    unused: usize,
    /// Bytes on the heap of all blocks.
    block_bytes: usize,
}

impl MessageTable {
    pub(crate) fn restore(next: u32) -> Self {
        MessageTable { next, ..Self::default() }
    }

    /// Adds a message as a checkpoint holds it; numbers must ascend. Its uses are counted with
    /// `retain`, its visible placements with [`MessageTable::set_visible`].
    pub(crate) fn restore_push(&mut self, number: u32, message: &Message, appeared: Position) -> bool {
        if number >= self.next || self.blocks.last().is_some_and(|last| last.last() >= number) {
            return false;
        }
        self.push(number, message, appeared, 0);
        self.unused += 1;
        true
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.block_bytes
            + heap_bytes(self.blocks.capacity() * size_of::<Block>())
            + self.origins.len() * ORIGIN_BYTES
    }

    /// A new message that one placement points to. `None` when all numbers are used up.
    pub(crate) fn add(&mut self, message: &Message, at: Position) -> Option<MessageNumber> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        self.push(number, message, at, 1);
        Some(MessageNumber(number))
    }

    fn push(&mut self, number: u32, message: &Message, appeared: Position, uses: u32) {
        let id = number / NUMBERS;
        if self.blocks.last().is_none_or(|last| last.id() != id) {
            self.edit_last(Block::finish);
            if self.blocks.len() == self.blocks.capacity() {
                self.blocks.reserve_exact((self.blocks.len() / 8).max(1));
            }
            self.blocks.push(Block::new(id));
        }
        self.edit_last(|block| block.push(number, message, appeared, uses));
        if let Some(origin) = &message.origin {
            self.origins.insert(number, **origin);
        }
        self.len += 1;
    }

    fn edit_last(&mut self, edit: impl FnOnce(&mut Block)) {
        if let Some(last) = self.blocks.len().checked_sub(1) {
            self.edit(last, edit);
        }
    }

    fn edit<T>(&mut self, at: usize, edit: impl FnOnce(&mut Block) -> T) -> T {
        let block = &mut self.blocks[at];
        let before = block.heap_bytes();
        let result = edit(block);
        self.block_bytes = self.block_bytes - before + block.heap_bytes();
        result
    }

    pub(crate) fn get(&self, number: MessageNumber) -> Option<Message> {
        let (block, at) = self.find(number)?;
        Some(self.message(&self.blocks[block], at, number.0))
    }

    fn message(&self, block: &Block, at: usize, number: u32) -> Message {
        let origin = if self.origins.is_empty() { None } else { self.origins.get(&number) };
        block.message(at, origin.copied().map(Box::new))
    }

    /// What searches ask of the message.
    pub(crate) fn fields(&self, number: MessageNumber) -> Option<MessageFields> {
        let (block, at) = self.find(number)?;
        let block = &self.blocks[block];
        let origin = if self.origins.is_empty() { None } else { self.origins.get(&number.0) };
        Some(MessageFields {
            first_object: origin.copied().unwrap_or_else(|| block.object(at)),
            received: block.received(at),
            size: block.size(at),
            thread: block.thread(at),
        })
    }

    /// RFC822.SIZE; 0 if there is no such message.
    pub(crate) fn size(&self, number: MessageNumber) -> u64 {
        self.find(number).map_or(0, |(block, at)| self.blocks[block].size(at))
    }

    /// The object of the message.
    pub(crate) fn object(&self, number: MessageNumber) -> Option<ObjectId> {
        self.find(number).map(|(block, at)| self.blocks[block].object(at))
    }

    /// The object that first held the message, in whichever log.
    pub(crate) fn first_object(&self, number: MessageNumber) -> Option<ObjectId> {
        self.origins.get(&number.0).copied().or_else(|| self.object(number))
    }

    /// The thread of the message.
    pub(crate) fn thread(&self, number: MessageNumber) -> Option<ThreadId> {
        self.find(number).map(|(block, at)| self.blocks[block].thread(at))
    }

    /// When the message became visible last; meaningless for one that never was.
    pub(crate) fn appeared(&self, number: MessageNumber) -> Position {
        self.find(number).map_or(Position::ZERO, |(block, at)| self.blocks[block].appeared(at))
    }

    pub(crate) fn set_appeared(&mut self, number: MessageNumber, position: Position) {
        let Some((block, at)) = self.find(number) else { return };
        if self.blocks[block].appeared(at) != position {
            self.edit(block, |block| block.set_appeared(at, position));
        }
    }

    /// How many visible placements point to the message.
    pub(crate) fn visible(&self, number: MessageNumber) -> u32 {
        self.find(number).map_or(0, |(block, at)| self.blocks[block].visible(at))
    }

    pub(crate) fn set_visible(&mut self, number: MessageNumber, placements: u32) {
        let Some((block, at)) = self.find(number) else { return };
        self.edit(block, |block| block.set_visible(at, placements));
    }

    /// The numbers of all messages, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().flat_map(|block| (0..block.len()).map(move |at| block.number(at)))
    }

    /// Whether there is such a message.
    pub(crate) fn contains(&self, number: MessageNumber) -> bool {
        self.find(number).is_some()
    }

    /// How many placements point to the message, expunged ones in their grace period included.
    pub(crate) fn uses(&self, number: MessageNumber) -> u32 {
        self.find(number).map_or(0, |(block, at)| self.blocks[block].uses(at))
    }

    /// One more placement points to the message; whether it exists.
    pub(crate) fn retain(&mut self, number: MessageNumber) -> bool {
        let Some((block, at)) = self.find(number) else { return false };
        let uses = self.blocks[block].uses(at);
        self.unused -= usize::from(uses == 0);
        self.edit(block, |block| block.set_uses(at, uses.saturating_add(1)));
        true
    }

    /// One placement fewer points to the message. It stays until [`MessageTable::sweep`].
    pub(crate) fn release(&mut self, number: MessageNumber) {
        let Some((block, at)) = self.find(number) else { return };
        let uses = self.blocks[block].uses(at);
        if let Some(fewer) = uses.checked_sub(1) {
            self.unused += usize::from(fewer == 0);
            self.edit(block, |block| block.set_uses(at, fewer));
        }
    }

    /// Forgets the messages that nothing points to.
    pub(crate) fn sweep(&mut self) {
        if self.unused == 0 {
            return;
        }
        let origins = &mut self.origins;
        self.blocks.retain_mut(|block| {
            block.sweep(|number| {
                origins.remove(&number);
            });
            block.len() > 0
        });
        self.blocks.shrink_to_fit();
        self.len -= self.unused;
        self.unused = 0;
        self.block_bytes = self.blocks.iter().map(Block::heap_bytes).sum();
    }

    /// As [`MessageTable::from`], with when each became visible last.
    pub(crate) fn with_appearance_from(
        &self,
        first: u32,
    ) -> impl Iterator<Item = (MessageNumber, Message, Position)> + '_ {
        self.from(first).map(|(number, message)| (number, message, self.appeared(number)))
    }

    /// All messages with their numbers, ascending, from `first` on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = (MessageNumber, Message)> + '_ {
        let start = self.blocks.partition_point(|block| block.last() < first);
        let rows = self.blocks[start..].iter().flat_map(move |block| {
            (block.lower_bound(first)..block.len()).map(move |at| (block, at, block.number(at)))
        });
        rows.map(|(block, at, number)| (MessageNumber(number), self.message(block, at, number)))
    }

    /// The objects of all messages, by number.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.blocks.iter().flat_map(|block| (0..block.len()).map(move |at| block.object(at)))
    }

    /// The objects that first held the messages which were sealed again, by number.
    pub(crate) fn origins(&self) -> impl ExactSizeIterator<Item = ObjectId> {
        self.origins.values().copied()
    }

    /// The message with that object. Reads all messages.
    pub(crate) fn with_object(&self, object: ObjectId) -> Option<MessageNumber> {
        self.blocks.iter().find_map(|block| {
            let at = (0..block.len()).find(|at| block.object(*at) == object)?;
            Some(MessageNumber(block.number(at)))
        })
    }

    /// The blocks that there are: their numbers divided by [`NUMBERS`], ascending.
    pub(crate) fn block_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(Block::id)
    }

    /// How many messages have numbers from `first` to `last`.
    pub(crate) fn count(&self, first: u32, last: u32) -> usize {
        let start = self.blocks.partition_point(|block| block.last() < first);
        let blocks = self.blocks[start..].iter().take_while(|block| block.id() <= last / NUMBERS);
        let end = |block: &Block| last.checked_add(1).map_or(block.len(), |end| block.lower_bound(end));
        blocks.map(|block| end(block).saturating_sub(block.lower_bound(first))).sum()
    }

    /// The block, and where in it.
    fn find(&self, number: MessageNumber) -> Option<(usize, usize)> {
        let (n, id) = (number.0, number.0 / NUMBERS);
        // Without holes the number says where its block is; holes only move it towards the front.
        let guess = id.checked_sub(self.blocks.first()?.id())? as usize;
        let block = match self.blocks.get(guess) {
            Some(block) if block.id() == id => guess,
            _ => self.blocks[..self.blocks.len().min(guess)].binary_search_by_key(&id, Block::id).ok()?,
        };
        let found = &self.blocks[block];
        let at = found.lower_bound(n);
        (at < found.len() && found.number(at) == n).then_some((block, at))
    }
}
