//! [`BodyWriter`]: a message that a client is handing in. A small message stays in memory and goes into the
//! log. A larger one becomes an object of its own as it arrives, durable before the mail is accepted.

use sealpost_base::{ObjectId, Result, limits};
use sealpost_vault::message::MessageKey;
use sealpost_vault::queue::{QueueObject, QueueWriter};

use crate::Queue;
use crate::envelope::{Body, BodyRef};

/// By how many bytes a header may be shorter than announced to [`Queue::begin_body`]. So every message
/// whose body is an object has more than [`limits::QUEUE_INLINE_BYTES`] less these.
pub const HEADER_MARGIN_BYTES: usize = limits::QUEUE_INLINE_BYTES / 2;

/// Takes a message in pieces. If it is dropped before [`BodyWriter::finish`], no object stays.
pub struct BodyWriter {
    queue: Queue,
    /// Bytes reserved for the header fields before the body.
    header: usize,
    kept: Vec<u8>,
    object: Option<(ObjectId, MessageKey, QueueWriter)>,
    size: u64,
}

impl Queue {
    /// Begins a message. The header fields before it will have at most `header` bytes, and at least
    /// `header` less [`HEADER_MARGIN_BYTES`].
    pub fn begin_body(&self, header: usize) -> BodyWriter {
        BodyWriter { queue: self.clone(), header, kept: Vec::new(), object: None, size: 0 }
    }
}

impl BodyWriter {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `Limit` if the disk is full; errors of the store. The writer cannot be used after an error.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.take(bytes).await.map_err(|e| self.queue.inner().of_full_disk(e))
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.size += bytes.len() as u64;
        if self.object.is_none() && self.header + self.kept.len() + bytes.len() <= limits::QUEUE_INLINE_BYTES
        {
            self.kept.extend_from_slice(bytes);
            return Ok(());
        }
        if self.object.is_none() {
            let inner = self.queue.inner();
            let (object, key) = (ObjectId::random(&*inner.random), MessageKey::generate(&*inner.random));
            let kind = QueueObject::Body;
            let mut writer = kind.write(&inner.store, inner.node, object, &key, &inner.budget).await?;
            writer.write(&std::mem::take(&mut self.kept)).await?;
            self.object = Some((object, key, writer));
        }
        match &mut self.object {
            Some((_, _, writer)) => writer.write(bytes).await,
            None => Ok(()),
        }
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The body for a [mail](crate::envelope::Mail). An object is durable when it returns.
    ///
    /// # Errors
    /// As [`BodyWriter::write`].
    pub async fn finish(self) -> Result<Body> {
        match self.object {
            None => Ok(Body::Inline(self.kept)),
            Some((object, key, writer)) => {
                let finished = writer.finish().await;
                let layout = finished.map_err(|e| self.queue.inner().of_full_disk(e))?;
                Ok(Body::Object(BodyRef { object, key, layout }))
            }
        }
    }
}
