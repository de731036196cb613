//! The one true log, found without the code under test: the hashes of everything that was ever
//! written are walked back from the end, and the entries found are replayed.

use std::collections::HashMap;

use sealpost_account::event::Batch;
use sealpost_account::{AccountState, Applied, Event};
use sealpost_base::{AccountId, ObjectId, Position, limits};
use sealpost_journal::{Tail, log_entry};
use sealpost_vault::entry::Generation;
use sealpost_vault::{AccountKeys, Hash, entry};

use crate::acknowledged::{Acknowledged, Uided, digest, encoded};
use crate::bucket::Bucket;

/// The truth at the end of a history.
pub struct Truth {
    /// The state.
    pub state: AccountState,
    /// Log entries.
    pub entries: u64,
    digests: HashMap<Position, Hash>,
    /// Events and their effects, by position.
    changes: HashMap<Position, (Vec<u8>, Vec<Applied>)>,
    placed: HashMap<ObjectId, Uided>,
}

/// A violation, in words.
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
        for (position, generation, said) in batches {
            let Some((origin, batch)) = said else {
                truth.state.apply_renumbering(position, generation);
                truth.digests.insert(position, digest(&truth.state));
                continue;
            };
            let batch = truth.state.decided_on(generation, &batch);
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

    /// Compares it with the replies to clients and the states shown.
    ///
    /// # Errors
    /// The first one that does not follow from it.
    pub fn judge(&self, told: &Acknowledged) -> Result<(), Wrong> {
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

/// Entries with the generation of UIDs they were decided on; of a renumbering there is no more to say.
type Entries = Vec<(Position, Generation, Option<(entry::Origin, Batch)>)>;

fn walk_back(bucket: &Bucket, id: AccountId, keys: &AccountKeys, end: Tail) -> Result<Entries, Wrong> {
    let mut written: HashMap<Hash, (Position, bytes::Bytes)> = HashMap::new();
    for (path, bytes) in bucket.archive() {
        if let Some((account, position)) = log_entry(&path)
            && account == id
        {
            written.insert(entry::hash(&bytes), (position, bytes));
        }
    }
    let mut entries = Vec::new();
    let Tail { position: mut before, mut hash, .. } = end;
    before = before.next();
    while hash != Hash::ZERO {
        let (position, object) =
            written.get(&hash).ok_or(format!("what {before} follows was never written"))?;
        // Positions with something else at them are passed over.
        if *position >= before || before.0 - position.0 > limits::LOG_GAP + 1 {
            return Err(format!("entry {before} follows entry {position}"));
        }
        let (origin, header) = entry::header(object).map_err(|e| e.to_string())?;
        let said = match origin {
            entry::Origin::Renumbering => None,
            entry::Origin::Owner | entry::Origin::Delivery => {
                let (origin, plain) = entry::open(keys, id, *position, object).map_err(|e| e.to_string())?;
                Some((origin, Batch::decode(&plain).map_err(|e| e.to_string())?))
            }
        };
        entries.push((*position, header.generation, said));
        (before, hash) = (*position, header.prev);
    }
    entries.reverse();
    Ok(entries)
}
