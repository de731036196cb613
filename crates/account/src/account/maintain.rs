//! Checkpoints, trimming, and garbage collection. They run in the background, and delay a client by at most
//! one read of the state.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{Kind, ObjectId, Result, Timestamp, limits};
use sealpost_vault::message;

use super::{Account, Work};
use crate::bodies::last_id;
use crate::event::Event;
use crate::ingest::UNDER_WAY;
use crate::state::AccountState;

/// The shortest tail that is worth a checkpoint, in events.
const TAIL_EVENTS: usize = 256;
/// A tail of this fraction of the account's messages is worth a checkpoint, so that its cost per event is the
/// same for every size of account.
const MESSAGES_PER_EVENT: usize = 16;

/// As [`MESSAGES_PER_EVENT`], for a listing of all objects.
const MESSAGES_PER_EVENT_COLLECTED: usize = 2;

/// Objects removed directly at the end of their grace period. Further ones are left to the next listing of
/// all objects, so that their ids need not be kept.
const REMOVED_AT_ONCE: usize = 65_536;

/// One of this many unknown ids is kept.
const UNKNOWN_PART: usize = 4;
/// Memory for an id during garbage collection, including its share of an unknown one.
const COLLECTED_BYTES: usize =
    size_of::<ObjectId>() + size_of::<(ObjectId, bool, Timestamp)>().div_ceil(UNKNOWN_PART);

/// One of `of` parts of all ids, of about equal size.
#[derive(Debug, Clone, Copy)]
struct Part {
    nth: usize,
    of: usize,
}

impl Part {
    fn has(self, id: ObjectId) -> bool {
        // Ids are random, or consecutive.
        let number = id.0.iter().skip(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        number % self.of as u64 == self.nth as u64
    }
}

/// The objects that a round of maintenance removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Messages whose grace period had ended.
    pub purged: usize,
    /// Objects to which no event ever referred.
    pub orphans: usize,
}

impl Account {
    pub(super) fn checkpoint_if_due(&self, work: &Work) {
        if self.checkpoint_is_due(work) {
            self.maintain_in_background();
        } else if let (Some(derived), Some(account)) = (self.env.derived(), self.this()) {
            derived.on_commit(&account);
        }
    }

    fn checkpoint_is_due(&self, work: &Work) -> bool {
        work.since_checkpoint > TAIL_EVENTS
            && work.since_checkpoint > self.state().message_count() / MESSAGES_PER_EVENT
    }

    /// Due with the first checkpoint after a load, and then after enough events that a listing of all objects
    /// costs the same per event; it takes longer than a checkpoint, which writes only changes. Not due while
    /// all objects are too young to be removed, as in an account that is filled for the first time.
    fn collection_is_due(&self, work: &Work) -> bool {
        let now = self.env.clock().monotonic();
        if self.new_since.is_some_and(|since| now.saturating_sub(since) < UNDER_WAY) {
            return false;
        }
        work.since_collection > self.state().message_count() / MESSAGES_PER_EVENT_COLLECTED
    }

    /// Starts a round of maintenance unless one is running.
    pub(super) fn maintain_in_background(&self) {
        let Some(account) = self.this.upgrade() else { return };
        if self.is_damaged() || self.maintaining.swap(true, Ordering::AcqRel) {
            return;
        }
        tokio::spawn(async move {
            let result = account.maintain_once().await;
            account.maintaining.store(false, Ordering::Release);
            if let Err(e) = result {
                tracing::warn!(account = %account.id, error = %e, "maintenance failed; retrying later");
            }
        });
    }

    async fn maintain_once(self: &Arc<Self>) -> Result<()> {
        let due = self.checkpoint_is_due(&*self.work.lock().await);
        if due {
            match self.checkpoint().await {
                // Another object is at a path of the checkpoint: the next one has other paths.
                Err(e) if e.kind() == Kind::Conflict => {
                    tracing::error!(account = %self.id, error = %e, "no checkpoint was written");
                }
                written => written?,
            }
        }
        if due && !self.env.keeps_all() && self.collection_is_due(&*self.work.lock().await) {
            self.collect_garbage().await?;
            self.work.lock().await.since_collection = 0;
        } else {
            self.purge().await?;
        }
        match self.env.derived() {
            Some(derived) if due => derived.maintain(self.clone()).await,
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint of the present state, and removes objects that the last two checkpoints make
    /// unnecessary.
    ///
    /// # Errors
    /// Store errors; `Corrupt` if the account is damaged, since it would remove objects that a repair may
    /// need.
    pub async fn checkpoint(&self) -> Result<()> {
        if self.is_damaged() {
            return Err(sealpost_base::Error::corrupt("the account is damaged: no objects are removed"));
        }
        let mut work = self.work.lock().await;
        if work.since_checkpoint == 0 {
            return Ok(());
        }
        let (began, events) = (self.env.clock().monotonic(), work.since_checkpoint as u64);
        let names = self.state().chunk_names();
        let journal = &self.head.journal;
        // The lock on `work` keeps the state unchanged; readers continue.
        let chunk = |name: &str| self.state().chunk(name);
        journal.write_checkpoint(&self.keys(), work.tail(), names, chunk).await?;
        work.since_checkpoint = 0;
        drop(work);
        let metrics = self.env.metrics();
        metrics.checkpoints.observe_time(self.env.clock().monotonic().saturating_sub(began));
        metrics.checkpoint_events.observe(events);
        journal.trim().await
    }

    /// Ends the grace period of messages expunged long enough ago, and removes the objects that become
    /// unused.
    async fn purge(&self) -> Result<usize> {
        if self.env.keeps_all() {
            return Ok(0);
        }
        let before = self.grace_ends();
        let decide = |state: &AccountState| {
            let over = state.tombstones().next().is_some_and(|oldest| oldest.at < before);
            let objects = if over { state.purgeable(before, REMOVED_AT_ONCE) } else { Vec::new() };
            let events = if over { vec![Event::Purged { before }] } else { Vec::new() };
            Ok((events, objects))
        };
        let purged = self.commit(decide).await?.value;
        for object in &purged {
            self.remove_object(*object).await?;
        }
        if let (Some(derived), Some(account), false) = (self.env.derived(), self.this(), purged.is_empty()) {
            derived.purged(account).await?;
        }
        Ok(purged.len())
    }

    /// Ends grace periods, and removes objects older than the grace period to which no event refers:
    /// leftovers of interrupted deliveries. Removes old uploads too.
    ///
    /// # Errors
    /// Store errors; `Corrupt` if the account is damaged.
    pub async fn collect_garbage(&self) -> Result<Maintenance> {
        self.collect_garbage_by(limits::GARBAGE_IDS).await
    }

    /// As [`Account::collect_garbage`], with at most `most` known ids in memory at a time, and a quarter of
    /// that of unknown ones. The next run removes the rest.
    #[doc(hidden)]
    pub async fn collect_garbage_by(&self, most: usize) -> Result<Maintenance> {
        if self.is_damaged() {
            return Err(sealpost_base::Error::corrupt("the account is damaged: no objects are removed"));
        }
        if self.env.keeps_all() {
            return Ok(Maintenance::default());
        }
        let purged = self.purge().await?;
        self.collect_uploads(self.store_time().await?, None).await?;
        let memory = self.env.budget().acquire(most.saturating_mul(COLLECTED_BYTES)).await;
        let most = (memory.bytes() / COLLECTED_BYTES).clamp(1, most.max(1));
        // Independent of the grace period: an object may be older than its later event by the time that a
        // client takes for the rest of its command.
        let period = self.env.grace().max(UNDER_WAY);
        // The parts differ in size.
        let each = (most - most / 8).max(1);
        let passes = self.state().message_objects().count().div_ceil(each).max(1);
        let mut orphans = 0;
        for pass in 0..passes {
            orphans += self.remove_orphans(Part { nth: pass, of: passes }, most, period).await?;
        }
        drop(memory);
        Ok(Maintenance { purged, orphans })
    }

    /// Removes objects of that part of all ids to which no event has referred for `period`.
    async fn remove_orphans(&self, part: Part, most: usize, period: Duration) -> Result<usize> {
        self.refresh().await?;
        let known = self.known_objects(part);
        // The store's clock decides on the age of objects: the local clock may be wrong by more than any
        // period.
        let mut store_time = self.store_time().await?;
        let mut unknown = Vec::new();
        // Objects of messages with evicted bodies are below the second.
        for (below, is_stub) in [("msg", false), ("thin", true)] {
            let mut listed = self.env.store().list(&format!("acct/{}/{below}", self.id), None);
            while let Some(object) = listed.try_next().await? {
                store_time = store_time.max(object.modified);
                let id = last_id(&object.path);
                let id = id.filter(|id| part.has(*id) && known.binary_search(id).is_err());
                let room = unknown.len() < most.div_ceil(UNKNOWN_PART);
                unknown.extend(id.filter(|_| room).map(|id| (id, is_stub, object.modified)));
            }
        }
        drop(known);
        unknown.retain(|(_, _, modified)| store_time.since(*modified) > period);
        if unknown.is_empty() {
            return Ok(0);
        }
        // An event that refers to such an old object is old too, so catching up suffices. It must come after
        // the listing, since this node may have been suspended for any time before.
        self.refresh().await?;
        let known = self.known_objects(part);
        unknown.retain(|(id, _, _)| known.binary_search(id).is_err());
        drop(known);
        for (object, is_stub, _) in &unknown {
            let path = if *is_stub { message::stub_path } else { message::path };
            self.env.store().delete(&path(self.id, *object)).await?;
        }
        Ok(unknown.len())
    }

    /// A lower bound of the store's time: that of the last write, which was just now if this follows a
    /// checkpoint.
    async fn store_time(&self) -> Result<Timestamp> {
        Ok(self.head.journal.last_checkpoint_written().await?.unwrap_or(Timestamp(i64::MIN)))
    }

    /// The objects of that part to which events refer, sorted.
    fn known_objects(&self, part: Part) -> Vec<ObjectId> {
        let mut known: Vec<ObjectId> = self.state().message_objects().filter(|id| part.has(*id)).collect();
        known.sort_unstable();
        known
    }

    /// The time before which the grace period of expunged messages has ended.
    fn grace_ends(&self) -> Timestamp {
        let period = i64::try_from(self.env.grace().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.env.clock().now().0.saturating_sub(period))
    }

    /// Removes a message object, complete or a stub.
    async fn remove_object(&self, object: ObjectId) -> Result<()> {
        let mut paths = vec![message::path(self.id, object)];
        // A bucket has no stubs of its own making, and each request takes time. Garbage collection removes
        // others.
        if !self.env.store().wants_packs() {
            paths.push(message::stub_path(self.id, object));
        }
        match self.env.store().delete_in_order(paths).await {
            Err(e) if e.kind() != Kind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// The number of events after the last checkpoint.
    pub async fn tail_events(&self) -> usize {
        let work = self.work.lock().await;
        work.since_checkpoint
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{AccountId, Budget, FakeClock, SeededRandom};
    use sealpost_vault::entry::LogKey;
    use sealpost_vault::{RootKey, Store};

    use super::super::NOT_COLLECTED;
    use super::*;
    use crate::accounts::Accounts;

    #[tokio::test]
    async fn nothing_is_removed_while_the_clock_is_doubted() {
        let (store, clock) = (Store::memory(), Arc::new(FakeClock::new(Timestamp(0))));
        let random = Arc::new(SeededRandom::new(1));
        let root = RootKey::generate(&*random);
        let accounts =
            Accounts::new(store.clone(), LogKey::for_tests(), clock.clone(), random, Budget::new(64 << 20));
        let account = accounts.open(AccountId([1; 16]), &root).await.unwrap();
        let mut ingest = accounts.ingest(AccountId([1; 16])).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let inbox = account.state().inbox().id();
        let new = super::super::NewMessage { stored, flags: Arc::default(), received: Timestamp(0) };
        let (_, uids) = account.append(inbox, vec![new]).await.unwrap();
        let expunged =
            Event::Expunged { mailbox: inbox, uids: sealpost_base::UidSet::range(uids[0], uids[0]) };
        account.commit(|_| Ok((vec![expunged.clone()], ()))).await.unwrap();
        clock.advance(Duration::from_secs(40 * 86_400));
        accounts.remove_for_good(false);
        assert_eq!(account.collect_garbage().await.unwrap(), Maintenance::default());
        assert_eq!(account.state().tombstones().count(), 1);
        accounts.remove_for_good(true);
        assert_eq!(account.collect_garbage().await.unwrap().purged, 1);
    }

    #[tokio::test]
    async fn a_newly_filled_account_is_not_collected() {
        let (store, clock) = (Store::memory(), Arc::new(FakeClock::new(Timestamp(0))));
        let random = Arc::new(SeededRandom::new(1));
        let root = RootKey::generate(&*random);
        let open = async || {
            let accounts = Accounts::new(
                store.clone(),
                LogKey::for_tests(),
                clock.clone(),
                random.clone(),
                Budget::new(64 << 20),
            );
            accounts.open(AccountId([1; 16]), &root).await.unwrap()
        };
        let is_due = async |account: &Account| {
            let mut work = account.work.lock().await;
            work.since_collection = NOT_COLLECTED;
            account.collection_is_due(&work)
        };
        let filled = open().await;
        filled.commit(|_| Ok((vec![Event::Purged { before: Timestamp(0) }], ()))).await.unwrap();
        assert!(!is_due(&filled).await);
        assert!(is_due(&*open().await).await, "it may have been there for long");
        clock.advance(UNDER_WAY);
        assert!(is_due(&filled).await);
    }
}
