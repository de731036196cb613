//! Bytes to and from the client, each with its timeout.

use std::future::{pending, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use rustls::ServerConfig;
use sealpost_smtp::server::{Decoder, Event};
use sealpost_smtp::types::Reply;
use sealpost_smtp::write;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::{SmtpShared, replies};
use sealpost_auth::standing::Standing;
use sealpost_session::Context;
use sealpost_session::net::Stream;
use sealpost_session::session_log::SessionLog;

/// Bytes of one read while the session holds no permit for a message: between messages, when most sessions
/// are idle, and at the beginning of a message.
const SMALL_READ_BYTES: usize = 4 * 1024;
/// Bytes of one read within a message that holds a permit.
const MESSAGE_READ_BYTES: usize = 16 * 1024;
/// Bytes of replies that may wait for the client. With more the session does not read from it.
pub(super) const REPLY_BYTES: usize = 2 * 1024;
/// How often the session checks a client that holds a part of the budget while other sessions wait for it.
const PRESSURE_WINDOW: Duration = Duration::from_secs(15);
/// Bytes that the client has to send in that time.
const PRESSURE_BYTES: u64 = 32 * 1024;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// QUIT.
    Quit,
    /// The client hung up.
    Closed,
    /// The connection broke, or the client does not take its replies.
    Broken,
    /// The client sent nothing for too long.
    Timeout,
    /// The client sent too little while other sessions waited for the memory that it holds.
    Slow,
    /// The server stops.
    Stopping,
    /// Too many errors.
    Errors,
    /// The input cannot be parsed any more.
    Unintelligible,
    /// The login is no longer valid.
    Revoked,
    /// The client speaks HTTP.
    Http,
    /// The TLS handshake failed.
    Handshake,
}

impl End {
    /// The word in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            End::Quit => "quit",
            End::Closed => "closed",
            End::Broken => "connection broken",
            End::Timeout => "timeout",
            End::Slow => "too slow while memory was short",
            End::Stopping => "shutdown",
            End::Errors => "too many errors",
            End::Unintelligible => "unintelligible",
            End::Revoked => "login revoked",
            End::Http => "HTTP",
            End::Handshake => "TLS handshake failed",
        }
    }

    /// The reply to the client.
    pub(super) fn reply(self, hostname: &str) -> Option<Reply> {
        match self {
            End::Quit => Some(replies::bye(hostname)),
            End::Timeout => Some(replies::timeout()),
            End::Slow => Some(replies::too_slow()),
            End::Stopping => Some(replies::stopping(hostname)),
            End::Errors => Some(replies::too_many_errors()),
            End::Unintelligible => Some(replies::unintelligible()),
            End::Revoked => Some(replies::revoked()),
            End::Http => Some(replies::http()),
            End::Closed | End::Broken | End::Handshake => None,
        }
    }
}

/// The context of the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// Commands.
    Commands,
    /// A message that holds no part of the budget.
    Message,
    /// A message that holds part of the budget.
    LargeMessage,
}

/// Reads once. The buffer is allocated when bytes arrive, unless the message holds a permit.
async fn read(stream: &mut Stream, decoder: &mut Decoder, within: Within) -> io::Result<usize> {
    if within == Within::LargeMessage {
        return stream.read_buf(decoder.space(MESSAGE_READ_BYTES)).await;
    }
    poll_fn(|cx| {
        let mut small = [MaybeUninit::uninit(); SMALL_READ_BYTES];
        let mut read = ReadBuf::uninit(&mut small);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
        decoder.feed(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
    .await
}

/// Waits until the login of a session is no longer valid.
async fn lost(standing: Option<&Standing>) {
    match standing {
        Some(standing) => standing.lost().await,
        None => pending().await,
    }
}

/// The client's connection, unread input, and unsent replies.
pub(super) struct Connection {
    /// `None` after a failed handshake.
    stream: Option<Stream>,
    decoder: Decoder,
    out: BytesMut,
    /// How long the session waited for the client in the present window of pressure, and the bytes that arrived
    /// in it.
    window: (Duration, u64),
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Connection {
            stream: Some(stream),
            decoder: Decoder::new(),
            out: BytesMut::new(),
            window: (Duration::ZERO, 0),
        }
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// The next event of the input read so far.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.decoder.next_event()
    }

    /// Notes that the next line answers a challenge of AUTH.
    pub(super) fn expect_auth_line(&mut self) {
        self.decoder.expect_auth_line();
    }

    /// Notes that mail data follows.
    pub(super) fn begin_data(&mut self) {
        self.decoder.begin_data();
    }

    /// Queues a reply; it leaves with [`Connection::flush`], or before the next read (RFC 2920 §3.2 (7)).
    pub(super) fn reply(&mut self, reply: &Reply) {
        write::reply(reply, &mut self.out);
    }

    /// Bytes of unsent replies.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Whether replies should leave before more commands are handled.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= REPLY_BYTES
    }

    /// Sends the queued replies.
    pub(super) async fn flush(&mut self, ctx: &Context) -> Result<(), End> {
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        if self.out.is_empty() {
            return Ok(());
        }
        let limit = ctx.settings.timeouts.write;
        while !self.out.is_empty() {
            let written = timeout(limit, stream.write_buf(&mut self.out)).await;
            if !matches!(written, Ok(Ok(1..))) {
                return Err(End::Broken);
            }
        }
        match timeout(limit, stream.flush()).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Broken),
        }
    }

    /// Sends the queued replies and reads at least one byte. Ends a session whose login is revoked meanwhile.
    pub(super) async fn fill(
        &mut self,
        shared: &SmtpShared,
        within: Within,
        standing: Option<&Standing>,
    ) -> Result<(), End> {
        let ctx = &*shared.ctx;
        self.flush(ctx).await?;
        self.out = BytesMut::new();
        self.decoder.release();
        let mut waited = Duration::ZERO;
        loop {
            let limit = ctx.settings.timeouts.smtp.saturating_sub(waited).min(PRESSURE_WINDOW);
            let stream = self.stream.as_mut().ok_or(End::Closed)?;
            let before = ctx.clock.monotonic();
            let read = tokio::select! {
                biased;
                () = ctx.shutdown.wait() => return Err(End::Stopping),
                () = lost(standing) => return Err(End::Revoked),
                read = timeout(limit, read(stream, &mut self.decoder, within)) => read,
            };
            self.window.0 += ctx.clock.monotonic().saturating_sub(before);
            match read {
                Ok(Ok(0)) => return Err(End::Closed),
                Ok(Ok(bytes)) => {
                    self.window.1 += bytes as u64;
                    return self.check_pressure(shared, within);
                }
                Ok(Err(_)) => return Err(End::Broken),
                Err(_) => waited += limit,
            }
            if waited >= ctx.settings.timeouts.smtp {
                return Err(End::Timeout);
            }
            self.check_pressure(shared, within)?;
        }
    }

    /// Ends the session of a client that holds memory and hardly sends while other sessions wait for memory.
    /// Only the time spent waiting for the client counts, not that of a slow disk.
    fn check_pressure(&mut self, shared: &SmtpShared, within: Within) -> Result<(), End> {
        if self.window.0 < PRESSURE_WINDOW {
            return Ok(());
        }
        let (_, bytes) = std::mem::take(&mut self.window);
        let submissions = shared.outbox.as_ref().map_or(0, |outbox| outbox.waiting());
        let others_wait = shared.ctx.budget.waiting() > 0 || shared.fanout.0.waiting() > 0 || submissions > 0;
        let slow = within == Within::LargeMessage && others_wait && bytes < PRESSURE_BYTES;
        if slow { Err(End::Slow) } else { Ok(()) }
    }

    /// Notes that the message holds a part of the budget: from here on its pace is measured.
    pub(super) fn begin_window(&mut self) {
        self.window = (Duration::ZERO, 0);
    }

    /// Sends the queued 220 and makes the handshake. Drops input that the client sent before (RFC 3207
    /// §4.2).
    pub(super) async fn start_tls(&mut self, ctx: &Context, config: &Arc<ServerConfig>) -> Result<(), End> {
        self.flush(ctx).await?;
        let early = self.decoder.discard_input();
        if early > 0 {
            tracing::debug!(bytes = early, "plain text after STARTTLS was dropped");
        }
        let stream = self.stream.take().ok_or(End::Closed)?;
        match stream.start_tls(config, ctx.settings.timeouts.tls_handshake).await {
            Ok(stream) => {
                self.stream = Some(stream);
                Ok(())
            }
            Err(_) => Err(End::Handshake),
        }
    }

    /// Sends the queued replies and hangs up.
    pub(super) async fn close(mut self, ctx: &Context, log: &mut SessionLog) {
        let flushed = self.flush(ctx).await;
        let Some(stream) = self.stream else { return };
        log.observe(&stream);
        if flushed.is_ok() {
            stream.close().await;
        }
    }
}
