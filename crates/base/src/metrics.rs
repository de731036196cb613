//! Counters and histograms for any crate, independent of readers and formats.
//!
//! Counting takes no lock and never waits. Each value is a separate atomic, so a reading is not a snapshot of
//! one moment. But no value ever decreases, and a histogram's count is always the sum of its buckets. There
//! are no labels: a crate that distinguishes cases has one value for each, which bounds their number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often something happened, or its total amount. Never decreases; wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The present value.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The distribution of values over fixed ranges.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The values of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The largest value of each bucket, ascending. One more bucket at the end has larger values.
    pub bounds: &'static [u64],
    /// The number of values in each bucket: one more than `bounds`.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

/// Bounds for durations in nanoseconds: 100 µs to 30 s.
pub const TIMES: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// Bounds for counts: 1 to 65,536.
pub const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536];

impl Histogram {
    /// An empty histogram. `bounds` ascend.
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// A histogram of durations ([`TIMES`]).
    pub fn times() -> Self {
        Histogram::new(TIMES)
    }

    /// A histogram of counts ([`COUNTS`]).
    pub fn counts() -> Self {
        Histogram::new(COUNTS)
    }

    /// Adds a value.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Adds a duration, in nanoseconds.
    pub fn observe_time(&self, time: Duration) {
        self.observe(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The present values.
    pub fn read(&self) -> Reading {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Reading { bounds: self.bounds, buckets, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl Reading {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_part_of_its_bucket() {
        let histogram = Histogram::new(&[1, 10]);
        for value in [0, 1, 2, 10, 11, 1000] {
            histogram.observe(value);
        }
        let reading = histogram.read();
        assert_eq!(reading.buckets, [2, 2, 2]);
        assert_eq!((reading.count(), reading.sum), (6, 1024));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [TIMES, COUNTS] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (counter, histogram) = (Counter::default(), Histogram::counts());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        counter.increment();
                        histogram.observe(n);
                    }
                });
            }
        });
        assert_eq!((counter.read(), histogram.read().count()), (4000, 4000));
        assert_eq!(histogram.read().sum, 4 * (0..1000).sum::<u64>());
    }
}
