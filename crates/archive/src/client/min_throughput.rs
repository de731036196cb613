//! [`MinThroughput`]: whether an answer that has begun keeps coming.
//!
//! A server that sends one byte now and then is not silent, and would keep the client waiting
//! forever.

use std::time::Duration;

use sealpost_base::{Error, limits};

use super::peer_fault::silent;

/// How many bytes of an answer came, and in what time.
#[derive(Debug)]
pub(super) struct MinThroughput {
    within: Duration,
    waited: Duration,
    bytes: u64,
}

impl MinThroughput {
    /// [`limits::ARCHIVE_PACE_BYTES`] have to come in `within`.
    pub(super) fn new(within: Duration) -> Self {
        MinThroughput { within, waited: Duration::ZERO, bytes: 0 }
    }

    /// A reply is complete, or a response line of it: counting begins again.
    pub(super) fn begin(&mut self) {
        (self.waited, self.bytes) = (Duration::ZERO, 0);
    }

    /// So many bytes came after so long.
    ///
    /// # Errors
    /// `Retry` if that is too few.
    pub(super) fn record(&mut self, bytes: u64, after: Duration) -> Result<(), Error> {
        self.bytes += bytes;
        self.waited += after;
        if self.bytes >= limits::ARCHIVE_PACE_BYTES {
            self.begin();
        }
        if self.waited < self.within {
            return Ok(());
        }
        let (most, seconds) = (limits::ARCHIVE_PACE_BYTES, self.within.as_secs());
        Err(silent(format!("the server sent less than {most} bytes in {seconds} s during a response")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_answers_are_waited_for_but_dripping_ones_not() {
        let second = Duration::from_secs(1);
        let mut pace = MinThroughput::new(Duration::from_secs(100));
        let slow = limits::ARCHIVE_PACE_BYTES / 99 + 1;
        assert!((0..10_000).all(|_| pace.record(slow, second).is_ok()));
        pace.begin();
        assert_eq!((0..10_000).position(|_| pace.record(1, second).is_err()), Some(99));
        // A complete answer does not count as a slow one.
        pace.begin();
        for _ in 0..10 {
            assert!((0..99).all(|_| pace.record(1, second).is_ok()));
            pace.begin();
        }
    }
}
