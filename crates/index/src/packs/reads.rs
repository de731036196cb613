//! Reading many messages: from packs, where one has several of them.
//!
//! An open pack is memory of the budget, taken only if it is free: a reader of packs never waits
//! for memory because of them. Before waiting for other memory, release them
//! ([`PackReads::release`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use sealpost_base::{Budget, Kind, ObjectId, Permit, Result};
use sealpost_vault::message::MessageReader;
use sealpost_vault::pack::{Pack, Piece};

use super::{Packed, make};
use crate::Index;
use crate::summary::{Known, SegmentName};
use sealpost_account::Message;
use sealpost_account::MessageNumber;

/// Packs that one reader has open, or on their way.
const OPEN_PACKS: usize = 2;
/// The bytes that one saved request may read in vain.
const REQUEST_BYTES: u64 = 256 * 1024;

type Opening = Shared<BoxFuture<'static, Option<Arc<Pack>>>>;

/// Packs for one command.
pub struct PackReads {
    account: Index,
    kind: Packed,
    memory: Budget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Arc<Known>,
    /// Of the packs that are worth reading: their sizes.
    worth: HashMap<SegmentName, u64>,
    /// The most recently used one is last.
    open: Vec<(SegmentName, Opening)>,
}

/// The bytes of a pack, and the memory they are in.
struct Held {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PackReads {
    /// Reads nothing yet. Packs are opened in that memory.
    pub fn new(account: &Index, kind: Packed, memory: &Budget) -> Arc<Self> {
        Arc::new(PackReads {
            account: account.clone(),
            kind,
            memory: memory.clone(),
            state: Mutex::default(),
        })
    }

    /// Announces the next messages: it decides which packs are worth reading.
    pub async fn expect(&self, numbers: impl IntoIterator<Item = MessageNumber>) {
        if self.account.store().wants_packs() && self.survey(numbers).await >= make::WORTH_MESSAGES {
            self.account.pack_in_background();
        }
    }

    /// As [`PackReads::expect`]; how many of the messages have no pack.
    pub(super) async fn survey(&self, numbers: impl IntoIterator<Item = MessageNumber>) -> usize {
        let known = match self.account.packs_of(self.kind).await {
            Ok(known) => known,
            Err(e) => {
                tracing::debug!(account = %self.account.id(), error = %e, "packs cannot be listed");
                return 0;
            }
        };
        let (mut wanted, mut without) = (HashMap::<SegmentName, u64>::new(), 0);
        for number in numbers {
            match known.covering(number.0) {
                Some(name) => *wanted.entry(name).or_default() += 1,
                None => without += 1,
            }
        }
        let sizes = known.segments().iter();
        let worth = sizes.filter(|stored| {
            let wanted = wanted.get(&stored.name).copied().unwrap_or_default();
            wanted > 1 && stored.bytes <= wanted * REQUEST_BYTES
        });
        let worth = worth.map(|stored| (stored.name, stored.bytes)).collect();
        let mut state = self.lock();
        (state.known, state.worth) = (known, worth);
        without
    }

    /// A reader of the message, with what a pack has of it.
    pub async fn reader(&self, number: MessageNumber, message: &Message) -> MessageReader {
        let reader = self.account.reader(message);
        match self.piece(number.0, message.object).await {
            Some(piece) => reader.with_piece(piece),
            None => reader,
        }
    }

    /// Releases all open packs. Readers keep the bytes that they got.
    pub fn release(&self) {
        self.lock().open.clear();
    }

    /// Whether both messages are in the same pack, or in none that is worth it.
    pub fn are_together(&self, one: MessageNumber, other: MessageNumber) -> bool {
        let state = self.lock();
        state.pack_of(one.0) == state.pack_of(other.0)
    }

    /// Whether a reader of the message would have its pack, if there is one that is worth it.
    pub fn has_memory(&self, number: MessageNumber) -> bool {
        let state = self.lock();
        let Some((name, bytes)) = state.pack_of(number.0) else { return true };
        state.open.iter().any(|(open, _)| *open == name) || self.permit(bytes).is_some()
    }

    /// Makes [`PackReads::has_memory`] true: releases the open packs, or skips that one. The caller
    /// holds no bytes read from packs.
    pub fn free_memory(&self, number: MessageNumber) {
        if self.has_memory(number) {
            return;
        }
        self.release();
        if !self.has_memory(number) {
            let mut state = self.lock();
            if let Some((name, _)) = state.pack_of(number.0) {
                state.worth.remove(&name);
            }
        }
    }

    /// What a pack has of the message.
    pub(crate) async fn piece(&self, number: u32, object: ObjectId) -> Option<Piece> {
        let (name, opening) = self.opening(number)?;
        match opening.await?.find(number, object) {
            Ok(piece) => piece,
            Err(e) => {
                tracing::warn!(account = %self.account.id(), pack = %name, error = %e, "a damaged pack; it is made again");
                // If it stays, others will notice.
                let _ = self.account.remove_pack(self.kind, name).await;
                self.lock().worth.remove(&name);
                None
            }
        }
    }

    /// The pack with that message, on its way, if it is worth it.
    fn opening(&self, number: u32) -> Option<(SegmentName, Opening)> {
        let mut state = self.lock();
        let (name, bytes) = state.pack_of(number)?;
        if let Some(at) = state.open.iter().position(|(open, _)| *open == name) {
            let found = state.open.remove(at);
            state.open.push(found.clone());
            return Some(found);
        }
        if state.open.len() >= OPEN_PACKS {
            drop(state.open.remove(0));
        }
        let permit = self.permit(bytes)?;
        let (account, kind) = (self.account.clone(), self.kind);
        let task = tokio::spawn(async move { account.open_pack(kind, name, permit).await });
        let opening = async move { task.await.ok().flatten() }.boxed().shared();
        state.open.push((name, opening.clone()));
        Some((name, opening))
    }

    /// Memory for a pack, if it is free.
    fn permit(&self, bytes: u64) -> Option<Permit> {
        let bytes = usize::try_from(bytes).ok()?;
        self.memory.try_acquire_large(bytes).filter(|permit| permit.bytes() >= bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The pack with that message, and its size, if it is worth reading.
    fn pack_of(&self, number: u32) -> Option<(SegmentName, u64)> {
        let name = self.known.covering(number)?;
        Some((name, *self.worth.get(&name)?))
    }
}

impl Index {
    async fn open_pack(&self, kind: Packed, name: SegmentName, permit: Permit) -> Option<Arc<Pack>> {
        match self.read_pack(kind, name, permit).await {
            Ok(pack) => Some(Arc::new(pack)),
            Err(e) => {
                match e.kind() {
                    Kind::NotFound => self.derived.packs.forget(kind, name),
                    Kind::Corrupt => {
                        tracing::warn!(account = %self.id(), error = %e, "a damaged pack; it is made again");
                        let _ = self.remove_pack(kind, name).await;
                    }
                    _ => tracing::debug!(account = %self.id(), error = %e, "a pack could not be read"),
                }
                None
            }
        }
    }

    async fn read_pack(&self, kind: Packed, name: SegmentName, permit: Permit) -> Result<Pack> {
        let path = kind.path(self.id(), name);
        // What is in it has digests in its directory.
        let open = |bytes: &Bytes| Pack::open(&self.keys(), self.id(), &path, bytes).map(|_| bytes.clone());
        let bytes = self.store().read_opened(&path, open).await?;
        let object = Bytes::from_owner(Held { bytes, _permit: permit });
        Pack::open(&self.keys(), self.id(), &path, &object)
    }
}
