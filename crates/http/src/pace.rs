//! How long the server waits for a client, and whether the client is too slow while others need memory.

use std::pin::pin;
use std::time::Duration;

use sealpost_base::limits::{
    HTTP_LARGE_BODY_PERIODS, HTTP_LARGE_BODY_STALLED, HTTP_LARGE_BODY_STALLED_BYTES, HTTP_STALLED,
    HTTP_STALLED_BYTES,
};
use sealpost_session::settings::Timeouts;
use tokio::time::{Instant, timeout_at};

/// Timeouts for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientTimeouts {
    /// Until the next request, while none is in progress.
    pub(crate) idle: Duration,
    /// For the head of a request, and for each piece of its body.
    pub(crate) request: Duration,
    /// Until the client takes any of the bytes sent.
    pub(crate) write: Duration,
    /// For the client to send or take [`HTTP_STALLED_BYTES`] while others wait for memory.
    pub(crate) stalled: Duration,
}

impl ClientTimeouts {
    pub(crate) fn of(timeouts: &Timeouts) -> Self {
        let Timeouts { http: idle, http_request: request, write, .. } = *timeouts;
        ClientTimeouts { idle, request, write, stalled: HTTP_STALLED.min(request).min(write) }
    }
}

/// The bytes that a client moved, and how long the server waited for them.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// Adds a wait and the number of bytes that the client moved after it.
    pub(crate) fn add(&mut self, waited: Duration, bytes: usize) {
        self.waited += waited;
        self.bytes += bytes;
    }

    /// Whether the client moved fewer than `least` bytes in the last `stalled`. False unless `others_wait`.
    pub(crate) fn is_slower_than(&mut self, least: usize, stalled: Duration, others_wait: bool) -> bool {
        if self.waited < stalled {
            return false;
        }
        let before = std::mem::take(self);
        others_wait && before.bytes < least
    }

    /// Whether the client moved fewer than [`HTTP_STALLED_BYTES`].
    pub(crate) fn is_too_slow(&mut self, stalled: Duration, others_wait: bool) -> bool {
        self.is_slower_than(HTTP_STALLED_BYTES, stalled, others_wait)
    }
}

/// Watches a client that sends a body.
#[derive(Debug)]
pub(crate) struct Watch {
    pace: Pace,
    /// For each piece.
    longest: Duration,
    period: Duration,
    /// Bytes that must come in each period while others wait for memory.
    least: usize,
}

impl Watch {
    /// The rule for small bodies, and for those that are not held.
    pub(crate) fn new(timeouts: &ClientTimeouts) -> Self {
        let (longest, period) = (timeouts.request, timeouts.stalled);
        Watch { pace: Pace::default(), longest, period, least: HTTP_STALLED_BYTES }
    }

    /// The rule for a large body of at most `bytes` that is held as a whole.
    pub(crate) fn large(timeouts: &ClientTimeouts, bytes: usize) -> Self {
        let least = HTTP_LARGE_BODY_STALLED_BYTES.max(bytes / HTTP_LARGE_BODY_PERIODS);
        let period = HTTP_LARGE_BODY_STALLED.min(timeouts.stalled);
        Watch { period, least, ..Self::new(timeouts) }
    }

    /// Waits for the next piece. `length` is its length, or `None` at the end of the body. `None` if the client
    /// is too slow.
    pub(crate) async fn next<T>(
        &mut self,
        piece: impl Future<Output = T>,
        length: impl Fn(&T) -> Option<usize>,
        others_wait: impl Fn() -> bool,
    ) -> Option<T> {
        let mut piece = pin!(piece);
        let deadline = Instant::now() + self.longest;
        loop {
            let began = Instant::now();
            let look = deadline.min(began + self.period.saturating_sub(self.pace.waited));
            let came = timeout_at(look, &mut piece).await.ok();
            let bytes = came.as_ref().map_or(Some(0), &length);
            let Some(bytes) = bytes else { return came };
            self.pace.add(began.elapsed(), bytes);
            let is_too_slow = self.pace.is_slower_than(self.least, self.period, others_wait());
            if is_too_slow || came.is_none() && Instant::now() >= deadline {
                return None;
            }
            if came.is_some() {
                return came;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_too_slow_only_while_others_wait() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        pace.add(9 * second, 1);
        assert!(!pace.is_too_slow(10 * second, true), "not yet");
        pace.add(second, 1);
        assert!(pace.is_too_slow(10 * second, true));
        pace.add(20 * second, 1);
        assert!(!pace.is_too_slow(10 * second, false));
        pace.add(10 * second, HTTP_STALLED_BYTES);
        assert!(!pace.is_too_slow(10 * second, true));
    }
}
