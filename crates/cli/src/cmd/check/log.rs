//! An account's log and checkpoints.
//!
//! The log must reach without a gap from the older of the last two checkpoints (from 1 if there are fewer) to its
//! end, each entry carrying the hash of the one before. With keys it is replayed, and at each checkpoint the replayed
//! state must be the checkpoint's, chunk by chunk.

use futures::{StreamExt, TryStreamExt, stream};
use sealpost_account::event::{Batch, Event};
use sealpost_account::state::{AccountState, Restore};
use sealpost_base::{AccountId, Error, Position, Result};
use sealpost_journal::{Checkpoint, Journal, Place, Tail};
use sealpost_vault::entry::{self, Origin};
use sealpost_vault::{AccountKeys, Hash};

use super::report::Finding;
use crate::place::Place as Directory;

/// Entries and chunks read at once.
const READ_AHEAD: usize = 16;
/// How often a check starts again because the server wrote a checkpoint and trimmed the log under it.
const ATTEMPTS: usize = 5;
/// Chunks of a checkpoint that a finding names.
const CHUNKS_NAMED: usize = 5;

/// What was found.
pub struct Examined {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How much there was.
    pub counts: Counts,
    /// The state at the end of the log, as the server would load it; only with keys.
    pub state: Option<AccountState>,
}

/// How much was checked.
#[derive(Default)]
pub struct Counts {
    /// Log entries.
    pub entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Their chunks.
    pub chunks: u64,
}

/// Checks log and checkpoints, and replays them if there are keys.
///
/// # Errors
/// If the store cannot be listed.
pub async fn examine(place: &Directory, journal: &Journal, keys: Option<&AccountKeys>) -> Result<Examined> {
    let mut attempt = 1;
    loop {
        let before = journal.checkpoints().await?;
        let examined = Examination::new(place, journal, keys).run(&before).await?;
        // Nothing is removed from the log unless there is a new checkpoint.
        if journal.checkpoints().await? == before || attempt == ATTEMPTS {
            return Ok(examined);
        }
        attempt += 1;
    }
}

/// A checkpoint that was read back.
struct Restored {
    checkpoint: Checkpoint,
    state: AccountState,
    /// Nothing of it is missing.
    whole: bool,
}

struct Examination<'a> {
    place: &'a Directory,
    journal: &'a Journal,
    keys: Option<&'a AccountKeys>,
    account: AccountId,
    findings: Vec<Finding>,
    counts: Counts,
    state: Option<AccountState>,
    /// An entry could not be replayed: what a checkpoint says may differ from the state from here on.
    lossy: bool,
}

impl<'a> Examination<'a> {
    fn new(place: &'a Directory, journal: &'a Journal, keys: Option<&'a AccountKeys>) -> Self {
        let account = journal.account();
        Examination {
            place,
            journal,
            keys,
            account,
            findings: Vec::new(),
            counts: Counts::default(),
            state: None,
            lossy: false,
        }
    }

    /// `positions` of the checkpoints, newest first.
    async fn run(mut self, positions: &[Position]) -> Result<Examined> {
        self.counts.checkpoints = positions.len() as u64;
        let mut checkpoints = Vec::new();
        for position in positions.iter().rev() {
            checkpoints.extend(self.restored(*position).await);
        }
        // Below the older of the last two nothing is needed, and what is there was left by an interrupted trim.
        let needed = positions.get(1).copied().unwrap_or(Position(1));
        let log = self.journal.listed_after(&Tail::EMPTY).await?;
        let log: Vec<Place> = log.into_iter().filter(|place| place.position >= needed).collect();
        let end =
            log.last().map(|place| place.position).max(positions.first().copied()).unwrap_or(Position::ZERO);
        self.state = (needed == Position(1)).then(|| AccountState::new(self.account));
        self.counts.entries = log.len() as u64;
        self.replay(&log, needed, end, &checkpoints).await;
        let Examination { findings, counts, state, keys, .. } = self;
        Ok(Examined { findings, counts, state: state.filter(|_| keys.is_some()) })
    }

    /// Reads all entries in order. A run of missing ones is one finding, however long it is.
    async fn replay(&mut self, log: &[Place], from: Position, end: Position, checkpoints: &[Restored]) {
        let (store, journal) = (&self.place.store, self.journal);
        let paths = log.iter().map(|place| (place.position, journal.path(place)));
        let reads = stream::iter(paths).map(|(p, path)| async move { (p, store.read(&path).await, path) });
        let mut reads = std::pin::pin!(reads.buffered(READ_AHEAD));
        let mut next = from;
        let mut hash = (from == Position(1)).then_some(Hash::ZERO);
        while let Some((position, object, path)) = reads.next().await {
            if position > next {
                self.gap(next, position, checkpoints);
                hash = None;
            }
            next = position.next();
            hash = match object {
                Ok(object) => {
                    self.entry(position, &path, &object, hash);
                    Some(entry::hash(&object))
                }
                Err(e) => {
                    self.damaged(position, &path, e);
                    None
                }
            };
            self.compare(position, hash, checkpoints);
        }
        if next <= end && end > Position::ZERO {
            self.gap(next, end.next(), checkpoints);
        }
    }

    fn gap(&mut self, from: Position, to: Position, checkpoints: &[Restored]) {
        let last = Position(to.0 - 1);
        let mut what = match last == from {
            true => format!("log entry {from} is missing"),
            false => format!("log entries {from} to {last} are missing"),
        };
        if checkpoints.iter().any(|r| r.whole && r.checkpoint.tail.position >= last) {
            what.push_str(", and a checkpoint has what they said: a copy that was interrupted looks so, and is complete once it is made again");
        }
        self.findings.push(Finding::object(path(self.account, from), what));
        self.lossy = true;
        if let Some(state) = &mut self.state {
            state.apply_damage(last);
        }
        for restored in checkpoints.iter().filter(|r| (from..to).contains(&r.checkpoint.tail.position)) {
            self.compare(restored.checkpoint.tail.position, None, checkpoints);
        }
    }

    fn damaged(&mut self, position: Position, path: &str, why: Error) {
        let why = why.context(format!("log entry {position} cannot be read"));
        self.findings.push(Finding::object(path, why));
        self.lossy = true;
        if let Some(state) = &mut self.state {
            state.apply_damage(position);
        }
    }

    fn entry(&mut self, position: Position, path: &str, object: &[u8], before: Option<Hash>) {
        match (entry::prev(object), before) {
            (Err(e), _) => return self.damaged(position, path, e),
            (Ok(prev), Some(before)) if prev != before => {
                let what = format!("log entry {position} does not follow the one before it");
                self.findings.push(Finding::object(path, what));
            }
            _ => {}
        }
        let Some(keys) = self.keys else { return };
        let opened = entry::open(keys, self.account, position, object);
        let (origin, batch) = match opened.and_then(|(origin, plain)| Ok((origin, Batch::decode(&plain)?))) {
            Ok(opened) => opened,
            Err(e) => return self.damaged(position, path, e),
        };
        let delivers = |e: &Event| matches!(e, Event::Delivered { .. } | Event::Offered { .. });
        if origin == Origin::Delivery && !batch.events.iter().all(delivers) {
            let what = format!("log entry {position} was made without the account's key but is no delivery");
            self.findings.push(Finding::object(path, what));
        }
        if let Some(state) = &mut self.state {
            state.apply(position, origin, &batch);
        }
    }

    /// Holds the state that was replayed against the checkpoint at `position`, if there is one, and goes on from it.
    fn compare(&mut self, position: Position, hash: Option<Hash>, checkpoints: &[Restored]) {
        let Some(restored) = checkpoints.iter().find(|r| r.checkpoint.tail.position == position) else {
            return;
        };
        let checkpoint = &restored.checkpoint;
        let manifest = manifest_path(self.account, position);
        if hash.is_some_and(|hash| hash != checkpoint.tail.hash) {
            let what =
                format!("the checkpoint follows another log entry {position} than the one that is there");
            self.findings.push(Finding::object(&manifest, what));
        }
        if !restored.whole {
            // What is left of it is better than nothing, and worse than what the log says.
            if self.state.is_none() {
                self.state = Some(restored.state.clone());
                self.lossy = true;
            }
            return;
        }
        if let Some(state) = self.state.take().filter(|_| !self.lossy) {
            let names: Vec<String> = state.chunk_names().into_iter().collect();
            let same = |name: &String| {
                checkpoint.chunks.iter().any(|c| c.name == *name && c.digest == Hash::of(&state.chunk(name)))
            };
            let mut wrong: Vec<_> = names.iter().filter(|name| !same(name)).cloned().collect();
            wrong.extend(checkpoint.chunks.iter().map(|c| &c.name).filter(|n| !names.contains(n)).cloned());
            if !wrong.is_empty() {
                let some = wrong[..wrong.len().min(CHUNKS_NAMED)].join(", ");
                let what =
                    format!("the checkpoint is not what the log says, in {} chunks: {some}", wrong.len());
                self.findings.push(Finding::object(&manifest, what));
            }
        }
        // The checkpoint was written before what is lost now was lost.
        self.lossy = false;
        self.state = Some(restored.state.clone());
    }

    /// Reads the checkpoint at `position`, every chunk of it; `None` without keys, or if nothing of it can be used.
    async fn restored(&mut self, position: Position) -> Option<Restored> {
        let folder = format!("acct/{}/snap/{:016x}", self.account, position.0);
        let Some(keys) = self.keys else {
            self.present(&folder).await;
            let manifest = manifest_path(self.account, position);
            if let Err(e) = self.place.store.read(&manifest).await {
                self.findings.push(Finding::object(manifest, e));
            }
            return None;
        };
        let manifest = manifest_path(self.account, position);
        let checkpoint = match self.journal.checkpoint(keys, position).await {
            Ok(checkpoint) if checkpoint.tail.position == position => checkpoint,
            Ok(other) => {
                let what = format!("this is the checkpoint of {}", other.tail.position);
                self.findings.push(Finding::object(manifest, what));
                return None;
            }
            Err(e) => {
                self.findings.push(Finding::object(manifest, e));
                return None;
            }
        };
        self.counts.chunks += checkpoint.chunks.len() as u64;
        let (mut state, wrong) = self.chunks(keys, &checkpoint, Restore::new(self.account)).await;
        let whole = wrong.is_empty();
        self.findings
            .extend(wrong.into_iter().map(|(name, e)| Finding::object(format!("{folder}/{name}"), e)));
        if !whole {
            // As the server does when it has nothing better.
            state = self.chunks(keys, &checkpoint, Restore::lenient(self.account)).await.0;
        }
        match state.finish() {
            Ok(state) => Some(Restored { checkpoint, state, whole }),
            Err(e) if whole => {
                self.findings.push(Finding::object(manifest, e));
                None
            }
            Err(_) => None,
        }
    }

    /// Restores what can be restored of a checkpoint; the names of the chunks that cannot, and why.
    async fn chunks(
        &self,
        keys: &AccountKeys,
        checkpoint: &Checkpoint,
        mut restore: Restore,
    ) -> (Restore, Vec<(String, Error)>) {
        let (journal, position) = (self.journal, checkpoint.tail.position);
        let chunks = stream::iter(checkpoint.chunks.clone()).map(|chunk| async move {
            let plain = journal.chunk(keys, position, &chunk).await;
            (chunk.name, plain)
        });
        let mut chunks = std::pin::pin!(chunks.buffered(READ_AHEAD));
        let mut wrong = Vec::new();
        while let Some((name, plain)) = chunks.next().await {
            match plain {
                Err(e) => wrong.push((name, e)),
                // That it does not fit what is missing says nothing about it.
                Ok(plain) => match restore.chunk(&name, &plain) {
                    Err(e) if wrong.is_empty() => wrong.push((name, e)),
                    _ => {}
                },
            }
        }
        (restore, wrong)
    }

    /// Without keys: whether what is listed can be read.
    async fn present(&mut self, folder: &str) {
        let mut listed = self.place.store.list(folder, None);
        loop {
            match listed.try_next().await {
                Ok(None) => return,
                Ok(Some(object)) => {
                    self.counts.chunks += 1;
                    if let Err(e) = self.place.store.read(&object.path).await {
                        self.findings.push(Finding::object(object.path, e));
                    }
                }
                Err(e) => return self.findings.push(Finding::object(folder, e)),
            }
        }
    }
}

fn manifest_path(account: AccountId, position: Position) -> String {
    format!("acct/{account}/manifest/{:016x}", position.0)
}

fn path(account: AccountId, position: Position) -> String {
    format!("acct/{account}/log/{:016x}", position.0)
}
