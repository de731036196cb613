//! The queue's log: opening it, and the one task that appends.
//!
//! All waiting events go into one entry: the mails that clients handed in, marks of mails that are
//! being sent, and outcomes of attempts. So ten clients share one sync. Under load outcomes need no
//! sync of their own; without load they are durable [`OUTCOME_DELAY`] later. How long an entry waits
//! for more events: `gather.rs`.
//!
//! A log has one writer at a time. A process that opens it appends `Adopted`. The writer before it
//! loses its next append, finds that entry and stops ([`Stopped::Adopted`]). The writer repeats an
//! append until its outcome is known.

mod gather;
mod load;
#[cfg(test)]
mod tests;
mod touched;
mod write;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures::future::OptionFuture;
use sealpost_base::{AccountId, Budget, Clock, Error, Kind, Position, Random, Result, SubmissionId};
use sealpost_journal::{Content, Journal, Replay};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::store::is_of_full_disk;
use sealpost_vault::{AccountKeys, Sealed, Store};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};

use crate::MailId;
use crate::envelope::Mail;
use crate::event::{Batch, Event, Selector, WriterId};
use crate::recent::Recent;
use crate::request::{self, Action, Request};
use crate::state::{Place, State};
pub(crate) use load::load as load_log;
pub(crate) use touched::{Touched, TouchedSet};
pub(crate) use write::ALIVE;

/// How long outcomes wait for an entry with mail or marks.
pub const OUTCOME_DELAY: Duration = Duration::from_millis(100);
/// How long an acceptance waits for its entry; after that its client gets a temporary error.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of the cache of recent mails.
const RECENT_BYTES: usize = 8 * 1024 * 1024;
/// The fewest bytes: several mails of the largest size that the log takes.
const RECENT_LEAST: usize = 1024 * 1024;
/// Between the two, this part of the budget.
const RECENT_SHARE: usize = 16;

/// The parts of a queue to open.
pub struct Opening {
    /// The store with the log.
    pub store: Store,
    /// The node that the queue belongs to: [`crate::node_id`].
    pub node: AccountId,
    /// The name of the node of this process, for the operator.
    pub name: String,
    /// The key that authenticates entries.
    pub log_key: LogKey,
    /// The keys that seal them.
    pub mail_keys: MailKeys,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// For ids, salts and jitter.
    pub random: Arc<dyn Random>,
    /// For buffers of bodies and segments.
    pub budget: Budget,
    /// The last position that this node has seen, from a record outside of the store. A log that ends
    /// before it was restored from a backup.
    pub known: Position,
}

/// One queue in the process that runs it. Cheap to clone.
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) node: AccountId,
    pub(crate) mail_keys: MailKeys,
    pub(crate) keys: AccountKeys,
    /// Authenticates entries, those of other queues too.
    log_key: LogKey,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) budget: Budget,
    pub(crate) journal: Journal,
    writer: WriterId,
    pub(crate) state: RwLock<State>,
    /// Locked while appending or catching up.
    pub(crate) work: AsyncMutex<Work>,
    waiting: Mutex<Waiting>,
    wake: Notify,
    /// The last position that was applied.
    changed: watch::Sender<Position>,
    stopped: watch::Sender<Option<Stopped>>,
    recent: Recent,
    /// The mails that the runner has to check.
    pub(crate) touched: TouchedSet,
    /// Locked during upkeep.
    pub(crate) upkeep: Arc<AsyncMutex<()>>,
    /// Whether bodies that a crash left were removed.
    pub(crate) swept: AtomicBool,
    /// Whether mail is refused for lack of memory.
    full: AtomicBool,
}

/// The position of the writer in the log.
pub(crate) struct Work {
    pub(crate) replay: Replay,
    /// Entries and bytes since the last checkpoint.
    pub(crate) since: (u64, u64),
    /// The newest checkpoint. Entries below it are trimmed after the next one.
    pub(crate) checkpoint: Position,
}

#[derive(Default)]
struct Waiting {
    urgent: VecDeque<Pending>,
    /// Marks of mails that are being sent. They wait a moment for clients.
    marks: VecDeque<Pending>,
    /// Outcomes. Each group is appended in one entry.
    lazy: VecDeque<Vec<Event>>,
    closing: bool,
    /// So many urgent ones wake the writer.
    wanted: usize,
    /// So many marks wake the writer.
    wanted_marks: usize,
}

/// Events whose caller waits until they are durable.
struct Pending {
    events: Vec<Event>,
    done: oneshot::Sender<Done>,
}

/// The ids of the mails among them; or why they are not durable, or may not be.
type Done = Result<Vec<MailId>, (Kind, String)>;

/// Why a queue has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// This process closed it.
    Closed,
    /// A process of the node of that name runs it.
    Adopted(String),
    /// Its log cannot be read; the reason.
    Broken(String),
}

impl Queue {
    /// Opens the log and takes it over from the process that wrote it before.
    ///
    /// # Errors
    /// `Conflict` if another process takes it over in the same moment; `Corrupt` if it cannot be
    /// read; errors of the store.
    pub async fn open(opening: Opening) -> Result<Self> {
        load::open(opening).await
    }

    /// Takes responsibility for a mail, which is durable when this returns.
    ///
    /// # Errors
    /// `Limit` if it is beyond the limits of a mail, or the queue is [full](Queue::set_full), or the disk
    /// is. `Retry` if it is not durable, or may not be: the queue may send it all the same.
    pub async fn accept(&self, mail: Mail) -> Result<MailId> {
        if !mail.is_within_limits() {
            return Err(Error::limit("the mail has too many recipients, or its body has to be an object"));
        }
        if self.0.full.load(Ordering::Relaxed) {
            return Err(Error::limit("the queue holds as much mail as its memory allows; try again later"));
        }
        let accepted = self.commit(vec![Event::Accepted(Box::new(mail))]);
        match tokio::time::timeout(ACCEPT_TIMEOUT, accepted).await {
            Ok(ids) => ids
                .map_err(|e| self.0.of_full_disk(e))?
                .first()
                .copied()
                .ok_or_else(|| Error::internal("an accepted mail has no id")),
            Err(_) => Err(Error::retry("the queue did not store the mail in time")),
        }
    }

    /// Bytes of memory that queued mail takes: the state, and the cache of recent mails.
    pub fn memory(&self) -> usize {
        self.state().heap_bytes() + self.0.recent.bytes()
    }

    /// Sets whether to refuse mail because queued mail takes all the memory that it may. Reports are
    /// accepted all the same: each replaces a recipient.
    pub fn set_full(&self, full: bool) {
        self.0.full.store(full, Ordering::Relaxed);
    }

    /// Appends events together with others that wait. They are durable when it returns. Returns the ids of
    /// the mails among them.
    ///
    /// # Errors
    /// `Retry` if they are not durable, or may not be.
    pub async fn commit(&self, events: Vec<Event>) -> Result<Vec<MailId>> {
        let (done, result) = oneshot::channel();
        {
            let mut waiting = self.0.waiting();
            if let Some(stopped) = self.stopped() {
                return Err(stopped.error());
            }
            waiting.urgent.push_back(Pending { events, done });
            if waiting.urgent.len() >= waiting.wanted {
                self.0.wake.notify_one();
            }
        }
        self.committed(result).await
    }

    /// Cancels a submission: whether no recipient gets it. If not, a server has the mail, or may get it by
    /// an attempt that was begun. Durable when it returns.
    ///
    /// # Errors
    /// `Retry` if that is not durable, or not known to be.
    pub async fn cancel(&self, submission: SubmissionId) -> Result<bool> {
        let Some(id) = self.state().mail_of(submission) else { return Ok(false) };
        let mail = match self.read(id).await {
            Ok(mail) => Some(mail),
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => None,
            Err(e) => return Err(e),
        };
        if self.commit(vec![Event::Canceled(id)]).await?.is_empty() {
            return Ok(false);
        }
        if let Some(Err(e)) = OptionFuture::from(mail.as_ref().map(|mail| self.remove_body(mail))).await {
            tracing::debug!(error = %e, "the body of a canceled mail is removed at a later start");
        }
        Ok(true)
    }

    /// Leaves a request to cancel a submission for the queue of another node.
    ///
    /// # Errors
    /// As [`request::submit`].
    pub async fn request_cancel(&self, node: AccountId, submission: SubmissionId) -> Result<()> {
        let inner = &self.0;
        let (action, selector) = (Action::Cancel(submission), Selector::default());
        let request = Request { action, selector, by: "the sender".to_owned() };
        let now = inner.clock.now();
        request::submit(&inner.store, &inner.mail_keys, node, &request, now, &*inner.random).await.map(drop)
    }

    /// The node whose queue it is.
    pub fn node(&self) -> AccountId {
        self.0.node
    }

    /// Whether the queue of another node has a submission, or still has to tell its account of it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn other_has(&self, node: AccountId, submission: SubmissionId) -> Result<bool> {
        let inner = &self.0;
        let (store, random) = (inner.store.clone(), inner.random.clone());
        let journal = Journal::of_queue(store, node, &inner.log_key, random).timed(inner.clock.clone());
        let state = read_state(&journal, &inner.mail_keys.queue(node)).await?;
        Ok(state.mail_of(submission).is_some())
    }

    /// Says that a mail is being sent: begun at once, durable when the future is done. While mail
    /// is accepted it goes with that.
    pub(crate) fn mark_sending(&self, id: MailId) -> impl Future<Output = Result<()>> + Send + 'static {
        self.mark(Event::Sending(id))
    }

    /// Appends `Alive`. When it is done, this process ran the queue at the time of the call, and the state
    /// has everything that any process recorded before. Only an append proves that; a listing may be late.
    ///
    /// # Errors
    /// `Retry` if another process has adopted the queue, or the store does not answer.
    pub(crate) async fn confirm_owner(&self) -> Result<()> {
        // A mark, since it may use the reserve of a full disk.
        self.mark(Event::Alive).await
    }

    fn mark(&self, event: Event) -> impl Future<Output = Result<()>> + Send + 'static {
        let (done, result) = oneshot::channel();
        {
            let mut waiting = self.0.waiting();
            // Else the sender is dropped, and the future returns why.
            if self.stopped().is_none() {
                waiting.marks.push_back(Pending { events: vec![event], done });
                if waiting.marks.len() == 1 || waiting.marks.len() >= waiting.wanted_marks {
                    self.0.wake.notify_one();
                }
            }
        }
        let queue = self.clone();
        async move { queue.committed(result).await.map(drop) }
    }

    async fn committed(&self, result: oneshot::Receiver<Done>) -> Result<Vec<MailId>> {
        match result.await {
            Ok(Ok(ids)) => Ok(ids),
            Ok(Err((kind, why))) => Err(Error::new(kind, why)),
            Err(_) => Err(self.stopped().unwrap_or(Stopped::Closed).error()),
        }
    }

    /// Appends events, all in one entry, with the next one or [`OUTCOME_DELAY`] from now. They stay
    /// until they are durable, in order.
    pub fn record(&self, events: impl IntoIterator<Item = Event>) {
        let events: Vec<Event> = events.into_iter().collect();
        if !events.is_empty() {
            let mut waiting = self.0.waiting();
            waiting.lazy.push_back(events);
            // With more of them the writer is awake.
            if waiting.lazy.len() == 1 {
                self.0.wake.notify_one();
            }
        }
    }

    /// Appends waiting events until the queue is closed or taken over. Exactly one task runs this.
    pub async fn run(&self) -> Stopped {
        let stopped = write::run(&self.0).await;
        self.0.stop(stopped.clone());
        stopped
    }

    /// Lets [`Queue::run`] append the waiting events and end.
    pub fn close(&self) {
        self.0.waiting().closing = true;
        self.0.wake.notify_one();
    }

    /// Why it has stopped; `None` while it runs.
    pub fn stopped(&self) -> Option<Stopped> {
        self.0.stopped.borrow().clone()
    }

    /// The state, as of the last entry. Do not hold it across an await.
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports each change of the position of the state.
    pub fn changes(&self) -> watch::Receiver<Position> {
        self.0.changed.subscribe()
    }

    /// A queued mail.
    ///
    /// # Errors
    /// `NotFound` if it is not queued any more; `Corrupt` if it is damaged; errors of the store.
    pub async fn read(&self, id: MailId) -> Result<Arc<Mail>> {
        self.0.read(id).await
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Queue(inner)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

/// Marks a store as a copy of another one. Its queues start on hold: the original has sent their mail.
///
/// # Errors
/// Errors of the store.
pub async fn mark_copy(store: &Store) -> Result<()> {
    for name in store.names_below("queue").await? {
        if let Ok(node) = name.parse() {
            store.put_new(&load::copy_path(node), Sealed::marker()).await?;
        }
    }
    Ok(())
}

/// The state of a log, for a process that only reads it.
pub(crate) async fn read_state(journal: &Journal, keys: &AccountKeys) -> Result<State> {
    load_log(journal, keys).await.map(|loaded| loaded.state)
}

impl Waiting {
    /// How many clients and marks wait.
    fn counts(&self) -> (usize, usize) {
        (self.urgent.len(), self.marks.len())
    }
}

impl Stopped {
    fn error(&self) -> Error {
        Error::retry(match self {
            Stopped::Closed => "the queue is closed".to_owned(),
            Stopped::Adopted(node) => format!("node {node} has taken the queue over"),
            Stopped::Broken(why) => format!("the queue has stopped: {why}"),
        })
    }
}

impl Inner {
    pub(crate) fn stopped_watch(&self) -> watch::Receiver<Option<Stopped>> {
        self.stopped.subscribe()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses waiting and future events.
    fn stop(&self, stopped: Stopped) {
        let mut waiting = self.waiting();
        self.stopped.send_replace(Some(stopped.clone()));
        let error = stopped.error();
        let Waiting { urgent, marks, .. } = &mut *waiting;
        for pending in urgent.drain(..).chain(marks.drain(..)) {
            let _ = pending.done.send(Err((error.kind(), error.to_string())));
        }
    }

    /// The same error, as `Limit` if the reason is that the disk is full.
    pub(crate) fn of_full_disk(&self, error: Error) -> Error {
        let is_full = is_of_full_disk(&error) || self.store.is_disk_full();
        match error.kind() == Kind::Retry && is_full {
            true => Error::limit("the disk is full").with_source(error),
            false => error,
        }
    }

    async fn read(&self, id: MailId) -> Result<Arc<Mail>> {
        if let Some(mail) = self.recent.get(id) {
            return Ok(mail);
        }
        let place = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let gone = || Error::not_found(format!("{id} is not in the queue"));
            let place = state.rows().get(id).ok_or_else(gone)?.place;
            match place {
                Place::Entry(..) => (place, None),
                Place::Segment(number, ..) => (place, state.segment(number).cloned()),
            }
        };
        let mail = match place {
            (Place::Entry(position, number), _) => self.read_entry(id, position, number).await,
            (Place::Segment(_, start, length), Some(segment)) => {
                self.read_segment(id, &segment, start, length).await
            }
            (Place::Segment(..), None) => Err(Error::internal("a mail is in a segment that is not listed")),
        };
        match mail {
            // The writer carried it into a segment meanwhile.
            Err(e) if e.kind() == Kind::NotFound && self.has_moved(id, place.0) => {
                Box::pin(self.read(id)).await
            }
            Err(e) => Err(e.context(format!("mail {id}"))),
            Ok(mail) => Ok(mail),
        }
    }

    fn has_moved(&self, id: MailId, place: Place) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.rows().get(id).is_some_and(|row| row.place != place)
    }

    /// Reads an entry, and keeps its other mails: they are likely to be read next.
    async fn read_entry(&self, id: MailId, position: Position, number: u16) -> Result<Arc<Mail>> {
        let entry = self.journal.entry(&self.keys, position).await?;
        let Content::Plain(_, plain) = entry.content else {
            return Err(Error::corrupt(format!("log entry {position} cannot be opened")));
        };
        let batch = Batch::decode(&plain)?;
        let before = batch.events.iter().take(usize::from(number));
        let before = before.filter(|event| matches!(event, Event::Accepted(_))).count() as u64;
        let first = id.0.saturating_sub(before);
        let mails = batch.events.into_iter().filter_map(|event| match event {
            Event::Accepted(mail) => Some(Arc::<Mail>::from(mail)),
            _ => None,
        });
        let mut found = None;
        for (nth, mail) in (first..).zip(mails) {
            let nth = MailId(nth);
            if nth == id {
                found = Some(mail.clone());
            }
            let is_queued = {
                let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
                state.rows().get(nth).is_some()
            };
            if is_queued {
                self.recent.keep(nth, mail);
            }
        }
        found.ok_or_else(|| Error::corrupt(format!("log entry {position} does not have the mail")))
    }

    async fn read_segment(
        &self,
        id: MailId,
        segment: &crate::state::Segment,
        start: u32,
        length: u32,
    ) -> Result<Arc<Mail>> {
        use sealpost_vault::queue::QueueObject;
        let range = u64::from(start)..u64::from(start) + u64::from(length);
        let known = (segment.object, &segment.key, segment.layout);
        let bytes = QueueObject::Segment.read_whole(&self.store, self.node, known, range).await?;
        let mail: Mail = minicbor::decode(&bytes)
            .map_err(|e| Error::corrupt("a mail in a segment cannot be read").with_source(e))?;
        let mail = Arc::new(mail);
        self.recent.keep(id, mail.clone());
        Ok(mail)
    }
}
