//! Bodies that are not kept: giving them up, and asking for one again.
//!
//! Nothing of this is in the log: whether the body of a message is here shows in the objects that
//! exist ([`sealpost_vault::message::MessageStub`]), and [`BodyFetcher`] knows its source. Backups
//! of other servers' mailboxes are kept like that; an account whose mail is nowhere else must not
//! be.

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

/// Messages that are read at once to be evicted.
const AT_ONCE: usize = 4;

/// The source of bodies that are not kept here.
pub trait BodyFetcher: Send + Sync {
    /// The whole message of `account`, with its size and its SHA-256 compared with the expected
    /// ones.
    ///
    /// # Errors
    /// `Offloaded` if it cannot be had as things are, with what can be done; `Retry` if it may be had later.
    fn body(&self, account: Arc<Account>, wanted: Wanted) -> BoxFuture<'static, Result<Arc<Spooled>>>;
}

/// The result of an eviction.
#[derive(Debug, Default)]
pub struct EvictedBodies {
    /// Whose bodies are no longer here.
    pub objects: Vec<ObjectId>,
    /// Bytes on disk that they took.
    pub bytes: u64,
    /// Messages that stay as they are, because something of them is damaged; and what.
    pub damaged: Vec<(ObjectId, Error)>,
}

/// Bytes on disk that the body of a message takes while it is kept.
pub fn body_bytes(message: &Message) -> u64 {
    message.layout.sealed_raw.saturating_add(message.layout.sealed_index.into())
}

/// Where a reader of an account's messages asks.
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

    /// The objects of the messages whose bodies are not here, sorted. Reads the names of all
    /// message objects, if there is any such message.
    ///
    /// # Errors
    /// What the store says.
    pub async fn evicted(&self) -> Result<Vec<ObjectId>> {
        let mut thin = Vec::new();
        let mut listed = self.store().list(&format!("acct/{}/thin", self.id()), None);
        while let Some(object) = listed.try_next().await? {
            thin.extend(last_id(&object.path));
        }
        if thin.is_empty() {
            return Ok(thin);
        }
        thin.sort_unstable();
        // Messages with an interrupted eviction are whole.
        let mut whole = Vec::new();
        let mut listed = self.store().list(&format!("acct/{}/msg", self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let id = last_id(&object.path).filter(|id| thin.binary_search(id).is_ok());
            whole.extend(id);
        }
        whole.sort_unstable();
        thin.retain(|id| whole.binary_search(id).is_err());
        Ok(thin)
    }

    /// Evicts the bodies of these messages, some at a time. If it is interrupted, each message is
    /// whole or a stub, and it can be repeated. Headers (up to 64 KiB), structures and texts stay.
    /// `progress` gets the number of messages evicted since its last call, and their bytes; it
    /// returns whether to continue.
    ///
    /// # Errors
    /// `Invalid` on a store behind a network; `Corrupt` if the account is damaged; what the store says.
    pub async fn evict_bodies(
        &self,
        messages: Vec<Message>,
        mut progress: impl FnMut(usize, u64) -> bool + Send,
    ) -> Result<EvictedBodies> {
        if self.store().wants_packs() {
            // Packs have the messages once more.
            return Err(Error::invalid("bodies can be evicted in a local store only, not in a bucket"));
        }
        if self.is_damaged() {
            return Err(Error::corrupt("the account is damaged: no objects are removed"));
        }
        let mut done = EvictedBodies::default();
        let thin = stream::iter(messages).map(|message| async move {
            let thin = self.thin(&message).await;
            (message, thin)
        });
        let mut thin = std::pin::pin!(thin.buffered(AT_ONCE));
        let mut batch = Batch::default();
        let mut go_on = true;
        while let Some((message, thin)) = thin.next().await {
            match thin {
                Ok(thin) => batch.push(&message, thin),
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
        if go_on && !batch.thin.is_empty() {
            self.store_thin(batch, &mut done, &mut progress).await?;
        }
        Ok(done)
    }

    /// Returns space of removed objects inside a file to the disk, if that is worth it and the
    /// store can.
    ///
    /// # Errors
    /// What the store says; everything is as it was then.
    pub async fn shrink_store(&self) -> Result<()> {
        self.store().shrink().await
    }

    async fn thin(&self, message: &Message) -> Result<MessageStub> {
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
        MessageStub::replace(batch.thin, self.store()).await?;
        let go_on = progress(batch.objects.len(), batch.body_bytes);
        done.bytes += batch.body_bytes;
        done.objects.extend(batch.objects);
        Ok(go_on)
    }
}

/// What is stored together.
#[derive(Default)]
struct Batch {
    thin: Vec<MessageStub>,
    objects: Vec<ObjectId>,
    bytes: usize,
    body_bytes: u64,
}

impl Batch {
    fn push(&mut self, message: &Message, thin: MessageStub) {
        self.bytes += thin.size();
        self.body_bytes += body_bytes(message);
        self.objects.push(message.object);
        self.thin.push(thin);
    }

    fn is_full(&self) -> bool {
        self.thin.len() >= BODIES_TOGETHER || self.bytes >= BODIES_TOGETHER_BYTES
    }
}

pub(crate) fn last_id(path: &str) -> Option<ObjectId> {
    path.rsplit('/').next()?.parse().ok()
}
