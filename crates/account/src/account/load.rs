//! Loading an account, and reading on in its log.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sealpost_base::{AccountId, Error, Kind, Position, Result, limits};
use sealpost_journal::{Content, Entry, Journal, Tail};
use sealpost_vault::entry::Origin;
use sealpost_vault::{AccountKeys, RootKey};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::Instant;

use super::{Account, NOT_COLLECTED, Work};
use crate::accounts::{Accounts, Charge};
use crate::event::{Batch, Event};
use crate::head::Head;
use crate::packs::Packs;
use crate::state::{self, AccountState, Restore};
use crate::summary::Indexes;

/// How often loading starts again because the log was trimmed meanwhile.
const LOAD_ATTEMPTS: usize = 5;
/// Chunks of a checkpoint read at once.
const READ_AHEAD: usize = 8;
/// Entries that are read before it is asked whether they are those that count.
const GROUP: usize = 16;
/// Every so many entries it is weighed what they made.
const WEIGH_ENTRIES: u64 = 64;

impl Account {
    /// Loads the account from its last checkpoint and the log after it.
    pub(crate) async fn load(accounts: Accounts, head: Arc<Head>, root: &RootKey) -> Result<Arc<Account>> {
        let id = head.journal.account();
        let began = accounts.clock().monotonic();
        let keys = AccountKeys::derive(root, id);
        let expected = match head.weight.load(Ordering::Relaxed) {
            0 => expected_bytes(&head.journal, &keys).await?,
            known => known,
        };
        let charge = accounts.make_room(expected).await?;
        let turn = accounts.turn_to_load(charge.bytes()).await;
        let scale = Scale { accounts: &accounts, id, charge: &charge };
        let reads = accounts.clock().monotonic();
        let (state, work, damaged) = load(&head.journal, &keys, &scale).await?;
        let took = accounts.clock().monotonic().saturating_sub(reads);
        drop(turn);
        scale.weigh(&state)?;
        head.weight.store(charge.bytes(), Ordering::Relaxed);
        accounts.metrics().loads.observe_time(accounts.clock().monotonic().saturating_sub(began));
        accounts.metrics().load_events.observe(work.since_checkpoint as u64);
        head.ring(work.tail.position);
        match head.may_follow(&work.tail) {
            // What is left can be read, and the log says what is wrong.
            Err(error) => tracing::debug!(account = %id, %error, "the account can be read and not changed"),
            Ok(()) if !damaged => head.saw(work.tail.position),
            Ok(()) => {}
        }
        let reading = accounts.reading().share(accounts.reading().total() / 2);
        let account = Arc::new_cyclic(|this| Account {
            this: this.clone(),
            accounts: accounts.clone(),
            id,
            root: root.clone(),
            keys,
            head,
            state: RwLock::new(state),
            changing_much: AtomicBool::new(false),
            settled: Notify::new(),
            charge,
            loaded: Instant::now(),
            new_since: (work.tail == Tail::EMPTY).then_some(began),
            took,
            leaving: watch::Sender::new(false),
            work: AsyncMutex::new(work),
            appends: Mutex::default(),
            recents: Mutex::default(),
            damaged: AtomicBool::new(damaged),
            maintaining: AtomicBool::new(false),
            indexes: Indexes::default(),
            packs: Packs::default(),
            reading_much: accounts.reading().share(accounts.reading().total() / 4),
            reading,
        });
        account.maintain_in_background();
        Ok(account)
    }

    /// Applies what the log has beyond the state.
    pub(super) async fn follow(&self, work: &mut Work) -> Result<()> {
        let Some(places) = self.head.journal.places_after(&work.tail).await? else {
            return self.reload(work).await;
        };
        for places in places.chunks(GROUP) {
            let known = work.tail;
            let entries = self.head.journal.entries(&self.keys, known, places);
            let entries: Vec<Entry> = entries.try_collect().await?;
            if !self.head.journal.reaches_back(&known).await? {
                return self.reload(work).await;
            }
            for entry in entries {
                if self.head.journal.was_trimmed(&entry).await? {
                    return self.reload(work).await;
                }
                let tail = entry.tail();
                let said = read(self.id, &entry);
                let rows = self.state().rows_of(events_of(&said));
                let events = self.change_state(rows, |state| apply(state, &entry, &said)).await;
                keep_structures(&self.accounts, said);
                match events {
                    None => self.damaged.store(true, Ordering::Relaxed),
                    Some(_) => self.head.saw(tail.position),
                }
                self.applied_up_to(work, tail, events.unwrap_or(1));
            }
        }
        Ok(())
    }

    /// The log was trimmed beyond what the state includes: starts from the checkpoint again.
    pub(super) async fn reload(&self, work: &mut Work) -> Result<()> {
        let scale = Scale { accounts: &self.accounts, id: self.id, charge: &self.charge };
        let (state, fresh, damaged) = load(&self.head.journal, &self.keys, &scale).await?;
        scale.weigh(&state)?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        *work = fresh;
        self.damaged.fetch_or(damaged, Ordering::Relaxed);
        self.head.ring(work.tail.position);
        Ok(())
    }
}

/// Weighs an account while it is loaded, so that one which is too large ends early.
struct Scale<'a> {
    accounts: &'a Accounts,
    id: AccountId,
    charge: &'a Charge,
}

impl Scale<'_> {
    fn weigh(&self, state: &AccountState) -> Result<()> {
        self.accounts.weigh(self.id, self.charge, state.memory())
    }

    /// The same while there is more to come: what was expected is kept until it is passed.
    fn check(&self, state: &AccountState) -> Result<()> {
        let now = state.memory();
        if now > self.charge.bytes() { self.accounts.weigh(self.id, self.charge, now) } else { Ok(()) }
    }
}

/// About what an account will take that was not loaded before.
async fn expected_bytes(journal: &Journal, keys: &AccountKeys) -> Result<usize> {
    let newest = journal.checkpoints().await?.first().copied();
    let checkpoint = match newest {
        // Loading it finds out whether it is damaged, and says so.
        Some(newest) => {
            journal.checkpoint(keys, newest).await.map_or_else(|_| Vec::new(), |found| found.chunks)
        }
        None => Vec::new(),
    };
    let tail = journal.count_after(newest.unwrap_or(Position::ZERO)).await?;
    Ok(state::expected_bytes(checkpoint.iter().map(|chunk| chunk.name.as_str()), tail))
}

async fn load(
    journal: &Journal,
    keys: &AccountKeys,
    scale: &Scale<'_>,
) -> Result<(AccountState, Work, bool)> {
    let id = scale.id;
    'attempts: for _ in 0..LOAD_ATTEMPTS {
        let (mut state, mut work, mut damaged) = restore(journal, keys, scale).await?;
        let Some(places) = journal.places_after(&work.tail).await? else { continue };
        let known = work.tail;
        let mut entries = pin!(journal.entries(keys, known, &places));
        while let Some(entry) = entries.next().await {
            let entry = entry?;
            if journal.was_trimmed(&entry).await? {
                continue 'attempts;
            }
            let said = read(id, &entry);
            let rows = state.rows_of(events_of(&said));
            let events = scale.accounts.long_steps().run(rows, || apply(&mut state, &entry, &said)).await;
            keep_structures(scale.accounts, said);
            damaged |= events.is_none();
            work.tail = entry.tail();
            work.since_checkpoint += events.unwrap_or(1).max(1);
            if work.tail.position.0 % WEIGH_ENTRIES == 0 {
                scale.check(&state)?;
            }
        }
        // Also if there was nothing: a log that was lost as a whole is not taken for an empty one.
        if journal.reaches_back(&known).await? {
            return Ok((state, work, damaged));
        }
    }
    Err(Error::corrupt(format!("account {id}: the log does not reach back to a checkpoint that can be read")))
}

/// The state of the newest checkpoint that can be read whole; if none can, that of an empty log if all of the log is there, or else
/// of the newest with what can be read of it; without any, the state of an empty log.
async fn restore(
    journal: &Journal,
    keys: &AccountKeys,
    scale: &Scale<'_>,
) -> Result<(AccountState, Work, bool)> {
    let id = scale.id;
    let positions = journal.checkpoints().await?;
    let mut damaged = false;
    let empty = || Work { tail: Tail::EMPTY, since_checkpoint: 0, since_collection: NOT_COLLECTED };
    for strict in [true, false] {
        if !strict && damaged && journal.is_whole().await? {
            tracing::error!(account = %id, "no checkpoint can be read whole; all of the log is there, and is replayed");
            return Ok((AccountState::new(id), empty(), damaged));
        }
        for position in &positions {
            let restored = restore_one(journal, keys, scale, *position, strict).await;
            // What is missing of one that was trimmed since it was listed is no damage.
            let whole = matches!(&restored, Ok(Some(_))) && strict;
            if !whole && journal.is_trimmed(*position).await? {
                continue;
            }
            match restored {
                Ok(Some((state, tail))) => {
                    return Ok((
                        state,
                        Work { tail, since_checkpoint: 0, since_collection: NOT_COLLECTED },
                        damaged,
                    ));
                }
                // Removed since it was listed, or not quite written yet.
                Ok(None) => {}
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                    tracing::error!(account = %id, checkpoint = %position, error = %e, "damaged checkpoint");
                    damaged = true;
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok((AccountState::new(id), empty(), damaged))
}

async fn restore_one(
    journal: &Journal,
    keys: &AccountKeys,
    scale: &Scale<'_>,
    position: Position,
    strict: bool,
) -> Result<Option<(AccountState, Tail)>> {
    let id = scale.id;
    let checkpoint = match journal.checkpoint(keys, position).await {
        Err(e) if e.kind() == Kind::NotFound => return Ok(None),
        found => found?,
    };
    let mut restore = if strict { Restore::new(id) } else { Restore::lenient(id) };
    let mut chunks = futures::stream::iter(checkpoint.chunks.clone())
        .map(|chunk| async move {
            let plain = journal.chunk(keys, position, &chunk).await;
            (chunk.name, plain)
        })
        .buffered(READ_AHEAD);
    while let Some((name, plain)) = chunks.next().await {
        match plain {
            Ok(plain) => restore.chunk(&name, &plain)?,
            Err(e) if !strict && matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                tracing::error!(account = %id, chunk = name, error = %e, "part of the account is lost");
            }
            Err(e) => return Err(e),
        }
        scale.check(restore.state())?;
    }
    drop(chunks);
    Ok(Some((restore.finish()?, checkpoint.tail)))
}

/// What an entry says, `None` if it cannot be read.
fn read(id: AccountId, entry: &Entry) -> Option<(Origin, Batch)> {
    let position = entry.position;
    if !entry.chained {
        tracing::error!(account = %id, %position, "this log entry does not follow the one before it");
    }
    let read = match &entry.content {
        Content::Plain(origin, plaintext) => {
            Batch::decode(plaintext).map(|batch| (*origin, batch)).map_err(|e| e.to_string())
        }
        Content::Damaged(why) => Err(why.clone()),
    };
    read.inspect_err(|why| tracing::error!(account = %id, %position, why, "damaged log entry")).ok()
}

/// Keeps structures that came with deliveries: they are asked for next.
fn keep_structures(accounts: &Accounts, said: Option<(Origin, Batch)>) {
    for event in said.into_iter().flat_map(|(_, batch)| batch.events) {
        if let Event::Delivered { message, structure: Some(sealed), .. } = event
            && sealed.len() <= limits::DELIVERED_STRUCTURE_BYTES
        {
            let sealed = Bytes::from(Vec::from(sealed));
            let bytes = sealed.len();
            accounts.delivered().put(message.object, Arc::new(sealed), bytes);
        }
    }
}

fn events_of(said: &Option<(Origin, Batch)>) -> &[Event] {
    said.as_ref().map_or(&[], |(_, batch)| &batch.events)
}

/// Applies one entry; how many events it had, `None` if it was not intact.
fn apply(state: &mut AccountState, entry: &Entry, said: &Option<(Origin, Batch)>) -> Option<usize> {
    match said {
        Some((origin, batch)) => {
            state.apply(entry.position, *origin, batch);
            entry.chained.then_some(batch.events.len())
        }
        None => {
            state.apply_damage(entry.position);
            None
        }
    }
}
