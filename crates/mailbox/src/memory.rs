//! Memory for UID sets that a session holds while its client takes a response; and waiting for memory while
//! the session holds loaded accounts.
//!
//! UID sets count as account memory. A session that waits for other memory keeps its loaded accounts, and
//! stops waiting once other requests have waited long for account memory.

use std::time::Duration;

use sealpost_account::{Accounts, Reservation};
use sealpost_base::{Error, Result, UidSet};
use tokio::time::{sleep, timeout};

/// UID sets up to this size, in bytes, are covered by the memory of a connection.
pub const SMALL_SETS: usize = 16 * 1024;

/// How often [`reserve`] tries again, and the pause before each attempt.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// How long [`unless_pressed`] waits before it checks whether others have waited long for account memory.
const UNPRESSED: Duration = Duration::from_secs(2);

/// There is not enough account memory at present.
#[derive(Debug)]
pub struct NoMemory;

/// Reserves account memory for these sets; `None` if they are small. Retries for a second, in which sessions
/// can release accounts.
///
/// # Errors
/// `Limit` if there is still not enough memory.
pub async fn reserve(accounts: &Accounts, sets: &[&UidSet]) -> Result<Option<Reservation>> {
    reserve_bytes(accounts, bytes_of(sets)).await
}

/// Memory of these sets, in bytes.
pub fn bytes_of(sets: &[&UidSet]) -> usize {
    let ranges: usize = sets.iter().map(|set| set.range_count()).sum();
    ranges * UidSet::RANGE_BYTES
}

/// As [`reserve`], for sets that take `bytes`.
///
/// # Errors
/// As [`reserve`].
pub async fn reserve_bytes(accounts: &Accounts, bytes: usize) -> Result<Option<Reservation>> {
    for _ in 0..ATTEMPTS {
        match try_reserve(accounts, bytes) {
            Ok(reserved) => return Ok(reserved),
            Err(NoMemory) => sleep(PAUSE).await,
        }
    }
    try_reserve(accounts, bytes)
        .map_err(|NoMemory| Error::limit("not enough memory for this message set; retry with fewer messages"))
}

/// As [`reserve_bytes`], for callers that must not wait.
///
/// # Errors
/// If there is not enough memory at present.
pub fn try_reserve(accounts: &Accounts, bytes: usize) -> Result<Option<Reservation>, NoMemory> {
    if bytes <= SMALL_SETS { Ok(None) } else { accounts.try_reserve(bytes).ok_or(NoMemory).map(Some) }
}

/// Waits for memory while the session holds loaded accounts. `None` once `pressed` reports that others have
/// waited long for account memory.
pub async fn unless_pressed<T>(pressed: impl Fn() -> bool, acquiring: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(acquiring);
    let mut pause = UNPRESSED;
    loop {
        if let Ok(acquired) = timeout(pause, &mut acquiring).await {
            return Some(acquired);
        }
        if pressed() {
            return None;
        }
        pause = PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sealpost_account::Options;
    use sealpost_base::{FakeClock, MemoryDivision, SeededRandom, Timestamp, Uid};
    use sealpost_vault::Store;

    use super::*;

    fn accounts(room: usize) -> Accounts {
        let memory = MemoryDivision { accounts: room, ..MemoryDivision::default() };
        let options = Options { memory, ..Options::default() };
        let (clock, random) = (Arc::new(FakeClock::new(Timestamp(0))), Arc::new(SeededRandom::new(1)));
        Accounts::with(Store::memory(), sealpost_vault::entry::LogKey::for_tests(), clock, random, options)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_waits_for_memory_for_a_bounded_time() {
        let accounts = accounts(1 << 20);
        let gaps: UidSet = (1..10_000).step_by(2).filter_map(Uid::new).collect();
        let many = [&gaps];
        let held = accounts.try_reserve(1 << 20).unwrap();
        let later = async {
            sleep(PAUSE * 3).await;
            drop(held);
        };
        let (found, ()) = tokio::join!(reserve(&accounts, &many), later);
        let found = found.unwrap_or_else(|_| panic!("there is memory now")).expect("they are large");
        assert_eq!(found.bytes(), 5000 * UidSet::RANGE_BYTES);
        let held = accounts.try_reserve((1 << 20) - found.bytes()).unwrap();
        assert!(reserve(&accounts, &many).await.is_err());
        let few = UidSet::new();
        assert!(matches!(reserve(&accounts, &[&few]).await, Ok(None)), "they take none");
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_pressure_ends_a_wait_that_holds_accounts() {
        let pressed = std::cell::Cell::new(false);
        let drawing = async {
            sleep(UNPRESSED * 10).await;
            1
        };
        assert_eq!(unless_pressed(|| pressed.get(), drawing).await, Some(1), "no memory pressure");
        let pressing = async {
            sleep(UNPRESSED * 3).await;
            pressed.set(true);
        };
        let (drawn, ()) =
            tokio::join!(unless_pressed(|| pressed.get(), std::future::pending::<()>()), pressing);
        assert_eq!(drawn, None);
    }
}
