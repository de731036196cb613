//! Which thread the identifiers belong to that messages had or referred to lately: what joins a
//! message to a thread.
//!
//! A thread that its first message founds needs no entry: what refers to that message finds the
//! same thread by itself ([`crate::thread`]). The others are kept for the last
//! [`limits::THREAD_LINKS_KNOWN`] links, oldest forgotten first, and so a reply that names nothing
//! older than those begins a thread of its own. Replay and a checkpoint give the same entries in
//! the same order.

use std::collections::VecDeque;

use hashbrown::HashTable;
use sealpost_base::limits;

use super::table::heap_bytes;
use crate::event::Message;
use crate::thread::ThreadId;

/// Links whose threads are known, oldest first.
#[derive(Clone, Default)]
pub(super) struct ThreadLinks {
    /// How many have been forgotten: the number of the first one that is left.
    first: u64,
    known: VecDeque<[ThreadId; 2]>,
    /// The numbers, modulo the most that there can be, by link.
    by_link: HashTable<u16>,
}

/// Distinct numbers: more than there are links at a time.
const NUMBERS: u64 = 1 << 16;
const _: () = assert!((limits::THREAD_LINKS_KNOWN as u64) < NUMBERS);

impl ThreadLinks {
    /// From what a checkpoint has: how many were forgotten before.
    pub(super) fn restore(first: u64) -> Self {
        ThreadLinks { first, ..Self::default() }
    }

    /// Adds what a checkpoint has; `false` if there are more than there can be.
    pub(super) fn restore_push(&mut self, link: ThreadId, thread: ThreadId) -> bool {
        let room = self.known.len() < limits::THREAD_LINKS_KNOWN && self.thread_of(link).is_none();
        if room {
            self.add(link, thread);
        }
        room
    }

    /// How many have been forgotten.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The links with numbers from `from` on, with their threads.
    pub(super) fn from(&self, from: u64) -> impl Iterator<Item = [ThreadId; 2]> + '_ {
        let skipped = from.saturating_sub(self.first) as usize;
        self.known.range(skipped.min(self.known.len())..).copied()
    }

    /// The number behind the last link.
    pub(super) fn end(&self) -> u64 {
        self.first + self.known.len() as u64
    }

    /// The thread of a new message; from now on its links lead there.
    pub(super) fn join(&mut self, message: &Message) -> ThreadId {
        let links = &message.links[..message.links.len().min(limits::THREAD_LINKS)];
        let thread = links.iter().find_map(|link| self.thread_of(*link)).unwrap_or(message.thread);
        // What refers to the message that founds a thread finds it without help.
        if links.len() > 1 || links.iter().any(|link| *link != thread) {
            for link in links {
                if self.thread_of(*link).is_none() {
                    self.add(*link, thread);
                }
            }
        }
        thread
    }

    fn thread_of(&self, link: ThreadId) -> Option<ThreadId> {
        let number = self.by_link.find(link.0, |number| self.at(*number)[0] == link)?;
        Some(self.at(*number)[1])
    }

    /// The entry of that number modulo [`NUMBERS`].
    fn at(&self, number: u16) -> [ThreadId; 2] {
        let from_first = number.wrapping_sub(self.first as u16);
        self.known[usize::from(from_first)]
    }

    fn add(&mut self, link: ThreadId, thread: ThreadId) {
        if self.known.len() >= limits::THREAD_LINKS_KNOWN {
            self.forget_first();
        }
        let number = self.end() as u16;
        self.known.push_back([link, thread]);
        let (known, first) = (&self.known, self.first as u16);
        let hash = |number: &u16| known[usize::from(number.wrapping_sub(first))][0].0;
        self.by_link.insert_unique(link.0, number, hash);
    }

    fn forget_first(&mut self) {
        let Some([link, _]) = self.known.front().copied() else { return };
        let number = self.first as u16;
        if let Ok(found) = self.by_link.find_entry(link.0, |other| *other == number) {
            found.remove();
        }
        self.known.pop_front();
        self.first += 1;
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let table = self.by_link.capacity() * 8 / 7 * (size_of::<u16>() + 1);
        heap_bytes(self.known.capacity() * size_of::<[ThreadId; 2]>()) + heap_bytes(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::message;

    fn joined(known: &mut ThreadLinks, own: u64, references: &[u64]) -> u64 {
        let links: Vec<_> =
            std::iter::once(&own).chain(references.iter().rev()).copied().map(ThreadId).collect();
        let thread = *links.last().unwrap();
        known.join(&Message { thread, links, ..message(1) }).0
    }

    /// A conversation of four: each refers to the one before and, if it has References, to all before it.
    #[test]
    fn a_conversation_is_one_thread_in_any_order() {
        let orders = (0..24usize).map(|n| {
            let mut left = vec![0usize, 1, 2, 3];
            [n / 6, n / 2 % 3, n % 2, 0].map(|at| left.remove(at))
        });
        for order in orders {
            for full in [true, false] {
                let mut known = ThreadLinks::default();
                let threads: Vec<u64> = order
                    .iter()
                    .map(|n| {
                        let references: Vec<u64> = (10..10 + *n as u64).collect();
                        let shown = if full { 0 } else { references.len().saturating_sub(1) };
                        joined(&mut known, 10 + *n as u64, &references[shown..])
                    })
                    .collect();
                // Without References two that do not name each other may begin threads before what
                // joins them is there.
                let seen_before = |at: usize| {
                    let (n, before) = (order[at], &order[..at]);
                    before.is_empty() || before.iter().any(|other: &usize| other.abs_diff(n) == 1)
                };
                if full || (0..4).all(seen_before) {
                    assert!(
                        threads.iter().all(|thread| *thread == threads[0]),
                        "{order:?}, all references: {full}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_message_that_founds_a_thread_takes_nothing() {
        let mut known = ThreadLinks::default();
        assert_eq!(joined(&mut known, 7, &[]), 7);
        assert_eq!(known.end(), 0);
        assert_eq!(joined(&mut known, 8, &[7]), 7);
        assert_eq!(joined(&mut known, 9, &[8]), 7, "it names the reply alone");
    }

    #[test]
    fn the_oldest_links_are_forgotten_first() {
        let mut known = ThreadLinks::default();
        let most = limits::THREAD_LINKS_KNOWN as u64;
        joined(&mut known, 2, &[1]);
        for n in 0..most - 2 {
            joined(&mut known, 1 << 40 | n, &[1]);
        }
        assert_eq!((known.first(), known.end()), (0, most));
        assert_eq!(joined(&mut known, 3, &[2]), 1);
        assert_eq!(joined(&mut known, 4, &[2]), 1, "what is referred to is known anew");
        assert_eq!(joined(&mut known, 5, &[1 << 40]), 1 << 40, "what was said of it is forgotten");
        for n in 0..3 * most {
            joined(&mut known, 1 << 41 | n, &[n << 20]);
        }
        assert_eq!(known.end() - known.first(), most);
        assert_eq!(known.by_link.len() as u64, most);
        assert!(known.heap_bytes() < 24 * limits::THREAD_LINKS_KNOWN);
        let mut restored = ThreadLinks::restore(known.first());
        assert!(known.from(0).all(|[link, thread]| restored.restore_push(link, thread)));
        assert_eq!(restored.known, known.known);
        let last = known.known.back().unwrap()[0];
        assert_eq!(restored.thread_of(last), known.thread_of(last));
    }
}
