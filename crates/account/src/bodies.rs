//! Bodies that are not stored: evicting them, and fetching them again.
//!
//! The log does not record it. The existing objects show whether the body of a message is stored
//! ([`sealpost_vault::message::MessageStub`]), and [`BodyFetcher`] knows its source. Backups of other
//! servers' mailboxes use this. An account whose mail is nowhere else must not.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use sealpost_base::limits::{BODIES_TOGETHER, BODIES_TOGETHER_BYTES};
use sealpost_base::{Error, Kind, ObjectId, Result};
use sealpost_mime::Structure;
use sealpost_vault::message::{
    self, EvictedBody, HEAD_BYTES, MessageReader, MessageStub, READER_BYTES, Wanted,
};
use sealpost_vault::spool::Spooled;

use crate::account::Account;
use crate::event::Message;

/// Messages read at once to be evicted.
const AT_ONCE: usize = 4;

/// The source of bodies that are not stored here.
pub trait BodyFetcher: Send + Sync {
    /// The complete message of `account`, verified against its size and SHA-256.
    ///
    /// # Errors
    /// `Offloaded` if it is unavailable, with the remedy; `Retry` if it may be available later.
    fn body(&self, account: Arc<Account>, wanted: Wanted) -> BoxFuture<'static, Result<Arc<Spooled>>>;
}

/// The result of an eviction.
#[derive(Debug, Default)]
pub struct EvictedBodies {
    /// The messages without bodies.
    pub objects: Vec<ObjectId>,
    /// Freed bytes on disk.
    pub bytes: u64,
    /// Messages that stay unchanged because of damage, with the damage.
    pub damaged: Vec<(ObjectId, Error)>,
}

/// Bytes on disk that a stored body takes.
pub fn body_bytes(message: &Message) -> u64 {
    message.layout.sealed_raw.saturating_add(message.layout.sealed_index.into())
}

/// The source of bodies for a reader of an account's messages.
struct OfAccount(std::sync::Weak<Account>, Arc<dyn BodyFetcher>);

impl message::EvictedBodies for OfAccount {
    fn body(&self, wanted: Wanted) -> BoxFuture<'static, Result<Arc<dyn EvictedBody>>> {
        let account =
            self.0.upgrade().ok_or_else(|| Error::retry("the account was evicted from memory meanwhile"));
        let bodies = self.1.clone();
        Box::pin(async move { Ok(bodies.body(account?, wanted).await? as Arc<dyn EvictedBody>) })
    }
}

impl Account {
    /// The reader, which fetches an evicted body from the source of the process
    /// ([`crate::Accounts::set_bodies`]).
    pub(crate) fn asking(&self, reader: MessageReader) -> MessageReader {
        match (self.bodies(), self.this()) {
            (Some(bodies), Some(this)) => {
                reader.with_bodies(Arc::new(OfAccount(Arc::downgrade(&this), bodies)))
            }
            _ => reader,
        }
    }

    /// The objects of the messages without bodies, sorted. Reads the names of all message objects, if there
    /// is any such message.
    ///
    /// # Errors
    /// Store errors.
    pub async fn evicted(&self) -> Result<Vec<ObjectId>> {
        let mut stubs = Vec::new();
        let mut listed = self.store().list(&format!("acct/{}/thin", self.id()), None);
        while let Some(object) = listed.try_next().await? {
            stubs.extend(last_id(&object.path));
        }
        if stubs.is_empty() {
            return Ok(stubs);
        }
        stubs.sort_unstable();
        // Messages with an interrupted eviction are complete.
        let mut whole = Vec::new();
        let mut listed = self.store().list(&format!("acct/{}/msg", self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let id = last_id(&object.path).filter(|id| stubs.binary_search(id).is_ok());
            whole.extend(id);
        }
        whole.sort_unstable();
        stubs.retain(|id| whole.binary_search(id).is_err());
        Ok(stubs)
    }

    /// Evicts the bodies of these messages, some at a time. After an interruption each message is complete or
    /// a stub, and the call can be repeated. Headers (up to 64 KiB), structures and texts stay. `progress`
    /// gets the number and bytes of the messages evicted since its last call, and returns whether to
    /// continue.
    ///
    /// # Errors
    /// `Invalid` on a remote store; `Corrupt` if the account is damaged; store errors.
    pub async fn evict_bodies(
        &self,
        messages: Vec<Message>,
        mut progress: impl FnMut(usize, u64) -> bool + Send,
    ) -> Result<EvictedBodies> {
        if self.store().wants_packs() {
            // Packs have copies of the messages.
            return Err(Error::invalid("bodies can be evicted in a local store only, not in a bucket"));
        }
        if self.is_damaged() {
            return Err(Error::corrupt("the account is damaged: no objects are removed"));
        }
        let mut done = EvictedBodies::default();
        let stubs = stream::iter(messages).map(|message| async move {
            let stub = self.stub(&message).await;
            (message, stub)
        });
        let mut stubs = std::pin::pin!(stubs.buffered(AT_ONCE));
        let mut batch = Batch::default();
        let mut go_on = true;
        while let Some((message, stub)) = stubs.next().await {
            match stub {
                Ok(stub) => batch.push(&message, stub),
                // Purged meanwhile, or evicted by another process.
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) if e.kind() == Kind::Corrupt => done.damaged.push((message.object, e)),
                Err(e) => return Err(e),
            }
            if batch.is_full() {
                go_on = self.store_thin(std::mem::take(&mut batch), &mut done, &mut progress).await?;
                if !go_on {
                    break;
                }
            }
        }
        if go_on && !batch.stubs.is_empty() {
            self.store_thin(batch, &mut done, &mut progress).await?;
        }
        Ok(done)
    }

    /// Returns space inside files of the store to the disk, if the store can and it is worth it.
    ///
    /// # Errors
    /// Store errors; everything is then unchanged.
    pub async fn shrink_store(&self) -> Result<()> {
        self.store().shrink().await
    }

    async fn stub(&self, message: &Message) -> Result<MessageStub> {
        let sealed = message.layout.sealed_text as usize + message.layout.sealed_structure as usize;
        let _permit = self.budget().acquire(READER_BYTES + HEAD_BYTES + 4 * sealed).await;
        let reader =
            MessageReader::new(self.store(), self.id(), message.object, &message.key, message.layout);
        let structure = Structure::decode(&reader.structure().await?)?;
        MessageStub::of(&reader, structure.root.header.end).await
    }

    async fn store_thin(
        &self,
        batch: Batch,
        done: &mut EvictedBodies,
        progress: &mut (impl FnMut(usize, u64) -> bool + Send),
    ) -> Result<bool> {
        MessageStub::replace(batch.stubs, self.store()).await?;
        let go_on = progress(batch.objects.len(), batch.body_bytes);
        done.bytes += batch.body_bytes;
        done.objects.extend(batch.objects);
        Ok(go_on)
    }
}

/// Messages that are stored together.
#[derive(Default)]
struct Batch {
    stubs: Vec<MessageStub>,
    objects: Vec<ObjectId>,
    bytes: usize,
    body_bytes: u64,
}

impl Batch {
    fn push(&mut self, message: &Message, stub: MessageStub) {
        self.bytes += stub.size();
        self.body_bytes += body_bytes(message);
        self.objects.push(message.object);
        self.stubs.push(stub);
    }

    fn is_full(&self) -> bool {
        self.stubs.len() >= BODIES_TOGETHER || self.bytes >= BODIES_TOGETHER_BYTES
    }
}

pub(crate) fn last_id(path: &str) -> Option<ObjectId> {
    path.rsplit('/').next()?.parse().ok()
}
