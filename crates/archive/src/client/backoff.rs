//! [`Backoff`]: how long to wait before the next attempt.

use std::time::Duration;

use sealpost_base::{Error, Random};

use super::peer_fault::{PeerFault, peer_fault};
use super::server_seen::is_unreached;
use super::suggested_wait;

/// Doubles with every attempt that did not help, up to 256 times the first wait, and begins again
/// after progress. Waits as long as a server requests. A quarter is random, so that many clients do
/// not return at once.
///
/// A server that violates the protocol will not be better in a minute: it is tried as often,
/// without longer waits. A silent server has already cost a timeout: half as many attempts are
/// enough.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    attempts: u32,
}

impl Backoff {
    /// Attempts without progress after which to give up.
    pub const ATTEMPTS: u32 = 8;
    const LONGEST: u32 = 256;

    /// After the first failure, about `first` is waited.
    pub fn new(first: Duration) -> Self {
        Backoff { first, attempts: 0 }
    }

    /// Progress was made: the next failure is a first one.
    pub fn progress(&mut self) {
        self.attempts = 0;
    }

    /// How long to wait after `error`; `None`: too many failures, or the server never answered.
    pub fn next(&mut self, error: &Error, random: &dyn Random) -> Option<Duration> {
        let peer_fault = peer_fault(error);
        self.attempts += if peer_fault == Some(PeerFault::Silent) { 2 } else { 1 };
        if self.attempts >= Self::ATTEMPTS || is_unreached(error) {
            return None;
        }
        let doublings =
            if peer_fault == Some(PeerFault::ProtocolViolation) { 0 } else { (self.attempts - 1).min(20) };
        let doubled = self.first.saturating_mul((1 << doublings).min(Self::LONGEST));
        let jitter = doubled.as_millis() as u64 / 4;
        let random = if jitter == 0 { 0 } else { random.next_u64() % jitter };
        let wait = doubled - Duration::from_millis(random);
        Some(suggested_wait(&error.to_string()).map_or(wait, |suggested| suggested.max(wait)))
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;
    use crate::client::peer_fault::{protocol_violation, silent};

    #[test]
    fn faulty_servers_are_retried_soon_and_silent_ones_seldom() {
        let random = SeededRandom::new(1);
        let waits = |error: Error| {
            let mut backoff = Backoff::new(Duration::from_secs(1));
            std::iter::from_fn(move || backoff.next(&error, &random)).collect::<Vec<_>>()
        };
        let protocol_violation = waits(protocol_violation("x"));
        assert_eq!(protocol_violation.len() as u32, Backoff::ATTEMPTS - 1);
        assert!(protocol_violation.iter().all(|wait| *wait <= Duration::from_secs(1)));
        let random = SeededRandom::new(1);
        let mut backoff = Backoff::new(Duration::from_secs(1));
        // As often as one message may be what a connection ends with.
        assert_eq!(std::iter::from_fn(|| backoff.next(&silent("x"), &random)).count(), 3);
    }

    #[test]
    fn waits_grow_are_bounded_and_end() {
        let (mut backoff, random) = (Backoff::new(Duration::from_secs(1)), SeededRandom::new(1));
        let error = Error::retry("x");
        let waits: Vec<_> = std::iter::from_fn(|| backoff.next(&error, &random)).collect();
        assert_eq!(waits.len() as u32, Backoff::ATTEMPTS - 1);
        assert!(waits[0] <= Duration::from_secs(1) && waits[0] >= Duration::from_millis(750));
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(256)));
        assert!(waits[5] > waits[3]);
        backoff.progress();
        let throttled = Error::retry("Suggested Backoff Time: 20000 milliseconds");
        assert_eq!(backoff.next(&throttled, &random), Some(Duration::from_secs(20)));
    }
}
