//! How long the server waits for a client, and whether the client is too slow while others need memory.

use std::time::Duration;

use sealpost_base::limits::{HTTP_STALLED, HTTP_STALLED_BYTES};
use sealpost_session::settings::Timeouts;

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
