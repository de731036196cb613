//! Room for the sets of messages that a session holds while its client takes what is told of them: part of the room for accounts; and
//! what a session that holds accounts does not wait for while others wait for theirs.

use std::time::Duration;

use sealpost_account::{Accounts, Charge};
use sealpost_base::UidSet;
use sealpost_imap::types::Code;
use tokio::time::{sleep, timeout};

use super::reply::Reply;
use super::view::SMALL_VIEW;

/// How often room is asked for, and how long after each time.
const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_millis(100);

/// How long a session that holds accounts waits for memory while others have waited long for their room.
const PATIENCE: Duration = Duration::from_secs(2);

/// There is no room now.
#[derive(Debug)]
pub(super) struct NoRoom;

/// Room for so many sets; `None` if they are small. While there is none, accounts that were asked to let go of some get the
/// time for it.
///
/// # Errors
/// `NO [LIMIT]` if there is none after that either.
pub(super) async fn room_for(accounts: &Accounts, sets: &[&UidSet]) -> Result<Option<Charge>, Reply> {
    draw(accounts, bytes_of(sets)).await
}

/// What so many sets take.
pub(super) fn bytes_of(sets: &[&UidSet]) -> usize {
    let ranges: usize = sets.iter().map(|set| set.range_count()).sum();
    ranges * UidSet::RANGE_BYTES
}

/// As [`room_for`], for sets of so many bytes.
///
/// # Errors
/// As [`room_for`].
pub(super) async fn draw(accounts: &Accounts, bytes: usize) -> Result<Option<Charge>, Reply> {
    for _ in 0..ROUNDS {
        match draw_at_once(accounts, bytes) {
            Ok(room) => return Ok(room),
            Err(NoRoom) => sleep(ROUND).await,
        }
    }
    draw_at_once(accounts, bytes)
        .map_err(|NoRoom| Reply::no(Code::Limit, "no memory for so many messages with gaps between them now"))
}

/// As [`draw`], for whoever must not wait.
///
/// # Errors
/// If there is none now.
pub(super) fn draw_at_once(accounts: &Accounts, bytes: usize) -> Result<Option<Charge>, NoRoom> {
    if bytes <= SMALL_VIEW { Ok(None) } else { accounts.charge(bytes).ok_or(NoRoom).map(Some) }
}

/// Waits for memory, and not for long while others wait for the room of accounts, of which this session holds one: `None` then.
/// `pressed` says whether somebody has waited for that for long.
pub(super) async fn unless_pressed<T>(
    pressed: impl Fn() -> bool,
    drawing: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(drawing);
    let mut patience = PATIENCE;
    loop {
        if let Ok(drawn) = timeout(patience, &mut drawing).await {
            return Some(drawn);
        }
        if pressed() {
            return None;
        }
        patience = ROUND;
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
        Accounts::with(Store::memory(), clock, random, options)
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_none_waits_for_others_to_let_go_and_not_for_ever() {
        let accounts = accounts(1 << 20);
        let gaps: UidSet = (1..10_000).step_by(2).filter_map(Uid::new).collect();
        let many = [&gaps];
        let held = accounts.charge(1 << 20).unwrap();
        let later = async {
            sleep(ROUND * 3).await;
            drop(held);
        };
        let (found, ()) = tokio::join!(room_for(&accounts, &many), later);
        let found = found.unwrap_or_else(|_| panic!("there is room now")).expect("they are much");
        assert_eq!(found.bytes(), 5000 * UidSet::RANGE_BYTES);
        let held = accounts.charge((1 << 20) - found.bytes()).unwrap();
        assert!(room_for(&accounts, &many).await.is_err());
        let few = UidSet::new();
        assert!(matches!(room_for(&accounts, &[&few]).await, Ok(None)), "they take none");
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_accounts_waits_for_memory_until_others_want_them() {
        let pressed = std::cell::Cell::new(false);
        let drawing = async {
            sleep(PATIENCE * 10).await;
            1
        };
        assert_eq!(unless_pressed(|| pressed.get(), drawing).await, Some(1), "nobody wants them");
        let pressing = async {
            sleep(PATIENCE * 3).await;
            pressed.set(true);
        };
        let (drawn, ()) =
            tokio::join!(unless_pressed(|| pressed.get(), std::future::pending::<()>()), pressing);
        assert_eq!(drawn, None);
    }
}
