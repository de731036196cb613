//! The queue's log: opening it, and the one task that appends.
//!
//! Everything that waits goes into one entry: the mails that all clients submitted in that moment,
//! marks of what is being sent, and what came of attempts. So ten clients share one wait for the
//! disk, and outcomes cost none of their own while there is traffic; when there is none they are
//! durable [`OUTCOME_DELAY`] later. How long an entry waits for others under load: `gather.rs`.
//!
//! A log has one writer at a time. The one that opens it appends an `Adopted`; whoever wrote before
//! it loses the next append, finds that entry and stops ([`Stopped::Adopted`]). An append whose
//! outcome is unknown is repeated until it is known.

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

use sealpost_base::{AccountId, Budget, Clock, Error, Kind, Position, Random, Result};
use sealpost_journal::{Content, Journal, Replay};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::store::is_of_full_disk;
use sealpost_vault::{AccountKeys, Sealed, Store};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};

use crate::MailId;
use crate::envelope::Mail;
use crate::event::{Batch, Event, WriterId};
use crate::recent::Recent;
use crate::state::{Place, State};
pub(crate) use load::load as load_log;
pub(crate) use touched::{Touched, TouchedSet};
pub(crate) use write::ALIVE;

/// How long outcomes wait for something that is urgent to go with.
pub const OUTCOME_DELAY: Duration = Duration::from_millis(100);
/// How long an acceptance waits for its entry; after that its client gets a temporary error.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Mails that are kept in memory after they were accepted or read, in bytes, at most.
const RECENT_BYTES: usize = 8 * 1024 * 1024;
/// At least: several mails with as much in the log as there may be.
const RECENT_LEAST: usize = 1024 * 1024;
/// Between the two, as large a part of what the budget has.
const RECENT_SHARE: usize = 16;

/// What opening a queue needs.
pub struct Opening {
    /// Where the log is.
    pub store: Store,
    /// Whose queue it is: [`crate::node_id`].
    pub node: AccountId,
    /// The name of the node that this process is, for the operator.
    pub name: String,
    /// Authenticates entries.
    pub log_key: LogKey,
    /// Seals them.
    pub mail_keys: MailKeys,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Ids, salts, jitter.
    pub random: Arc<dyn Random>,
    /// For buffers of bodies and segments.
    pub budget: Budget,
    /// Up to where this node knows the log, by what it keeps outside of the store; a log that ends
    /// before it was restored.
    pub known: Position,
}

/// One queue, as the process that runs it has it. Cheap to clone.
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) node: AccountId,
    pub(crate) mail_keys: MailKeys,
    pub(crate) keys: AccountKeys,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) budget: Budget,
    pub(crate) journal: Journal,
    writer: WriterId,
    pub(crate) state: RwLock<State>,
    /// Held while appending or reading on.
    pub(crate) work: AsyncMutex<Work>,
    waiting: Mutex<Waiting>,
    wake: Notify,
    /// The last position that was applied.
    changed: watch::Sender<Position>,
    stopped: watch::Sender<Option<Stopped>>,
    recent: Recent,
    /// What the runner is to look at.
    pub(crate) touched: TouchedSet,
    /// Held while the log is being made shorter.
    pub(crate) upkeep: Arc<AsyncMutex<()>>,
    /// Bodies that a crash left were looked for.
    pub(crate) swept: AtomicBool,
    /// Mail is refused: there is no memory for more.
    full: AtomicBool,
}

/// Where the writer is in the log.
pub(crate) struct Work {
    pub(crate) replay: Replay,
    /// Entries and bytes since the last checkpoint.
    pub(crate) since: (u64, u64),
    /// The newest checkpoint: what is below it is trimmed when there is another one.
    pub(crate) checkpoint: Position,
}

#[derive(Default)]
struct Waiting {
    urgent: VecDeque<Pending>,
    /// Marks of mails that are being sent: they ride with others if any come soon.
    marks: VecDeque<Pending>,
    /// What belongs together is appended together.
    lazy: VecDeque<Vec<Event>>,
    closing: bool,
    /// With so many urgent ones the writer goes on.
    wanted: usize,
    /// With so many marks the writer goes on.
    wanted_marks: usize,
}

/// Events that somebody waits for.
struct Pending {
    events: Vec<Event>,
    done: oneshot::Sender<Done>,
}

/// The ids of the mails among them; or why they are not durable, or not known to be.
type Done = Result<Vec<MailId>, (Kind, String)>;

/// Why a queue runs no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// It was closed.
    Closed,
    /// Another process runs it, of the node of that name.
    Adopted(String),
    /// Its log cannot be read any more; why.
    Broken(String),
}

impl Queue {
    /// Opens the log, and takes it over from whoever had it.
    ///
    /// # Errors
    /// `Conflict` if another process takes it over in the same moment; `Corrupt` if it cannot be
    /// read; what the store says.
    pub async fn open(opening: Opening) -> Result<Self> {
        load::open(opening).await
    }

    /// Takes responsibility for a mail; durable when it returns.
    ///
    /// # Errors
    /// `Limit` if it is beyond the limits of a mail, or the queue is [full](Queue::set_full), or the disk is; `Retry` if it is not durable, or not known to
    /// be: then it may be sent all the same.
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

    /// Bytes of memory that queued mail takes: the state, and mails that were accepted or read a moment ago.
    pub fn memory(&self) -> usize {
        self.state().heap_bytes() + self.0.recent.bytes()
    }

    /// Whether mail is refused from now on because what is queued takes all the memory that it may.
    /// Reports are taken all the same: each comes in place of a recipient.
    pub fn set_full(&self, full: bool) {
        self.0.full.store(full, Ordering::Relaxed);
    }

    /// Appends events, with others that wait; durable when it returns. The ids of the mails among them.
    ///
    /// # Errors
    /// `Retry` if they are not durable, or not known to be.
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

    /// Says that a mail is being sent: begun at once, durable when the future is done. While mail
    /// is accepted it goes with that.
    pub(crate) fn mark_sending(&self, id: MailId) -> impl Future<Output = Result<()>> + Send + 'static {
        self.mark(Event::Sending(id))
    }

    /// Appends that this process still runs the queue. When it is done, the state has everything that
    /// any process recorded before the call; an append tells that for certain, a listing may be late.
    ///
    /// # Errors
    /// `Retry` if another process has adopted the queue, or the store does not answer.
    pub(crate) async fn confirm_owner(&self) -> Result<()> {
        // A mark, since that may use what a full disk keeps for what frees room.
        self.mark(Event::Alive).await
    }

    fn mark(&self, event: Event) -> impl Future<Output = Result<()>> + Send + 'static {
        let (done, result) = oneshot::channel();
        {
            let mut waiting = self.0.waiting();
            // Else the sender is gone, and the future says why.
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
            // With more of them it is awake.
            if waiting.lazy.len() == 1 {
                self.0.wake.notify_one();
            }
        }
    }

    /// Appends what waits, until the queue is closed or taken over. Exactly one task does this.
    pub async fn run(&self) -> Stopped {
        let stopped = write::run(&self.0).await;
        self.0.stop(stopped.clone());
        stopped
    }

    /// Lets [`Queue::run`] append what waits and end.
    pub fn close(&self) {
        self.0.waiting().closing = true;
        self.0.wake.notify_one();
    }

    /// Why it runs no more, if so.
    pub fn stopped(&self) -> Option<Stopped> {
        self.0.stopped.borrow().clone()
    }

    /// The state, as of the last entry. Not to be held across a wait.
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees each change of the position of the state.
    pub fn changes(&self) -> watch::Receiver<Position> {
        self.0.changed.subscribe()
    }

    /// A queued mail.
    ///
    /// # Errors
    /// `NotFound` if it is queued no more; `Corrupt` if it is damaged; what the store says.
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

/// Marks a store as a copy of another one: its queues start on hold, for the original has sent what
/// they hold.
///
/// # Errors
/// What the store says.
pub async fn mark_copy(store: &Store) -> Result<()> {
    for name in store.names_below("queue").await? {
        if let Ok(node) = name.parse() {
            store.put_new(&load::copy_path(node), Sealed::marker()).await?;
        }
    }
    Ok(())
}

/// The state of a log, for whoever only looks.
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

    /// Refuses what waits and what comes.
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
            // It was carried into a segment meanwhile.
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

    /// Reads an entry. Its other mails are likely to be wanted, too.
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
