//! Opens a log: restores the newest readable checkpoint and replays the entries after it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::TryStreamExt;
use sealpost_base::{AccountId, Clock, Error, Kind, Position, Random, Result};
use sealpost_journal::{Append, Content, Journal, Read, Replay, Seal, Step, Tail};
use sealpost_vault::{AccountKeys, Store};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};

use super::{
    Inner, Opening, Queue, RECENT_BYTES, RECENT_LEAST, RECENT_SHARE, Stopped, TouchedSet, Waiting, Work,
};
use crate::event::{Adoption, Batch, Event, WriterId};
use crate::recent::Recent;
use crate::state::State;

/// How often loading starts over because the log was trimmed meanwhile.
const ATTEMPTS: usize = 5;
/// How often a take-over is retried because the other process still appends.
const ADOPT_ATTEMPTS: usize = 16;

/// A log that was read.
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) replay: Replay,
    /// The newest checkpoint, and how many entries came after it.
    pub(crate) checkpoint: Position,
    pub(crate) since: u64,
}

pub(super) async fn open(opening: Opening) -> Result<Queue> {
    let Opening { store, node, name, log_key, mail_keys, clock, random, budget, known } = opening;
    let keys = mail_keys.queue(node);
    let recent = (budget.total() / RECENT_SHARE).clamp(RECENT_LEAST, RECENT_BYTES);
    let journal = Journal::of_queue(store.clone(), node, &log_key, random.clone()).timed(clock.clone());
    let writer = WriterId::random(&*random);
    let (clock_now, nonces) = (&*clock, &*random);
    let taking = TakeOver {
        store: &store,
        node,
        journal: &journal,
        keys: &keys,
        clock: clock_now,
        random: nonces,
        writer,
    };
    let Loaded { state, replay, checkpoint, since } = taking.run(&name, known).await?;
    let work = Work { replay, since: (since, 0), checkpoint };
    Ok(Queue(Arc::new(Inner {
        store,
        node,
        mail_keys,
        keys,
        clock,
        random,
        budget,
        journal,
        log_key,
        writer,
        changed: watch::Sender::new(state.position()),
        state: RwLock::new(state),
        work: AsyncMutex::new(work),
        waiting: Mutex::new(Waiting::default()),
        wake: Notify::new(),
        stopped: watch::Sender::new(None),
        recent: Recent::new(recent),
        touched: TouchedSet::default(),
        upkeep: Arc::default(),
        swept: AtomicBool::new(false),
        full: AtomicBool::new(false),
    })))
}

impl Queue {
    /// Takes the queue back from the process that adopted it. The queue continues, for the node called
    /// `name`, as if this process had just opened it. Outcomes that were not durable when it stopped are
    /// lost, as at a restart. Call [`Queue::run`] again afterwards, and make a new runner.
    ///
    /// # Errors
    /// As [`Queue::open`], and `Retry` while upkeep from before still runs; the queue
    /// stays stopped. `Invalid` if it is not [`Stopped::Adopted`].
    pub async fn take_back(&self, name: &str) -> Result<()> {
        let inner = self.inner();
        if !matches!(self.stopped(), Some(Stopped::Adopted(_))) {
            return Err(Error::invalid("only a queue that another process has adopted is taken back"));
        }
        let mut work = inner.work.lock().await;
        let Ok(_upkeep) = inner.upkeep.try_lock() else {
            return Err(Error::retry("the queue's log is still being made shorter"));
        };
        let known = self.state().position();
        let taking = TakeOver {
            store: &inner.store,
            node: inner.node,
            journal: &inner.journal,
            keys: &inner.keys,
            clock: &*inner.clock,
            random: &*inner.random,
            writer: inner.writer,
        };
        let Loaded { state, replay, checkpoint, since } = taking.run(name, known).await?;
        *work = Work { replay, since: (since, 0), checkpoint };
        let position = state.position();
        inner.recent.clear();
        *inner.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        {
            let mut waiting = inner.waiting();
            *waiting = Waiting { closing: waiting.closing, ..Waiting::default() };
            inner.stopped.send_replace(None);
        }
        inner.changed.send_replace(position);
        Ok(())
    }
}

/// Makes this process the one that appends to a queue's log.
struct TakeOver<'a> {
    store: &'a Store,
    node: AccountId,
    journal: &'a Journal,
    keys: &'a AccountKeys,
    clock: &'a dyn Clock,
    random: &'a dyn Random,
    writer: WriterId,
}

impl TakeOver<'_> {
    /// Appends `Adopted` for the node called `name`. Returns the log up to that entry. `known` is the last
    /// position that the node has seen.
    async fn run(self, name: &str, known: Position) -> Result<Loaded> {
        let TakeOver { store, node, journal, keys, clock, random, writer } = self;
        let copied = is_copy(store, node).await?;
        for _ in 0..ADOPT_ATTEMPTS {
            let mut loaded = load(journal, keys).await?;
            let tail = loaded.replay.tail();
            let mut events = vec![Event::Adopted(Adoption { node: name.to_owned() })];
            if let Some(why) = held_because(&loaded.state, copied, tail.position, known) {
                let mails = loaded.state.len();
                tracing::warn!(mails, why, "the queue is on hold until \"sealpost queue release --all\"");
                events.push(Event::AllHeld(why.to_owned()));
            }
            let nonce = random.next_u64();
            let batch = Batch { at: clock.now(), writer, nonce, events, first: loaded.state.next_id() };
            let appended = match journal.append(&tail, Seal::Owner(keys), &batch.encode()).await {
                Ok(Append::Done(tail)) => tail,
                // Another process appends, or the outcome is unknown: read the log again.
                Ok(Append::Lost | Append::Trimmed) => continue,
                Err(e) if e.kind() == Kind::Retry => continue,
                Err(e) => return Err(e),
            };
            let repeated = loaded.state.totals().repeated;
            loaded.state.apply(appended.position, &batch);
            loaded.replay.appended(appended);
            let repeated = loaded.state.totals().repeated - repeated;
            if repeated > 0 {
                tracing::warn!(
                    mails = repeated,
                    "these were being sent when the queue stopped, and may arrive twice"
                );
            }
            if copied {
                store.delete(&copy_path(node)).await?;
            }
            return Ok(loaded);
        }
        Err(Error::conflict("another process appends to the queue's log all the time; stop it first"))
    }
}

/// Why a queue starts on hold, until the operator has looked at it: its mail may have been sent long
/// ago.
fn held_because(state: &State, copied: bool, end: Position, known: Position) -> Option<&'static str> {
    if state.is_empty() || state.all_held().is_some() {
        None
    } else if copied {
        Some("this store was restored from a backup")
    } else if end < known {
        Some("the log ends before what this node has seen of it: the store was restored")
    } else {
        None
    }
}

/// The marker of a store that is a copy: its queue holds mail that the original has sent since.
pub(crate) fn copy_path(node: AccountId) -> String {
    format!("queue/{node}/copy")
}

async fn is_copy(store: &Store, node: AccountId) -> Result<bool> {
    match store.size(&copy_path(node)).await {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == Kind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The state of a log, for its next writer or for a process that only reads it.
///
/// # Errors
/// `Corrupt` if it is broken; errors of the store.
pub(crate) async fn load(journal: &Journal, keys: &AccountKeys) -> Result<Loaded> {
    for _ in 0..ATTEMPTS {
        let (mut state, tail) = restore(journal, keys).await?;
        let (mut replay, mut since) = (Replay::after(tail), 0);
        let whole = read_on(journal, keys, &mut replay, |position, batch| {
            state.apply(position, &batch);
            since += 1;
        });
        if whole.await? && journal.reaches_back(&tail).await? {
            return Ok(Loaded { state, replay, checkpoint: tail.position, since });
        }
    }
    Err(Error::corrupt("the log of the queue does not reach back to a checkpoint that can be read"))
}

/// The state of the newest readable checkpoint; an empty one if there is none.
async fn restore(journal: &Journal, keys: &AccountKeys) -> Result<(State, Tail)> {
    let mut last = None;
    for position in journal.checkpoints().await? {
        match restore_one(journal, keys, position).await {
            Ok(restored) => return Ok(restored),
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                tracing::error!(error = %e, %position, "a checkpoint of the queue cannot be read");
                last = Some(e);
            }
            Err(e) => return Err(e),
        }
    }
    match last {
        Some(e) if !journal.is_whole().await? => Err(e),
        _ => Ok((State::default(), Tail::EMPTY)),
    }
}

async fn restore_one(journal: &Journal, keys: &AccountKeys, position: Position) -> Result<(State, Tail)> {
    let checkpoint = journal.checkpoint(keys, position).await?;
    let mut state = State::default();
    for chunk in &checkpoint.chunks {
        state.restore(&chunk.name, &journal.chunk(keys, position, chunk).await?)?;
    }
    Ok((state, checkpoint.tail))
}

/// Passes the entries behind the replay to `apply`. Returns `false` if entries were trimmed meanwhile.
///
/// # Errors
/// `Corrupt` if the log is broken; errors of the store.
pub(super) async fn read_on(
    journal: &Journal,
    keys: &AccountKeys,
    replay: &mut Replay,
    mut apply: impl FnMut(Position, Batch),
) -> Result<bool> {
    let tail = replay.tail();
    let Some(places) = journal.places_after(&tail).await? else { return Ok(false) };
    let mut entries = std::pin::pin!(journal.entries(keys, tail, &places));
    while let Some(read) = entries.try_next().await? {
        let entry = match read {
            Read::Entry(entry) => entry,
            Read::Noise(_) | Read::Damaged(_) => continue,
            Read::Gone(position) if journal.is_trimmed(position).await? => return Ok(false),
            Read::Gone(_) => continue,
        };
        let mut step = replay.next(&entry);
        if step != Step::Counts
            && let Some(cover) = journal.cover_of(entry.position, &places).await?
        {
            replay.continue_by(cover);
            step = replay.next(&entry);
        }
        let position = entry.position;
        if step != Step::Counts {
            return Err(Error::corrupt(format!(
                "log entry {position} of the queue does not follow the one before: one is missing or damaged. \
                 A backup may have it"
            )));
        }
        let plain = match entry.content {
            Content::Plain(_, plain) => plain,
            Content::Renumbering(_) => continue,
            Content::Sealed(why) => {
                return Err(Error::corrupt(format!(
                    "log entry {position} of the queue cannot be opened ({why}): copy mail.key from another node \
                     or the backup"
                )));
            }
        };
        let batch =
            Batch::decode(&plain).map_err(|e| e.context(format!("log entry {position} of the queue")))?;
        apply(position, batch);
    }
    Ok(true)
}
