//! Loads an account, and catches up with its log.

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

/// How often a load restarts because the log was trimmed meanwhile, or is broken: the store may return
/// missing entries later.
const LOAD_ATTEMPTS: usize = 5;
/// The pause before a restart because the log is broken; it grows by this with each.
const BROKEN_PAUSE: Duration = Duration::from_millis(100);
/// Chunks of a checkpoint read at once.
const READ_AHEAD: usize = 8;
/// Entries read between two checks that they are the entries in force.
const GROUP: usize = 16;
/// The account's memory is checked after this many entries.
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
            // The rest is readable, and the log was reported as broken.
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

    /// Applies the entries after the state.
    ///
    /// # Errors
    /// Store errors; `Corrupt` if the log is broken, or does not have the entries in the state.
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
                // Before it counts: if it cannot be read or loading fails, the state does not include it.
                let said = read_entry(self.id, &keys, &entry)?;
                if matches!(entry.content, Content::Renumbering(_)) {
                    return self.reload(work).await;
                }
                let rows = self.state().rows_of(events_of(&said));
                // In one step, which nothing cancels: what counts is in the state, and the other way round.
                let step = |state: &mut AccountState| match work.replay.next(&entry) {
                    Step::Counts => Some(apply(self.id, state, &entry, &said)),
                    Step::Broken | Step::Disputed => None,
                };
                let Some(events) = self.change_state(rows, step).await else {
                    return self.reload(work).await;
                };
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

    /// Starts from the checkpoint again: the log was trimmed beyond the state, is broken, or has a
    /// renumbering.
    ///
    /// # Errors
    /// As [`Account::follow`]; the state is then unchanged.
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
            // The log lacks entries that this node has shown. If the meaning of UIDs has not changed since,
            // clients must notice.
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

/// Checks the memory of an account while it is loaded, so that too large ones fail early.
struct Scale<'a> {
    env: &'a AccountEnv,
    id: AccountId,
    charge: &'a Reservation,
}

impl Scale<'_> {
    fn weigh(&self, state: &AccountState) -> Result<()> {
        self.env.weigh(self.id, self.charge, state.memory())
    }

    /// Checks with entries still to come: keeps the expected size until it is exceeded.
    fn check(&self, state: &AccountState) -> Result<()> {
        let now = state.memory();
        if now > self.charge.bytes() { self.env.weigh(self.id, self.charge, now) } else { Ok(()) }
    }
}

/// The expected memory of an account that was not loaded before.
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
        // Even without entries: a log that was lost completely must not count as an empty one.
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

/// An account in replay.
struct Loading<'a> {
    journal: &'a Journal,
    keys: &'a AccountKeys,
    scale: &'a Scale<'a>,
    places: &'a [EntryName],
    state: AccountState,
    work: Work,
    damaged: bool,
}

/// How far a replay came.
enum Loaded {
    /// To the end of the log.
    Whole,
    /// Entries were removed meanwhile.
    Trimmed,
    /// Up to a missing entry, described for the operator.
    Broken(String),
    /// Up to a renumbering that decides which entries count from that position on. The checkpoint is after
    /// that position and may include other entries.
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
            let events = self.scale.env.cpu_gate().run(rows, || apply(id, state, &entry, &said)).await;
            keep_structures(self.scale.env, id, said);
            self.damaged |= events.is_none();
            self.work.since_checkpoint += events.unwrap_or(1).max(1);
            if at.0 % WEIGH_ENTRIES == 0 {
                self.scale.check(&self.state)?;
            }
        }
        Ok(Loaded::Whole)
    }

    /// Continues at a break before the entry at `position`, where a renumbering decides what counts.
    fn continue_by(&mut self, cover: Cover, position: Position) {
        tracing::error!(
            account = %self.scale.id, %position, renumbering = %cover.position,
            "the log is broken here and was repaired; mailboxes have a new UIDVALIDITY"
        );
        self.work.replay.continue_by(cover);
        self.state.apply_renumbering(position, cover.generation);
    }
}

/// The state of the newest completely readable checkpoint below a position. If there is none: the state of an
/// empty log if the whole log exists, otherwise that of the newest checkpoint with its readable parts.
/// Without checkpoints, the state of an empty log.
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
            // A chunk of a checkpoint that was trimmed since the listing is no damage.
            let whole = matches!(&restored, Ok(Some(_))) && strict;
            if !whole && journal.is_trimmed(*position).await? {
                continue;
            }
            match restored {
                Ok(Some((state, tail))) => {
                    return Ok((state, behind(tail, true), damaged));
                }
                // It was removed since the listing, or is not completely written yet.
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

/// The content of an entry.
enum Said {
    /// Events.
    Events(Origin, Batch),
    /// From here on UIDs have a new meaning.
    Renumbering,
    /// The account's key does not open it, and why.
    Nothing(String),
}

/// The content of an entry. `Denied` if it is sealed under a newer key of the account than these, `Retry` if a
/// newer version of Sealpost has written it: neither is damage, and passing over it would lose changes.
fn read_entry(id: AccountId, keys: &AccountKeys, entry: &Entry) -> Result<Said> {
    let why = match &entry.content {
        Content::Plain(origin, plaintext) => match Batch::decode(plaintext) {
            Ok(batch) => return Ok(Said::Events(*origin, batch)),
            Err(e) if e.kind() == Kind::Retry => {
                return Err(e.context(format!("account {id}, log entry {}", entry.position)));
            }
            Err(e) => e.to_string(),
        },
        Content::Renumbering(_) => return Ok(Said::Renumbering),
        Content::Sealed(_) if keys.are_outdated() => {
            return Err(Error::denied("the account has a newer key: log in again"));
        }
        Content::Sealed(why) => why.clone(),
    };
    Ok(Said::Nothing(why))
}

/// Caches structures that arrived with deliveries: clients request them next.
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
        Said::Renumbering | Said::Nothing(_) => &[],
    }
}

/// Applies one entry. Returns the number of its events; `None` if it could not be opened.
fn apply(id: AccountId, state: &mut AccountState, entry: &Entry, said: &Said) -> Option<usize> {
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
        Said::Nothing(why) => {
            tracing::error!(account = %id, %position, why, "a log entry cannot be opened");
            state.apply_damage(position);
            None
        }
    }
}
