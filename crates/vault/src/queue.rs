//! Objects of a queue beside its log: bodies that are too large for an entry, and segments, which
//! hold mail that is still there when the entry it was accepted by is trimmed.
//!
//! Each has a random key of its own, which the queue's log or checkpoint holds under the mail key.
//! A segment holds mail of several senders and is not compressed.

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Budget, ObjectId, Result};
use std::ops::Range;

use crate::Store;
use crate::cipher::{ObjectCipher, sha256};
use crate::compress::Effort;
use crate::message::{Layout, MessageKey, MessageReader, MessageWriter};

/// Which kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueObject {
    /// The bytes of one message.
    Body,
    /// Many mails.
    Segment,
}

impl QueueObject {
    /// The folder of such objects of the queue of `node`.
    pub fn folder(self, node: AccountId) -> String {
        match self {
            QueueObject::Body => format!("queue/{node}/body"),
            QueueObject::Segment => format!("queue/{node}/segment"),
        }
    }

    /// The path of an object of the queue of `node`.
    pub fn path(self, node: AccountId, object: ObjectId) -> String {
        format!("{}/{object}", self.folder(node))
    }

    fn cipher(self, node: AccountId, object: ObjectId, key: &MessageKey) -> ObjectCipher {
        let label: &[u8] = match self {
            QueueObject::Body => b"sealpost queue body v1",
            QueueObject::Segment => b"sealpost queue segment v1",
        };
        ObjectCipher::new(&[], key.as_bytes(), sha256(&[label, &node.0, &object.0]))
    }

    /// Starts an object; waits for [`crate::message::WRITER_BYTES`] of budget. `key` must be fresh.
    ///
    /// # Errors
    /// What the store says.
    pub async fn write(
        self,
        store: &Store,
        node: AccountId,
        object: ObjectId,
        key: &MessageKey,
        budget: &Budget,
    ) -> Result<QueueWriter> {
        let effort = match self {
            QueueObject::Body => Effort::default(),
            QueueObject::Segment => Effort::none(),
        };
        let cipher = self.cipher(node, object, key);
        MessageWriter::with(store, self.path(node, object), cipher, budget, 0, effort).await.map(QueueWriter)
    }

    /// The bytes `range` of an object, cut at its end, in pieces of at most 64 KiB. The stream holds at most
    /// [`crate::message::READER_BYTES`].
    pub fn read(
        self,
        store: &Store,
        node: AccountId,
        (object, key, layout): (ObjectId, &MessageKey, Layout),
        range: Range<u64>,
    ) -> BoxStream<'static, Result<Bytes>> {
        let cipher = self.cipher(node, object, key);
        MessageReader::at(store, self.path(node, object), cipher, layout).raw(range)
    }

    /// As [`QueueObject::read`], all at once.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, or what the store says.
    pub async fn read_whole(
        self,
        store: &Store,
        node: AccountId,
        known: (ObjectId, &MessageKey, Layout),
        range: Range<u64>,
    ) -> Result<Vec<u8>> {
        let mut pieces = self.read(store, node, known, range);
        let mut whole = Vec::new();
        while let Some(piece) = pieces.try_next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// An object that is being written. Dropped before [`QueueWriter::finish`], it leaves nothing.
pub struct QueueWriter(MessageWriter);

impl QueueWriter {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `Retry` if the store failed; the writer is of no more use then.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes).await
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Completes the object. Durable when it returns.
    ///
    /// # Errors
    /// `Retry` if the store failed.
    pub async fn finish(self) -> Result<Layout> {
        self.0.finish(&[], &[]).await
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Kind, SeededRandom};

    use super::*;

    #[tokio::test]
    async fn bodies_and_segments_are_read_back_in_part() {
        let (store, budget, random) = (Store::memory(), Budget::new(8 << 20), SeededRandom::new(1));
        let (node, text) = (AccountId([5; 16]), b"Subject: x\r\n\r\n".repeat(20_000));
        for (kind, other) in
            [(QueueObject::Body, QueueObject::Segment), (QueueObject::Segment, QueueObject::Body)]
        {
            let (object, key) = (ObjectId::random(&random), MessageKey::generate(&random));
            let mut writer = kind.write(&store, node, object, &key, &budget).await.unwrap();
            writer.write(&text).await.unwrap();
            assert_eq!(writer.size(), text.len() as u64);
            let layout = writer.finish().await.unwrap();
            let stored = store.read(&kind.path(node, object)).await.unwrap();
            assert_eq!(stored.len() > text.len(), kind == QueueObject::Segment);
            let read = kind.read_whole(&store, node, (object, &key, layout), 70_000..70_100).await.unwrap();
            assert_eq!(read, text[70_000..70_100]);
            let wrong = other.cipher(node, object, &key);
            let path = kind.path(node, object);
            let wrong = MessageReader::at(&store, path, wrong, layout).raw(0..10).try_next().await;
            assert!(wrong.is_err_and(|e| e.kind() == Kind::Corrupt));
        }
    }
}
