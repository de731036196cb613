//! The connection of a session: events in, bounded output out, and every reason to end it.
//!
//! Output collects in one buffer. It is sent when the input is used up or more than [`FLUSH_BYTES`] are
//! pending, so that responses to pipelined commands share packets. A client that does not read costs this
//! buffer and, after the write timeout, its connection.

mod end;
mod receiving;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use sealpost_account::Accounts;
use sealpost_base::{Budget, Permit, limits};
use sealpost_imap::server::{Decoder, Event, Limits};
use sealpost_imap::types::{Code, Status};
use sealpost_imap::write::Writer;
use tokio::time::{Instant, timeout};

pub(super) use self::end::End;
use super::deflate::{Compression, Compressions, Deflater, Inflater};
use super::long_commands::{LongCommand, LongCommands};
use super::shared::ImapShared;
use sealpost_auth::standing::Standing;
use sealpost_session::Shutdown;
use sealpost_session::admission::NoMemory;
use sealpost_session::net::Stream;
use sealpost_session::settings::Timeouts;

/// The most pending output before it is sent, in bytes; one more response may be added to it.
pub(super) const FLUSH_BYTES: usize = 32 * 1024;
/// All commands before login together may take this many times the timeout of one.
const ANONYMOUS_FACTOR: u32 = 10;
/// How often to check a client that holds memory, in multiples of [`ROOM_SLICE`].
const SLICES: u32 = 5;
/// Bytes that a client must take in that time while others wait for memory held for it.
const SLICE_BYTES: usize = 10 * 1024;
/// How often to check a client during a command. The command keeps accounts loaded, and others wait for that
/// memory only briefly.
const ROOM_SLICE: Duration = Duration::from_secs(2);
/// Bytes that a client must take in that time while others wait for account memory.
const ROOM_SLICE_BYTES: usize = 2 * 1024;

/// More than the end of a compressed stream takes, in bytes.
const PACKED_END_BYTES: usize = 16;

/// A client's connection and its buffers.
pub(super) struct Connection {
    /// `None` only after a failed TLS handshake.
    stream: Option<Stream>,
    decoder: Decoder,
    out: Writer,
    shutdown: Shutdown,
    timeouts: Timeouts,
    /// For checking whether others wait for buffers that a slow client holds.
    budget: Budget,
    /// For checking whether others wait for the memory of accounts that a slow client keeps loaded.
    accounts: Accounts,
    /// The source of memory for long commands.
    long_commands: LongCommands,
    /// The memory of the current command, if it is long.
    command_memory: Option<LongCommand>,
    /// The deadline of the current command.
    command_until: Instant,
    /// The memory for large pending output.
    out_memory: Option<Permit>,
    /// How long the client may take for a command.
    input_timeout: Duration,
    /// The deadline of a client that has not logged in.
    anonymous_until: Option<Instant>,
    /// Decompresses input, if compression is active.
    inflater: Option<Box<Inflater>>,
    /// Compresses output, if compression is active.
    deflater: Option<Deflater>,
    /// The memory for both.
    compression: Option<Compression>,
    /// Whether the login is still valid.
    standing: Option<Standing>,
    /// Whether the last read filled its buffer.
    busy: bool,
    /// Whether a message is arriving.
    bulk: bool,
    /// Bytes that the session holds while it waits; set if the connection may rest.
    keeps: Option<usize>,
    /// Since when it waits for the rest of a command, at the highest charge.
    waits_since: Option<Instant>,
}

impl Connection {
    /// A connection whose client was greeted at that time and has not logged in.
    pub(super) fn new(stream: Stream, shared: &ImapShared, greeted: Instant) -> Self {
        let ctx = &*shared.ctx;
        let timeouts = ctx.settings.timeouts;
        Connection {
            budget: ctx.budget.clone(),
            accounts: ctx.accounts.clone(),
            long_commands: shared.long_commands.clone(),
            command_memory: None,
            command_until: Instant::now(),
            out_memory: None,
            anonymous_until: Some(greeted + timeouts.imap_anonymous * ANONYMOUS_FACTOR),
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
            keeps: None,
            waits_since: None,
        }
    }

    /// Allows the connection to rest if it has no input: the session then holds only `keeps` bytes and is
    /// charged no more, until input arrives or it has output ([`Connection::stir`]).
    pub(super) fn may_rest(&mut self, keeps: Option<usize>) {
        self.keeps = keeps;
    }

    /// Acquires memory for untagged updates that the session sends on its own.
    pub(super) async fn stir(&mut self) -> Result<(), End> {
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        tokio::select! {
            biased;
            () = self.shutdown.wait() => Err(End::Shutdown),
            stirred = stream.stir() => stirred.map_err(|NoMemory| End::NoMemory),
        }
    }

    /// Applies the limits and timeout of a logged-in user from the next command on. The session ends when the
    /// login is no longer valid.
    pub(super) fn authenticated(&mut self, message_bytes: u64, standing: Standing) {
        self.standing = Some(standing);
        self.decoder.set_limits(Limits::authenticated(message_bytes));
        self.input_timeout = self.timeouts.imap;
        self.anonymous_until = None;
    }

    /// The writer of responses; call [`Connection::relieve`] after each response.
    pub(super) fn out(&mut self) -> &mut Writer {
        &mut self.out
    }

    /// The transport, unless a TLS handshake failed.
    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Whether the server is shutting down: long commands end at the next message.
    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown.is_stopping()
    }

    /// The next event. Sends pending output before it waits.
    pub(super) async fn next(&mut self) -> Result<Event, End> {
        let deadline = Instant::now() + self.input_timeout;
        let deadline = self.anonymous_until.map_or(deadline, |until| until.min(deadline));
        self.check_standing()?;
        if self.decoder.pending() <= limits::IMAP_COMMAND_FREE_BYTES {
            // The previous command is complete.
            self.command_memory = None;
        }
        loop {
            if let Some(event) = self.decoded() {
                return Ok(event);
            }
            self.flush().await?;
            self.read(deadline).await?;
        }
    }

    /// The next event in the received bytes.
    fn decoded(&mut self) -> Option<Event> {
        let event = self.decoder.next()?;
        self.waits_since = None;
        Some(event)
    }

    /// As [`Connection::next`], but `None` as soon as `interrupt` completes. Cancel-safe.
    pub(super) async fn next_unless(
        &mut self,
        deadline: Instant,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Option<Event>, End> {
        if let Some(event) = self.decoded() {
            return Ok(Some(event));
        }
        self.flush().await?;
        tokio::select! {
            biased;
            read = self.read(deadline) => read?,
            () = interrupt => return Ok(None),
        }
        Ok(self.decoded())
    }

    /// The next event while a message arrives, part of which is held in memory. A client that stalls is
    /// disconnected soon if others wait for memory or account memory.
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
                if self.accounts.is_pressure_severe() || long && self.others_wait() {
                    return Err(End::Timeout);
                }
            }
        }
    }

    /// Whether others wait for memory that this client may hold.
    fn others_wait(&self) -> bool {
        self.budget.waiting() > 0 || self.stream.as_ref().is_some_and(Stream::is_wanted)
    }

    /// How long the client may idle.
    pub(super) fn idle_deadline(&self) -> Instant {
        Instant::now() + self.input_timeout
    }

    /// Treats mailbox names and quoted strings as UTF-8 from the next command on (RFC 6855 §3, RFC 9051
    /// §5.1).
    pub(super) fn set_utf8(&mut self, utf8: bool) {
        self.decoder.set_utf8(utf8);
        self.out.set_utf8(utf8);
    }

    /// Whether there is input that was not decoded.
    pub(super) fn has_input(&self) -> bool {
        self.decoder.pending() > 0
    }

    /// Expects a line that is no command.
    pub(super) fn expect_line(&mut self) {
        self.decoder.expect_line();
    }

    /// Sets whether a message is arriving, so that large reads pay off.
    pub(super) fn set_bulk(&mut self, bulk: bool) {
        self.bulk = bulk;
    }

    /// Refuses the message of the current APPEND.
    pub(super) fn refuse_append(&mut self) {
        self.decoder.refuse_append();
    }

    /// Ends a session with a revoked login, even if it never waits.
    pub(super) fn check_standing(&self) -> Result<(), End> {
        match &self.standing {
            Some(standing) if !standing.holds() => Err(End::Revoked),
            _ => Ok(()),
        }
    }

    /// Starts TLS. Discards unprocessed plaintext input (RFC 3501 §6.2.1).
    pub(super) async fn start_tls(&mut self, config: &Arc<ServerConfig>) -> Result<(), End> {
        self.flush().await?;
        self.decoder.clear();
        let stream = self.stream.take().ok_or(End::Closed)?;
        self.stream = Some(stream.start_tls(config, self.timeouts.tls_handshake).await?);
        Ok(())
    }

    /// Starts compression in both directions (RFC 4978 §3), after sending pending output uncompressed. Input
    /// after the command is already compressed.
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

    /// Whether compression is active.
    pub(super) fn is_deflated(&self) -> bool {
        self.inflater.is_some()
    }

    /// Returns to the state before login, after sending pending output. Ends compression in both directions
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

    /// Sends BYE if the client can still receive it, and disconnects.
    pub(super) async fn close(mut self, end: &End) {
        if let End::Io(error) = end {
            tracing::debug!(%error, "a connection failed");
        }
        // The client of a revoked login must still get the reason.
        self.standing = None;
        if let Some(text) = end.goodbye() {
            let code = matches!(end, End::NoMemory).then_some(Code::Unavailable);
            self.out.status(None, Status::Bye, code.as_ref(), text);
        }
        if !matches!(end, End::Closed | End::Io(_)) {
            // A client that does not take its BYE does not get it.
            let _ = timeout(Duration::from_secs(2), self.flush()).await;
        }
        if let Some(stream) = self.stream.take() {
            stream.close().await;
        }
    }
}
