//! The receiving side of a connection: how long it waits for the rest of the client's input, and which memory
//! it holds meanwhile.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use sealpost_base::limits;
use sealpost_session::admission::NoMemory;
use sealpost_session::net::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, timeout_at};

use super::{Connection, End};
use crate::deflate::{Corrupt, Inflated};

/// Bytes that one read of a session takes; it holds no buffer while it waits.
const SMALL_READ_BYTES: usize = 4 * 1024;
/// Bytes that one read of a long command takes.
const READ_BYTES: usize = 16 * 1024;
/// Bytes that one read takes while a message arrives.
const BULK_READ_BYTES: usize = 32 * 1024;
/// How long a client may take for a command after memory was acquired for it.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a compressor is kept for an inactive client.
const COMPRESSOR_REST: Duration = Duration::from_secs(1);
/// How long a client may pause inside a command while others wait for memory that is charged for its
/// connection.
const STALLED: Duration = Duration::from_secs(10);

impl Connection {
    /// Waits until there is more input for the decoder.
    pub(super) async fn read(&mut self, deadline: Instant) -> Result<(), End> {
        loop {
            self.draw_for_command(deadline).await?;
            if self.inflate()? {
                // A little input may decompress to a lot: let other tasks run in between.
                tokio::task::yield_now().await;
                return Ok(());
            }
            self.receive(deadline).await?;
            if self.inflater.is_none() {
                return Ok(());
            }
        }
    }

    /// Decompresses some of the input; returns whether there was any.
    fn inflate(&mut self) -> Result<bool, End> {
        let Some(inflater) = &mut self.inflater else { return Ok(false) };
        match inflater.inflate(self.decoder.buffer()) {
            Ok(Inflated::Some) => Ok(true),
            Ok(Inflated::Nothing) => Ok(false),
            Ok(Inflated::Ended) => {
                let rest = self.inflater.take().map(|inflater| inflater.into_rest()).unwrap_or_default();
                self.compression = None;
                self.decoder.feed(&rest);
                Ok(!rest.is_empty())
            }
            Err(Corrupt) => Err(End::Fatal("invalid compressed data".into())),
        }
    }

    /// Acquires memory for the current command before reading more of it, if it is long.
    async fn draw_for_command(&mut self, deadline: Instant) -> Result<(), End> {
        if self.command_memory.is_some() || self.decoder.pending() <= limits::IMAP_COMMAND_FREE_BYTES {
            return Ok(());
        }
        let drawn = if self.anonymous_until.is_some() {
            self.long_commands.stranger(&self.budget)
        } else if self.bulk {
            self.long_commands.at_once(&self.budget)
        } else {
            tokio::select! {
                drawn = timeout_at(deadline, self.long_commands.user(&self.budget)) => drawn.ok(),
                () = self.shutdown.wait() => return Err(End::Shutdown),
            }
        };
        self.command_memory = Some(drawn.ok_or(End::NoMemory)?);
        self.command_until = Instant::now() + COMMAND_TIMEOUT;
        Ok(())
    }

    /// Reads from the stream once. Disconnects a client that stalls inside a command while others wait for
    /// the memory charged for its connection.
    async fn receive(&mut self, deadline: Instant) -> Result<(), End> {
        self.settle();
        loop {
            let rests = self.stream.as_ref().is_some_and(Stream::rests);
            let look = match rests {
                true => deadline,
                false => *self.waits_since.get_or_insert_with(Instant::now) + STALLED,
            };
            // Others may be waiting for this memory, so a client that pauses in a long command cannot keep
            // it.
            let until =
                if self.command_memory.is_some() { deadline.min(self.command_until) } else { deadline };
            match self.receive_before(until.min(look)).await {
                Err(End::Timeout) if look <= Instant::now() && Instant::now() < until => {
                    if self.stream.as_ref().is_some_and(Stream::is_wanted) {
                        return Err(End::Timeout);
                    }
                    self.waits_since = None;
                }
                // The connection was at rest, and input is now available.
                Ok(0) => {}
                received => return received.map(|_| ()),
            }
        }
    }

    /// Frees the buffers that a session does not need while it waits for its client.
    fn settle(&mut self) {
        if self.out.is_empty() {
            // The wait may be long: free the buffers.
            *self.out.buffer() = BytesMut::new();
            self.out_memory = None;
        }
        if self.decoder.pending() > 0 || self.busy || self.bulk {
            return;
        }
        self.decoder.release();
        self.command_memory = None;
        if let Some(inflater) = &mut self.inflater {
            inflater.rest();
        }
        if let (Some(keeps), Some(stream)) = (self.keeps, &mut self.stream) {
            stream.rest(keeps);
            self.waits_since = None;
        }
    }

    /// The number of received bytes; 0 if the connection was at rest and no longer is.
    async fn receive_before(&mut self, deadline: Instant) -> Result<usize, End> {
        let most = match (self.bulk, &self.command_memory) {
            (true, _) => Some(BULK_READ_BYTES),
            (_, Some(_)) => Some(READ_BYTES),
            _ => None,
        };
        let crowded = self.budget.waiting() > 0;
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        let buffer = match &mut self.inflater {
            Some(inflater) => inflater.input(),
            None => self.decoder.buffer(),
        };
        let reading = async {
            if stream.rests() {
                return stream.stir_for_input().await.map(|()| 0).map_err(|NoMemory| End::NoMemory);
            }
            let Some(most) = most else {
                let n = poll_fn(|cx| {
                    // A local buffer, which exists only while there is input to read.
                    let mut small = [MaybeUninit::uninit(); SMALL_READ_BYTES];
                    let mut read = ReadBuf::uninit(&mut small);
                    ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
                    buffer.extend_from_slice(read.filled());
                    Poll::Ready(io::Result::Ok(read.filled().len()))
                });
                let n = n.await?;
                self.busy = n == SMALL_READ_BYTES;
                return some(n);
            };
            buffer.reserve(most);
            let n = stream.read_buf(buffer).await?;
            self.busy = n >= READ_BYTES;
            some(n)
        };
        let revoked = async {
            match &self.standing {
                Some(standing) => standing.lost().await,
                None => std::future::pending().await,
            }
        };
        let resting = async {
            match &mut self.deflater {
                Some(deflater) if !deflater.rests() => {
                    if !crowded {
                        tokio::time::sleep(COMPRESSOR_REST).await;
                    }
                    deflater.rest();
                }
                _ => {}
            }
            std::future::pending::<()>().await
        };
        tokio::select! {
            biased;
            () = self.shutdown.wait() => Err(End::Shutdown),
            () = revoked => Err(End::Revoked),
            read = timeout_at(deadline, reading) => read.map_err(|_| End::Timeout)?,
            () = resting => Ok(0),
        }
    }
}

/// The number of received bytes; 0 means that the client disconnected.
fn some(received: usize) -> Result<usize, End> {
    if received == 0 { Err(End::Closed) } else { Ok(received) }
}
