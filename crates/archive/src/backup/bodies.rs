//! Chooses which bodies are evicted: a pure function.
//!
//! The value of keeping a body falls with its age, and the gain of evicting it grows with its size:
//! bodies with the largest product of size and age are evicted first. So a large one goes before a
//! small one of the same day, an old one before a new one of the same size, and neither a single
//! huge message of yesterday nor a thousand small ones of ten years ago decide alone.

use sealpost_base::Timestamp;

/// Smaller bodies stay: they are most of the messages and little of the disk, and their stubs would
/// take as much space.
pub const WORTH_BYTES: u64 = 4096;

/// A message's age counts in hours and is at least one: minutes do not matter.
const HOUR_MS: i64 = 3_600_000;

/// A body that may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<T> {
    /// Its message.
    pub message: T,
    /// Bytes that it takes on disk.
    pub bytes: u64,
    /// When the server received the message; 0, not known, counts as very old.
    pub received: Timestamp,
}

impl<T> Candidate<T> {
    fn weight(&self, now: Timestamp) -> u128 {
        let hours = (now.0.saturating_sub(self.received.0) / HOUR_MS).max(1);
        u128::from(self.bytes) * u128::try_from(hours).unwrap_or(1)
    }
}

/// Those to evict, in order, so that at least `over` bytes are gained, or as many as possible.
pub fn choose<T: Ord>(candidates: Vec<Candidate<T>>, over: u64, now: Timestamp) -> Vec<Candidate<T>> {
    let mut candidates: Vec<_> =
        candidates.into_iter().filter(|candidate| candidate.bytes >= WORTH_BYTES).collect();
    candidates.sort_by(|a, b| {
        let heavier = b.weight(now).cmp(&a.weight(now));
        heavier.then(a.received.0.cmp(&b.received.0)).then_with(|| a.message.cmp(&b.message))
    });
    let mut gained = 0u64;
    let count = candidates
        .iter()
        .take_while(|candidate| {
            let more = gained < over;
            gained = gained.saturating_add(candidate.bytes);
            more
        })
        .count();
    candidates.truncate(count);
    candidates
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn candidates() -> impl Strategy<Value = Vec<Candidate<usize>>> {
        let one = (0u64..200_000, prop_oneof![Just(0i64), -1000i64..400_000]);
        prop::collection::vec(one, 0..60).prop_map(|all| {
            let candidate = |(message, (bytes, hours)): (usize, (u64, i64))| {
                let received = Timestamp(if hours == 0 { 0 } else { NOW.0 - hours * HOUR_MS });
                Candidate { message, bytes, received }
            };
            all.into_iter().enumerate().map(candidate).collect()
        })
    }

    proptest! {
        #[test]
        fn as_many_go_as_must_and_no_more(all in candidates(), over in 0u64..3_000_000) {
            let chosen = choose(all.clone(), over, NOW);
            let gained: u64 = chosen.iter().map(|c| c.bytes).sum();
            let possible: u64 = all.iter().map(|c| c.bytes).filter(|bytes| *bytes >= WORTH_BYTES).sum();
            prop_assert!(gained >= over.min(possible));
            // Without the last one the gain would be too small.
            let last = chosen.last().map_or(0, |c| c.bytes);
            prop_assert!(chosen.is_empty() || gained - last < over);
            let mut messages: Vec<usize> = chosen.iter().map(|c| c.message).collect();
            messages.sort_unstable();
            messages.dedup();
            prop_assert_eq!(messages.len(), chosen.len());
            prop_assert!(chosen.iter().all(|c| all.contains(c) && c.bytes >= WORTH_BYTES));
        }

        /// No message goes while one stays that is at least as old and at least as large, and one
        /// of the two more.
        #[test]
        fn older_and_larger_go_first(all in candidates(), over in 0u64..3_000_000) {
            let chosen = choose(all.clone(), over, NOW);
            let hours = |c: &Candidate<usize>| ((NOW.0 - c.received.0) / HOUR_MS).max(1);
            for stays in all.iter().filter(|c| c.bytes >= WORTH_BYTES && !chosen.contains(c)) {
                for goes in &chosen {
                    let no_less = stays.bytes >= goes.bytes && hours(stays) >= hours(goes);
                    let more = stays.bytes > goes.bytes || hours(stays) > hours(goes);
                    prop_assert!(!(no_less && more), "{:?} stays, {:?} goes", stays, goes);
                }
            }
        }

        #[test]
        fn the_order_in_which_they_come_does_not_matter(mut all in candidates(), over in 0u64..3_000_000) {
            let chosen = choose(all.clone(), over, NOW);
            all.reverse();
            prop_assert_eq!(choose(all, over, NOW), chosen);
        }
    }
}
