//! A queued mail as a transport reads it.
//!
//! The reader ends only when the mark [`Event::Sending`](crate::event::Event) is durable. So after a crash
//! each mail that a server may have got is marked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use sealpost_base::{Error, Kind, Result};
use sealpost_delivery::envelope::{BodyForm, MessageReader, MessageSource};
use sealpost_vault::queue::QueueObject;

use crate::Queue;
use crate::envelope::{Body, Mail};

/// Bytes of a piece of a message in memory.
const PIECE_BYTES: usize = 64 * 1024;

/// The forms in which mails are sent.
#[async_trait]
pub trait Forms: Send + Sync {
    /// The bytes of a message in `form`, trace and signature fields included.
    ///
    /// # Errors
    /// If it cannot be read now, or has no such form.
    async fn open(&self, message: QueuedMessage, form: BodyForm) -> Result<Box<dyn MessageReader>>;

    /// The number of bytes in `form`, or a few more.
    fn size(&self, mail: &Mail, form: BodyForm) -> u64 {
        match form {
            BodyForm::AsIs => mail.facts.size,
            // Quoted-printable: each byte as three, and a line end for each 75.
            BodyForm::SevenBit => mail.facts.size.saturating_mul(3).saturating_add(mail.facts.size / 25),
        }
    }
}

/// Sends messages as they were accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsAccepted;

#[async_trait]
impl Forms for AsAccepted {
    async fn open(&self, message: QueuedMessage, form: BodyForm) -> Result<Box<dyn MessageReader>> {
        if form == BodyForm::SevenBit && message.mail.facts.eight_bit {
            return Err(Error::invalid("the message has 8-bit text, and the server takes none"));
        }
        Ok(Box::new(message.read()))
    }
}

/// A mail and the queue that has it.
#[derive(Clone)]
pub struct QueuedMessage {
    /// The queue.
    pub queue: Queue,
    /// The mail.
    pub mail: Arc<Mail>,
}

impl QueuedMessage {
    /// Its bytes: the header fields of the queue, then the message as it was accepted.
    pub fn read(&self) -> Pieces {
        let inner = self.queue.inner();
        let mut ready = VecDeque::new();
        push_pieces(&mut ready, &self.mail.header);
        let rest = match &self.mail.body {
            Body::Inline(bytes) => {
                push_pieces(&mut ready, bytes);
                None
            }
            Body::Object(body) => {
                let known = (body.object, &body.key, body.layout);
                Some(QueueObject::Body.read(&inner.store, inner.node, known, 0..u64::MAX))
            }
        };
        Pieces { ready, rest: rest.map(Mutex::new) }
    }

    /// The first `limit` bytes at most, and whether that is the whole message.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn beginning(&self, limit: usize) -> Result<(Vec<u8>, bool)> {
        let (mut pieces, mut bytes) = (self.read(), Vec::new());
        while let Some(piece) = pieces.next().await? {
            let take = piece.len().min(limit - bytes.len());
            bytes.extend_from_slice(&piece[..take]);
            if take < piece.len() {
                return Ok((bytes, false));
            }
        }
        Ok((bytes, true))
    }
}

fn push_pieces(ready: &mut VecDeque<Bytes>, bytes: &[u8]) {
    ready.extend(bytes.chunks(PIECE_BYTES).map(Bytes::copy_from_slice));
}

/// The bytes of a message, in order.
pub struct Pieces {
    ready: VecDeque<Bytes>,
    rest: Option<Mutex<BoxStream<'static, Result<Bytes>>>>,
}

#[async_trait]
impl MessageReader for Pieces {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(piece) = self.ready.pop_front() {
            return Ok(Some(piece));
        }
        match &mut self.rest {
            None => Ok(None),
            Some(rest) => rest.get_mut().unwrap_or_else(PoisonError::into_inner).try_next().await,
        }
    }
}

/// Done when the mark of the mail is durable.
pub(super) type Marked = Shared<BoxFuture<'static, std::result::Result<(), (Kind, String)>>>;

/// The message of one attempt.
pub(super) struct Sent {
    pub(super) message: QueuedMessage,
    pub(super) forms: Arc<dyn Forms>,
    pub(super) marked: Marked,
}

#[async_trait]
impl MessageSource for Sent {
    fn size(&self, form: BodyForm) -> u64 {
        self.forms.size(&self.message.mail, form)
    }

    async fn open(&self, form: BodyForm) -> Result<Box<dyn MessageReader>> {
        let inner = self.forms.open(self.message.clone(), form).await?;
        Ok(Box::new(Gated { inner, marked: self.marked.clone() }))
    }
}

/// A reader that ends only when the mark is durable.
struct Gated {
    inner: Box<dyn MessageReader>,
    marked: Marked,
}

#[async_trait]
impl MessageReader for Gated {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(piece) = self.inner.next().await? {
            return Ok(Some(piece));
        }
        match self.marked.clone().await {
            Ok(()) => Ok(None),
            Err((kind, why)) => Err(Error::new(kind, why)),
        }
    }
}
