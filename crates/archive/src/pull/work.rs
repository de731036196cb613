//! [`Work`]: what connections hand to the writer of a folder, and the bounded channel between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sealpost_base::{Clock, Error, Result, UidSet};
use sealpost_imap::types::DateTime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::report::Failure;
use crate::backup::{Arrived, Flags, Resume};

/// Bytes of small messages that are handed over together.
pub(super) const BATCH_BYTES: usize = 128 * 1024;
/// Messages that are handed over together.
pub(super) const BATCH_MESSAGES: usize = 256;
/// Pieces of work that wait.
const WAITING: usize = 8;
/// Pieces of a large message that wait.
const WAITING_PIECES: usize = 4;

/// What is to be written.
pub(super) enum Work {
    /// Complete messages.
    Messages(Vec<(Arrived, Vec<u8>)>),
    /// The same, but the server may still replace them: nothing is committed until [`Work::Confirmed`]
    /// or [`Work::Undo`] names them.
    Unconfirmed(Vec<(Arrived, Vec<u8>)>),
    /// Messages that were unconfirmed are complete.
    Confirmed(Vec<u32>),
    /// Messages that were unconfirmed are dropped.
    Undo(Vec<u32>),
    /// A message of so many bytes, which come in pieces.
    Large(u64, mpsc::Receiver<Piece>),
    /// Flags of messages that are known.
    Flags(Vec<(u32, Flags)>),
    /// Dates of messages that are known without one.
    Dates(Vec<(u32, DateTime)>),
    /// Messages that are stored without some of their flags, or their date.
    Unread(Vec<Failure>),
    /// The server no longer has these.
    DeletedUpstream(UidSet),
    /// Everything that the server no longer has was reported.
    InStep,
    /// All changes up to here are written: what the next commits record.
    Resume(Resume),
}

/// A piece of a large message. If the channel ends without an end piece, the message did not
/// arrive.
pub(super) enum Piece {
    /// Bytes.
    Bytes(Bytes),
    /// It is complete.
    End(Arrived),
    /// It is complete, and unconfirmed as those of [`Work::Unconfirmed`].
    Unconfirmed(Arrived),
}

/// A large message's pieces.
pub(super) fn pieces() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(WAITING_PIECES)
}

/// A channel of work for a writer.
pub(super) fn work(clock: &Arc<dyn Clock>) -> (ToWriter, FromConnections) {
    let (to, work) = mpsc::channel(WAITING);
    let (hold_up, held_up) = watch::channel(false);
    let to = ToWriter { to, clock: clock.clone(), waited: Arc::default(), held_up };
    (to, FromConnections { work, hold_up })
}

/// The writer's end of the channel.
pub(super) struct FromConnections {
    pub(super) work: mpsc::Receiver<Work>,
    /// True while no new commands are to be sent.
    pub(super) hold_up: watch::Sender<bool>,
}

/// Where work for a writer is sent.
#[derive(Clone)]
pub(super) struct ToWriter {
    to: mpsc::Sender<Work>,
    clock: Arc<dyn Clock>,
    /// Microseconds that all senders have waited for the writer.
    waited: Arc<AtomicU64>,
    held_up: watch::Receiver<bool>,
}

impl ToWriter {
    /// Sends work.
    ///
    /// # Errors
    /// `Internal` if the writer has ended: it reports the reason itself.
    pub(super) async fn send(&self, work: Work) -> Result<()> {
        self.hand(&self.to, work).await
    }

    /// Sends a piece of a message.
    ///
    /// # Errors
    /// As [`ToWriter::send`].
    pub(super) async fn piece(&self, to: &mpsc::Sender<Piece>, piece: Piece) -> Result<()> {
        self.hand(to, piece).await
    }

    /// Whether the writer is to commit, and waits for unconfirmed messages.
    pub(super) fn is_held_up(&self) -> bool {
        *self.held_up.borrow()
    }

    /// Waits until it has committed.
    ///
    /// # Errors
    /// As [`ToWriter::send`].
    pub(super) async fn go_on(&mut self) -> Result<()> {
        self.held_up.wait_for(|held_up| !*held_up).await.map(drop).map_err(|_| ended())
    }

    /// How long all senders have waited.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    async fn hand<T>(&self, to: &mpsc::Sender<T>, item: T) -> Result<()> {
        match to.try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(ended()),
            Err(TrySendError::Full(item)) => {
                let began = self.clock.monotonic();
                to.send(item).await.map_err(|_| ended())?;
                let waited = self.clock.monotonic().saturating_sub(began);
                self.waited.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

fn ended() -> Error {
    Error::internal("an earlier write to the folder failed")
}
