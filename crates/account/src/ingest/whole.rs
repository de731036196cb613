//! Stores many complete messages at a time: scans and seals them one after another on a blocking thread, and
//! makes them durable together.
//!
//! One message at a time costs a task, a store request and an fsync each. For messages of a few hundred bytes
//! that is most of the work, and for messages stored as files the fsyncs dominate.

use sealpost_base::{AccountId, Error, ObjectId, Result};
use sealpost_mime::Scanner;
use sealpost_vault::Batch;
use sealpost_vault::message::{MessageKey, SealedMessage};
use tokio::task::spawn_blocking;

use super::{Age, Ingest, SCANNED_BYTES, Scanned, Stored, scanned};
use crate::env::AccountEnv;

/// A message's text, structure and object take at most this multiple of its size, plus [`BESIDE_BYTES`].
const GROWTH: usize = 2;
/// The fixed size of a small message's structure and object, in bytes.
const BESIDE_BYTES: usize = 1024;

/// Sealed messages that are not stored yet.
type Sealed = (Vec<SealedMessage>, Vec<Option<Stored>>);

/// Messages that become durable together. If it is dropped before [`IngestBatch::finish`], nothing refers to
/// any of them.
pub struct IngestBatch {
    env: AccountEnv,
    account: AccountId,
    batch: Batch,
}

impl IngestBatch {
    /// Messages up to this size are stored with others; larger ones are durable when they are added, and cost
    /// more.
    pub const MESSAGE_BYTES: usize = SealedMessage::MESSAGE_BYTES;

    pub(crate) fn new(env: AccountEnv, account: AccountId) -> Self {
        let batch = env.store().batch();
        IngestBatch { env, account, batch }
    }

    /// Adds messages; returns what later events refer to, in order. Concurrent calls are allowed. The caller
    /// bounds the bytes of the messages, which acquire no memory here.
    ///
    /// # Errors
    /// Store errors; the batch must not be used again.
    pub async fn add(&self, messages: Vec<Vec<u8>>) -> Result<Vec<Stored>> {
        let bytes: usize = messages.iter().map(|message| GROWTH * message.len() + BESIDE_BYTES).sum();
        let permit = self.env.storing().acquire(bytes + SCANNED_BYTES).await;
        let (env, account) = (self.env.clone(), self.account);
        let sealed = spawn_blocking(move || seal(&env, account, messages));
        let ((wholes, mut stored), large) =
            sealed.await.map_err(|e| Error::internal("sealing messages panicked").with_source(e))?;
        SealedMessage::add(wholes, &self.batch, self.env.store()).await?;
        drop(permit);
        for (nth, message) in large {
            let mut ingest = Ingest::new(&self.env, self.account, 0).await?;
            ingest.write(&message).await?;
            drop(message);
            stored[nth] = Some(ingest.finish().await?);
        }
        Ok(stored.into_iter().flatten().collect())
    }

    /// Makes all messages durable.
    ///
    /// # Errors
    /// Store errors.
    pub async fn finish(self) -> Result<()> {
        SealedMessage::finish(self.batch).await
    }
}

/// Seals the messages that are small enough; returns them in their places, and the others.
fn seal(env: &AccountEnv, account: AccountId, messages: Vec<Vec<u8>>) -> (Sealed, Vec<(usize, Vec<u8>)>) {
    let objects = ObjectId::consecutive(env.random(), messages.len());
    let (mut wholes, mut large) = (Vec::with_capacity(messages.len()), Vec::new());
    let mut stored = Vec::with_capacity(messages.len());
    let age = Age::begin(env.shared_clock());
    for ((nth, message), object) in messages.into_iter().enumerate().zip(objects) {
        let key = MessageKey::generate(env.random());
        let sealed = if message.len() <= SealedMessage::MESSAGE_BYTES {
            let mut scanner = Scanner::new();
            scanner.push(&message);
            let Scanned { text, structure, threading } = scanned(scanner, object);
            let whole = SealedMessage::seal(account, object, &key, &message, &text, &structure);
            whole.map(|whole| (whole, threading))
        } else {
            None
        };
        let (whole, threading) = sealed.unzip();
        stored.push(
            whole
                .as_ref()
                .zip(threading)
                .map(|(whole, threading)| Stored::new(object, key, whole.layout(), threading, age.clone())),
        );
        match whole {
            Some(whole) => wholes.push(whole),
            None => large.push((nth, message)),
        }
    }
    ((wholes, stored), large)
}
