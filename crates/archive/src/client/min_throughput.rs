//! [`MinThroughput`]: whether an answer that has begun also comes.
//!
//! Who sends a byte of it now and then is not silent, and would have us wait for ever.

use std::time::Duration;

use sealpost_base::{Error, limits};

use super::peer_fault::silent;

/// How much came of an answer, and how long that was waited for.
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

    /// An answer is complete, or another piece of it that counts.
    pub(super) fn begin(&mut self) {
        (self.waited, self.bytes) = (Duration::ZERO, 0);
    }

    /// So many bytes came after so long.
    ///
    /// # Errors
    /// `Retry` if that is too few.
    pub(super) fn came(&mut self, bytes: u64, after: Duration) -> Result<(), Error> {
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
    fn what_is_slow_is_waited_for_and_what_drips_is_not() {
        let second = Duration::from_secs(1);
        let mut pace = MinThroughput::new(Duration::from_secs(100));
        let slow = limits::ARCHIVE_PACE_BYTES / 99 + 1;
        assert!((0..10_000).all(|_| pace.came(slow, second).is_ok()));
        pace.begin();
        assert_eq!((0..10_000).position(|_| pace.came(1, second).is_err()), Some(99));
        // What is complete is no answer that does not come.
        pace.begin();
        for _ in 0..10 {
            assert!((0..99).all(|_| pace.came(1, second).is_ok()));
            pace.begin();
        }
    }
}
