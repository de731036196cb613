//! Objects at the paths of log entries that are no entries: misplaced, damaged, or written without
//! `server.key`.
//!
//! [`Judge`] distinguishes them from entries. It caches them ([`Noise`]), so that they are not read and
//! reported each time. The store may return something else later. So a process that loads an account, or
//! finds its log broken, clears the cache first, and cached objects expire after a minute. Only the number of
//! reads depends on the cache. If it wrongly holds an entry as noise, later entries do not chain without it,
//! or an append finds it at its position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{AccountId, Error, Position, Random, Result, limits};
use sealpost_vault::entry::{self, Header, LogKey, Origin, Verdict};
use sealpost_vault::{Store, mark};
use tokio::time::Instant;

use crate::JournalMetrics;
use crate::attested::{NOT_VOUCHED_FOR, Vouched};
use crate::ballot::{Ballot, EntryName};
use crate::manifests::Name;

/// How long an object is cached as noise. A store or proxy may return wrong data for longer than six reads
/// take.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Why an object is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It never was the entry at that position.
    Noise,
    /// Its header is that of the entry, but it was changed: an entry may have been lost.
    Damaged,
}

/// Distinguishes the entries of one log from other objects at their paths. Clones share the cache.
#[derive(Clone)]
pub(crate) struct Judge {
    store: Store,
    key: LogKey,
    account: AccountId,
    folder: Arc<str>,
    noise: Arc<Noise>,
}

#[derive(Default)]
struct Noise(Mutex<NoiseCache>);

#[derive(Default)]
struct NoiseCache {
    places: BTreeMap<EntryName, (Unfit, Instant)>,
    reported: BTreeSet<EntryName>,
    /// Whether marks count, and when that was determined.
    marks: BTreeMap<Name, (bool, Instant)>,
    reported_marks: BTreeSet<Name>,
    /// Whether unread marks were reported.
    reported_unread: bool,
    metrics: Arc<JournalMetrics>,
    /// The objects that count under retired keys.
    vouched: Option<Arc<Vouched>>,
}

/// The header of an object at the path of an entry, if it is the entry; else why not, for the operator.
pub(crate) type Judged = std::result::Result<(Origin, Header), (Unfit, String)>;

impl Judge {
    pub(crate) fn new(store: Store, key: LogKey, account: AccountId, folder: Arc<str>) -> Self {
        Judge { store, key, account, folder, noise: Arc::default() }
    }

    /// The folder of all objects of the log.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn account(&self) -> AccountId {
        self.account
    }

    pub(crate) fn key(&self) -> &LogKey {
        &self.key
    }

    /// Counts noise in metrics shared with other logs.
    pub(crate) fn counted(&self, metrics: Arc<JournalMetrics>) {
        self.lock().metrics = metrics;
    }

    /// A ballot above `least`.
    pub(crate) fn ballot_above(&self, least: Ballot, random: &dyn Random) -> Option<Ballot> {
        least.above_tagged(random, |round, nonce| mark::ballot_tag(&self.key, self.account, round, nonce))
    }

    /// Whether a writer of this installation may have begun that ballot.
    pub(crate) fn may_be_begun(&self, ballot: Ballot) -> bool {
        ballot.may_count(|round, nonce, tag| mark::is_ballot_tag(&self.key, self.account, round, nonce, tag))
    }

    /// The header of `object`, if it is the entry at `place`.
    pub(crate) async fn entry(&self, place: &EntryName, object: &[u8]) -> Result<Judged> {
        if self.key.has_retired() && self.known_vouched().is_none() {
            self.vouched().await?;
        }
        Ok(self.entry_now(place, object))
    }

    /// As `entry`, for a caller that has loaded [the attested objects](Judge::vouched).
    pub(crate) fn entry_now(&self, place: &EntryName, object: &[u8]) -> Judged {
        let is_vouched_for = || self.known_vouched().is_some_and(|vouched| vouched.names(object));
        match entry::judge(&self.key, self.account, place.position, object) {
            Verdict::Authentic(origin, header) => Ok((origin, header)),
            Verdict::Retired(origin, header) if is_vouched_for() => Ok((origin, header)),
            // A writer that does not know the new keys yet may have written it, and others may have read it.
            Verdict::Retired(..) => Err((Unfit::Damaged, NOT_VOUCHED_FOR.to_owned())),
            Verdict::Damaged(why) => Err((Unfit::Damaged, why)),
            // Where writers agree by ballots, only the name identifies the last entry. So an object with such
            // a name was an entry, unless its header belongs elsewhere.
            Verdict::Noise(why) if !place.is_plain() && entry::header(object).is_err() => {
                Err((Unfit::Damaged, why))
            }
            Verdict::Noise(why) => Err((Unfit::Noise, why)),
        }
    }

    /// Whether `object`, at `place`, may be the rest of an entry, or an entry under another key.
    pub(crate) fn may_have_been(&self, place: &EntryName, object: &[u8]) -> bool {
        !matches!(entry::judge(&self.key, self.account, place.position, object), Verdict::Noise(_))
    }

    /// Caches and reports, once, that the object at `place` is no entry in any read.
    pub(crate) fn note(&self, place: EntryName, unfit: Unfit, why: &str) {
        let mut known = self.lock();
        if known.places.len() >= limits::LOG_NOISE {
            known.places.clear();
        }
        known.places.insert(place, (unfit, Instant::now()));
        let is_new = known.reported.len() < limits::LOG_NOISE && known.reported.insert(place);
        known.metrics.noise.add(u64::from(is_new));
        drop(known);
        if is_new {
            let (account, path) = (self.account, place.file_name());
            match unfit {
                Unfit::Noise => tracing::error!(
                    %account, entry = path, why,
                    "an object at the path of a log entry is not a log entry; it is skipped"
                ),
                Unfit::Damaged => tracing::error!(%account, entry = path, why, "this log entry is damaged"),
            }
        }
    }

    /// The sealed manifest of the checkpoint at `position`, from the object at its path. For a caller that
    /// has loaded [the attested objects](Judge::vouched).
    ///
    /// # Errors
    /// `Corrupt` if the object is no such manifest.
    pub(crate) fn manifest<'a>(&self, position: Position, object: &'a [u8]) -> Result<&'a [u8]> {
        let judged = mark::judge(&self.key, self.account, position, mark::Kind::Checkpoint, object);
        let is_vouched_for = || self.known_vouched().is_some_and(|vouched| vouched.names(object));
        let why = match judged {
            mark::Verdict::Authentic(manifest) => return Ok(manifest),
            mark::Verdict::Retired(manifest) if is_vouched_for() => return Ok(manifest),
            mark::Verdict::Retired(_) => NOT_VOUCHED_FOR.to_owned(),
            mark::Verdict::Noise(why) => why,
        };
        Err(Error::corrupt(format!("this is no manifest of a checkpoint: {why}")))
    }

    /// Whether the mark with that name counts, if that is cached.
    pub(crate) fn known_mark(&self, name: Name) -> Option<bool> {
        let known = self.lock();
        let (counts, since) = *known.marks.get(&name)?;
        (counts || is_recent(since)).then_some(counts)
    }

    /// Caches that the mark with that name counts.
    pub(crate) fn knows(&self, name: Name) {
        self.know_mark(name, true);
    }

    fn know_mark(&self, name: Name, counts: bool) {
        let mut known = self.lock();
        // Manifests, marks of positions and attestations, each as many as are read.
        if known.marks.len() >= 4 * limits::LOG_NOISE {
            known.marks.clear();
        }
        known.marks.insert(name, (counts, Instant::now()));
    }

    /// Caches and reports, once, that the object with that name is no mark in any read.
    pub(crate) fn note_mark(&self, name: Name, why: &str) {
        self.know_mark(name, false);
        let mut known = self.lock();
        let is_new = known.reported_marks.len() < limits::LOG_NOISE && known.reported_marks.insert(name);
        known.metrics.noise.add(u64::from(is_new));
        drop(known);
        if is_new {
            tracing::error!(
                account = %self.account, manifest = name.file_name(), why,
                "this object in the folder of manifests was not written by this server, or is damaged; it is passed over"
            );
        }
    }

    /// Whether the mark with that name was read before and did not count.
    pub(crate) fn was_noise(&self, name: Name) -> bool {
        self.lock().marks.get(&name).is_some_and(|(counts, _)| !counts)
    }

    /// Whether the object at `place` was read before and was no entry.
    pub(crate) fn was_unfit(&self, place: &EntryName) -> bool {
        self.lock().places.contains_key(place)
    }

    /// Reports, once, how many objects in the folder of manifests stay unread: more than any older version
    /// can have left.
    pub(crate) fn note_unread(&self, objects: usize) {
        if objects == 0 || std::mem::replace(&mut self.lock().reported_unread, true) {
            return;
        }
        tracing::error!(
            account = %self.account, objects,
            "too many objects in the folder of manifests were not written by this server; the rest is not read; \
             \"sealpost check\" names them, and \"sealpost account repair --remove-noise\" removes them"
        );
    }

    pub(crate) fn known_vouched(&self) -> Option<Arc<Vouched>> {
        self.lock().vouched.clone()
    }

    pub(crate) fn knows_vouched(&self, vouched: Arc<Vouched>) {
        self.lock().vouched = Some(vouched);
    }

    /// Notes that `place` has an entry, whatever earlier reads returned.
    pub(crate) fn is_entry(&self, place: &EntryName) {
        self.lock().places.remove(place);
    }

    /// Whether `place` may have an entry, by the cache.
    pub(crate) fn may_be_entry(&self, place: &EntryName) -> bool {
        self.lock().places.get(place).is_none_or(|(_, since)| !is_recent(*since))
    }

    /// A cached damaged entry at a possible position of the entry after `position`.
    pub(crate) fn damaged_after(&self, position: Position) -> Option<Position> {
        let next = position.next()..=Position(position.0.saturating_add(limits::LOG_GAP));
        let known = self.lock();
        let mut unfit = known.places.iter().filter(|(place, _)| next.contains(&place.position));
        unfit
            .find(|(_, (unfit, since))| *unfit == Unfit::Damaged && is_recent(*since))
            .map(|(place, _)| place.position)
    }

    /// Clears the cache: objects at all paths are read again, and none is reported again.
    pub(crate) fn forget(&self) {
        let mut known = self.lock();
        known.places.clear();
        known.marks.retain(|_, (counts, _)| *counts);
        if known.vouched.as_ref().is_some_and(|vouched| vouched.is_empty()) {
            known.vouched = None;
        }
    }

    /// Notes the operator's decision that the log continues without damaged entries.
    pub(crate) fn pass_over_damage(&self) {
        for (unfit, _) in self.lock().places.values_mut() {
            *unfit = Unfit::Noise;
        }
    }

    fn lock(&self) -> MutexGuard<'_, NoiseCache> {
        self.noise.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(since: Instant) -> bool {
    since.elapsed() < REMEMBERED
}

/// Pauses before an object is read again, longer each round; all pauses together take half a second.
pub(crate) async fn pause(round: u32) {
    tokio::time::sleep(Duration::from_millis(8 << round.min(5))).await;
}

/// The error of a log whose last entry is damaged.
pub(crate) fn damaged_end(position: Position) -> Error {
    Error::corrupt(format!(
        "log entry {position}, the last one, is damaged: nothing is appended after it; \"sealpost check\" \
         names the damage, a backup may have the entry, and \"sealpost account repair\" gives it up"
    ))
}

/// The error of a log in which no end is found.
pub(crate) fn too_noisy() -> Error {
    Error::corrupt(format!(
        "more than {} objects at the end of the log are not log entries; \"sealpost check\" names them, and \
         \"sealpost account repair --remove-noise\" removes them",
        limits::LOG_GAP
    ))
}
