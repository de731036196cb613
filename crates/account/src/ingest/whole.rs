//! Storing messages that are there whole, many at a time: scanned and sealed one after the other on a thread that may block,
//! and made durable together.
//!
//! One message at a time costs a task, a request to the store and a wait for the disk each; for messages of a few hundred
//! octets that is most of the work.

use futures::stream::{self, StreamExt, TryStreamExt};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Error, ObjectId, Result};
use sealpost_mime::Scanner;
use sealpost_vault::message::{MessageKey, Whole};
use tokio::task::spawn_blocking;

use super::{Ingest, SCANNED_BYTES, Stored};
use crate::accounts::Accounts;

/// A message's text and structure, and its object, take at most this many times what the message does, give or take
/// [`BESIDE_BYTES`].
const GROWTH: usize = 2;
/// What a small message's structure and object take beside what grows with it.
const BESIDE_BYTES: usize = 1024;

/// Messages that are too large to be stored with others, and are stored at once.
const LARGE_AT_ONCE: usize = 4;

/// What of a batch was sealed and not stored yet.
type Sealed = (Vec<Whole>, Vec<Option<Stored>>);

/// Stores all of them, durably; in the order of `messages`. The caller bounds their octets; its own buffers are not drawn here.
pub(crate) async fn store(
    accounts: &Accounts,
    account: AccountId,
    messages: Vec<Vec<u8>>,
) -> Result<Vec<Stored>> {
    let octets: usize = messages.iter().map(|message| GROWTH * message.len() + BESIDE_BYTES).sum();
    let permit = accounts.storing().acquire(octets + SCANNED_BYTES).await;
    let this = accounts.clone();
    let sealed = spawn_blocking(move || {
        let sealed = seal(&this, account, &messages);
        (sealed, messages)
    });
    let ((wholes, mut stored), messages) =
        sealed.await.map_err(|e| Error::internal("sealing messages panicked").with_source(e))?;
    if !wholes.is_empty() {
        Whole::store(wholes, accounts.store()).await?;
    }
    drop(permit);
    let mut large = Vec::new();
    for (nth, message) in messages.into_iter().enumerate() {
        if stored[nth].is_none() {
            large.push(one(accounts.clone(), account, nth, message));
        }
    }
    let mut large = stream::iter(large).buffer_unordered(LARGE_AT_ONCE);
    while let Some((nth, one)) = large.try_next().await? {
        stored[nth] = Some(one);
    }
    Ok(stored.into_iter().flatten().collect())
}

/// Those that are small enough, and in their places what will refer to them.
fn seal(accounts: &Accounts, account: AccountId, messages: &[Vec<u8>]) -> Sealed {
    let objects = ObjectId::consecutive(accounts.random(), messages.len());
    let mut wholes = Vec::with_capacity(messages.len());
    let stored = messages.iter().zip(objects).map(|(message, object)| {
        if message.len() > CHUNK_BYTES {
            return None;
        }
        let mut scanner = Scanner::new();
        scanner.push(message);
        let (structure, text) = scanner.finish();
        let key = MessageKey::generate(accounts.random());
        let (text, structure) = (text.into_text().encode(), structure.encode());
        let whole = Whole::seal(account, object, &key, message, &text, &structure)?;
        let layout = whole.layout();
        wholes.push(whole);
        Some(Stored { object, key, layout, origin: None })
    });
    let stored = stored.collect();
    (wholes, stored)
}

/// One that is too large for that.
async fn one(
    accounts: Accounts,
    account: AccountId,
    nth: usize,
    message: Vec<u8>,
) -> Result<(usize, Stored)> {
    let mut ingest = Ingest::new(&accounts, account, 0).await?;
    ingest.write(&message).await?;
    drop(message);
    Ok((nth, ingest.finish().await?))
}
