//! One line in the log per session: who, how, how much, how long. Never a secret, never message text.
//!
//! The line is written when the value is dropped, so that a session that is cut off or panics leaves one too.
//! Sessions of somebody who logged in or delivered something are `INFO`, the others (scanners, health checks)
//! `DEBUG`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Clock;

use crate::net::Stream;

/// What a session did, for its line in the log.
pub struct SessionLog {
    clock: Arc<dyn Clock>,
    started: Duration,
    protocol: &'static str,
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
    /// A session of `protocol` (`imap`, `smtp`, `lmtp`) that begins now.
    pub fn begin(protocol: &'static str, stream: &Stream, clock: Arc<dyn Clock>) -> Self {
        let mut log = SessionLog {
            started: clock.monotonic(),
            clock,
            protocol,
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

    /// Takes byte counts and TLS from the stream: call it after STARTTLS and before the stream is closed.
    pub fn observe(&mut self, stream: &Stream) {
        self.bytes_in = stream.bytes_in();
        self.bytes_out = stream.bytes_out();
        self.tls = stream.tls_info().map(|tls| format!("{} {}", tls.version, tls.cipher));
    }

    /// The account that logged in.
    pub fn user(&mut self, name: &str) {
        self.user = Some(name.to_owned());
    }

    /// What the client calls itself (EHLO, ID); nothing it says is to be trusted.
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

    /// Why the session ended (`logout`, `timeout`, `shutdown`, `too many errors` …); `closed` unless said.
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
        let peer = self.peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        let (tls, user) = (self.tls.as_deref().unwrap_or("none"), self.user.as_deref().unwrap_or("-"));
        let client = self.client.as_deref().unwrap_or("-");
        let ms = self.clock.monotonic().saturating_sub(self.started).as_millis() as u64;
        let (protocol, counts, end) = (self.protocol, self.counts(), self.end);
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
    use sealpost_base::{FakeClock, Timestamp};

    use super::*;

    #[tokio::test]
    async fn counts_add_up() {
        let (stream, _other) = Stream::pair().unwrap();
        let mut log = SessionLog::begin("imap", &stream, Arc::new(FakeClock::new(Timestamp(0))));
        log.count("commands", 1);
        log.count("messages", 2);
        log.count("commands", 1);
        assert_eq!(log.counts(), "commands=2 messages=2");
    }
}
