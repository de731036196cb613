//! Loading an account, and reading on in its log.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sealpost_base::{AccountId, Error, Kind, Position, Result, limits};
use sealpost_journal::{Content, Cover, Entry, EntryName, Journal, Read, Replay, Step, Tail};
use sealpost_vault::entry::Origin;
use sealpost_vault::{AccountKeys, RootKey};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::Instant;

use super::{Account, NOT_COLLECTED, Work};
use crate::accounts::Reservation;
use crate::env::AccountEnv;
use crate::event::{Batch, Event};
use crate::log_end::LogEnd;
use crate::share_keys::Openers;
use crate::state::{self, AccountState, Restore};

/// How often loading starts again because the log was trimmed meanwhile, or is broken: what is
/// missing may be given out later.
const LOAD_ATTEMPTS: usize = 5;
/// Before it starts again because the log is broken; as long again each time.
const BROKEN_PAUSE: Duration = Duration::from_millis(100);
/// Chunks of a checkpoint read at once.
const READ_AHEAD: usize = 8;
/// Entries that are read between two checks that they are the entries in force.
const GROUP: usize = 16;
/// Every so many entries it is weighed what they made.
const WEIGH_ENTRIES: u64 = 64;

impl Account {
    /// Loads the account from its last checkpoint and the log after it.
    pub(crate) async fn load(env: AccountEnv, head: Arc<LogEnd>, root: &RootKey) -> Result<Arc<Account>> {
        let id = head.journal.account();
        let began = env.clock().monotonic();
        let keys = AccountKeys::derive(root, id);
        let expected = match head.weight.load(Ordering::Relaxed) {
            0 => expected_bytes(&head.journal, &keys).await?,
            known => known,
        };
        let charge = env.reserve(expected).await?;
        let turn = env.turn_to_load(charge.bytes()).await;
        let scale = Scale { env: &env, id, charge: &charge };
        let reads = env.clock().monotonic();
        let (state, work, damaged) = load(&head.journal, &keys, &scale).await?;
        let took = env.clock().monotonic().saturating_sub(reads);
        drop(turn);
        scale.weigh(&state)?;
        head.weight.store(charge.bytes(), Ordering::Relaxed);
        env.metrics().loads.observe_time(env.clock().monotonic().saturating_sub(began));
        env.metrics().load_events.observe(work.since_checkpoint as u64);
        head.notify(work.tail().position);
        let damaged_end = head.journal.damaged_end(&work.tail()).unwrap_or_default().0;
        match head.may_follow(&work.tail()) {
            // What is left can be read, and the log says what is wrong.
            Err(error) => tracing::debug!(account = %id, %error, "the account is read-only"),
            Ok(()) if !damaged => head.saw(work.tail().position),
            Ok(()) => {}
        }
        let reading = env.reading().share(env.reading().total() / 2);
        let account = Arc::new_cyclic(|this| Account {
            this: this.clone(),
            env: env.clone(),
            id,
            keys: RwLock::new((root.clone(), Arc::new(keys))),
            openers: Openers::default(),
            head,
            state: RwLock::new(state),
            bulk_update: AtomicBool::new(false),
            bulk_update_done: Notify::new(),
            charge,
            loaded: Instant::now(),
            new_since: (work.tail() == Tail::EMPTY).then_some(began),
            took,
            leaving: watch::Sender::new(false),
            work: AsyncMutex::new(work),
            appends: Mutex::default(),
            recents: Mutex::default(),
            damaged: AtomicBool::new(damaged),
            damaged_end: AtomicU64::new(damaged_end),
            maintaining: AtomicBool::new(false),
            derived: env.derived().map(|derived| derived.attach()),
            reading_much: env.reading().share(env.reading().total() / 4),
            reading,
        });
        account.maintain_in_background();
        Ok(account)
    }

    /// Applies what the log has beyond the state.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if the log is broken, or has not what the state has.
    pub(super) async fn follow(&self, work: &mut Work) -> Result<()> {
        match self.read_on(work).await {
            Err(outdated) if outdated.kind() == Kind::Denied => {
                Box::pin(self.renew_key(outdated)).await?;
                self.read_on(work).await
            }
            read => read,
        }
    }

    async fn read_on(&self, work: &mut Work) -> Result<()> {
        let (journal, keys) = (&self.head.journal, self.keys());
        let Some(places) = journal.places_after(&work.tail()).await? else {
            return self.reload(work).await;
        };
        for places in places.chunks(GROUP) {
            let known = work.tail();
            let read: Vec<Read> = journal.entries(&keys, known, places).try_collect().await?;
            if !journal.reaches_back(&known).await? {
                return self.reload(work).await;
            }
            for read in read {
                let entry = match read {
                    Read::Entry(entry) => entry,
                    Read::Noise(_) => continue,
                    Read::Damaged(position) => {
                        self.damaged_end.fetch_max(position.0, Ordering::Relaxed);
                        continue;
                    }
                    Read::Gone(position) if journal.is_trimmed(position).await? => {
                        return self.reload(work).await;
                    }
                    Read::Gone(_) => continue,
                };
                // Before it is counted: if loading fails, the state does not go up to it.
                if matches!(entry.content, Content::Renumbering(_))
                    || work.replay.next(&entry) != Step::Counts
                {
                    return self.reload(work).await;
                }
                let said = read_entry(self.id, &keys, &entry)?;
                let rows = self.state().rows_of(events_of(&said));
                let events = self.change_state(rows, |state| apply(state, &entry, &said)).await;
                keep_structures(&self.env, self.id, said);
                match events {
                    None => self.damaged.store(true, Ordering::Relaxed),
                    Some(_) => self.head.saw(entry.tail().position),
                }
                self.applied_up_to(work, entry.tail(), events.unwrap_or(1));
            }
        }
        Ok(())
    }

    /// Starts from the checkpoint again: the log was trimmed beyond the state, is broken, or names
    /// its continuation.
    ///
    /// # Errors
    /// As [`Account::follow`]. The state is what it was then.
    pub(super) async fn reload(&self, work: &mut Work) -> Result<()> {
        let scale = Scale { env: &self.env, id: self.id, charge: &self.charge };
        let before = work.tail();
        let loaded = match load(&self.head.journal, &self.keys(), &scale).await {
            Err(outdated) if outdated.kind() == Kind::Denied => {
                Box::pin(self.renew_key(outdated)).await?;
                load(&self.head.journal, &self.keys(), &scale).await
            }
            loaded => loaded,
        };
        let (state, fresh, damaged) = loaded?;
        if fresh.replay.counted(&before) == Some(false) {
            // What this node showed is not in the log. If UIDs mean something else since, clients find out.
            if fresh.tail().generation <= before.generation {
                return Err(Error::corrupt(format!(
                    "account {}: log entry {} as read by this node differs from the store's, or is missing \
                     there: nodes disagree; \"sealpost check\" names the damage, \"sealpost account repair\" \
                     continues from the store's log",
                    self.id, before.position
                )));
            }
            tracing::error!(
                account = %self.id, position = %before.position,
                "a log entry that this node has read no longer counts; the account gets a new UIDVALIDITY"
            );
        }
        scale.weigh(&state)?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        *work = fresh;
        self.damaged.store(damaged, Ordering::Relaxed);
        let damaged_end = self.head.journal.damaged_end(&work.tail()).unwrap_or_default();
        self.damaged_end.store(damaged_end.0, Ordering::Relaxed);
        self.head.notify(work.tail().position);
        Ok(())
    }
}

/// Weighs an account while it is loaded, so that one which is too large ends early.
struct Scale<'a> {
    env: &'a AccountEnv,
    id: AccountId,
    charge: &'a Reservation,
}

impl Scale<'_> {
    fn weigh(&self, state: &AccountState) -> Result<()> {
        self.env.weigh(self.id, self.charge, state.memory())
    }

    /// The same while there is more to come: what was expected is kept until it is passed.
    fn check(&self, state: &AccountState) -> Result<()> {
        let now = state.memory();
        if now > self.charge.bytes() { self.env.weigh(self.id, self.charge, now) } else { Ok(()) }
    }
}

/// About what an account will take that was not loaded before.
async fn expected_bytes(journal: &Journal, keys: &AccountKeys) -> Result<usize> {
    let newest = journal.checkpoints().await?.first().copied();
    let checkpoint = match newest {
        // Loading the account detects and reports damage.
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
    let (mut broken, mut below) = (None, Position(u64::MAX));
    for attempt in 0..LOAD_ATTEMPTS {
        if broken.is_some() {
            tokio::time::sleep(BROKEN_PAUSE * attempt as u32).await;
        }
        let (state, work, damaged) = restore(journal, keys, scale, below).await?;
        journal.look_again();
        let Some(places) = journal.places_after(&work.tail()).await? else { continue };
        let known = work.tail();
        let mut loading = Loading { journal, keys, scale, places: &places, state, work, damaged };
        broken = match loading.run().await? {
            Loaded::Whole => None,
            Loaded::Broken(why) => Some(why),
            Loaded::Trimmed => continue,
            Loaded::Contradicted(from) => {
                below = from;
                continue;
            }
        };
        // Also if there was nothing: a log that was lost as a whole is not taken for an empty one.
        if !journal.reaches_back(&known).await? {
            broken = None;
            continue;
        }
        if broken.is_none() {
            let Loading { state, work, damaged, .. } = loading;
            return Ok((state, work, damaged));
        }
    }
    Err(Error::corrupt(match broken {
        Some(why) => format!(
            "account {id}: {why}; later entries name messages by UIDs that are unknown without it, so the \
             account is not opened. The store may return the entry later; \"sealpost check\" names the \
             damage, a backup may have the entry, and \"sealpost account repair\" gives it up"
        ),
        None => format!("account {id}: the log does not reach back to a checkpoint that can be read"),
    }))
}

/// An account that is being replayed.
struct Loading<'a> {
    journal: &'a Journal,
    keys: &'a AccountKeys,
    scale: &'a Scale<'a>,
    places: &'a [EntryName],
    state: AccountState,
    work: Work,
    damaged: bool,
}

/// How far that came.
enum Loaded {
    /// To the end of the log.
    Whole,
    /// Entries were removed meanwhile.
    Trimmed,
    /// To where an entry is missing; which, for the operator.
    Broken(String),
    /// To a renumbering that says which entries count from that position on, which the checkpoint
    /// is behind: what is in it may be of others.
    Contradicted(Position),
}

impl Loading<'_> {
    async fn run(&mut self) -> Result<Loaded> {
        let (id, begun) = (self.scale.id, self.work.tail().position);
        let mut entries = pin!(self.journal.entries(self.keys, self.work.tail(), self.places));
        while let Some(read) = entries.next().await {
            let entry = match read? {
                Read::Entry(entry) => entry,
                Read::Noise(_) | Read::Damaged(_) => continue,
                Read::Gone(position) if self.journal.is_trimmed(position).await? => {
                    return Ok(Loaded::Trimmed);
                }
                Read::Gone(_) => continue,
            };
            if let Content::Renumbering(renumbering) = &entry.content
                && renumbering.from <= begun
            {
                return Ok(Loaded::Contradicted(renumbering.from));
            }
            let last = self.work.tail().position;
            let mut step = self.work.replay.next(&entry);
            if step != Step::Counts
                && let Some(cover) = self.journal.cover_of(entry.position, self.places).await?
            {
                self.continue_by(cover, entry.position);
                step = self.work.replay.next(&entry);
            }
            let at = entry.position;
            match step {
                Step::Counts => {}
                Step::Broken if last == Position::ZERO => {
                    return Ok(Loaded::Broken(format!(
                        "no checkpoint can be read, and the log begins with entry {at}"
                    )));
                }
                Step::Broken => {
                    return Ok(Loaded::Broken(format!(
                        "log entry {at} does not follow entry {last}: one between them is missing or damaged"
                    )));
                }
                Step::Disputed => {
                    return Ok(Loaded::Broken(format!(
                        "log entry {at} refers to other entries than the readable ones"
                    )));
                }
            }
            let said = read_entry(id, self.keys, &entry)?;
            self.work.has_opened |= matches!(said, Said::Events(..));
            let rows = self.state.rows_of(events_of(&said));
            let state = &mut self.state;
            let events = self.scale.env.cpu_gate().run(rows, || apply(state, &entry, &said)).await;
            keep_structures(self.scale.env, id, said);
            self.damaged |= events.is_none();
            self.work.since_checkpoint += events.unwrap_or(1).max(1);
            if at.0 % WEIGH_ENTRIES == 0 {
                self.scale.check(&self.state)?;
            }
        }
        Ok(Loaded::Whole)
    }

    /// The log is broken before the entry at `position`, and a renumbering says what counts.
    fn continue_by(&mut self, cover: Cover, position: Position) {
        tracing::error!(
            account = %self.scale.id, %position, renumbering = %cover.position,
            "the log is broken here and was repaired; mailboxes have a new UIDVALIDITY"
        );
        self.work.replay.continue_by(cover);
        self.state.apply_renumbering(position, cover.generation);
    }
}

/// The state of the newest checkpoint below a position that can be read whole; if none can, that of
/// an empty log if all of the log is there, or else of the newest with what can be read of it;
/// without any, the state of an empty log.
async fn restore(
    journal: &Journal,
    keys: &AccountKeys,
    scale: &Scale<'_>,
    below: Position,
) -> Result<(AccountState, Work, bool)> {
    let id = scale.id;
    let mut positions = journal.checkpoints().await?;
    positions.retain(|position| *position < below);
    let mut damaged = false;
    let behind = |tail, has_opened| Work {
        replay: Replay::after(tail),
        since_checkpoint: 0,
        since_collection: NOT_COLLECTED,
        has_opened,
    };
    for strict in [true, false] {
        if !strict && damaged && journal.is_whole().await? {
            tracing::error!(account = %id, "no checkpoint is readable; the log is complete and is replayed");
            return Ok((AccountState::new(id), behind(Tail::EMPTY, false), damaged));
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
                    return Ok((state, behind(tail, true), damaged));
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
    Ok((AccountState::new(id), behind(Tail::EMPTY, false), damaged))
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

/// What an entry says.
enum Said {
    /// Events.
    Events(Origin, Batch),
    /// UIDs have a new meaning from here on.
    Renumbering,
    /// The account's key does not open it.
    Nothing,
}

/// What an entry says; `Denied` if the account has a newer key than these, under which it is
/// sealed: that is no damage.
fn read_entry(id: AccountId, keys: &AccountKeys, entry: &Entry) -> Result<Said> {
    let why = match &entry.content {
        Content::Plain(origin, plaintext) => match Batch::decode(plaintext) {
            Ok(batch) => return Ok(Said::Events(*origin, batch)),
            Err(e) => e.to_string(),
        },
        Content::Renumbering(_) => return Ok(Said::Renumbering),
        Content::Sealed(_) if keys.are_outdated() => {
            return Err(Error::denied("the account has a newer key: log in again"));
        }
        Content::Sealed(why) => why.clone(),
    };
    tracing::error!(account = %id, position = %entry.position, why, "a log entry cannot be opened");
    Ok(Said::Nothing)
}

/// Caches structures that came with deliveries: clients request them next.
fn keep_structures(env: &AccountEnv, id: AccountId, said: Said) {
    let Said::Events(_, batch) = said else { return };
    for event in batch.events {
        if let Event::Delivered { message, structure: Some(sealed), .. } = event
            && sealed.len() <= limits::DELIVERED_STRUCTURE_BYTES
        {
            let sealed = Bytes::from(Vec::from(sealed));
            let bytes = sealed.len();
            env.delivered().put(id, message.object, Arc::new(sealed), bytes);
        }
    }
}

fn events_of(said: &Said) -> &[Event] {
    match said {
        Said::Events(_, batch) => &batch.events,
        Said::Renumbering | Said::Nothing => &[],
    }
}

/// Applies one entry; how many events it had, `None` if it could not be opened.
fn apply(state: &mut AccountState, entry: &Entry, said: &Said) -> Option<usize> {
    let Entry { position, generation, .. } = *entry;
    match said {
        Said::Events(origin, batch) => {
            let counts_as = state.origin_in_epoch(*origin, entry.epoch);
            if counts_as != *origin {
                tracing::error!(
                    %position, epoch = entry.epoch.0,
                    "a log entry is sealed under an earlier key than one before it: only deliveries in it count"
                );
            }
            state.apply_decided_on(generation, position, counts_as, batch);
            Some(batch.events.len())
        }
        Said::Renumbering => {
            state.apply_renumbering(position, generation);
            Some(1)
        }
        Said::Nothing => {
            state.apply_damage(position);
            None
        }
    }
}
