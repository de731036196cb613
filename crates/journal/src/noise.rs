//! What is at the paths of log entries and is none of them: objects that were misplaced, damaged, or written by somebody without
//! `server.key`.
//!
//! [`Judge`] tells them from entries. They are remembered ([`Noise`]), so that they are neither read each time nor reported each
//! time; the store may give something else there later, so whoever loads an account, or finds that its log is broken, forgets them
//! first. Nothing rests on that memory but what is read: an entry that is taken for noise by mistake has others behind it that
//! do not chain without it, or is what an append finds in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::{AccountId, Error, Position, limits};
use sealpost_vault::entry::{self, Header, LogKey, Origin, Verdict};

use crate::ballot::Place;

/// Why something is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It never was the entry of that position.
    Noise,
    /// It says that it is, and is not as it was written: an entry may have been lost.
    Damaged,
}

/// Tells the entries of one log from whatever else is at their paths. Cloning shares what it remembers.
#[derive(Clone)]
pub(crate) struct Judge {
    key: LogKey,
    account: AccountId,
    noise: Arc<Noise>,
}

#[derive(Default)]
struct Noise(Mutex<Known>);

#[derive(Default)]
struct Known {
    places: BTreeMap<Place, Unfit>,
    reported: BTreeSet<Place>,
}

impl Judge {
    pub(crate) fn new(key: LogKey, account: AccountId) -> Self {
        Judge { key, account, noise: Arc::default() }
    }

    pub(crate) fn key(&self) -> &LogKey {
        &self.key
    }

    /// What the entry at `place` says of itself, if `object` is it.
    pub(crate) fn entry(&self, place: &Place, object: &[u8]) -> Result<(Origin, Header), (Unfit, String)> {
        match entry::judge(&self.key, self.account, place.position, object) {
            Verdict::Authentic(origin, header) => Ok((origin, header)),
            Verdict::Damaged(why) => Err((Unfit::Damaged, why)),
            // Where writers agree by ballots nothing but its name tells of the last entry: what has such a name was an entry, but for
            // one that says that it belongs elsewhere.
            Verdict::Noise(why) if !place.is_plain() && entry::header(object).is_err() => {
                Err((Unfit::Damaged, why))
            }
            Verdict::Noise(why) => Err((Unfit::Noise, why)),
        }
    }

    /// What is at `place` is no entry, however often it is read. Reports it, once.
    pub(crate) fn note(&self, place: Place, unfit: Unfit, why: &str) {
        let mut known = self.lock();
        if known.places.len() >= limits::LOG_NOISE {
            known.places.clear();
        }
        known.places.insert(place, unfit);
        let is_new = known.reported.len() < limits::LOG_NOISE && known.reported.insert(place);
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

    /// There is an entry at `place`, whatever was read there before.
    pub(crate) fn is_entry(&self, place: &Place) {
        self.lock().places.remove(place);
    }

    /// Whether `place` may have an entry, as far as it is remembered.
    pub(crate) fn may_be_entry(&self, place: &Place) -> bool {
        !self.lock().places.contains_key(place)
    }

    /// A damaged entry where the one after `position` may be, if one is remembered.
    pub(crate) fn damaged_after(&self, position: Position) -> Option<Position> {
        let next = position.next()..=Position(position.0.saturating_add(limits::LOG_GAP));
        let known = self.lock();
        let mut unfit = known.places.iter().filter(|(place, _)| next.contains(&place.position));
        unfit.find(|(_, unfit)| **unfit == Unfit::Damaged).map(|(place, _)| place.position)
    }

    /// Whatever is at any path is read again; nothing is reported again.
    pub(crate) fn forget(&self) {
        self.lock().places.clear();
    }

    /// An operator says that the log goes on without what is damaged.
    pub(crate) fn pass_over_damage(&self) {
        for unfit in self.lock().places.values_mut() {
            *unfit = Unfit::Noise;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.noise.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a writer is told of a log whose last entry is damaged.
pub(crate) fn damaged_end(position: Position) -> Error {
    Error::corrupt(format!(
        "log entry {position}, the last one, is damaged: nothing is appended after it; \"sealpost check\" \
         names the damage, a backup may have the entry, and \"sealpost account repair\" gives it up"
    ))
}

/// What a writer is told who finds no end in a log.
pub(crate) fn too_noisy() -> Error {
    Error::corrupt(format!(
        "more than {} objects at the end of the log are not log entries; \"sealpost check\" names them: \
         remove them",
        limits::LOG_GAP
    ))
}
