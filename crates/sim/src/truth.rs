//! The one true log, found without the code under test: the hashes of everything that was ever written are walked back
//! from the end, and what is found is replayed.

use std::collections::HashMap;

use sealpost_account::event::Batch;
use sealpost_account::{AccountState, Applied, Event};
use sealpost_base::{AccountId, ObjectId, Position};
use sealpost_journal::{Tail, log_entry};
use sealpost_vault::{AccountKeys, Hash, entry};

use crate::bucket::Bucket;
use crate::told::{Told, Uided, digest, encoded};

/// What is true at the end of a history.
pub struct Truth {
    /// The state.
    pub state: AccountState,
    /// Log entries.
    pub entries: u64,
    digests: HashMap<Position, Hash>,
    /// Events and what they did, by position.
    changes: HashMap<Position, (Vec<u8>, Vec<Applied>)>,
    placed: HashMap<ObjectId, Uided>,
}

/// What is wrong, in words.
pub type Wrong = String;

impl Truth {
    /// Finds it.
    ///
    /// # Errors
    /// If there is none: an entry is missing, is there twice, or gives a UID a second meaning.
    pub fn find(bucket: &Bucket, id: AccountId, keys: &AccountKeys, end: Tail) -> Result<Self, Wrong> {
        let batches = walk_back(bucket, id, keys, end)?;
        let mut truth = Truth {
            state: AccountState::new(id),
            entries: end.position.0,
            digests: HashMap::new(),
            changes: HashMap::new(),
            placed: HashMap::new(),
        };
        let mut meanings: HashMap<_, ObjectId> = HashMap::new();
        for (position, origin, batch) in batches {
            let applied = truth.state.apply(position, origin, &batch);
            truth.note_new(&batch, &applied)?;
            for one in &applied {
                let Applied::Placed { mailbox, uid_validity, uids, .. } = one else { continue };
                let Some(m) = truth.state.mailbox(*mailbox) else { continue };
                for row in uids.iter().filter_map(|uid| m.row(uid)) {
                    let Some(message) = truth.state.message(row.message) else { continue };
                    let object = message.object;
                    let meaning = *meanings.entry((*mailbox, *uid_validity, row.uid)).or_insert(object);
                    if meaning != object {
                        return Err(format!("UID {} of {mailbox:?} means two messages", row.uid));
                    }
                }
            }
            truth.changes.insert(position, (encoded(&batch.events), applied));
            truth.digests.insert(position, digest(&truth.state));
        }
        Ok(truth)
    }

    fn note_new(&mut self, batch: &Batch, applied: &[Applied]) -> Result<(), Wrong> {
        for (event, applied) in batch.events.iter().zip(applied) {
            let (Event::Delivered { message, .. } | Event::Appended { message, .. }) = event else {
                continue;
            };
            let Applied::Placed { mailbox, uid_validity, uids, .. } = applied else { continue };
            let Some(uid) = uids.iter().next() else { continue };
            let placed = Uided { mailbox: *mailbox, validity: *uid_validity, uid };
            if self.placed.insert(message.object, placed).is_some() {
                return Err(format!("{} is there twice", message.object));
            }
        }
        Ok(())
    }

    /// Holds against it what was told and shown.
    ///
    /// # Errors
    /// What does not follow from it.
    pub fn judge(&self, told: &Told) -> Result<(), Wrong> {
        if let Some(wrong) = &told.wrong {
            return Err(wrong.clone());
        }
        for object in &told.delivered {
            if !self.placed.contains_key(object) {
                return Err(format!("{object} was acknowledged and is lost"));
            }
        }
        for (object, uided) in &told.appended {
            if self.placed.get(object) != Some(uided) {
                let found = self.placed.get(object);
                return Err(format!("{object} was acknowledged as {uided:?}; it is {found:?}"));
            }
        }
        for change in &told.changes {
            let there = self.changes.get(&change.position);
            if there.is_none_or(|(events, applied)| *events != change.events || *applied != change.applied) {
                return Err(format!("the change at {} was acknowledged and undone", change.position));
            }
        }
        for (position, shown) in &told.shown {
            if position.0 > 0 && self.digests.get(position) != Some(shown) {
                return Err(format!("a node showed a state of position {position} that never was"));
            }
        }
        Ok(())
    }
}

type Entries = Vec<(Position, entry::Origin, Batch)>;

fn walk_back(bucket: &Bucket, id: AccountId, keys: &AccountKeys, end: Tail) -> Result<Entries, Wrong> {
    let mut written: HashMap<(Position, Hash), bytes::Bytes> = HashMap::new();
    for (path, bytes) in bucket.archive() {
        if let Some((account, position)) = log_entry(&path)
            && account == id
        {
            written.insert((position, entry::hash(&bytes)), bytes);
        }
    }
    let mut entries = Vec::new();
    let Tail { mut position, mut hash, .. } = end;
    while position > Position::ZERO {
        let object = written.get(&(position, hash)).ok_or(format!("entry {position} was never written"))?;
        let (origin, plain) = entry::open(keys, id, position, object).map_err(|e| e.to_string())?;
        let batch = Batch::decode(&plain).map_err(|e| e.to_string())?;
        entries.push((position, origin, batch));
        hash = entry::header(object).map_err(|e| e.to_string())?.1.prev;
        position = Position(position.0 - 1);
    }
    if hash != Hash::ZERO {
        return Err("the first entry follows another one".to_owned());
    }
    entries.reverse();
    Ok(entries)
}
