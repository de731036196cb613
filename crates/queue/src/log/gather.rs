//! [`Gathering`]: how long an entry waits for more clients or marks to share its sync.
//!
//! Clients that hand in one mail after the other return together once one entry has answered them
//! together. If the next entry waits for them, they share one sync. Without the wait the first
//! client takes the disk for itself, and the others queue up behind it. A client that comes alone
//! does not wait.
//!
//! Two groups wait for entries: clients, and marks of mails that are being sent. The next entry
//! expects as many of a group as the last one answered, and those that were waiting already at that
//! moment: a client has one mail under way, so these are others. So groups that take turns grow
//! together. The entry is written when three quarters are there: the slowest clients of a group do
//! not delay the others, and mostly arrive while the entry is on its way to the disk.
//!
//! Marks wait for clients as long as several clients hand mail in. A mail that leaves some
//! milliseconds later is no loss, and a mark of its own would cost a sync of its own.

use std::time::Duration;

use tokio::time::Instant;

/// How long an entry waits for the next of a group. An entry is written if none joined for so long.
pub(super) const GATHER: Duration = Duration::from_millis(5);
/// How long an entry waits for a group in all.
pub(super) const GATHER_TOTAL: Duration = Duration::from_millis(20);
/// How long marks wait for clients.
pub(super) const RIDE: Duration = Duration::from_millis(10);
/// After so long without an entry for a group none of it is expected.
pub(super) const APART: Duration = Duration::from_millis(40);
/// No more than so many are expected: the share of each in a sync is small then.
pub(super) const EXPECTED_MOST: usize = 32;

/// How many clients and marks the next entry waits for.
#[derive(Default)]
pub(super) struct Gathering {
    clients: Group,
    marks: Group,
    /// Until when marks wait for clients; `None` while no mark does.
    ride: Option<Instant>,
}

/// Those that one entry answers together.
#[derive(Default)]
struct Group {
    expected: usize,
    /// The wait for the next entry; `None` while nothing waits.
    wait: Option<Wait>,
    /// When the last entry for this group was written.
    last: Option<Instant>,
}

/// A wait of an entry.
struct Wait {
    /// How many were there at the last look.
    seen: usize,
    /// When it ends if no other joins.
    next: Instant,
    /// When it ends.
    end: Instant,
}

impl Gathering {
    /// Until when to wait, now that so many clients are there; `None` if the entry is to be written.
    pub(super) fn clients(&mut self, waiting: usize, now: Instant) -> Option<Instant> {
        self.clients.until(waiting, now)
    }

    /// Until when to wait, now that so many marks are there and no client.
    pub(super) fn marks(&mut self, waiting: usize, now: Instant) -> Option<Instant> {
        if !self.rides(now) {
            return self.marks.until(waiting, now);
        }
        let until = *self.ride.get_or_insert(now + RIDE);
        (now < until).then_some(until)
    }

    /// Whether several clients hand mail in, so that marks wait for theirs.
    fn rides(&mut self, now: Instant) -> bool {
        self.clients.forget(now);
        self.clients.expected > 1
    }

    /// How many clients are enough for an entry.
    pub(super) fn enough_clients(&self) -> usize {
        self.clients.enough()
    }

    /// How many marks are enough for an entry without clients; `None` while marks wait for clients.
    pub(super) fn enough_marks(&mut self, now: Instant) -> Option<usize> {
        (!self.rides(now)).then(|| self.marks.enough())
    }

    /// An entry for clients and marks was written, or failed. `others` came too late for it: so many
    /// clients and marks.
    pub(super) fn appended(
        &mut self,
        (clients, marks): (usize, usize),
        others: (usize, usize),
        now: Instant,
    ) {
        self.ride = None;
        self.clients.appended(clients, others.0, now);
        self.marks.appended(marks, others.1, now);
    }
}

impl Group {
    /// Until when to wait, now that so many are there; `None` if there are enough, if none joined
    /// for [`GATHER`], or if [`GATHER_TOTAL`] is over.
    fn until(&mut self, waiting: usize, now: Instant) -> Option<Instant> {
        if self.wait.is_none() {
            self.forget(now);
        }
        let enough = self.enough();
        let begin = || Wait { seen: waiting, next: now + GATHER, end: now + GATHER_TOTAL };
        let wait = self.wait.get_or_insert_with(begin);
        if waiting >= enough || now >= wait.end {
            return None;
        }
        if now >= wait.next {
            if waiting <= wait.seen {
                return None;
            }
            (wait.seen, wait.next) = (waiting, (now + GATHER).min(wait.end));
        }
        Some(wait.next)
    }

    /// How many are enough for an entry; at least one.
    fn enough(&self) -> usize {
        (self.expected * 3).div_ceil(4).max(1)
    }

    /// Expects none if the last entry was written long ago.
    fn forget(&mut self, now: Instant) {
        if self.last.is_none_or(|last| now >= last + APART) {
            self.expected = 0;
        }
    }

    /// An entry answered so many of the group, while `others` waited already.
    fn appended(&mut self, answered: usize, others: usize, now: Instant) {
        if answered > 0 {
            // One that is late does not divide a group.
            self.expected = (answered + others).max(self.expected * 3 / 4).min(EXPECTED_MOST);
            (self.wait, self.last) = (None, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A gathering whose last entry answered so many clients, and the time.
    fn after(clients: usize) -> (Gathering, Instant) {
        let (mut gathering, now) = (Gathering::default(), Instant::now());
        gathering.appended((clients, 0), (0, 0), now);
        (gathering, now)
    }

    #[test]
    fn a_lone_client_does_not_wait() {
        let (mut gathering, now) = (Gathering::default(), Instant::now());
        for n in 0..3 {
            let now = now + n * MS;
            assert_eq!(gathering.clients(1, now), None);
            gathering.appended((1, 0), (0, 0), now);
        }
        let (mut gathering, now) = after(10);
        assert_eq!(gathering.clients(1, now + APART), None);
    }

    #[test]
    fn an_entry_waits_for_most_of_the_group_before_it() {
        for (answered, enough) in [(2, 2), (3, 3), (4, 3), (10, 8)] {
            let (mut gathering, now) = after(answered);
            assert_eq!(gathering.clients(1, now), Some(now + GATHER));
            assert!(gathering.clients(enough - 1, now + MS).is_some());
            assert_eq!((gathering.clients(enough, now + MS), gathering.enough_clients()), (None, enough));
        }
    }

    #[test]
    fn a_wait_ends_when_none_joins() {
        let (mut gathering, now) = after(10);
        gathering.clients(4, now);
        assert_eq!(gathering.clients(5, now + GATHER), Some(now + 2 * GATHER), "one has joined");
        assert_eq!(gathering.clients(5, now + 2 * GATHER), None);
    }

    #[test]
    fn a_wait_has_a_bound_however_many_join() {
        let (mut gathering, begun) = after(EXPECTED_MOST);
        let (mut now, mut clients) = (begun, 1);
        while let Some(until) = gathering.clients(clients, now) {
            (now, clients) = (until, clients + 1);
        }
        assert!(clients < gathering.enough_clients());
        assert_eq!(now, begun + GATHER_TOTAL);
    }

    #[test]
    fn a_large_group_is_not_expected_as_a_whole() {
        let (gathering, _) = after(10 * EXPECTED_MOST);
        assert_eq!(gathering.enough_clients(), EXPECTED_MOST * 3 / 4);
    }

    #[test]
    fn groups_that_take_turns_grow_together() {
        let (mut gathering, now) = (Gathering::default(), Instant::now());
        // Ten clients in three groups: while one is answered, clients of the next wait.
        for (answered, others) in [(3, 1), (4, 2), (6, 3), (7, 3)] {
            gathering.appended((answered, 0), (others, 0), now);
            assert_eq!(gathering.clients.expected, answered + others);
        }
        assert!(gathering.clients(7, now).is_some());
        assert_eq!(gathering.clients(8, now), None);
    }

    #[test]
    fn a_late_client_does_not_divide_a_group() {
        let (mut gathering, now) = after(8);
        gathering.appended((1, 0), (0, 0), now);
        assert_eq!(gathering.clients.expected, 6);
        for _ in 0..8 {
            gathering.appended((1, 0), (0, 0), now);
        }
        assert_eq!(gathering.clients.expected, 1);
    }

    #[test]
    fn marks_ride_while_several_clients_come() {
        let (mut gathering, now) = after(2);
        assert_eq!(gathering.marks(1, now), Some(now + RIDE));
        assert_eq!(gathering.enough_marks(now), None);
        assert_eq!(gathering.marks(50, now + RIDE), None);
        let (mut gathering, now) = after(1);
        assert_eq!(gathering.marks(1, now), None, "a client that comes alone gives no ride");
    }

    #[test]
    fn marks_without_clients_wait_for_each_other() {
        let (mut gathering, now) = (Gathering::default(), Instant::now());
        assert_eq!(gathering.marks(1, now), None);
        gathering.appended((0, 1), (0, 4), now);
        assert_eq!((gathering.marks(3, now), gathering.enough_marks(now)), (Some(now + GATHER), Some(4)));
        assert_eq!(gathering.marks(4, now), None);
        gathering.appended((0, 5), (0, 0), now);
        assert_eq!(gathering.marks(1, now + APART), None);
    }
}
