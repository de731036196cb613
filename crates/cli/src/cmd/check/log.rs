//! An account's log and checkpoints.
//!
//! The log must reach from the older of the last two checkpoints (from 1 if there are fewer) to its
//! end, each entry carrying the hash of the one before, and nothing else may be at the paths of
//! entries. With keys it is replayed, and at each checkpoint the replayed state must be the
//! checkpoint's, chunk by chunk.

use futures::{StreamExt, TryStreamExt, stream};
use sealpost_account::event::{Batch, Event};
use sealpost_account::state::{AccountState, Restore};
use sealpost_base::{AccountId, Error, Kind, Position, Result};
use sealpost_journal::{Checkpoint, Content, Entry, EntryName, Journal, Read, Replay, Step, Tail};
use sealpost_vault::entry::Origin;
use sealpost_vault::{AccountKeys, Hash, RootKey};

use super::report::Finding;
use super::unfit::{self, Gaps};
use crate::data_dir::DataDir;

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
pub async fn examine(data_dir: &DataDir, journal: &Journal, keys: Option<&AccountKeys>) -> Result<Examined> {
    let mut attempt = 1;
    loop {
        let before = journal.checkpoints().await?;
        let examined = Examination::new(data_dir, journal, keys).run(&before).await?;
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
    data_dir: &'a DataDir,
    journal: &'a Journal,
    keys: Option<&'a AccountKeys>,
    account: AccountId,
    findings: Vec<Finding>,
    counts: Counts,
    state: Option<AccountState>,
    /// Positions whose object is not a log entry; findings about them are added at the end.
    unfit: Vec<Position>,
    gaps: Gaps,
    /// An entry could not be replayed: what a checkpoint says may differ from the state from here on.
    lossy: bool,
}

impl<'a> Examination<'a> {
    fn new(data_dir: &'a DataDir, journal: &'a Journal, keys: Option<&'a AccountKeys>) -> Self {
        let account = journal.account();
        Examination {
            data_dir,
            journal,
            keys,
            account,
            findings: Vec::new(),
            counts: Counts::default(),
            state: None,
            unfit: Vec::new(),
            gaps: Gaps::default(),
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
        // Below the older of the last two nothing is needed, and what is there was left by an
        // interrupted trim.
        let needed = positions.get(1).copied().unwrap_or(Position(1));
        let survey = self.journal.survey(needed).await?;
        self.unfit.extend(survey.unfit.iter().map(|unfit| unfit.position));
        let end = survey.end().max(positions.first().copied().unwrap_or(Position::ZERO));
        self.state = (needed == Position(1)).then(|| AccountState::new(self.account));
        self.counts.entries = survey.entries.len() as u64;
        self.replay(&survey.entries, needed, end, &checkpoints).await?;
        let Examination { findings: of_entries, counts, state, keys, gaps, journal, .. } = self;
        let mut findings = unfit::marks(journal).await?;
        findings.extend(unfit::entries(&survey, &gaps));
        findings.extend(of_entries);
        Ok(Examined { findings, counts, state: state.filter(|_| keys.is_some()) })
    }

    /// Reads all entries in order. A run of missing ones is one finding, however long it is.
    async fn replay(
        &mut self,
        log: &[EntryName],
        from: Position,
        end: Position,
        checkpoints: &[Restored],
    ) -> Result<()> {
        let journal = self.journal;
        let whose = AccountKeys::derive(&RootKey::generate(&*self.data_dir.random), self.account);
        let keys = self.keys.unwrap_or(&whose);
        let known = Tail { position: Position(from.0 - 1), ..Tail::EMPTY };
        let mut read = std::pin::pin!(journal.entries(keys, known, log));
        let mut replay = (from == Position(1)).then(|| Replay::after(Tail::EMPTY));
        let mut next = from;
        while let Some(read) = read.next().await {
            // What else is there was found before; what is gone was trimmed.
            let Read::Entry(entry) = read? else { continue };
            let position = entry.position;
            match &mut replay {
                None if position > next => self.gap(next, position, checkpoints),
                None => {}
                Some(replay) => self.step(replay, &entry, next, log, checkpoints).await?,
            }
            let replay = replay.get_or_insert_with(|| Replay::after(entry.tail()));
            debug_assert_eq!(replay.tail().position, position);
            next = position.next();
            self.entry(&entry);
            self.compare(position, Some(entry.hash), checkpoints);
        }
        if next <= end && end > Position::ZERO {
            self.gap(next, end.next(), checkpoints);
        }
        Ok(())
    }

    /// Whether an entry follows the one before. It counts in any case: problems of later entries
    /// are reported as well.
    async fn step(
        &mut self,
        replay: &mut Replay,
        entry: &Entry,
        next: Position,
        log: &[EntryName],
        checkpoints: &[Restored],
    ) -> Result<()> {
        let position = entry.position;
        let mut step = replay.next(entry);
        if step != Step::Counts
            && let Some(cover) = self.journal.cover_of(position, log).await?
        {
            replay.continue_by(cover);
            if let Some(state) = &mut self.state {
                state.apply_renumbering(position, cover.generation);
            }
            step = replay.next(entry);
        }
        match step {
            Step::Counts => return Ok(()),
            Step::Broken if position > next => self.gap(next, position, checkpoints),
            Step::Broken => {
                let what = format!(
                    "log entry {position} does not follow the one before it: \"sealpost account repair\" \
                     keeps both"
                );
                self.findings.push(Finding::object(path(self.account, position), what));
                self.lossy = true;
            }
            Step::Disputed => {
                let what = format!("log entry {position} refers to other entries than the existing ones");
                self.findings.push(Finding::object(path(self.account, position), what));
                self.lossy = true;
            }
        }
        *replay = Replay::after(entry.tail());
        Ok(())
    }

    fn gap(&mut self, from: Position, to: Position, checkpoints: &[Restored]) {
        let last = Position(to.0 - 1);
        let mut what = match last == from {
            true => format!("log entry {from} is missing"),
            false => format!("log entries {from} to {last} are missing"),
        };
        let is_covered = checkpoints.iter().any(|r| r.whole && r.checkpoint.tail.position >= last);
        if is_covered {
            what.push_str(
                ", but a checkpoint covers them: this is the state of an interrupted backup, which \
                           another run completes",
            );
        } else {
            what.push_str(
                ": the account is not opened until it is restored (a backup may have it) or \"sealpost \
                 account repair\" gives it up",
            );
        }
        if !is_covered {
            self.gaps.add(from, to);
        }
        // An object at one of these positions has a finding of its own.
        if !self.unfit.iter().any(|position| (from..to).contains(position)) {
            self.findings.push(Finding::object(path(self.account, from), what));
        }
        self.lossy = true;
        if let Some(state) = &mut self.state {
            state.apply_damage(last);
        }
        for restored in checkpoints.iter().filter(|r| (from..to).contains(&r.checkpoint.tail.position)) {
            self.compare(restored.checkpoint.tail.position, None, checkpoints);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let position = entry.position;
        let path = path(self.account, position);
        let (origin, batch) = match (&entry.content, self.keys) {
            (Content::Renumbering(_), _) => {
                if let Some(state) = &mut self.state {
                    state.apply_renumbering(position, entry.generation);
                }
                return;
            }
            (_, None) => return,
            (Content::Sealed(why), _) => return self.sealed(position, &path, why),
            (Content::Plain(origin, plain), _) => match Batch::decode(plain) {
                Ok(batch) => (*origin, batch),
                // Nothing is known of the state behind it, and nothing is damaged.
                Err(e) if e.kind() == Kind::Retry => {
                    self.findings.push(Finding::object(path, e));
                    (self.state, self.lossy) = (None, true);
                    return;
                }
                Err(e) => return self.sealed(position, &path, &e.to_string()),
            },
        };
        if origin == Origin::Delivery && !batch.events.iter().all(Event::needs_no_owner) {
            let what = format!("log entry {position} was made without the account's key but is no delivery");
            self.findings.push(Finding::object(path.clone(), what));
        }
        if let Some(state) = &mut self.state {
            let counts_as = state.origin_in_epoch(origin, entry.epoch);
            state.apply_decided_on(entry.generation, position, counts_as, &batch);
            if counts_as != origin {
                let what = format!(
                    "log entry {position} is sealed under an earlier key of the account than one before it: a thief of that key and of \
                     server.key wrote it; only deliveries in it count"
                );
                self.findings.push(Finding::object(path, what));
            }
        }
    }

    /// An entry that some process of this installation wrote, and the account's key does not open.
    fn sealed(&mut self, position: Position, path: &str, why: &str) {
        self.findings.push(Finding::object(path, format!("log entry {position} cannot be opened: {why}")));
        self.lossy = true;
        if let Some(state) = &mut self.state {
            state.apply_damage(position);
        }
    }

    /// Compares the replayed state with the checkpoint at `position`, if there is one, and
    /// continues from it.
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

    /// Reads the checkpoint at `position`, every chunk of it; `None` without keys, or if nothing of
    /// it can be used.
    async fn restored(&mut self, position: Position) -> Option<Restored> {
        let folder = format!("acct/{}/snap/{:016x}", self.account, position.0);
        let Some(keys) = self.keys else {
            self.present(&folder).await;
            let manifest = manifest_path(self.account, position);
            if let Err(e) = self.data_dir.store.read(&manifest).await {
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
        let (whole, is_newer) = (wrong.is_empty(), wrong.iter().any(|(_, e)| e.kind() == Kind::Retry));
        self.findings
            .extend(wrong.into_iter().map(|(name, e)| Finding::object(format!("{folder}/{name}"), e)));
        // What a newer version has written, or what could not be read, is no damage: the rest of the state is
        // not compared with it.
        if is_newer {
            return None;
        }
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

    /// Restores what can be restored of a checkpoint; the objects of chunks that cannot, and why.
    async fn chunks(
        &self,
        keys: &AccountKeys,
        checkpoint: &Checkpoint,
        mut restore: Restore,
    ) -> (Restore, Vec<(String, Error)>) {
        let (journal, position) = (self.journal, checkpoint.tail.position);
        let chunks = stream::iter(checkpoint.chunks.clone()).map(|chunk| async move {
            let plain = journal.chunk(keys, position, &chunk).await;
            (chunk, plain)
        });
        let mut chunks = std::pin::pin!(chunks.buffered(READ_AHEAD));
        let mut wrong = Vec::new();
        while let Some((chunk, plain)) = chunks.next().await {
            let object = || chunk.file_name().to_owned();
            match plain {
                Err(e) => wrong.push((object(), e)),
                // That it does not fit what is missing says nothing about it.
                Ok(plain) => match restore.chunk(&chunk.name, &plain) {
                    Err(e) if wrong.is_empty() => wrong.push((object(), e)),
                    _ => {}
                },
            }
        }
        (restore, wrong)
    }

    /// Without keys: whether what is listed can be read.
    async fn present(&mut self, folder: &str) {
        let mut listed = self.data_dir.store.list(folder, None);
        loop {
            match listed.try_next().await {
                Ok(None) => return,
                Ok(Some(object)) => {
                    self.counts.chunks += 1;
                    if let Err(e) = self.data_dir.store.read(&object.path).await {
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
