//! An account that is loaded: its state, shared by all sessions, and the only way to change it.
//!
//! A change is decided on the state at the end of the log and appended right there. If another
//! writer was first, its entry is read and the change decided again. A change is durable before it
//! is in the state, and in the state before [`Account::commit`] returns.

mod append;
mod convert;
mod load;
mod maintain;
mod renew;
#[cfg(test)]
mod tests;
mod unplaced;
mod uploads;

use std::any::Any;
use std::collections::HashMap;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_base::{
    AccountId, Budget, Error, MailboxId, ObjectId, Position, Random, Result, Uid, UidValidity,
};
use sealpost_journal::{Append, Replay, Seal, Tail};
use sealpost_mime::{Layer, Structure, Text};
use sealpost_vault::entry::Origin;
use sealpost_vault::message::MessageReader;
use sealpost_vault::{AccountKeys, Epoch, PublicKey, RootKey, Store};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::Instant;

pub use append::{Check, NewMessage, Placed};
pub use maintain::Maintenance;
pub use unplaced::Unplaced;

use crate::accounts::{LogWatcher, Reservation, Ticket};
use crate::bodies::BodyFetcher;
use crate::cache::Cache;
use crate::cpu_gate::{self, LONG_ROWS};
use crate::decoded::{Decoded, Span};
use crate::env::AccountEnv;
use crate::event::{Batch, Event, Message};
use crate::grown::Touched;
use crate::ingest::{Ingest, IngestBatch, Later, Resealed, Stored};
use crate::log_end::LogEnd;
use crate::share::Link;
use crate::share_keys::Openers;
use crate::state::{AccountState, Applied, MAP_BYTES, Mailbox};

/// A decoded structure takes about this many times its encoded size.
const DECODED_FACTOR: usize = 4;

/// An account in memory.
pub struct Account {
    this: Weak<Account>,
    env: AccountEnv,
    id: AccountId,
    /// Its root key, and what is derived from that. Those of a share are replaced by later ones.
    keys: RwLock<(RootKey, Arc<AccountKeys>)>,
    /// By whom it was opened as a share.
    openers: Openers<Account>,
    head: Arc<LogEnd>,
    state: RwLock<AccountState>,
    /// The state is being changed in many rows: readers of the state wait for long.
    bulk_update: AtomicBool,
    /// That is over.
    bulk_update_done: Notify,
    /// The memory of this account, reserved in the part for accounts.
    charge: Reservation,
    /// Since when it is loaded.
    loaded: Instant,
    /// When it was loaded, if its log was empty: nothing of it is older.
    new_since: Option<Duration>,
    /// How long that took.
    took: Duration,
    /// Set when the account's memory is needed for other accounts. Its sender is dropped with the
    /// account, which wakes those that wait for the unloading.
    leaving: watch::Sender<bool>,
    work: AsyncMutex<Work>,
    appends: Mutex<Vec<append::Waiting>>,
    recents: Mutex<HashMap<(MailboxId, UidValidity), Uid>>,
    /// Something stored was damaged when this was loaded: nothing may be removed.
    damaged: AtomicBool,
    /// Up to this position nothing may be removed either: what was to follow the state is damaged,
    /// or was for a while.
    damaged_end: AtomicU64,
    maintaining: AtomicBool,
    /// What hangs on it.
    derived: Option<Arc<dyn Any + Send + Sync>>,
    reading: Budget,
    reading_much: Budget,
}

/// How often the maps are built before the account counts as changing too fast.
const MAP_ATTEMPTS: usize = 8;
/// More events than there can be.
const NOT_COLLECTED: usize = usize::MAX;

/// The lock's content for writers of the state.
struct Work {
    /// The entries that the state has, as far as they are compared with the store's.
    replay: Replay,
    /// Events since the last checkpoint; an entry that could not be read counts as one.
    since_checkpoint: usize,
    /// Events since all objects were looked through, [`NOT_COLLECTED`] if that was not done since
    /// the account was loaded.
    since_collection: usize,
    /// A checkpoint or an entry was opened with the account's key when it was loaded.
    has_opened: bool,
}

impl Work {
    /// The log entry up to which the state goes.
    fn tail(&self) -> Tail {
        self.replay.tail()
    }
}

/// The state is being changed, in many rows, for as long as this lives.
struct BulkUpdate<'a>(&'a Account);

impl<'a> BulkUpdate<'a> {
    fn from_now(account: &'a Account) -> Self {
        account.bulk_update.store(true, Ordering::Relaxed);
        BulkUpdate(account)
    }
}

impl Drop for BulkUpdate<'_> {
    fn drop(&mut self) {
        self.0.bulk_update.store(false, Ordering::Relaxed);
        self.0.bulk_update_done.notify_waiters();
    }
}

/// The state at one moment. Never hold it while waiting for anything.
pub struct StateGuard<'a>(RwLockReadGuard<'a, AccountState>);

impl Deref for StateGuard<'_> {
    type Target = AccountState;

    fn deref(&self) -> &AccountState {
        &self.0
    }
}

/// A change that was made.
#[derive(Debug, Clone)]
pub struct Committed<T> {
    /// What the decision said.
    pub value: T,
    /// Where in the log the change is; where the state was if there was nothing to change.
    pub position: Position,
    /// What each event did, in order.
    pub applied: Vec<Applied>,
}

impl Account {
    /// Whose account this is.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// The key that deliveries are sealed to.
    pub fn public(&self) -> PublicKey {
        self.keys().public()
    }

    pub(crate) fn this(&self) -> Option<Arc<Account>> {
        self.this.upgrade()
    }

    /// What its objects are sealed with, for what is derived from them.
    pub fn keys(&self) -> Arc<AccountKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Its root key.
    pub fn root(&self) -> RootKey {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Replaces the key of this share by a later one, in every handle of it.
    pub fn take_key(&self, root: &RootKey) {
        let keys = Arc::new(AccountKeys::derive(root, self.id));
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if root.follows(&held.0) {
            *held = (root.clone(), keys);
        }
    }

    /// `own` opened this share by that link.
    pub(crate) fn opened_by(&self, own: &Arc<Account>, link: &Link) {
        self.openers.add(own, link.owner.clone());
    }

    /// Where its objects are.
    pub fn store(&self) -> &Store {
        self.env.store()
    }

    /// The memory that all accounts draw on.
    pub fn budget(&self) -> &Budget {
        self.env.budget()
    }

    pub(crate) fn bodies(&self) -> Option<Arc<dyn BodyFetcher>> {
        self.env.bodies()
    }

    /// The memory budget for reading messages of this account and sending them: half of the budget
    /// of all accounts, so that slow readers of one account do not delay readers of another.
    pub fn reading(&self) -> &Budget {
        &self.reading
    }

    /// As [`Account::reading`], for large structures: half as much, so that slow readers of bytes
    /// cannot use it up.
    pub fn reading_much(&self) -> &Budget {
        &self.reading_much
    }

    /// Randomness.
    pub fn random(&self) -> &dyn Random {
        self.env.random()
    }

    /// Sealed structures that came with deliveries.
    pub fn delivered(&self) -> &Cache<Bytes> {
        self.env.delivered()
    }

    /// What [`crate::Derived::attach`] gave; nothing if nothing is derived from accounts here.
    pub fn derived(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.derived.clone()
    }

    /// The state as it is now.
    pub fn state(&self) -> StateGuard<'_> {
        let wait = || self.state.read().unwrap_or_else(PoisonError::into_inner);
        // Sessions of other accounts must not wait for long.
        let much = self.bulk_update.load(Ordering::Relaxed);
        StateGuard(if much { cpu_gate::block_in_place(wait) } else { wait() })
    }

    /// The state with its maps ([`AccountState::maps`]), which are built if they are missing: that
    /// reads all messages once, or counts them after a change of many. They stay while the account
    /// is loaded, at about ten bytes a message. Never hold the guard while waiting for anything.
    ///
    /// # Errors
    /// `Limit` if the account would be too large with them; `Retry` if much of it changes all the time.
    pub async fn with_maps(&self) -> Result<StateGuard<'_>> {
        for _ in 0..MAP_ATTEMPTS {
            self.wait_for_bulk_update().await;
            let (messages, growth) = {
                let state = self.state();
                if state.has_maps() {
                    return Ok(state);
                }
                let messages = state.message_count();
                (messages, if state.maps().is_some() { 0 } else { messages * MAP_BYTES })
            };
            self.env.may_grow(self.weight(), growth)?;
            self.change_state(messages, AccountState::make_maps).await;
            // The maps are built: too large or not, they stay until the account is unloaded.
            let _ = self.env.weigh(self.id, &self.charge, self.state().memory());
        }
        Err(Error::retry("the account changes faster than its messages are counted"))
    }

    /// Waits for the end of a bulk update: a task that reads the state meanwhile would block a
    /// thread.
    pub async fn wait_for_bulk_update(&self) {
        while self.bulk_update.load(Ordering::Relaxed) {
            let mut done = pin!(self.bulk_update_done.notified());
            done.as_mut().enable();
            if self.bulk_update.load(Ordering::Relaxed) {
                done.await;
            }
        }
    }

    /// Passes the state to `change`, which reads so many of its rows.
    async fn change_state<T>(&self, rows: usize, change: impl FnOnce(&mut AccountState) -> T) -> T {
        let step = || {
            let _much = (rows >= LONG_ROWS).then(|| BulkUpdate::from_now(self));
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut state)
        };
        self.env.cpu_gate().run(rows, step).await
    }

    /// Whether something stored was damaged when the account was loaded. It works, but nothing is
    /// removed from it.
    pub fn is_damaged(&self) -> bool {
        let state = self.state().position().0;
        self.damaged.load(Ordering::Relaxed) || self.damaged_end.load(Ordering::Relaxed) > state
    }

    /// Whether anything in the log opened with the key that the account was loaded with.
    pub(crate) async fn has_opened(&self) -> bool {
        self.work.lock().await.has_opened
    }

    /// Wakes on every entry appended after the current state, also while no session has the account
    /// open.
    pub fn log_watcher(&self) -> LogWatcher {
        LogWatcher::new(self.head.clone(), self.state().position())
    }

    /// What is needed to hold the account again after letting go of it.
    pub fn ticket(&self) -> Ticket {
        Ticket::new(self.id, self.root(), self.log_watcher())
    }

    /// Ends when the account's memory is needed: a session that only waits then releases the
    /// account.
    pub async fn wanted(&self) {
        // The sender is in the account, which is held here.
        let _ = self.leaving.subscribe().wait_for(|leaving| *leaving).await;
    }

    /// Whether the account's memory is needed: a session between two commands then releases the
    /// account, and opens it again in its turn ([`Accounts::reopen_in_turn`]).
    pub fn is_leaving(&self) -> bool {
        *self.leaving.borrow()
    }

    /// As [`crate::Accounts::is_pressure_severe`].
    pub fn is_pressure_severe(&self) -> bool {
        self.env.memory().is_pressure_severe()
    }

    pub(crate) fn ask_to_let_go(&self) {
        self.leaving.send_replace(true);
    }

    /// It stays loaded, although its memory was needed.
    pub(crate) fn stay(&self) {
        self.leaving.send_replace(false);
    }

    /// Ends when this account is not loaded any more, or stays; holds nothing of it.
    pub(crate) fn left(&self) -> impl Future<Output = ()> + use<> {
        let mut leaving = self.leaving.subscribe();
        async move {
            // An error: the account is gone.
            let _ = leaving.wait_for(|leaving| !leaving).await;
        }
    }

    /// How long it has been loaded.
    pub(crate) fn age(&self) -> Duration {
        self.loaded.elapsed()
    }

    /// How long it took to load it.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// Whether to load it again is a matter of a few milliseconds, however busy the server is.
    pub(crate) fn is_quick(&self) -> bool {
        self.env.is_quick(self.weight())
    }

    /// What it takes, in bytes.
    pub fn weight(&self) -> usize {
        self.charge.bytes()
    }

    pub(crate) fn has_root(&self, root: &RootKey) -> bool {
        self.root().same(root)
    }

    /// Whether it was loaded with an earlier key of the account than `root`.
    pub(crate) fn is_behind(&self, root: &RootKey) -> bool {
        root.follows(&self.root())
    }

    /// Replaces the key by `root` if this is a share and `root` is a later key of it; whether it did.
    pub(crate) fn renewed(&self, root: &RootKey) -> bool {
        let is_renewed = self.openers.is_any() && self.is_behind(root);
        if is_renewed {
            self.take_key(root);
        }
        is_renewed
    }

    /// Whether it was loaded with a later one.
    pub(crate) fn is_ahead(&self, root: &RootKey) -> bool {
        self.root().follows(root)
    }

    /// Decides on a change and makes it, as one log entry. `decide` may run again on a newer state.
    /// No events: nothing is written.
    ///
    /// # Errors
    /// What `decide` says; `Limit` if the account would be too large to be loaded; `Retry` when the
    /// store does not take it (it may then still turn up).
    pub async fn commit<T>(
        &self,
        decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
    ) -> Result<Committed<T>> {
        self.commit_many(0, decide).await
    }

    /// As [`Account::commit`], for a decision that reads about so many rows.
    ///
    /// # Errors
    /// As [`Account::commit`].
    pub async fn commit_many<T>(
        &self,
        rows: usize,
        mut decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
    ) -> Result<Committed<T>> {
        let mut work = self.work.lock().await;
        let mut known = self.head.tail.lock().await;
        loop {
            if *self.head.known_end.borrow() > work.tail().position {
                self.follow(&mut work).await?;
            }
            let decision = || -> Result<_> {
                let state = self.state();
                let (events, value) = decide(&state)?;
                if events.is_empty() {
                    return Ok((None, value));
                }
                self.env.may_grow(self.weight(), state.growth(&events))?;
                let batch = Batch { at: self.env.clock().now(), events };
                let plaintext = batch.encode();
                Ok((Some((batch, plaintext)), value))
            };
            let (change, value) = self.env.cpu_gate().run(rows, decision).await?;
            let Some((batch, plaintext)) = change else {
                return Ok(Committed { value, position: self.state().position(), applied: Vec::new() });
            };
            self.head.may_follow(&work.tail())?;
            let keys = self.keys();
            let appended = match batch.events.iter().all(Event::frees_room) {
                true => {
                    self.head.journal.freeing().append(&work.tail(), Seal::Owner(&keys), &plaintext).await
                }
                false => self.head.journal.append(&work.tail(), Seal::Owner(&keys), &plaintext).await,
            };
            match appended {
                Ok(Append::Done(tail)) => {
                    // Before the first wait, so that a cancelled caller has notified the others.
                    self.head.appended(&mut known, tail, Touched::of(&batch));
                    let applied = self.apply(&mut work, tail, keys.public().epoch(), &batch).await;
                    drop(known);
                    self.checkpoint_if_due(&work);
                    return Ok(Committed { value, position: tail.position, applied });
                }
                Ok(Append::Lost) => self.follow(&mut work).await?,
                Ok(Append::Trimmed) => self.reload(&mut work).await?,
                Err(e) => {
                    *known = None;
                    return Err(e);
                }
            }
            self.head.advance(&mut known, work.tail());
        }
    }

    /// Makes sure that the state includes everything this process knows to be in the log, such as
    /// deliveries that it has acknowledged.
    ///
    /// # Errors
    /// What the store says.
    pub async fn catch_up(&self) -> Result<()> {
        self.wait_for_bulk_update().await;
        if *self.head.known_end.borrow() <= self.state().position() {
            return Ok(());
        }
        let mut work = self.work.lock().await;
        if *self.head.known_end.borrow() > work.tail().position {
            self.follow(&mut work).await?;
            self.checkpoint_if_due(&work);
        }
        Ok(())
    }

    /// Reads the log to its end, entries of any writer.
    ///
    /// # Errors
    /// What the store says.
    pub async fn refresh(&self) -> Result<()> {
        let mut work = self.work.lock().await;
        self.follow(&mut work).await?;
        let mut known = self.head.tail.lock().await;
        self.head.advance(&mut known, work.tail());
        self.checkpoint_if_due(&work);
        Ok(())
    }

    /// Starts to store a message.
    ///
    /// # Errors
    /// What the store says.
    pub async fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.env, self.id, 0).await
    }

    /// As [`Account::ingest`], for a caller that holds `beside` bytes of other buffers meanwhile
    /// ([`Accounts::ingest_beside`]).
    ///
    /// # Errors
    /// What the store says.
    pub async fn ingest_beside(&self, beside: usize) -> Result<Ingest> {
        Ingest::new(&self.env, self.id, beside).await
    }

    /// Where messages wait that come one after the other, to become durable together.
    pub fn later(&self) -> Later {
        Later::new(self.store().clone())
    }

    /// Starts to store messages that are there whole, many at little more than the cost of one.
    pub fn ingest_batch(&self) -> IngestBatch {
        IngestBatch::new(self.env.clone(), self.id)
    }

    /// Seals a message of this log again for another one, without scanning it again.
    pub(crate) async fn reseal(&self, message: &Message, to: AccountId) -> Result<Stored> {
        let reader = self.reader(message);
        let (text, structure) = (reader.text().await?, reader.structure().await?);
        let mut writer = Resealed::new(&self.env, to, message).await?;
        let mut raw = reader.raw(0..message.size());
        while let Some(piece) = raw.try_next().await? {
            writer.write(&piece).await?;
        }
        writer.finish(&text, &structure).await
    }

    /// Reads a stored message. The reader fetches an evicted body from its source.
    pub fn reader(&self, message: &Message) -> MessageReader {
        let store = self.env.store();
        let reader = MessageReader::new(store, self.id, message.object, &message.key, message.layout);
        let came = self.delivered().get(&message.object);
        self.asking(match came {
            Some(sealed) => reader.with_structure(Bytes::clone(&sealed)),
            None => reader,
        })
    }

    /// The structure of a message, from the cache if it was read lately.
    ///
    /// # Errors
    /// `Corrupt` if the object is damaged, `NotFound` if it is gone, or what the store says.
    pub async fn structure(&self, message: &Message) -> Result<Arc<Structure>> {
        self.structure_by(&self.reader(message), message).await
    }

    /// As [`Account::structure`], by a reader of that message that may have some of it already.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn structure_by(&self, reader: &MessageReader, message: &Message) -> Result<Arc<Structure>> {
        let cache = self.env.structures();
        if let Some(structure) = cache.get(&message.object) {
            return Ok(structure);
        }
        let encoded = reader.structure().await?;
        let structure = Arc::new(Structure::decode(&encoded)?);
        cache.put(self.id, message.object, structure.clone(), encoded.len() * DECODED_FACTOR);
        Ok(structure)
    }

    /// These layers of a message, at least one: from the cache if they were read recently, else by
    /// reading through them one after the other.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn decoded(&self, message: &Message, layers: &[Layer]) -> Result<Arc<Decoded>> {
        self.decoded_by(message.object, &self.reader(message), layers).await
    }

    /// As [`Account::decoded`], by the reader of that object.
    async fn decoded_by(
        &self,
        object: ObjectId,
        reader: &MessageReader,
        layers: &[Layer],
    ) -> Result<Arc<Decoded>> {
        let cache = self.env.decoded();
        let mut found: Option<Arc<Decoded>> = None;
        for (at, layer) in layers.iter().enumerate() {
            let key = (object, layers[..=at].to_vec());
            found = Some(match cache.get(&key) {
                Some(decoded) => decoded,
                None => {
                    let decoded = Arc::new(Decoded::measure(reader, found, layer.clone()).await?);
                    cache.put(self.id, key, decoded.clone(), decoded.memory());
                    decoded
                }
            });
        }
        found.ok_or_else(|| Error::internal("nothing to decode"))
    }

    /// The bytes of a message that a span names.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn bytes(&self, message: &Message, span: Span) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.bytes_by(message.object, &self.reader(message), span).await
    }

    /// As [`Account::bytes`], by the reader of that object.
    async fn bytes_by(
        &self,
        object: ObjectId,
        reader: &MessageReader,
        span: Span,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        if span.layers.is_empty() {
            return Ok(reader.raw(span.range));
        }
        Ok(self.decoded_by(object, reader, &span.layers).await?.stream(reader, span.range))
    }

    /// The searchable text of a message.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn text(&self, message: &Message) -> Result<Text> {
        Text::decode(&self.reader(message).text().await?)
    }

    /// Calls `each` with the index and the searchable text of each of several messages, in order.
    /// They are read together, so the caller bounds how many, and opened one after the other.
    pub async fn texts(&self, messages: &[&Message], mut each: impl FnMut(usize, Result<Text>)) {
        let readers: Vec<MessageReader> = messages.iter().map(|message| self.reader(message)).collect();
        MessageReader::texts(&readers, |at, text| each(at, text.and_then(|text| Text::decode(&text)))).await;
    }

    /// The first UID that is recent for a session which has the mailbox open read-write and now
    /// reports the messages below `below` to its client. No other session reports messages from
    /// there up to `below` as recent (RFC 3501 §2.3.2); those from `below` on belong to the first
    /// session that reports them.
    pub fn claim_recent(&self, mailbox: MailboxId, below: Uid) -> Uid {
        let (stored, validity) = match self.state().mailbox(mailbox) {
            Some(m) => (m.recent_from(), m.uid_validity()),
            None => return below,
        };
        let mut recents = self.recents.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = recents.entry((mailbox, validity)).or_insert(stored);
        let first = (*claimed).max(stored);
        *claimed = first.max(below);
        drop(recents);
        if first < below {
            self.remember_recent(mailbox, below);
        }
        first
    }

    /// Messages from this UID on have not been shown as recent to any session of this process, nor,
    /// as far as it is recorded, of another.
    pub fn recent_from(&self, mailbox: &Mailbox) -> Uid {
        let recents = self.recents.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = mailbox.recent_from();
        recents.get(&(mailbox.id(), mailbox.uid_validity())).map_or(stored, |claimed| stored.max(*claimed))
    }

    /// Records the claim, so that it outlives this process. No session waits for it: if it is lost,
    /// messages are shown as recent once more, as the RFC requires in doubt.
    fn remember_recent(&self, mailbox: MailboxId, below: Uid) {
        let Some(account) = self.this.upgrade() else { return };
        tokio::spawn(async move {
            let events = vec![Event::RecentTaken { mailbox, below }];
            let decide = |state: &AccountState| match state.mailbox(mailbox) {
                Some(m) if m.recent_from() < below => Ok((events.clone(), ())),
                _ => Ok((Vec::new(), ())),
            };
            if let Err(e) = account.commit(decide).await {
                tracing::debug!(account = %account.id, error = %e, "recent messages were not recorded");
            }
        });
    }

    async fn apply(&self, work: &mut Work, tail: Tail, epoch: Epoch, batch: &Batch) -> Vec<Applied> {
        let rows = self.state().rows_of(&batch.events);
        let change = |state: &mut AccountState| {
            let origin = state.origin_in_epoch(Origin::Owner, epoch);
            state.apply(tail.position, origin, batch)
        };
        let applied = self.change_state(rows, change).await;
        work.replay.appended(tail);
        self.applied_up_to(work, tail, batch.events.len());
        applied
    }

    fn applied_up_to(&self, work: &mut Work, tail: Tail, events: usize) {
        work.since_checkpoint += events.max(1);
        work.since_collection = work.since_collection.saturating_add(events.max(1));
        self.head.notify(tail.position);
        // It is in the log: too large or not, it is there.
        let _ = self.env.weigh(self.id, &self.charge, self.state().memory());
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.env.metrics().evictions.increment();
    }
}
