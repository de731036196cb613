//! The end of an account's log as this process knows it, and the deliveries that wait to be appended there.
//!
//! Needs no keys. Deliveries that come while another is being appended go into one entry together,
//! so that many clients share one wait for the disk.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealpost_base::{AccountId, Error, Kind, Position, Result, Timestamp, limits};
use sealpost_directory::Watermarks;
use sealpost_journal::{Append, Journal, Seal, Tail};
use sealpost_vault::PublicKey;
use tokio::sync::{Mutex as AsyncMutex, broadcast, oneshot, watch};

use crate::event::{Batch, Event};
use crate::grown::{Grown, Touched};

/// How often a delivery is retried because the log was trimmed at its former end.
const TRIMMED_ATTEMPTS: usize = 8;

/// One per account in use; shared by deliveries and sessions.
pub(crate) struct LogEnd {
    pub(crate) journal: Journal,
    /// Held while appending. `None`: unknown, because nothing was appended yet or the last outcome
    /// is unknown.
    pub(crate) tail: AsyncMutex<Option<Tail>>,
    /// The doorbell: the last position this process knows of.
    pub(crate) known_end: watch::Sender<Position>,
    /// What the account took when it was loaded last, in bytes; 0 if it was not.
    pub(crate) weight: AtomicUsize,
    /// The receiver of the positions that this process appends.
    appended: broadcast::Sender<(AccountId, Position)>,
    /// The receiver of what those entries touch.
    grown: broadcast::Sender<Grown>,
    /// When the log was last read from the store, by the monotonic clock; `None` if the account is
    /// known to be behind.
    looked: Mutex<Option<Duration>>,
    waiting: Mutex<Vec<Waiting>>,
    watermarks: Watermarks,
}

struct Waiting {
    to: PublicKey,
    event: Event,
    done: oneshot::Sender<Result<(), Failure>>,
}

/// An error that several deliveries share.
type Failure = (Kind, String);

impl LogEnd {
    pub(crate) fn new(
        journal: Journal,
        appended: broadcast::Sender<(AccountId, Position)>,
        grown: broadcast::Sender<Grown>,
        watermarks: Watermarks,
    ) -> Self {
        LogEnd {
            watermarks,
            appended,
            grown,
            looked: Mutex::new(None),
            journal,
            tail: AsyncMutex::new(None),
            known_end: watch::Sender::new(Position::ZERO),
            weight: AtomicUsize::new(0),
            waiting: Mutex::new(Vec::new()),
        }
    }

    /// Says that there is an entry at `position`.
    pub(crate) fn notify(&self, position: Position) {
        self.known_end.send_if_modified(|last| {
            let later = position > *last;
            *last = position.max(*last);
            later
        });
    }

    /// Reads the end of the log from the store, and rings if it has grown.
    pub(crate) async fn look(&self, now: Duration) -> Result<()> {
        let known = *self.known_end.borrow();
        // Before the answer: what comes meanwhile is not in it.
        *self.looked() = Some(now);
        match self.journal.last_after(known).await {
            Ok(last) => {
                self.notify(last);
                Ok(())
            }
            Err(e) => {
                self.is_behind();
                Err(e)
            }
        }
    }

    /// A reader of the log is active.
    pub(crate) fn looks(&self, now: Duration) {
        *self.looked() = Some(now);
    }

    /// A notification says that the log has more entries than this process knows.
    pub(crate) fn is_behind(&self) {
        *self.looked() = None;
    }

    /// Whether the log was read at most so long ago.
    pub(crate) fn was_looked_at(&self, now: Duration, within: Duration) -> bool {
        self.looked().is_some_and(|looked| now.saturating_sub(looked) <= within)
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process appended the entry at `tail`. The caller holds the tail's lock.
    pub(crate) fn appended(&self, tail: &mut Option<Tail>, to: Tail, touched: Touched) {
        self.advance(tail, to);
        self.saw(to.position);
        // There may be no listeners.
        let _ = self.appended.send((self.journal.account(), to.position));
        let (log, position) = (self.journal.account(), to.position);
        let _ = self.grown.send(Grown { log, position, touched: Some(touched) });
    }

    /// There is an entry of ours, or one that was read and is authentic.
    pub(crate) fn saw(&self, position: Position) {
        self.watermarks.saw(self.journal.account(), position);
    }

    /// Whether anything may be appended to a log that ends at `tail`.
    ///
    /// # Errors
    /// `Retry` if it had come further.
    pub(crate) fn may_follow(&self, tail: &Tail) -> Result<()> {
        self.watermarks.may_follow(self.journal.account(), tail.position)
    }

    /// Records that the log goes to `tail`. The caller holds the tail's lock.
    pub(crate) fn advance(&self, tail: &mut Option<Tail>, to: Tail) {
        if tail.is_none_or(|known| known.position < to.position) {
            *tail = Some(to);
        }
        self.notify(to.position);
    }

    /// Appends a delivery, together with others that wait. Durable when it returns.
    pub(crate) async fn deliver(self: &Arc<Self>, to: PublicKey, event: Event, at: Timestamp) -> Result<()> {
        let (done, result) = oneshot::channel();
        self.waiting().push(Waiting { to, event, done });
        // A task of its own: one client that hangs up must not interrupt what is done for others.
        let head = self.clone();
        tokio::spawn(async move { head.append_waiting(at).await });
        match result.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err((kind, message))) => Err(Error::new(kind, message)),
            Err(_) => Err(Error::retry("the delivery was interrupted")),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn append_waiting(&self, at: Timestamp) {
        let mut tail = self.tail.lock().await;
        loop {
            let batch = {
                let mut waiting = self.waiting();
                let Some(to) = waiting.first().map(|first| first.to) else { return };
                let same = waiting.iter().take_while(|w| w.to == to).count();
                waiting.drain(..same.min(limits::ENTRY_RECORDS)).collect::<Vec<_>>()
            };
            let to = batch[0].to;
            let (events, done): (Vec<_>, Vec<_>) = batch.into_iter().map(|w| (w.event, w.done)).unzip();
            let result = self.append(&mut tail, &to, Batch { at, events }).await;
            for done in done {
                // A cancelled caller does not need the reply.
                let _ = done.send(result.clone());
            }
        }
    }

    async fn append(&self, tail: &mut Option<Tail>, to: &PublicKey, batch: Batch) -> Result<(), Failure> {
        let (plaintext, touched) = (batch.encode(), Touched::of(&batch));
        let outcome = async {
            let mut known = match *tail {
                Some(known) if known.position >= *self.known_end.borrow() => known,
                // Others have appended since.
                Some(known) => self.journal.tail(known).await?,
                None => self.journal.tail(Tail::EMPTY).await?,
            };
            let mut trimmed = 0;
            while trimmed < TRIMMED_ATTEMPTS {
                self.may_follow(&known)?;
                match self.journal.append(&known, Seal::Delivery(to), &plaintext).await? {
                    Append::Done(end) => return Ok(end),
                    Append::Lost => known = self.journal.tail(known).await?,
                    Append::Trimmed => {
                        trimmed += 1;
                        known = self.journal.tail(Tail::EMPTY).await?;
                    }
                }
            }
            Err(Error::corrupt("the end of the log is missing"))
        };
        match outcome.await {
            Ok(end) => {
                self.appended(tail, end, touched);
                Ok(())
            }
            Err(e) => {
                *tail = None;
                let e: Error = e;
                Err((e.kind(), e.to_string()))
            }
        }
    }
}
