//! Account memory: the size of each loaded account, and the loads that wait for memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sealpost_base::{Error, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// How often a waiting load asks sessions to release accounts.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long a load may wait while others are in use.
const TIMEOUT: Duration = Duration::from_secs(20);
/// While a load waits for much memory, small loads that fit may pass it, until together they have taken this
/// fraction of the memory. So the wait ends.
const PASSING: usize = 16;
/// While less than this fraction is in use, or the size of a few accounts, idle accounts may stay loaded.
const AMPLE: usize = 64;
const AMPLE_BYTES: usize = 1 << 20;
/// After a load has waited this long, sessions no longer choose when to release their accounts.
const SEVERE: Duration = Duration::from_secs(2);

/// The memory of loaded accounts. Clones share it.
#[derive(Clone)]
pub(crate) struct AccountMemory(Arc<Shared>);

struct Shared {
    bytes: usize,
    used: Mutex<usize>,
    /// How much of it is lent.
    lent: AtomicUsize,
    freed: Notify,
    /// Held by the first waiting load; others wait in order of arrival.
    turn: tokio::sync::Mutex<()>,
    /// The bytes of loads that have passed the first waiting load.
    passed: Mutex<usize>,
    /// Since when that load has waited, including the wait in the queue.
    since: Mutex<Option<Instant>>,
    borrower: Mutex<Option<Weak<dyn Borrower>>>,
}

/// The holder of a [`Loan`], which can return some of it early.
pub trait Borrower: Send + Sync {
    /// A load of an account lacks `bytes`. Returns memory that is not in use now, and frees more within a
    /// moment if that is possible. Called again while the load waits.
    fn repay(&self, bytes: usize);
}

/// Marks a waiting load for as long as it lives.
struct Waits<'a>(&'a AccountMemory);

/// How short account memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Loaded accounts take so little that a waiting session may keep its account for a while.
    Ample,
    /// They take more than that, but less than half.
    Moderate,
    /// They take more than half: a request that needs memory at once may fail, and waiting sessions release
    /// their accounts.
    Scarce,
    /// A load waits for memory: sessions release their accounts between two commands.
    Short,
    /// A load has waited long. A session that holds an account for a stalled client, or while it waits for
    /// other memory, ends or releases the account.
    Severe,
}

/// Memory lent for purposes other than accounts; returned when dropped.
pub struct Loan(Reservation);

/// Memory of an account or a session; released when dropped.
pub struct Reservation {
    memory: AccountMemory,
    bytes: AtomicUsize,
}

impl AccountMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let shared = Shared {
            bytes,
            used: Mutex::default(),
            lent: AtomicUsize::default(),
            freed: Notify::new(),
            turn: tokio::sync::Mutex::default(),
            passed: Mutex::default(),
            since: Mutex::default(),
            borrower: Mutex::default(),
        };
        AccountMemory(Arc::new(shared))
    }

    /// The total, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn used(&self) -> usize {
        *self.lock()
    }

    /// How far the total would be exceeded with `bytes` more.
    pub(crate) fn missing(&self, bytes: usize) -> usize {
        (self.used() + bytes).saturating_sub(self.0.bytes)
    }

    /// The memory that idle accounts may keep, however much the others take.
    pub(crate) fn ample(&self) -> usize {
        AMPLE_BYTES.max(self.0.bytes / AMPLE)
    }

    /// The present pressure. Lent memory does not count as the accounts'.
    pub(crate) fn pressure(&self) -> Pressure {
        let (used, lent) = (self.used(), self.0.lent.load(Ordering::Relaxed));
        let by_accounts = used.saturating_sub(lent);
        if self.is_pressure_severe() {
            Pressure::Severe
        } else if used > self.0.bytes || self.0.turn.try_lock().is_err() {
            Pressure::Short
        } else if by_accounts > self.0.bytes.saturating_sub(lent) / 2 {
            Pressure::Scarce
        } else if by_accounts > self.ample() {
            Pressure::Moderate
        } else {
            Pressure::Ample
        }
    }

    /// A loan of nothing, to be increased.
    pub(crate) fn loan(&self) -> Loan {
        Loan(Reservation { memory: self.clone(), bytes: AtomicUsize::new(0) })
    }

    /// Sets who holds the loan.
    pub(crate) fn set_borrower(&self, borrower: Weak<dyn Borrower>) {
        *self.borrower() = Some(borrower);
    }

    /// Asks the borrower for memory that a load lacks after the eviction of idle accounts.
    pub(crate) fn recall(&self, bytes: usize) {
        if bytes == 0 || self.0.lent.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Not called with the lock held: the borrower takes locks of its own.
        let borrower = self.borrower().clone();
        if let Some(borrower) = borrower.and_then(|borrower| borrower.upgrade()) {
            borrower.repay(bytes);
        }
    }

    fn borrower(&self) -> MutexGuard<'_, Option<Weak<dyn Borrower>>> {
        self.0.borrower.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a load has waited long: [`Pressure::Severe`], without computing the rest.
    pub(crate) fn is_pressure_severe(&self) -> bool {
        self.since().is_some_and(|since| since.elapsed() >= SEVERE)
    }

    /// Reserves `bytes`, or all memory if that is less, and waits for it. Calls `evict` with the number of
    /// missing bytes, repeatedly while some are missing.
    ///
    /// # Errors
    /// `Retry` if others keep their memory for too long.
    pub(crate) async fn reserve(&self, bytes: usize, evict: impl Fn(usize)) -> Result<Reservation> {
        let bytes = bytes.min(self.0.bytes);
        if let Some(charge) = self.pass(bytes) {
            return Ok(charge);
        }
        let came = Instant::now();
        let taken = async {
            let _turn = self.0.turn.lock().await;
            *self.passed() = 0;
            // Counts the time that earlier loads took: a stalled one has delayed this one too.
            let _waits = Waits::since(self, came);
            loop {
                let freed = self.0.freed.notified();
                if let Some(charge) = self.try_reserve(bytes) {
                    return charge;
                }
                evict(self.missing(bytes));
                self.recall(self.missing(bytes));
                if let Some(charge) = self.try_reserve(bytes) {
                    return charge;
                }
                let _ = timeout(ASK_AGAIN, freed).await;
            }
        };
        timeout(TIMEOUT, taken).await.map_err(|_| {
            Error::retry("all of the memory for accounts is in use (`memory` in the configuration)")
        })
    }

    /// Reserves `bytes` if they are free.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut used = self.lock();
        (*used + bytes <= self.0.bytes).then(|| {
            *used += bytes;
            Reservation { memory: self.clone(), bytes: AtomicUsize::new(bytes) }
        })
    }

    /// Reserves a few bytes ahead of waiting loads.
    fn pass(&self, bytes: usize) -> Option<Reservation> {
        let mut passed = self.passed();
        if *passed + bytes > self.0.bytes / PASSING {
            return None;
        }
        let charge = self.try_reserve(bytes)?;
        *passed += bytes;
        Some(charge)
    }

    fn passed(&self) -> MutexGuard<'_, usize> {
        self.0.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Waits<'a> {
    fn since(memory: &'a AccountMemory, came: Instant) -> Self {
        *memory.since() = Some(came);
        Waits(memory)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        *self.0.since() = None;
    }
}

impl Reservation {
    /// The reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the reservation to the present size. It may exceed the total, since the memory is already in use;
    /// the next load waits for it.
    pub fn set(&self, bytes: usize) {
        let mut used = self.memory.lock();
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        *used = used.saturating_sub(before).saturating_add(bytes);
        drop(used);
        if bytes < before {
            self.memory.0.freed.notify_one();
        }
    }

    /// Sets the reservation to `bytes`, if the increase is free.
    pub fn try_set(&self, bytes: usize) -> bool {
        let mut used = self.memory.lock();
        let others = used.saturating_sub(self.bytes());
        if bytes > self.bytes() && others + bytes > self.memory.bytes() {
            return false;
        }
        *used = others + bytes;
        self.bytes.store(bytes, Ordering::Relaxed);
        drop(used);
        self.memory.0.freed.notify_one();
        true
    }
}

impl Loan {
    /// The lent bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Sets the loan to `bytes`, if the increase is free.
    pub(crate) fn try_set(&self, bytes: usize) -> bool {
        let (lent, before) = (&self.0.memory.0.lent, self.bytes());
        if !self.0.try_set(bytes) {
            return false;
        }
        lent.fetch_add(bytes, Ordering::Relaxed);
        lent.fetch_sub(before, Ordering::Relaxed);
        true
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.memory.0.lent.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_waiter_is_served_first_and_times_out() {
        let memory = AccountMemory::new(100);
        let held = memory.try_reserve(60).unwrap();
        assert!(memory.try_reserve(50).is_none() && memory.pressure() < Pressure::Short);
        let asked = Arc::new(AtomicUsize::new(0));
        let first = tokio::spawn({
            let (memory, asked) = (memory.clone(), asked.clone());
            async move { memory.reserve(50, |missing| asked.store(missing, Ordering::Relaxed)).await }
        });
        tokio::task::yield_now().await;
        assert!(memory.pressure() >= Pressure::Short);
        assert_eq!(asked.load(Ordering::Relaxed), 10);
        held.set(50);
        let first = first.await.unwrap().unwrap();
        assert_eq!((first.bytes(), memory.used()), (50, 100));
        let error = memory.reserve(1, |_| ()).await.err().unwrap();
        assert_eq!(error.kind(), sealpost_base::Kind::Retry);
        drop((first, held));
        assert_eq!(memory.used(), 0);
        assert_eq!(memory.reserve(1000, |_| ()).await.unwrap().bytes(), 100, "all there is");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_in_the_queue_counts_towards_severe_pressure() {
        let memory = AccountMemory::new(100);
        let held = memory.try_reserve(100).unwrap();
        let takes = |memory: AccountMemory| async move { memory.reserve(60, |_| ()).await };
        let first = tokio::spawn(takes(memory.clone()));
        tokio::task::yield_now().await;
        let second = tokio::spawn(takes(memory.clone()));
        tokio::time::sleep(SEVERE / 2).await;
        assert!(!memory.is_pressure_severe());
        tokio::time::sleep(SEVERE / 2).await;
        assert!(memory.is_pressure_severe());
        drop(held);
        let _first = first.await.unwrap().unwrap();
        // The second one is now first; it has waited as long.
        tokio::task::yield_now().await;
        assert!(memory.is_pressure_severe());
        second.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn small_loads_bypass_a_large_waiter() {
        let memory = AccountMemory::new(1600);
        let held = memory.try_reserve(1400).unwrap();
        let much = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(300, |_| ()).await }
        });
        tokio::task::yield_now().await;
        assert!(memory.pressure() >= Pressure::Short);
        let little = [memory.reserve(60, |_| ()).await.unwrap(), memory.reserve(40, |_| ()).await.unwrap()];
        assert!(memory.pass(1).is_none(), "there is memory, for the one that waits");
        held.set(1200);
        assert_eq!(much.await.unwrap().unwrap().bytes(), 300);
        // No load waits any more.
        drop(little);
        assert_eq!(memory.reserve(1, |_| ()).await.unwrap().bytes(), 1);
        assert!(memory.pass(1).is_some());
    }

    #[test]
    fn a_part_is_reserved_for_accounts_that_were_loaded_before() {
        let (small, large) = (AccountMemory::new(4 << 20), AccountMemory::new(640 << 20));
        assert_eq!((small.ample(), large.ample()), (1 << 20, 10 << 20));
        let half = small.try_reserve(2 << 20).unwrap();
        assert!(small.pressure() < Pressure::Scarce);
        half.set(half.bytes() + 1);
        assert!(small.pressure() >= Pressure::Scarce);
    }

    #[test]
    fn lent_memory_is_in_use_but_not_by_accounts() {
        let memory = AccountMemory::new(100);
        let loan = memory.loan();
        assert!(loan.try_set(60) && !loan.try_set(101));
        assert_eq!((memory.used(), memory.missing(50)), (60, 10));
        assert_eq!(memory.pressure(), Pressure::Ample);
        let account = memory.try_reserve(21).unwrap();
        assert_eq!(memory.pressure(), Pressure::Scarce, "of what accounts have");
        assert!(loan.try_set(10));
        assert_eq!(memory.pressure(), Pressure::Ample);
        drop((loan, account));
        assert_eq!((memory.used(), memory.0.lent.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_reservation_grows_while_memory_is_free() {
        let memory = AccountMemory::new(100);
        let (one, two) = (memory.try_reserve(10).unwrap(), memory.try_reserve(80).unwrap());
        assert!(!one.try_set(21) && one.try_set(20));
        two.set(300);
        assert!(one.try_set(5) && !one.try_set(6));
        assert_eq!((memory.used(), memory.missing(0)), (305, 205));
    }
}
