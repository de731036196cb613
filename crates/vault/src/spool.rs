//! Messages between two places: a delivery to several accounts is received once, before it is known
//! whose it will be, and sealed under a key that exists in this process's memory alone.
//!
//! Objects that a crash leaves below `spool/` cannot be opened; [`sweep`] removes them.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Budget, ObjectId, Random, Result, Timestamp};

use crate::Store;
use crate::cipher::{ObjectCipher, sha256};
use crate::message::{EvictedBody, MessageKey, MessageReader, MessageWriter};

/// A message that is being spooled. Dropped before [`SpoolWriter::finish`], it leaves nothing.
pub struct SpoolWriter {
    store: Store,
    object: ObjectId,
    key: MessageKey,
    writer: MessageWriter,
}

impl SpoolWriter {
    /// Starts a message; waits for [`crate::message::WRITER_BYTES`] of budget.
    pub async fn new(store: &Store, budget: &Budget, random: &dyn Random) -> Result<Self> {
        let (object, key) = (ObjectId::random(random), MessageKey::generate(random));
        let writer = MessageWriter::at(store, path(object), cipher(object, &key), budget, 0).await?;
        Ok(SpoolWriter { store: store.clone(), object, key, writer })
    }

    /// Takes the next bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes).await
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.writer.size()
    }

    /// Completes the message.
    pub async fn finish(self) -> Result<Spooled> {
        let layout = self.writer.finish(&[], &[]).await?;
        let cipher = cipher(self.object, &self.key);
        let reader = MessageReader::at(&self.store, path(self.object), cipher, layout);
        Ok(Spooled { store: self.store, object: self.object, reader })
    }
}

/// A spooled message. Call [`Spooled::remove`] when it has arrived where it belongs.
pub struct Spooled {
    store: Store,
    object: ObjectId,
    reader: MessageReader,
}

impl Spooled {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.reader.layout().raw_bytes
    }

    /// The message, in pieces of at most 64 KiB; as often as needed.
    pub fn read(&self) -> BoxStream<'static, Result<Bytes>> {
        self.reader.raw(0..u64::MAX)
    }

    /// Removes it from the store.
    pub async fn remove(self) -> Result<()> {
        self.store.delete(&path(self.object)).await
    }
}

impl EvictedBody for Spooled {
    fn size(&self) -> u64 {
        Spooled::size(self)
    }

    fn batches(&self, range: Range<u64>) -> BoxStream<'static, Result<Vec<Bytes>>> {
        self.reader.batches(range)
    }
}

/// Removes what was spooled before `before`: its key died with the process that had it. Returns how
/// many there were.
pub async fn sweep(store: &Store, before: Timestamp) -> Result<usize> {
    let mut found = store.list("spool", None);
    let mut removed = 0;
    while let Some(object) = found.try_next().await? {
        if object.modified < before {
            store.delete(&object.path).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn path(object: ObjectId) -> String {
    format!("spool/{object}")
}

/// Bound to no account, and by its label to the spool: a spooled object cannot be passed off as a message.
fn cipher(object: ObjectId, key: &MessageKey) -> ObjectCipher {
    let nobody = AccountId([0; 16]);
    ObjectCipher::new(&[], key.as_bytes(), sha256(&[b"sealpost spool v1", &nobody.0, &object.0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use sealpost_base::SeededRandom;

    #[tokio::test]
    async fn a_spooled_message_is_read_twice_and_removed() {
        let (store, budget, random) = (Store::memory(), Budget::new(8 << 20), SeededRandom::new(1));
        let text = b"Received: here\r\n\r\n".repeat(10_000);
        let mut writer = SpoolWriter::new(&store, &budget, &random).await.unwrap();
        writer.write(&text).await.unwrap();
        assert_eq!(writer.size(), text.len() as u64);
        let spooled = writer.finish().await.unwrap();
        assert_eq!(spooled.size(), text.len() as u64);
        for _ in 0..2 {
            let pieces: Vec<Bytes> = spooled.read().try_collect().await.unwrap();
            assert_eq!(pieces.concat(), text);
        }
        let stored = store.read(&path(spooled.object)).await.unwrap();
        assert!(!stored.windows(8).any(|w| w == b"Received"));
        spooled.remove().await.unwrap();
        assert_eq!(store.list("spool", None).count().await, 0);
    }

    #[tokio::test]
    async fn spool_objects_left_by_a_crash_are_swept_by_age() {
        let (store, budget, random) = (Store::memory(), Budget::new(8 << 20), SeededRandom::new(1));
        let left = SpoolWriter::new(&store, &budget, &random).await.unwrap().finish().await.unwrap();
        drop(left);
        assert_eq!(sweep(&store, Timestamp(0)).await.unwrap(), 0);
        assert_eq!(sweep(&store, Timestamp(i64::MAX)).await.unwrap(), 1);
        assert_eq!(store.list("spool", None).count().await, 0);
    }
}
