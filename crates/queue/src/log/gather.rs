//! [`Gathering`]: how long an entry waits for others that are on their way.
//!
//! Clients that hand in mail one after the other come together again once an entry answered them
//! together. If the next entry waits for them, they share its wait for the disk; else the first takes
//! the disk for itself, and the others queue up behind. A client that comes alone waits for nobody.
//! Marks of mails that are being sent wait for mail that is accepted: nobody notices that a mail
//! leaves a few milliseconds later, and each would cost a wait for the disk of its own.

use std::time::Duration;

use tokio::time::Instant;

/// How long an entry waits at most for as many clients as came before.
pub(super) const GATHER: Duration = Duration::from_millis(2);
/// How long marks wait at most for mail that is accepted.
pub(super) const RIDE: Duration = Duration::from_millis(5);
/// Who comes so long after the others is alone.
pub(super) const APART: Duration = Duration::from_millis(20);

/// Who is expected, by who came before.
#[derive(Default)]
pub(super) struct Gathering {
    expected: usize,
    /// Until when they may come; `None` while nobody is there.
    until: Option<Instant>,
    /// Until when marks wait; `None` while there are none.
    ride: Option<Instant>,
    /// When an entry was written last for which clients waited.
    last: Option<Instant>,
}

impl Gathering {
    /// Until when to wait, now that so many clients are there; `None` if they are as many as were
    /// expected.
    pub(super) fn clients(&mut self, waiting: usize, now: Instant) -> Option<Instant> {
        let until = match self.until {
            Some(until) => until,
            None => {
                self.forget(now);
                *self.until.insert(now + GATHER)
            }
        };
        (waiting < self.expected && now < until).then_some(until)
    }

    /// Until when to wait, now that there are marks and no clients.
    pub(super) fn marks(&mut self, now: Instant) -> Option<Instant> {
        self.forget(now);
        let until = *self.ride.get_or_insert(now + RIDE);
        (self.expected > 1 && now < until).then_some(until)
    }

    /// Expects nobody if the last ones came long ago.
    fn forget(&mut self, now: Instant) {
        if self.last.is_none_or(|last| now >= last + APART) {
            self.expected = 0;
        }
    }

    /// How many clients are expected.
    pub(super) fn expected(&self) -> usize {
        self.expected
    }

    /// An entry was written, or not, for which so many clients waited.
    pub(super) fn appended(&mut self, clients: usize, now: Instant) {
        self.ride = None;
        if clients > 0 {
            // One that is late does not divide them.
            self.expected = clients.max(self.expected * 3 / 4);
            (self.until, self.last) = (None, Some(now));
        }
    }
}
