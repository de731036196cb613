//! The connection of a session: events in, bounded output out, and everything that ends it.
//!
//! Output collects in one buffer and is sent when the input is used up or more than [`FLUSH_BYTES`] wait, so that
//! pipelined commands share their packets. A client that does not read costs this buffer and, after the write timeout,
//! its connection.

mod end;
mod sending;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use rustls::ServerConfig;
use sealpost_account::Accounts;
use sealpost_base::{Budget, Permit, limits};
use sealpost_imap::server::{Decoder, Event, Limits};
use sealpost_imap::types::{Code, Status};
use sealpost_imap::write::Writer;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

pub(super) use self::end::End;
use super::deflate::{Compression, Compressions, Corrupt, Deflater, Inflated, Inflater};
use super::long_commands::{LongCommand, LongCommands};
use super::shared::ImapShared;
use sealpost_auth::standing::Standing;
use sealpost_session::Shutdown;
use sealpost_session::net::Stream;
use sealpost_session::settings::Timeouts;

/// Output that waits at most before it is sent, in bytes; one more response may be added to it.
pub(super) const FLUSH_BYTES: usize = 32 * 1024;
/// What a session reads at once: it holds no buffer while it waits.
const SMALL_READ_BYTES: usize = 4 * 1024;
/// What it reads of a long command.
const READ_BYTES: usize = 16 * 1024;
/// What it reads while a message comes in.
const BULK_READ_BYTES: usize = 32 * 1024;
/// Commands before login may take this many times the timeout of one of them, all together.
const ANONYMOUS_FACTOR: u32 = 10;
/// How long a client may take for a command that memory was drawn for, from then on.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a client that holds memory is looked at: when so many times [`ROOM_SLICE`] have passed.
const SLICES: u32 = 5;
/// What a client has to take in that time while others wait for memory that is held for it, in bytes.
const SLICE_BYTES: usize = 10 * 1024;
/// How often a client is looked at in a command, which holds its accounts: others wait for their room, and not for long.
const ROOM_SLICE: Duration = Duration::from_secs(2);
/// What it has to take in that time while others do, in bytes.
const ROOM_SLICE_BYTES: usize = 2 * 1024;

/// More than the end of a compressed stream takes.
const PACKED_END_BYTES: usize = 16;
/// How long a compressor is kept for a client that asks for nothing.
const COMPRESSOR_REST: Duration = Duration::from_secs(1);

/// A client's connection and the buffers in front of it.
pub(super) struct Connection {
    /// `None` only after a TLS handshake that failed.
    stream: Option<Stream>,
    decoder: Decoder,
    out: Writer,
    shutdown: Shutdown,
    timeouts: Timeouts,
    /// What is held for a client that is slow, others may be waiting for.
    budget: Budget,
    /// As may they for the room of accounts that are held for it.
    accounts: Accounts,
    /// Where the memory for long commands comes from.
    long_commands: LongCommands,
    /// That of the command at hand, if it is long.
    command_memory: Option<LongCommand>,
    /// When it has to be complete.
    command_until: Instant,
    /// The memory for what waits to be sent, if it is much.
    out_memory: Option<Permit>,
    /// How long the client may take for a command.
    input_timeout: Duration,
    /// When a client that has not logged in is sent away.
    anonymous_until: Option<Instant>,
    /// Expands what comes, if it is compressed.
    inflater: Option<Box<Inflater>>,
    /// Compresses what goes, if the client wants that.
    deflater: Option<Deflater>,
    /// The memory for it.
    compression: Option<Compression>,
    /// Whether the login is still valid.
    standing: Option<Standing>,
    /// The last read filled what it was given.
    busy: bool,
    /// A message is coming in.
    bulk: bool,
}

impl Connection {
    /// A connection of somebody who has not logged in.
    pub(super) fn new(stream: Stream, shared: &ImapShared) -> Self {
        let ctx = &*shared.ctx;
        let timeouts = ctx.settings.timeouts;
        Connection {
            budget: ctx.budget.clone(),
            accounts: ctx.accounts.clone(),
            long_commands: shared.long_commands.clone(),
            command_memory: None,
            command_until: Instant::now(),
            out_memory: None,
            anonymous_until: Some(Instant::now() + timeouts.imap_anonymous * ANONYMOUS_FACTOR),
            inflater: None,
            deflater: None,
            compression: None,
            standing: None,
            stream: Some(stream),
            decoder: Decoder::new(Limits::anonymous()),
            out: Writer::new(),
            shutdown: ctx.shutdown.clone(),
            timeouts,
            input_timeout: timeouts.imap_anonymous,
            busy: false,
            bulk: false,
        }
    }

    /// From the next command on, the limits and the timeout for a known user; the session ends when the login
    /// is no longer valid.
    pub(super) fn authenticated(&mut self, message_bytes: u64, standing: Standing) {
        self.standing = Some(standing);
        self.decoder.set_limits(Limits::authenticated(message_bytes));
        self.input_timeout = self.timeouts.imap;
        self.anonymous_until = None;
    }

    /// Where responses are written; see that they are sent ([`Connection::relieve`]) after each.
    pub(super) fn out(&mut self) -> &mut Writer {
        &mut self.out
    }

    /// The transport, unless a TLS handshake lost it.
    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Whether the server is stopping: long commands end at the next message.
    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown.is_stopping()
    }

    /// The next event. Sends what waits before it waits itself.
    pub(super) async fn next(&mut self) -> Result<Event, End> {
        let deadline = Instant::now() + self.input_timeout;
        let deadline = self.anonymous_until.map_or(deadline, |until| until.min(deadline));
        self.check_standing()?;
        if self.decoder.pending() <= limits::IMAP_COMMAND_FREE_BYTES {
            // The command before is answered.
            self.command_memory = None;
        }
        loop {
            if let Some(event) = self.decoder.next() {
                return Ok(event);
            }
            self.flush().await?;
            self.read(deadline).await?;
        }
    }

    /// As [`Connection::next`], but `None` as soon as `interrupt` is done. Cancel-safe.
    pub(super) async fn next_unless(
        &mut self,
        deadline: Instant,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Option<Event>, End> {
        if let Some(event) = self.decoder.next() {
            return Ok(Some(event));
        }
        self.flush().await?;
        tokio::select! {
            biased;
            read = self.read(deadline) => read?,
            () = interrupt => return Ok(None),
        }
        Ok(self.decoder.next())
    }

    /// The next event while a message comes in, part of which is held in memory. A client that sends nothing of it is
    /// sent away soon if others wait for memory, or for the room of accounts.
    pub(super) async fn next_of_message(&mut self) -> Result<Event, End> {
        let deadline = self.idle_deadline();
        let (mut looked, mut slices) = (Instant::now(), 0);
        loop {
            let look = tokio::time::sleep_until(looked + ROOM_SLICE);
            if let Some(event) = self.next_unless(deadline, look).await? {
                return Ok(event);
            }
            if looked.elapsed() >= ROOM_SLICE {
                (looked, slices) = (Instant::now(), slices + 1);
                let long = slices % SLICES == 0;
                if self.accounts.is_pressure_severe() || long && self.budget.waiting() > 0 {
                    return Err(End::Timeout);
                }
            }
        }
    }

    /// How long the client may idle.
    pub(super) fn idle_deadline(&self) -> Instant {
        Instant::now() + self.input_timeout
    }

    /// Mailbox names and quoted strings are UTF-8 from the next command on (RFC 6855 §3, RFC 9051 §5.1).
    pub(super) fn set_utf8(&mut self, utf8: bool) {
        self.decoder.set_utf8(utf8);
        self.out.set_utf8(utf8);
    }

    /// Whether more was received than was taken.
    pub(super) fn has_input(&self) -> bool {
        self.decoder.pending() > 0
    }

    /// The next line is not a command.
    pub(super) fn expect_line(&mut self) {
        self.decoder.expect_line();
    }

    /// Whether a message is coming in, so that large reads pay.
    pub(super) fn set_bulk(&mut self, bulk: bool) {
        self.bulk = bulk;
    }

    /// The message of the APPEND under way is not wanted.
    pub(super) fn refuse_append(&mut self) {
        self.decoder.refuse_append();
    }

    /// Waits until there is more for the decoder.
    async fn read(&mut self, deadline: Instant) -> Result<(), End> {
        loop {
            self.draw_for_command(deadline).await?;
            if self.inflate()? {
                // It may come from very little input: others have their turn in between.
                tokio::task::yield_now().await;
                return Ok(());
            }
            self.receive(deadline).await?;
            if self.inflater.is_none() {
                return Ok(());
            }
        }
    }

    /// Expands some of what was received; whether there was any.
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

    /// Draws memory for the command at hand before more of it is read, if it is long.
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

    /// Reads from the stream, once.
    async fn receive(&mut self, deadline: Instant) -> Result<(), End> {
        let quiet = self.decoder.pending() == 0 && !self.busy && !self.bulk;
        if self.out.is_empty() {
            // Nobody knows for how long: give the buffers back.
            *self.out.buffer() = BytesMut::new();
            self.out_memory = None;
        }
        if quiet {
            self.decoder.release();
            self.command_memory = None;
            if let Some(inflater) = &mut self.inflater {
                inflater.rest();
            }
        }
        let most = match (self.bulk, &self.command_memory) {
            (true, _) => Some(BULK_READ_BYTES),
            (_, Some(_)) => Some(READ_BYTES),
            _ => None,
        };
        // Memory that others may be waiting for is not held for whoever stops in the middle of a long command.
        let deadline =
            if self.command_memory.is_some() { deadline.min(self.command_until) } else { deadline };
        let crowded = self.budget.waiting() > 0;
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        let buffer = match &mut self.inflater {
            Some(inflater) => inflater.input(),
            None => self.decoder.buffer(),
        };
        let reading = async {
            let Some(most) = most else {
                let n = poll_fn(|cx| {
                    // Not a variable of the session: it is there only while there is something to read.
                    let mut small = [MaybeUninit::uninit(); SMALL_READ_BYTES];
                    let mut read = ReadBuf::uninit(&mut small);
                    ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
                    buffer.extend_from_slice(read.filled());
                    Poll::Ready(io::Result::Ok(read.filled().len()))
                });
                let n = n.await?;
                self.busy = n == SMALL_READ_BYTES;
                return Ok(n);
            };
            buffer.reserve(most);
            let n = stream.read_buf(buffer).await?;
            self.busy = n >= READ_BYTES;
            io::Result::Ok(n)
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
            read = timeout_at(deadline, reading) => match read {
                Err(_) => Err(End::Timeout),
                Ok(Err(e)) => Err(e.into()),
                Ok(Ok(0)) => Err(End::Closed),
                Ok(Ok(_)) => Ok(()),
            },
            () = resting => Ok(()),
        }
    }

    /// Ends a session whose login was revoked, also one that never waits.
    pub(super) fn check_standing(&self) -> Result<(), End> {
        match &self.standing {
            Some(standing) if !standing.holds() => Err(End::Revoked),
            _ => Ok(()),
        }
    }

    /// Speaks TLS from now on. What came in the clear and was not answered yet is forgotten (RFC 3501 §6.2.1).
    pub(super) async fn start_tls(&mut self, config: &Arc<ServerConfig>) -> Result<(), End> {
        self.flush().await?;
        self.decoder.clear();
        let stream = self.stream.take().ok_or(End::Closed)?;
        self.stream = Some(stream.start_tls(config, self.timeouts.tls_handshake).await?);
        Ok(())
    }

    /// Compresses from now on, in both directions (RFC 4978 §3), after sending what waits as it is. What came behind
    /// the command is compressed already.
    pub(super) async fn start_deflate(
        &mut self,
        compressions: &Compressions,
        compression: Compression,
    ) -> Result<(), End> {
        self.flush().await?;
        self.inflater = Some(Box::new(Inflater::new(self.decoder.buffer().split())));
        self.deflater = Some(Deflater::new(compressions, self.budget.clone()));
        self.compression = Some(compression);
        Ok(())
    }

    /// Whether something is compressed.
    pub(super) fn is_deflated(&self) -> bool {
        self.inflater.is_some()
    }

    /// Back to what it was before anybody logged in, after sending what waits; compression ends in both directions
    /// (RFC 8437 §4.1).
    pub(super) async fn unauthenticated(&mut self) -> Result<(), End> {
        self.flush().await?;
        if let Some(deflater) = self.deflater.take() {
            let mut last = [0; PACKED_END_BYTES];
            let written = deflater.finish(&mut last);
            self.transmit(&[&last[..written]]).await?;
        }
        if let Some(inflater) = &mut self.inflater {
            if self.decoder.pending() > 0 {
                return Err(End::Fatal("compression ends with UNAUTHENTICATE".into()));
            }
            inflater.end();
        }
        self.decoder.set_limits(Limits::anonymous());
        self.set_utf8(false);
        self.out.set_utf8_text(false);
        self.input_timeout = self.timeouts.imap_anonymous;
        self.anonymous_until = Some(Instant::now() + self.input_timeout * ANONYMOUS_FACTOR);
        self.standing = None;
        Ok(())
    }

    /// Says goodbye if that makes sense, and hangs up.
    pub(super) async fn close(mut self, end: &End) {
        if let End::Io(error) = end {
            tracing::debug!(%error, "a connection failed");
        }
        // Who is sent away for it is told so.
        self.standing = None;
        if let Some(text) = end.goodbye() {
            let code = matches!(end, End::NoMemory).then_some(Code::Unavailable);
            self.out.status(None, Status::Bye, code.as_ref(), text);
        }
        if !matches!(end, End::Closed | End::Io(_)) {
            // A client that does not take its goodbye does not get it.
            let _ = timeout(Duration::from_secs(2), self.flush()).await;
        }
        if let Some(stream) = self.stream.take() {
            stream.close().await;
        }
    }
}
