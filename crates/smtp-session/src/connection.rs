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

/// Bytes read at once while no memory is drawn for a message: between messages, when most sessions
/// idle, and at its beginning.
const SMALL_READ_BYTES: usize = 4 * 1024;
/// Bytes read at once within a message that memory is drawn for.
const MESSAGE_READ_BYTES: usize = 16 * 1024;
/// Bytes of replies that wait for the client before no more is read from it.
pub(super) const REPLY_BYTES: usize = 2 * 1024;
/// How often a client that holds budget is looked at, when others wait for it.
const PRESSURE_WINDOW: Duration = Duration::from_secs(15);
/// Bytes that it has to send in that time.
const PRESSURE_BYTES: u64 = 32 * 1024;

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// QUIT.
    Quit,
    /// The client hung up.
    Closed,
    /// The connection broke, or the client does not take its replies.
    Broken,
    /// Nothing was heard for too long.
    Timeout,
    /// Too little was heard while others waited for the memory it holds.
    Slow,
    /// The server stops.
    Stopping,
    /// Too many errors.
    Errors,
    /// Nothing sensible can be read any more.
    Unintelligible,
    /// The login is no longer valid.
    Revoked,
    /// The client speaks HTTP.
    Http,
    /// The TLS handshake failed.
    Handshake,
}

impl End {
    /// For the log.
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

/// What the next bytes belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// Commands.
    Commands,
    /// A message, as long as it draws nothing from the budget.
    Message,
    /// A message that holds part of the budget.
    LargeMessage,
}

/// Reads once. There is no buffer until something comes, unless memory is drawn for a message.
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

/// The client's connection and what is not yet read from it or sent to it.
pub(super) struct Connection {
    /// `None` after a failed handshake.
    stream: Option<Stream>,
    decoder: Decoder,
    out: BytesMut,
    /// How long the client was waited for in the present window of pressure, and bytes that came in it.
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

    /// The next event in what was read already.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.decoder.next_event()
    }

    /// The next line answers a challenge of AUTH.
    pub(super) fn expect_auth_line(&mut self) {
        self.decoder.expect_auth_line();
    }

    /// What follows is mail data.
    pub(super) fn begin_data(&mut self) {
        self.decoder.begin_data();
    }

    /// Queues a reply; it leaves with [`Connection::flush`], or before the next read (RFC 2920 §3.2 (7)).
    pub(super) fn reply(&mut self, reply: &Reply) {
        write::reply(reply, &mut self.out);
    }

    /// Bytes of replies that are not sent.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Whether replies should leave before more commands are handled.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= REPLY_BYTES
    }

    /// Sends what is queued.
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

    /// Sends what is queued and reads more: at least one byte. Ends a session that loses its standing meanwhile.
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

    /// A client that holds memory and hardly sends must not keep others from theirs. Only the time
    /// that it was waited for counts: a slow disk is not its fault.
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

    /// A message begins to hold budget: from here on it is measured.
    pub(super) fn begin_window(&mut self) {
        self.window = (Duration::ZERO, 0);
    }

    /// Answers the 220 that is queued with a handshake. What the client sent before it is dropped
    /// (RFC 3207 §4.2).
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

    /// Sends what is queued and hangs up.
    pub(super) async fn close(mut self, ctx: &Context, log: &mut SessionLog) {
        let flushed = self.flush(ctx).await;
        let Some(stream) = self.stream else { return };
        log.observe(&stream);
        if flushed.is_ok() {
            stream.close().await;
        }
    }
}
