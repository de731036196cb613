//! A running phase, shared by its clients and the task that waits for them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};

use crate::load::scenario::{Extent, Phase};

/// A phase that was begun.
pub struct RunningPhase {
    /// Its index in the scenario.
    pub nth: usize,
    /// The scenario's phase.
    pub phase: Phase,
    /// When it began, on the clock.
    pub began: Duration,
    /// Rounds begun.
    pub rounds: AtomicU64,
    /// Rounds that were due while their client was still busy.
    pub late: AtomicU64,
    /// Rounds whose client was free and woke late.
    pub overslept: AtomicU64,
    /// Rounds that were begun and not completed.
    pub undone: AtomicU64,
    /// Rounds that were due and not begun before the end.
    pub skipped: AtomicU64,
    /// Clients that gave up.
    pub abandoned: AtomicU64,
    /// Clients that are neither done nor settled in IDLE.
    busy: AtomicUsize,
    /// Clients that have not left.
    alive: AtomicUsize,
    /// Permits for clients that may be active at once, if not all may.
    places: Option<Semaphore>,
    changed: Notify,
    stop: watch::Sender<bool>,
}

impl RunningPhase {
    /// A phase that began at `began`.
    pub fn new(nth: usize, phase: Phase, began: Duration) -> Self {
        let clients = usize::try_from(phase.connections).unwrap_or(usize::MAX);
        // No phase has as many clients as a semaphore has permits.
        let places = phase.at_once.map(|most| Semaphore::new(usize::try_from(most).unwrap_or(clients)));
        RunningPhase {
            nth,
            phase,
            places,
            began,
            rounds: AtomicU64::new(0),
            late: AtomicU64::new(0),
            overslept: AtomicU64::new(0),
            undone: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            busy: AtomicUsize::new(clients),
            alive: AtomicUsize::new(clients),
            changed: Notify::new(),
            stop: watch::channel(false).0,
        }
    }

    /// Tells its clients to stop.
    pub fn end(&self) {
        self.stop.send_replace(true);
    }

    /// Becomes true when its clients are to stop.
    pub fn stop(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// A client is done, or stays in IDLE from now on.
    pub fn settled(&self) {
        self.busy.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// A client has left.
    pub fn left(&self) {
        self.alive.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// A permit to be active, in the order of requests; held until it is dropped. `None` where all
    /// clients may be active at once.
    pub async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.places.as_ref()?.acquire().await.ok()
    }

    /// Returns when all clients are done or settled.
    pub async fn done(&self) {
        self.reaches_zero(&self.busy).await;
    }

    /// Returns when all clients have left.
    pub async fn all_left(&self) {
        self.reaches_zero(&self.alive).await;
    }

    async fn reaches_zero(&self, count: &AtomicUsize) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// How many rounds client `connection` runs; `None`: until the end of the phase.
    pub fn rounds_of(&self, connection: usize) -> Option<u64> {
        let clients = self.phase.connections.max(1);
        match self.phase.extent {
            Extent::Each(rounds) => Some(rounds),
            Extent::Total(total) => Some(total / clients + u64::from((connection as u64) < total % clients)),
            Extent::Time(_) => None,
        }
    }

    /// How many rounds were completed.
    pub fn rounds_done(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed).saturating_sub(self.undone.load(Ordering::Relaxed))
    }

    /// How many rounds there will be in all.
    pub fn all_rounds(&self) -> Option<u64> {
        match self.phase.extent {
            Extent::Each(rounds) => Some(rounds.saturating_mul(self.phase.connections)),
            Extent::Total(total) => Some(total),
            Extent::Time(_) => None,
        }
    }

    /// The time from which on no more rounds are begun.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase.extent {
            Extent::Time(time) => Some(self.began + time),
            _ => None,
        }
    }
}
