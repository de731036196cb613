//! How the bound on memory is divided: the one place that says which part of it is for what.
//!
//! What fills a part up waits or is refused there, whatever the others have left, so that the sum
//! holds without anybody adding it up. One part lends to one other: what accounts lend to
//! connections, accounts do not have until they get it back. `docs/decisions/0022-memory.md` has
//! the reasons and the figures.

use std::num::TryFromIntError;

use crate::Budget;

const MIB: usize = 1024 * 1024;

/// The most that a piece of work takes which cannot do with less: a password check (Argon2id, m = 19 MiB).
pub const LARGEST_REQUEST: usize = 19 * MIB;

/// A bound on memory, and the parts it is divided into, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryDivision {
    /// All of it.
    pub bound: usize,
    /// The process itself: its code, threads and runtime, the store's page caches, and what the
    /// allocator holds back.
    pub process: usize,
    /// Connections while they wait: sockets, buffers, TLS, sessions.
    pub connections: usize,
    /// The state of accounts that are loaded.
    pub accounts: usize,
    /// What was read lately and may be asked for again.
    pub caches: usize,
    /// Work under way: what [`Budget`] hands out.
    pub work: usize,
}

impl MemoryDivision {
    /// What is bounded unless something else is said.
    pub const DEFAULT_BOUND: usize = 256 * MIB;
    /// The least that a server runs with.
    pub const LEAST_BOUND: usize = 48 * MIB;

    /// Divides `bound`. Below [`MemoryDivision::LEAST_BOUND`] there are parts in which nothing has room.
    pub fn of(bound: usize) -> Self {
        let process = (16 * MIB + bound / 16).min(bound);
        let left = bound - process;
        let work = (20 * MIB + left / 4).min(left);
        let left = left - work;
        let caches = left / 9;
        let connections = (left - caches) / 5 * 2;
        let accounts = left - caches - connections;
        MemoryDivision { bound, process, connections, accounts, caches, work }
    }

    /// The part for work, to draw from. Made once.
    pub fn budget(&self) -> Budget {
        Budget::with_largest(self.work, LARGEST_REQUEST)
    }

    /// For structures of single messages: what the others leave.
    pub fn structures(&self) -> usize {
        self.caches - self.summaries() - self.decoded() - self.orders() - self.pieces()
    }

    /// For segments of headers and structures.
    pub fn pieces(&self) -> usize {
        self.caches / 8 * 3
    }

    /// For summaries of messages that are in no segment yet.
    pub fn summaries(&self) -> usize {
        self.caches / 8
    }

    /// For sealed structures that came with deliveries, of what there is for structures; nothing of
    /// it on a local store.
    pub fn delivered(&self) -> usize {
        self.caches / 8
    }

    /// For where to go on decoding large parts.
    pub fn decoded(&self) -> usize {
        self.caches / 8
    }

    /// For how mailboxes were sorted.
    pub fn orders(&self) -> usize {
        self.caches / 8
    }

    /// What accounts lend to connections at most while those are many and accounts few.
    pub fn lent_to_connections(&self) -> usize {
        self.accounts / 3 * 2
    }

    /// The parts by name; together they are the bound.
    pub fn parts(&self) -> [(&'static str, usize); 5] {
        [
            ("process", self.process),
            ("connections", self.connections),
            ("accounts", self.accounts),
            ("caches", self.caches),
            ("work", self.work),
        ]
    }
}

impl Default for MemoryDivision {
    fn default() -> Self {
        Self::of(Self::DEFAULT_BOUND)
    }
}

impl TryFrom<u64> for MemoryDivision {
    type Error = TryFromIntError;

    /// Divides a bound as it is written in a configuration.
    fn try_from(bound: u64) -> Result<Self, TryFromIntError> {
        usize::try_from(bound).map(Self::of)
    }
}

impl From<MemoryDivision> for u64 {
    fn from(division: MemoryDivision) -> Self {
        division.bound as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        for bound in (0..2048).step_by(7).map(|mib| mib * MIB) {
            let division = MemoryDivision::of(bound);
            assert_eq!(division.parts().iter().map(|(_, bytes)| bytes).sum::<usize>(), bound);
        }
    }

    #[test]
    fn every_part_grows_with_the_bound() {
        let parts = |mib| MemoryDivision::of(mib * MIB).parts().map(|(_, bytes)| bytes);
        for mib in 1..2048 {
            let (less, more) = (parts(mib), parts(mib + 1));
            assert!(less.iter().zip(more).all(|(less, more)| *less <= more), "{mib} MiB");
        }
    }

    #[test]
    fn the_least_bound_has_room_for_a_password_check_and_something_beside_it() {
        let least = MemoryDivision::of(MemoryDivision::LEAST_BOUND);
        assert!(least.budget().fair_part() >= 512 * 1024, "{least:?}");
        assert!(least.connections.min(least.accounts) >= 512 * 1024, "{least:?}");
    }
}
