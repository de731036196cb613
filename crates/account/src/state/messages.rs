//! The account's messages by number, each once however many placements point to it.
//!
//! Numbers are given in log order and never reused, so that replay gives the same ones, and an unchanged block of
//! them stays an unchanged checkpoint chunk.

use minicbor::{Decode, Encode};

use crate::event::Message;

/// A message of this account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct MessageNumber(#[n(0)] pub(crate) u32);

/// Messages sorted by number.
#[derive(Clone, Default)]
pub(crate) struct MessageTable {
    next: u32,
    numbers: Vec<u32>,
    messages: Vec<Message>,
    uses: Vec<u32>,
    unused: usize,
}

impl MessageTable {
    pub(crate) fn restore(next: u32) -> Self {
        MessageTable { next, ..Self::default() }
    }

    /// Adds a message as a checkpoint holds it; numbers must ascend. Its uses are counted with `retain`.
    pub(crate) fn restore_push(&mut self, number: u32, message: Message) -> bool {
        if number >= self.next || self.numbers.last().is_some_and(|last| *last >= number) {
            return false;
        }
        self.numbers.push(number);
        self.messages.push(message);
        self.uses.push(0);
        self.unused += 1;
        true
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// A new message that one placement points to. `None` when all numbers are used up.
    pub(crate) fn add(&mut self, message: Message) -> Option<MessageNumber> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        self.numbers.push(number);
        self.messages.push(message);
        self.uses.push(1);
        Some(MessageNumber(number))
    }

    pub(crate) fn get(&self, number: MessageNumber) -> Option<&Message> {
        self.index(number).map(|i| &self.messages[i])
    }

    /// How many placements point to the message, expunged ones in their grace period included.
    pub(crate) fn uses(&self, number: MessageNumber) -> u32 {
        self.index(number).map_or(0, |i| self.uses[i])
    }

    /// One more placement points to the message; whether it exists.
    pub(crate) fn retain(&mut self, number: MessageNumber) -> bool {
        let Some(i) = self.index(number) else { return false };
        if self.uses[i] == 0 {
            self.unused -= 1;
        }
        self.uses[i] += 1;
        true
    }

    /// One placement fewer points to the message. It stays until [`MessageTable::sweep`].
    pub(crate) fn release(&mut self, number: MessageNumber) {
        if let Some(i) = self.index(number)
            && self.uses[i] > 0
        {
            self.uses[i] -= 1;
            if self.uses[i] == 0 {
                self.unused += 1;
            }
        }
    }

    /// Forgets the messages that nothing points to.
    pub(crate) fn sweep(&mut self) {
        if self.unused == 0 {
            return;
        }
        let uses = std::mem::take(&mut self.uses);
        let used = |i: &mut usize| {
            *i += 1;
            uses[*i - 1] > 0
        };
        let (mut i, mut j) = (0, 0);
        self.numbers.retain(|_| used(&mut i));
        self.messages.retain(|_| used(&mut j));
        self.uses = uses.into_iter().filter(|n| *n > 0).collect();
        self.unused = 0;
    }

    /// All messages with their numbers, ascending, from `first` on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = (MessageNumber, &Message)> {
        let start = self.numbers.partition_point(|n| *n < first);
        self.numbers[start..].iter().map(|n| MessageNumber(*n)).zip(&self.messages[start..])
    }

    /// How many messages have numbers from `first` to `last`.
    pub(crate) fn count(&self, first: u32, last: u32) -> usize {
        let below = self.numbers.partition_point(|n| *n < first);
        self.numbers.partition_point(|n| *n <= last).saturating_sub(below)
    }

    fn index(&self, number: MessageNumber) -> Option<usize> {
        let n = number.0;
        // Without holes the number says where it is; holes only move it towards the front.
        let guess = n.checked_sub(*self.numbers.first()?)? as usize;
        let end = self.numbers.len().min(guess + 1);
        if self.numbers[end - 1] == n {
            return Some(end - 1);
        }
        self.numbers[..end].binary_search(&n).ok()
    }
}
