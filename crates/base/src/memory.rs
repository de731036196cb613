//! Divides the memory bound into parts; only this module defines their sizes.
//!
//! A request that does not fit into its part waits or is refused, however much the other parts have free. So
//! no check of the sum is needed. There is one loan: memory that accounts lend to connections is not
//! available to accounts until it is returned. `docs/decisions/0022-memory.md` has the reasons and the
//! figures.

use std::num::TryFromIntError;

use crate::Budget;

const MIB: usize = 1024 * 1024;

/// The largest request that cannot be trimmed: a password check (Argon2id, m = 19 MiB).
pub const LARGEST_REQUEST: usize = 19 * MIB;

/// A bound on memory, and the parts it is divided into, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryDivision {
    /// The whole bound.
    pub bound: usize,
    /// The process itself: its code, threads and runtime, the store's page caches, and memory that the
    /// allocator retains.
    pub process: usize,
    /// Waiting connections: sockets, buffers, TLS, sessions.
    pub connections: usize,
    /// The state of loaded accounts.
    pub accounts: usize,
    /// Data that was read lately and may be needed again.
    pub caches: usize,
    /// Work in progress: the [`Budget`].
    pub work: usize,
}

impl MemoryDivision {
    /// The bound if none is configured.
    pub const DEFAULT_BOUND: usize = 256 * MIB;
    /// The smallest bound of a server.
    pub const LEAST_BOUND: usize = 48 * MIB;

    /// Divides `bound`. Below [`MemoryDivision::LEAST_BOUND`] some parts are too small to be useful.
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

    /// The part for work, as a budget. Call it once.
    pub fn budget(&self) -> Budget {
        Budget::with_largest(self.work, LARGEST_REQUEST)
    }

    /// For structures of single messages: the rest of the caches.
    pub fn structures(&self) -> usize {
        self.caches - self.summaries() - self.decoded() - self.orders() - self.pieces()
    }

    /// For segments of headers and structures.
    pub fn pieces(&self) -> usize {
        self.caches / 8 * 3
    }

    /// For summaries of messages that no segment has yet.
    pub fn summaries(&self) -> usize {
        self.caches / 8
    }

    /// For sealed structures that arrived with deliveries, as a part of [`MemoryDivision::structures`];
    /// unused on a local store.
    pub fn delivered(&self) -> usize {
        self.caches / 8
    }

    /// For positions at which the decoding of large parts resumes.
    pub fn decoded(&self) -> usize {
        self.caches / 8
    }

    /// For sort orders of mailboxes.
    pub fn orders(&self) -> usize {
        self.caches / 8
    }

    /// The most that accounts lend to connections, while there are many connections and few accounts.
    pub fn lent_to_connections(&self) -> usize {
        self.accounts / 3 * 2
    }

    /// The parts by name; their sum is the bound.
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

    /// Divides a bound from the configuration.
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
    fn the_least_bound_fits_a_password_check_and_other_work() {
        let least = MemoryDivision::of(MemoryDivision::LEAST_BOUND);
        assert!(least.budget().fair_part() >= 512 * 1024, "{least:?}");
        assert!(least.connections.min(least.accounts) >= 512 * 1024, "{least:?}");
    }
}
