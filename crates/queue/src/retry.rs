//! When the queue retries a mail, reports its delay, and lets it fail.
//!
//! RFC 5321 §4.5.4.1 asks for retries for four or five days, 30 minutes apart at first; greylisting
//! servers want a first one earlier. Times are of the wall clock, which may jump: no mail waits
//! longer than [`MAX_DELAY`] except when it is held.

use std::time::Duration;

use sealpost_base::{Random, Timestamp};

/// Before the second attempt.
pub const FIRST_DELAY: Duration = Duration::from_secs(5 * 60);
/// Between two attempts, at most.
pub const MAX_DELAY: Duration = Duration::from_secs(4 * 3600);
/// So long after its release a mail that is still queued is reported as delayed.
pub const DELAY_REPORT_AFTER: Duration = Duration::from_secs(4 * 3600);
/// The time after its release at which a mail fails.
pub const EXPIRE_AFTER: Duration = Duration::from_secs(5 * 86_400);
/// How long its sender (RFC 4865) or the operator may hold a mail.
pub const MAX_HOLD: Duration = Duration::from_secs(30 * 86_400);

/// When the attempt after `attempts` failed ones is due: 5 minutes later, then twice as much each
/// time up to 4 hours, and up to a quarter more or, at the end, less: so mails that failed together
/// are not retried together.
pub fn next_attempt(now: Timestamp, attempts: u8, random: &dyn Random) -> Timestamp {
    let doublings = u32::from(attempts.saturating_sub(1)).min(16);
    let base = FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY);
    let jitter = base.mul_f64((random.next_u64() % 1024) as f64 / 4096.0);
    let delay = if base == MAX_DELAY { base - jitter } else { (base + jitter).min(MAX_DELAY) };
    now.after(delay)
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    #[test]
    fn delays_double_from_five_minutes_to_four_hours() {
        let random = SeededRandom::new(7);
        let now = Timestamp(1_000_000);
        for _ in 0..200 {
            let delays: Vec<_> =
                (1..=12).map(|n| next_attempt(now, n, &random).since(now).as_secs()).collect();
            let least = [300, 600, 1200, 2400, 4800, 9600, 10800];
            for (n, delay) in delays.iter().enumerate() {
                let least = least.get(n).copied().unwrap_or(10800);
                assert!((least..=least * 5 / 4).contains(delay) || (10800..=14400).contains(delay), "{n}");
                assert!(*delay <= 14400);
            }
        }
        let spread: std::collections::BTreeSet<_> = (0..100).map(|_| next_attempt(now, 9, &random)).collect();
        assert!(spread.len() > 50);
        assert!(next_attempt(now, 255, &random) > now);
    }
}
