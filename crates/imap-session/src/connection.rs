//! The connection of a session: events in, bounded output out, and everything that ends it.
//!
//! Output collects in one buffer and is sent when the input is used up or more than [`FLUSH_BYTES`]
//! wait, so that pipelined commands share their packets. A client that does not read costs this
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

/// Output that waits at most before it is sent, in bytes; one more response may be added to it.
pub(super) const FLUSH_BYTES: usize = 32 * 1024;
/// Commands before login may take this many times the timeout of one of them, all together.
const ANONYMOUS_FACTOR: u32 = 10;
/// How often a client that holds memory is checked: after so many times [`ROOM_SLICE`].
const SLICES: u32 = 5;
/// Bytes that a client must take in that time while others wait for memory held for it.
const SLICE_BYTES: usize = 10 * 1024;
/// How often a client is checked during a command, which keeps its accounts loaded: others wait for
/// that memory, and not for long.
const ROOM_SLICE: Duration = Duration::from_secs(2);
/// Bytes that it must take in that time while others wait for account memory.
const ROOM_SLICE_BYTES: usize = 2 * 1024;

/// More than the end of a compressed stream takes.
const PACKED_END_BYTES: usize = 16;

/// A client's connection and the buffers in front of it.
pub(super) struct Connection {
    /// `None` only after a TLS handshake that failed.
    stream: Option<Stream>,
    decoder: Decoder,
    out: Writer,
    shutdown: Shutdown,
    timeouts: Timeouts,
    /// Others may be waiting for buffers that a slow client holds.
    budget: Budget,
    /// Others may be waiting for the memory of accounts that a slow client keeps loaded.
    accounts: Accounts,
    /// Where the memory for long commands comes from.
    long_commands: LongCommands,
    /// The memory of the current command, if it is long.
    command_memory: Option<LongCommand>,
    /// When it has to be complete.
    command_until: Instant,
    /// The memory for output that waits to be sent, if it is large.
    out_memory: Option<Permit>,
    /// How long the client may take for a command.
    input_timeout: Duration,
    /// When a client that has not logged in is disconnected.
    anonymous_until: Option<Instant>,
    /// Decompresses input, if the client compresses it.
    inflater: Option<Box<Inflater>>,
    /// Compresses output, if the client asked for it.
    deflater: Option<Deflater>,
    /// The memory for both.
    compression: Option<Compression>,
    /// Whether the login is still valid.
    standing: Option<Standing>,
    /// The last read filled its buffer.
    busy: bool,
    /// A message is coming in.
    bulk: bool,
    /// Bytes that the session keeps while it waits, if the connection may rest then.
    keeps: Option<usize>,
    /// Since when it waits for the rest of what the client sends, charged what that takes at worst.
    waits_since: Option<Instant>,
}

impl Connection {
    /// A connection whose client has not logged in.
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
            keeps: None,
            waits_since: None,
        }
    }

    /// Whether the session, when nothing was received, holds nothing but the bytes said: it is
    /// charged no more while it waits for its client, until something comes or it has something to
    /// say ([`Connection::stir`]).
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

    /// The next event. Sends pending output before it waits.
    pub(super) async fn next(&mut self) -> Result<Event, End> {
        let deadline = Instant::now() + self.input_timeout;
        let deadline = self.anonymous_until.map_or(deadline, |until| until.min(deadline));
        self.check_standing()?;
        if self.decoder.pending() <= limits::IMAP_COMMAND_FREE_BYTES {
            // The command before is answered.
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

    /// The next event in the bytes received.
    fn decoded(&mut self) -> Option<Event> {
        let event = self.decoder.next()?;
        self.waits_since = None;
        Some(event)
    }

    /// As [`Connection::next`], but `None` as soon as `interrupt` is done. Cancel-safe.
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

    /// The next event while a message comes in, part of which is held in memory. A client that
    /// sends nothing of it is disconnected soon if others wait for memory or account memory.
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

    /// Whether others wait for memory that may be held for the client.
    fn others_wait(&self) -> bool {
        self.budget.waiting() > 0 || self.stream.as_ref().is_some_and(Stream::is_wanted)
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

    /// Ends a session whose login was revoked, also one that never waits.
    pub(super) fn check_standing(&self) -> Result<(), End> {
        match &self.standing {
            Some(standing) if !standing.holds() => Err(End::Revoked),
            _ => Ok(()),
        }
    }

    /// Speaks TLS from now on. Unanswered plaintext input is discarded (RFC 3501 §6.2.1).
    pub(super) async fn start_tls(&mut self, config: &Arc<ServerConfig>) -> Result<(), End> {
        self.flush().await?;
        self.decoder.clear();
        let stream = self.stream.take().ok_or(End::Closed)?;
        self.stream = Some(stream.start_tls(config, self.timeouts.tls_handshake).await?);
        Ok(())
    }

    /// Compresses from now on, in both directions (RFC 4978 §3), after sending pending output
    /// uncompressed. Input behind the command is compressed already.
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

    /// Returns to the state before login, after sending pending output; compression ends in both
    /// directions (RFC 8437 §4.1).
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
        // A client disconnected for a revoked login still gets the reason.
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
