//! A block of messages: ids, keys and threads as they are, the rest packed.

use sealpost_base::{ObjectId, Position, Timestamp};
use sealpost_vault::message::{Layout, MessageKey};
use zeroize::Zeroizing;

use crate::event::Message;
use crate::state::packed::Packed;
use crate::state::signed::{from_signed, to_signed};
use crate::state::table::{heap_bytes, lower_bound};
use crate::thread::ThreadId;

/// Numbers of a block: as many as in a chunk of a checkpoint.
pub(in crate::state) const NUMBERS: u32 = 512;
/// Messages that wait unpacked.
const WAITING: usize = 32;
/// An id, a key and a thread: random bytes, which cannot be packed.
const SECRET_BYTES: usize = 56;
/// Where the thread is in them.
const THREAD: usize = 48;

const NUMBER: usize = 0;
const RAW_BYTES: usize = 1;
const SEALED_RAW: usize = 2;
const SEALED_TEXT: usize = 3;
const SEALED_STRUCTURE: usize = 4;
const SEALED_INDEX: usize = 5;
const RECEIVED: usize = 6;
const USES: usize = 7;
const APPEARED: usize = 8;
const VISIBLE: usize = 9;
const COLUMNS: usize = 10;

type Row = [u64; COLUMNS];

/// Messages whose numbers divided by [`NUMBERS`] are the same.
#[derive(Clone)]
pub(super) struct Block {
    id: u32,
    columns: [Packed; COLUMNS],
    /// Those behind the packed ones.
    waiting: Vec<Row>,
    /// The object id, the key and the thread of each, packed or not; overwritten when they go.
    secrets: Zeroizing<Vec<u8>>,
}

impl Block {
    pub(super) fn new(id: u32) -> Self {
        let columns = std::array::from_fn(|_| Packed::default());
        Block { id, columns, waiting: Vec::new(), secrets: Zeroizing::new(Vec::new()) }
    }

    /// Its numbers divided by [`NUMBERS`].
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn len(&self) -> usize {
        self.packed() + self.waiting.len()
    }

    fn packed(&self) -> usize {
        self.columns[NUMBER].len()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.columns.iter().map(Packed::heap_bytes).sum::<usize>()
            + heap_bytes(self.waiting.capacity() * size_of::<Row>())
            + heap_bytes(self.secrets.capacity())
    }

    /// Adds a message with a higher number, which nothing visible points to so far.
    pub(super) fn push(&mut self, number: u32, message: &Message, appeared: Position, uses: u32) {
        let layout = &message.layout;
        if self.waiting.len() == self.waiting.capacity() {
            self.waiting.reserve_exact(self.waiting.len().clamp(2, WAITING));
        }
        self.waiting.push([
            u64::from(number),
            layout.raw_bytes,
            layout.sealed_raw,
            u64::from(layout.sealed_text),
            u64::from(layout.sealed_structure),
            u64::from(layout.sealed_index),
            from_signed(message.received.0),
            u64::from(uses),
            appeared.0,
            0,
        ]);
        if self.secrets.capacity() - self.secrets.len() < SECRET_BYTES {
            // Half as many again, and never more than there can be. What the old allocation held is
            // overwritten.
            let more = (self.len() / 2).max(2) * SECRET_BYTES;
            let most = NUMBERS as usize * SECRET_BYTES;
            self.resize_secrets((self.secrets.len() + more).min(most));
        }
        self.secrets.extend_from_slice(&message.object.0);
        self.secrets.extend_from_slice(message.key.as_bytes());
        self.secrets.extend_from_slice(&message.thread.0.to_be_bytes());
        if self.waiting.len() == WAITING {
            self.pack();
        }
    }

    fn resize_secrets(&mut self, capacity: usize) {
        let mut secrets = Zeroizing::new(Vec::with_capacity(capacity));
        secrets.extend_from_slice(&self.secrets);
        self.secrets = secrets;
    }

    /// No message will be added for now.
    pub(super) fn finish(&mut self) {
        if !self.waiting.is_empty() {
            self.pack();
        }
        if self.secrets.capacity() > self.secrets.len() {
            self.resize_secrets(self.secrets.len());
        }
    }

    fn pack(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (column, packed) in self.columns.iter_mut().enumerate() {
            let numbers: Vec<u64> = packed.iter().chain(waiting.iter().map(|row| row[column])).collect();
            *packed = Packed::new(&numbers);
        }
    }

    fn value(&self, at: usize, column: usize) -> u64 {
        match at.checked_sub(self.packed()) {
            None => self.columns[column].get(at),
            Some(at) => self.waiting[at][column],
        }
    }

    /// The number of the message at that place.
    pub(super) fn number(&self, at: usize) -> u32 {
        self.value(at, NUMBER) as u32
    }

    /// The highest number.
    pub(super) fn last(&self) -> u32 {
        self.len().checked_sub(1).map_or(0, |last| self.number(last))
    }

    /// Where the first message is that has this number or a higher one.
    pub(super) fn lower_bound(&self, number: u32) -> usize {
        let at = lower_bound(&self.columns[NUMBER], u64::from(number));
        if at < self.packed() {
            return at;
        }
        at + self.waiting.partition_point(|row| row[NUMBER] < u64::from(number))
    }

    pub(super) fn size(&self, at: usize) -> u64 {
        self.value(at, RAW_BYTES)
    }

    pub(super) fn received(&self, at: usize) -> Timestamp {
        Timestamp(to_signed(self.value(at, RECEIVED)))
    }

    pub(super) fn uses(&self, at: usize) -> u32 {
        self.value(at, USES) as u32
    }

    pub(super) fn set_uses(&mut self, at: usize, uses: u32) {
        self.set(at, USES, u64::from(uses));
    }

    fn set(&mut self, at: usize, column: usize, value: u64) {
        match at.checked_sub(self.packed()) {
            None => self.columns[column].set(at, value),
            Some(at) => self.waiting[at][column] = value,
        }
    }

    /// When the message became visible last.
    pub(super) fn appeared(&self, at: usize) -> Position {
        Position(self.value(at, APPEARED))
    }

    pub(super) fn set_appeared(&mut self, at: usize, position: Position) {
        self.set(at, APPEARED, position.0);
    }

    /// How many visible placements point to the message.
    pub(super) fn visible(&self, at: usize) -> u32 {
        self.value(at, VISIBLE) as u32
    }

    pub(super) fn set_visible(&mut self, at: usize, placements: u32) {
        self.set(at, VISIBLE, u64::from(placements));
    }

    pub(super) fn thread(&self, at: usize) -> ThreadId {
        ThreadId(u64::from_be_bytes(self.secret(at, THREAD)))
    }

    pub(super) fn object(&self, at: usize) -> ObjectId {
        ObjectId(self.secret(at, 0))
    }

    fn secret<const N: usize>(&self, at: usize, offset: usize) -> [u8; N] {
        let start = at * SECRET_BYTES + offset;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.secrets[start..start + N]);
        bytes
    }

    pub(super) fn message(&self, at: usize, origin: Option<Box<ObjectId>>) -> Message {
        let narrow = |column| self.value(at, column) as u32;
        Message {
            object: self.object(at),
            key: MessageKey::from_bytes(self.secret(at, size_of::<ObjectId>())),
            layout: Layout {
                raw_bytes: self.value(at, RAW_BYTES),
                sealed_raw: self.value(at, SEALED_RAW),
                sealed_text: narrow(SEALED_TEXT),
                sealed_structure: narrow(SEALED_STRUCTURE),
                sealed_index: narrow(SEALED_INDEX),
            },
            received: self.received(at),
            origin,
            thread: self.thread(at),
            links: Vec::new(),
        }
    }

    /// Forgets the messages that nothing points to, and says which.
    pub(super) fn sweep(&mut self, mut gone: impl FnMut(u32)) {
        let len = self.len();
        let used: Vec<usize> = (0..len).filter(|at| self.uses(*at) > 0).collect();
        if used.len() == len {
            return;
        }
        (0..len).filter(|at| self.uses(*at) == 0).for_each(|at| gone(self.number(at)));
        let mut secrets = Zeroizing::new(Vec::with_capacity(used.len() * SECRET_BYTES));
        for at in &used {
            secrets.extend_from_slice(&self.secret::<SECRET_BYTES>(*at, 0));
        }
        let columns = std::array::from_fn(|column| {
            let numbers: Vec<u64> = used.iter().map(|at| self.value(*at, column)).collect();
            Packed::new(&numbers)
        });
        *self = Block { id: self.id, columns, waiting: Vec::new(), secrets };
    }
}
