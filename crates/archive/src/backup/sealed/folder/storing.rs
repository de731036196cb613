//! Stores arriving messages: sealed in batches by several tasks, durable in groups.

use std::sync::Arc;

use sealpost_account::{IngestBatch, Stored as Sealed};
use sealpost_base::{Error, Result, Uid};
use tokio::task::JoinHandle;

use super::SealedFolder;
use crate::backup::Arrived;

/// Bytes and messages that one task seals.
const TOGETHER_BYTES: usize = 256 * 1024;
const TOGETHER: usize = 256;

/// Bytes and messages that become durable together. While the disk syncs, the next ones are sealed.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
const GROUP: usize = 512;

/// Groups that wait for the disk.
const FINISHING: usize = 3;

/// Messages that are complete.
#[derive(Default)]
pub(super) struct Gathered {
    arrived: Vec<Arrived>,
    messages: Vec<Vec<u8>>,
    bytes: usize,
}

/// Messages that become durable together.
pub(super) struct Group {
    batch: Arc<IngestBatch>,
    arrived: Vec<Arrived>,
    /// Messages that are being sealed, in their order.
    sealing: Vec<Storing>,
    bytes: usize,
}

/// Messages that are being stored, in their order.
pub(super) type Storing = JoinHandle<Result<Vec<Sealed>>>;

impl SealedFolder {
    /// Takes a message that is complete.
    pub(super) fn gather(&mut self, arrived: &Arrived, bytes: Vec<u8>) -> Result<()> {
        let gathered = &self.gathered;
        if gathered.bytes + bytes.len() > TOGETHER_BYTES || gathered.messages.len() == TOGETHER {
            self.seal_gathered()?;
        }
        self.gathered.bytes += bytes.len();
        self.gathered.messages.push(bytes);
        self.gathered.arrived.push(arrived.clone());
        self.record_arrival(arrived);
        Ok(())
    }

    /// The message belongs to the folder from now on. The flags of the message that it replaces
    /// count: the owner may have changed them here.
    pub(super) fn record_arrival(&mut self, arrived: &Arrived) {
        match Uid::new(arrived.uid)
            .filter(|uid| self.replace.remove(*uid) && self.known.contains(arrived.uid))
        {
            Some(uid) => {
                self.replaced.insert(uid);
                self.known.set_deleted_upstream(arrived.uid, false);
            }
            None => {
                self.known.insert(arrived.uid, &arrived.flags);
            }
        }
        self.dirty = true;
    }

    /// Starts sealing the collected messages, as soon as not too many are being sealed.
    pub(super) fn seal_gathered(&mut self) -> Result<()> {
        let Gathered { arrived, messages, bytes } = std::mem::take(&mut self.gathered);
        if messages.is_empty() {
            return Ok(());
        }
        let permit = self.runtime.block_on(self.sealing.clone().acquire_owned());
        let group = self.group.get_or_insert_with(|| Group {
            batch: Arc::new(self.account.ingest_batch()),
            arrived: Vec::new(),
            sealing: Vec::new(),
            bytes: 0,
        });
        let batch = group.batch.clone();
        group.sealing.push(self.runtime.spawn(async move {
            let _permit = permit;
            batch.add(messages).await
        }));
        group.bytes += bytes;
        group.arrived.extend(arrived);
        if group.bytes >= GROUP_BYTES || group.arrived.len() >= GROUP {
            self.store_group()?;
        }
        Ok(())
    }

    /// Starts to make sealed messages durable.
    pub(super) fn store_group(&mut self) -> Result<()> {
        let Some(Group { batch, arrived, sealing, .. }) = self.group.take() else { return Ok(()) };
        self.store(arrived, async move {
            let mut stored = Vec::new();
            for sealed in sealing {
                stored.extend(sealed.await.map_err(unfinished)??);
            }
            // All tasks that add messages to it have ended.
            let batch =
                Arc::into_inner(batch).ok_or_else(|| Error::internal("a batch that is still filled"))?;
            batch.finish().await?;
            Ok(stored)
        })
    }

    /// Starts to store messages, as soon as not too many are being stored.
    pub(super) fn store(
        &mut self,
        arrived: Vec<Arrived>,
        storing: impl Future<Output = Result<Vec<Sealed>>> + Send + 'static,
    ) -> Result<()> {
        self.wait(FINISHING - 1)?;
        self.storing.push_back((arrived, self.runtime.spawn(storing)));
        Ok(())
    }

    /// Makes all of it durable.
    pub(super) fn store_all(&mut self) -> Result<()> {
        self.seal_gathered()?;
        self.store_group()?;
        self.wait(0)
    }

    /// Waits for the messages that are being stored, until at most `left` tasks remain.
    pub(super) fn wait(&mut self, left: usize) -> Result<()> {
        while self.storing.len() > left {
            let Some((arrived, task)) = self.storing.pop_front() else { break };
            let stored = self.runtime.block_on(task);
            let stored = stored.map_err(unfinished);
            match stored.and_then(|stored| stored) {
                Ok(stored) => self.stored.extend(arrived.into_iter().zip(stored)),
                Err(e) => {
                    self.broken = true;
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

fn unfinished(error: tokio::task::JoinError) -> Error {
    Error::retry("storing messages did not finish").with_source(error)
}
