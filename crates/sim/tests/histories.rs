//! Histories from a fixed seed on, for as long as the test may take.

use std::time::Duration;

use sealpost_base::{Clock, SystemClock};
use sealpost_sim::{Outcome, history};

/// The time limit of the test.
const BUDGET: Duration = Duration::from_secs(20);
/// However slow the machine is.
const HISTORIES_MIN: u64 = 200;

/// Seeds of histories in which something was wrong once.
const ONCE_WRONG: [u64; 3] = [108, 266_989, 314_009];

#[test]
fn histories_that_once_failed_pass() {
    for seed in ONCE_WRONG {
        if let Err(wrong) = history(seed) {
            panic!("{wrong}\nagain: make sim SEED={seed} ARGS=\"--histories 1\"");
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_undone() {
    let clock = SystemClock::new();
    let (mut seed, mut all) = (0, Outcome::default());
    while seed < HISTORIES_MIN || clock.monotonic() < BUDGET {
        match history(seed) {
            Ok(outcome) => all.add(outcome),
            Err(wrong) => panic!("{wrong}\nagain: make sim SEED={seed} ARGS=\"--histories 1\""),
        }
        seed += 1;
    }
    let busy = all.messages > 10 * seed && all.changes > 5 * seed && all.faults > 5 * seed;
    assert!(busy, "histories in which nothing happens: {all:?}");
}
