//! One log line per session: account, protocol, amounts, duration. Never a secret or message text.
//!
//! The line is written on drop, so that a session that is cancelled or panics has one too. Sessions that
//! logged in or delivered are `INFO`, the others (scanners, health checks) `DEBUG`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{AccountId, Clock};

use crate::context::Context;
use crate::metrics::{Command, Metrics, Protocol, Verdict};
use crate::net::Stream;
use crate::sessions::{Live, SessionState, Sessions};

/// The record of a session for its log line.
pub struct SessionLog {
    clock: Arc<dyn Clock>,
    started: Duration,
    protocol: Protocol,
    metrics: Arc<Metrics>,
    sessions: Arc<Sessions>,
    live: Arc<Live>,
    /// The current command, and when it began.
    command: Option<(Command, Duration)>,
    peer: Option<SocketAddr>,
    tls: Option<String>,
    user: Option<String>,
    client: Option<String>,
    bytes_in: u64,
    bytes_out: u64,
    end: &'static str,
    counts: Vec<(&'static str, u64)>,
}

impl SessionLog {
    /// Starts a session: adds it to the table of sessions, and counts the stream's bytes for it.
    pub fn begin(protocol: Protocol, stream: &mut Stream, ctx: &Context) -> Self {
        let (clock, started) = (ctx.clock.clone(), ctx.clock.monotonic());
        let (metrics, sessions) = (ctx.metrics.clone(), ctx.sessions.clone());
        let live = sessions.begin(protocol, stream.peer_addr(), started, metrics.clone());
        stream.count_for(live.clone());
        let mut log = SessionLog {
            started,
            clock,
            protocol,
            metrics,
            sessions,
            live,
            command: None,
            peer: stream.peer_addr(),
            tls: None,
            user: None,
            client: None,
            bytes_in: 0,
            bytes_out: 0,
            end: "closed",
            counts: Vec::new(),
        };
        log.observe(stream);
        log
    }

    /// Takes byte counts and TLS from the stream. Call it after STARTTLS, and before the stream is closed.
    pub fn observe(&mut self, stream: &Stream) {
        self.bytes_in = stream.bytes_in();
        self.bytes_out = stream.bytes_out();
        self.live.set_tls(stream.is_tls());
        self.tls = stream.tls_info().map(|tls| format!("{} {}", tls.version, tls.cipher));
    }

    /// Notes the logged-in account.
    pub fn user(&mut self, name: &str, account: AccountId) {
        self.user = Some(name.to_owned());
        self.live.set_user(name, account);
    }

    /// Notes the client's name for itself (EHLO, ID), which is not trusted.
    pub fn client(&mut self, name: &str) {
        self.client = Some(name.to_owned());
    }

    /// Adds `n` to the count called `what` (`commands`, `messages`, `errors`, `failed_logins` …).
    pub fn count(&mut self, what: &'static str, n: u64) {
        match self.counts.iter_mut().find(|(name, _)| *name == what) {
            Some((_, count)) => *count += n,
            None => self.counts.push((what, n)),
        }
    }

    /// Sets the state of the session.
    pub fn state(&self, state: SessionState) {
        self.live.set_state(state);
    }

    /// Starts a command with that name.
    pub fn begin_command(&mut self, name: &str) {
        let command = self.protocol.command(name);
        self.live.begin(command);
        self.command = Some((command, self.clock.monotonic()));
    }

    /// Completes the current command, if there is one.
    pub fn end_command(&mut self, verdict: Verdict) {
        let Some((command, began)) = self.command.take() else { return };
        self.live.finish();
        let Some(metrics) = self.metrics.of(self.protocol).command(command) else { return };
        metrics.verdict(verdict).increment();
        // The duration of IDLE is the client's choice.
        if self.protocol.name_of(command) != "IDLE" {
            metrics.time.observe_time(self.clock.monotonic().saturating_sub(began));
        }
    }

    /// The command continues with the client's next bytes; its duration is measured from there.
    pub fn defer_command(&mut self) {
        self.command = None;
        self.live.finish();
    }

    /// Starts a request with that name, possibly beside others of the same session.
    pub fn begin_request(&mut self, name: &str) -> Command {
        let command = self.protocol.command(name);
        self.live.begin(command);
        self.count("requests", 1);
        command
    }

    /// Completes a request. `took` is its duration, `None` if the client determined it; `is_last`: no other
    /// command is in progress.
    pub fn end_request(&mut self, command: Command, verdict: Verdict, took: Option<Duration>, is_last: bool) {
        if is_last {
            self.live.finish();
        }
        let Some(metrics) = self.metrics.of(self.protocol).command(command) else { return };
        metrics.verdict(verdict).increment();
        if let Some(took) = took {
            metrics.time.observe_time(took);
        }
    }

    /// Takes byte counts from the table of sessions, for a stream with another owner.
    pub fn observe_counted(&mut self) {
        (self.bytes_in, self.bytes_out) = (self.live.received_bytes(), self.live.sent_bytes());
    }

    /// Counts a message of `bytes` that was delivered to `recipients`.
    pub fn delivered(&mut self, recipients: u64, bytes: u64) {
        let metrics = self.metrics.of(self.protocol);
        metrics.messages.increment();
        metrics.deliveries.add(recipients);
        metrics.message_bytes.add(bytes);
        self.count("messages", 1);
        self.count("recipients", recipients);
        self.count("message_bytes", bytes);
    }

    /// Counts a message that was refused after it had arrived.
    pub fn message_refused(&mut self) {
        self.metrics.of(self.protocol).messages_refused.increment();
        self.count("refused", 1);
    }

    /// Notes that the client sent a line of HTTP ([`cross_protocol`](sealpost_base::cross_protocol)).
    pub fn spoke_http(&mut self) {
        self.metrics.of(self.protocol).http.increment();
    }

    /// Sets why the session ended (`logout`, `timeout`, `shutdown`, `too many errors` …); the default is
    /// `closed`.
    pub fn end(&mut self, reason: &'static str) {
        self.end = reason;
    }

    fn counts(&self) -> String {
        let words: Vec<_> = self.counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
        words.join(" ")
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        self.sessions.end(&self.live);
        let peer = self.peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        let (tls, user) = (self.tls.as_deref().unwrap_or("none"), self.user.as_deref().unwrap_or("-"));
        let client = self.client.as_deref().unwrap_or("-");
        let ms = self.clock.monotonic().saturating_sub(self.started).as_millis() as u64;
        let (protocol, counts, end) = (self.protocol.name(), self.counts(), self.end);
        let (bytes_in, bytes_out) = (self.bytes_in, self.bytes_out);
        if self.user.is_some() || self.counts.iter().any(|(name, n)| *name == "messages" && *n > 0) {
            tracing::info!(
                protocol, peer, tls, user, client, bytes_in, bytes_out, ms, counts, end, "session"
            );
        } else {
            tracing::debug!(
                protocol, peer, tls, user, client, bytes_in, bytes_out, ms, counts, end, "session"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counts_add_up() {
        let (mut stream, _other) = Stream::pair().unwrap();
        let ctx = crate::context::for_tests();
        let mut log = SessionLog::begin(Protocol::Imap, &mut stream, &ctx);
        log.count("commands", 1);
        log.count("messages", 2);
        log.count("commands", 1);
        assert_eq!(log.counts(), "commands=2 messages=2");
        log.begin_command("NOOP");
        log.end_command(Verdict::Ok);
        log.end_command(Verdict::Ok);
        assert_eq!(
            (ctx.metrics.of(Protocol::Imap).commands(), ctx.sessions.count(Protocol::Imap).all),
            (1, 1)
        );
        drop(log);
        assert_eq!(ctx.sessions.count(Protocol::Imap).all, 0);
    }
}
