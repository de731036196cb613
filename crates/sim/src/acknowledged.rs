//! Replies to clients and states shown by nodes: to be compared with the truth.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealpost_account::{AccountState, Applied, Event};
use sealpost_base::{MailboxId, ObjectId, Position, Timestamp, Uid, UidValidity};
use sealpost_vault::Hash;

/// A digest of a whole state.
pub fn digest(state: &AccountState) -> Hash {
    let mut bytes = Vec::new();
    for name in state.chunk_names() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&state.chunk(&name));
    }
    Hash::of(&bytes)
}

/// Events as the log has them.
pub fn encoded(events: &[Event]) -> Vec<u8> {
    sealpost_account::event::Batch { at: Timestamp(0), events: events.to_vec() }.encode()
}

/// A change that was acknowledged to a client.
pub struct Change {
    /// Its acknowledged position in the log.
    pub position: Position,
    /// The events, encoded.
    pub events: Vec<u8>,
    /// Their acknowledged effects.
    pub applied: Vec<Applied>,
}

/// A message whose UID was returned to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uided {
    /// The mailbox.
    pub mailbox: MailboxId,
    /// Its UIDVALIDITY.
    pub validity: UidValidity,
    /// The UID.
    pub uid: Uid,
}

/// All of it.
#[derive(Default)]
pub struct Acknowledged {
    /// Messages whose delivery was acknowledged.
    pub delivered: Vec<ObjectId>,
    /// Messages whose APPEND was acknowledged.
    pub appended: Vec<(ObjectId, Uided)>,
    /// Other changes that were acknowledged.
    pub changes: Vec<Change>,
    /// States that nodes showed, by position.
    pub shown: HashMap<Position, Hash>,
    /// Two nodes showed different states of one position, or a node was found to be wrong in itself.
    pub wrong: Option<String>,
    /// Additions to a record that were acknowledged.
    pub added: u64,
    /// Additions to it with unknown outcome.
    pub perhaps_added: u64,
    /// Accounts whose creation was acknowledged.
    pub made: Vec<sealpost_base::AccountId>,
}

/// [`Acknowledged`], shared.
#[derive(Default)]
pub struct Notes(Mutex<Acknowledged>);

impl Notes {
    /// For reading and writing.
    pub fn lock(&self) -> MutexGuard<'_, Acknowledged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node shows that state to its clients.
    pub fn show(&self, state: &AccountState) {
        let (position, digest) = (state.position(), digest(state));
        let mut told = self.lock();
        let before = *told.shown.entry(position).or_insert(digest);
        if before != digest {
            told.wrong.get_or_insert_with(|| format!("two nodes differ about position {position}"));
        }
    }
}
