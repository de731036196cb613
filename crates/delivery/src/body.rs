//! The message on its way to the server: by DATA or by BDAT, in pieces of 16 KiB.

use std::time::Duration;

use bytes::BytesMut;
use sealpost_smtp::client::Sent;
use sealpost_smtp::line_ends::LineEndNormalizer;
use sealpost_smtp::types::{Chunk, Command, Reply};
use tokio::time::Instant;

use crate::envelope::MessageReader;
use crate::outcome::{PeerReply, Reason, Step};
use crate::wire::Wire;

/// Bytes that are sent at once. Small enough to need no share of the memory budget.
const PIECE_BYTES: usize = 16 * 1024;
/// Chunks that may wait for their replies at the same time: at most a few hundred KiB are on their way,
/// whatever the round trip.
const CHUNKS_OWED: usize = 16;
/// How long to read a reply from a connection after a write failed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why a transaction broke off. The connection cannot be used again.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The reason.
    pub reason: Reason,
    /// The server's last reply, if that is the reason.
    pub reply: Option<PeerReply>,
}

impl From<Reason> for Broken {
    fn from(reason: Reason) -> Self {
        Broken { reason, reply: None }
    }
}

/// Sends the message after reply 354 to DATA. Returns the reply to its end.
pub(crate) async fn by_data(wire: &mut Wire, message: &mut dyn MessageReader) -> Result<Reply, Broken> {
    let mut lines = LineEndNormalizer::new();
    let mut clean = BytesMut::new();
    while let Some(piece) = next(message).await? {
        for part in piece.chunks(PIECE_BYTES) {
            lines.push(part, &mut clean);
            wire.client.data(&clean, &mut wire.out);
            clean.clear();
            if wire.out.len() >= PIECE_BYTES {
                flush_piece(wire).await?;
            }
        }
    }
    lines.finish(&mut clean);
    wire.client.data(&clean, &mut wire.out);
    wire.client.end_data(&mut wire.out);
    if let Err(reason) = wire.flush(Step::Message).await {
        return Err(last_words(wire, reason).await);
    }
    Ok(wire.read_answer(Step::MessageEnd).await?.reply)
}

/// Sends an empty message: the server accepted DATA although it refused all recipients (RFC 2920 §3.1).
pub(crate) async fn empty_data(wire: &mut Wire) -> Result<Reply, Broken> {
    wire.client.end_data(&mut wire.out);
    Ok(wire.answer(Step::MessageEnd).await?.reply)
}

/// Sends the message by BDAT. Returns the reply to the last chunk, or to the first that the server refused.
pub(crate) async fn by_chunks(wire: &mut Wire, message: &mut dyn MessageReader) -> Result<Reply, Broken> {
    let mut lines = LineEndNormalizer::new();
    let mut chunk = BytesMut::new();
    let mut owed = 0;
    while let Some(piece) = next(message).await? {
        for part in piece.chunks(PIECE_BYTES) {
            lines.push(part, &mut chunk);
            if chunk.len() < PIECE_BYTES {
                continue;
            }
            put_chunk(wire, &mut chunk, false).await?;
            owed += 1;
            if owed >= CHUNKS_OWED {
                let reply = wire.read_answer(Step::Message).await?.reply;
                owed -= 1;
                if !reply.is_positive() {
                    return refused(wire, reply, owed).await;
                }
            }
        }
    }
    lines.finish(&mut chunk);
    put_chunk(wire, &mut chunk, true).await?;
    loop {
        let answer = wire.read_answer(Step::MessageEnd).await?;
        if matches!(answer.to, Sent::LastChunk { .. }) {
            return Ok(answer.reply);
        }
        owed -= 1;
        if !answer.reply.is_positive() {
            // The server refuses the last chunk as well (RFC 3030 §2).
            return refused(wire, answer.reply, owed + 1).await;
        }
    }
}

/// Reads and drops the replies to chunks already sent. The first refusal counts.
async fn refused(wire: &mut Wire, reply: Reply, owed: usize) -> Result<Reply, Broken> {
    for _ in 0..owed {
        wire.read_answer(Step::Message).await?;
    }
    Ok(reply)
}

async fn put_chunk(wire: &mut Wire, chunk: &mut BytesMut, last: bool) -> Result<(), Broken> {
    let size = chunk.len() as u64;
    wire.client.begin_chunk(Chunk { size, last }, &mut wire.out);
    wire.out.extend_from_slice(chunk);
    chunk.clear();
    flush_piece(wire).await
}

async fn flush_piece(wire: &mut Wire) -> Result<(), Broken> {
    match wire.flush(Step::Message).await {
        Ok(()) => Ok(()),
        Err(reason) => Err(last_words(wire, reason).await),
    }
}

/// Reads the reply of a server that refused a message midway and closed: the write fails before the reply
/// is read.
async fn last_words(wire: &mut Wire, reason: Reason) -> Broken {
    if !matches!(reason, Reason::ConnectionLost(_)) {
        return reason.into();
    }
    wire.out.clear();
    // Any reply is the reply to the message.
    wire.client.command(Command::Noop, &mut BytesMut::new());
    wire.set_deadline(Instant::now() + LAST_WORDS);
    match wire.read_answer(Step::MessageEnd).await {
        Ok(answer) if answer.reply.is_error() => {
            Broken { reason: Reason::MessageRefused, reply: Some(PeerReply::new(&answer.reply)) }
        }
        _ => reason.into(),
    }
}

async fn next(message: &mut dyn MessageReader) -> Result<Option<bytes::Bytes>, Broken> {
    // Never end the message here: the server would take a part for the whole.
    message.next().await.map_err(|_| Broken::from(Reason::LocalFailure))
}
