//! When rounds begin.
//!
//! In a closed loop a client begins its next round after the last. In an open loop rounds are due
//! at times that the server does not influence, and the time of a round counts from when it was
//! due: a server that stalls for a second is charged for all rounds due in it, not only for the one
//! that was in flight (coordinated omission). Every client has its own part of the rate: the sum of
//! many Poisson processes is one again, and constant arrivals are dealt out in turn.

use std::time::Duration;

use sealpost_base::SeededRandom;

use super::scenario::{Arrivals, exponential};

/// How late a system timer may wake a client without being counted.
pub const TIMER: Duration = Duration::from_millis(2);

/// The times at which the rounds of one client are due, from the beginning of the phase.
#[derive(Debug)]
pub struct Schedule {
    kind: Kind,
    next: f64,
}

#[derive(Debug)]
enum Kind {
    Closed,
    Constant { every: f64 },
    Poisson { mean: f64, random: SeededRandom },
}

impl Schedule {
    /// That of client `nth` of `clients`, which starts `start` after the phase began.
    pub fn new(
        rate: Option<f64>,
        arrivals: Arrivals,
        nth: u64,
        clients: u64,
        start: Duration,
        seed: u64,
    ) -> Self {
        let start = start.as_secs_f64();
        let Some(rate) = rate else { return Schedule { kind: Kind::Closed, next: start } };
        let every = clients.max(1) as f64 / rate;
        match arrivals {
            Arrivals::Constant => {
                Schedule { kind: Kind::Constant { every }, next: start + nth as f64 / rate }
            }
            Arrivals::Poisson => {
                let random = SeededRandom::new(seed);
                let next = start + every * exponential(&random);
                Schedule { kind: Kind::Poisson { mean: every, random }, next }
            }
        }
    }

    /// About how many more are due until `end`.
    pub fn left(&self, end: Duration) -> u64 {
        let every = match &self.kind {
            Kind::Closed => return 0,
            Kind::Constant { every } => *every,
            Kind::Poisson { mean, .. } => *mean,
        };
        ((end.as_secs_f64() - self.next).max(0.0) / every).ceil() as u64
    }

    /// When the next round is due; `None`: as soon as the client is ready.
    pub fn due(&mut self) -> Option<Duration> {
        let due = Duration::from_secs_f64(self.next);
        match &self.kind {
            Kind::Closed => return None,
            Kind::Constant { every } => self.next += every,
            Kind::Poisson { mean, random } => self.next += mean * exponential(random),
        }
        Some(due)
    }
}

/// The time from which a round counts that was due at `due` and begins at `now`. If the client was
/// `free` in time and only woke late, the delay is the bench's, and up to [`TIMER`] of it is
/// ignored. Otherwise it is the server's.
pub fn counted_from(due: Duration, now: Duration, free: bool) -> Duration {
    if free && now.saturating_sub(due) <= TIMER { now.max(due) } else { due.min(now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(seconds: f64, mut schedule: Schedule) -> Vec<Duration> {
        std::iter::from_fn(|| schedule.due()).take_while(|due| due.as_secs_f64() < seconds).collect()
    }

    #[test]
    fn constant_arrivals_are_dealt_out_in_turn() {
        let mut all: Vec<_> = (0..4)
            .flat_map(|nth| {
                until(10.0, Schedule::new(Some(20.0), Arrivals::Constant, nth, 4, Duration::ZERO, 1))
            })
            .collect();
        all.sort();
        assert_eq!(all.len(), 200);
        for pair in all.windows(2) {
            assert!((pair[1] - pair[0]).abs_diff(Duration::from_millis(50)) < Duration::from_micros(1));
        }
    }

    #[test]
    fn poisson_arrivals_match_the_rate_and_the_seed() {
        let schedule = |nth| Schedule::new(Some(100.0), Arrivals::Poisson, nth, 10, Duration::ZERO, nth);
        let all: usize = (0..10).map(|nth| until(100.0, schedule(nth)).len()).sum();
        assert!((9_600..10_400).contains(&all), "{all}");
        assert_eq!(until(5.0, schedule(3)), until(5.0, schedule(3)));
    }

    #[test]
    fn a_late_client_is_counted_from_wakeup_or_due_time() {
        let ms = Duration::from_millis;
        assert_eq!(counted_from(ms(100), ms(101), true), ms(101), "a timer");
        assert_eq!(counted_from(ms(100), ms(150), true), ms(100), "the bench fell behind, and hides nothing");
        assert_eq!(
            counted_from(ms(100), ms(101), false),
            ms(100),
            "the server still answered the last round"
        );
    }
}
