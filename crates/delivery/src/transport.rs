//! The interface for the queue: resolve a route, connect, send any number of mails, disconnect.
//!
//! Traits, so that a test of the queue can use servers of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sealpost_smtp::types::{Host, ReversePath};

use crate::envelope::{Envelope, MessageSource, TlsDemand};
use crate::outcome::{Attempt, Failure};

/// The key by which destinations share a site: the normalised set of their mail servers, or a smarthost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey(Arc<str>);

impl SiteKey {
    /// A key by its text.
    pub fn new(text: &str) -> Self {
        SiteKey(text.into())
    }

    /// The text: host names with commas between them and the demands on connections to them (`dnssec`,
    /// `mta-sts`), or `smarthost:NAME:PORT`. At most
    /// [`sealpost_base::limits::SITE_KEY_BYTES`] bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of the configured ways to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// The way that the routes name for sender and destination; without a route, the mail servers
    /// of the destination.
    #[default]
    First,
    /// The smarthost to try after direct delivery failed by [`Failure::concerns_route`].
    Second,
}

/// Sends mail to other servers.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Finds the servers for mail of `sender` to `destination`. `None` if there is no such choice:
    /// there is always a first one, and a second one only if a route configures it.
    ///
    /// # Errors
    /// If DNS fails or names no server.
    async fn resolve(
        &self,
        sender: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>>;
}

/// Servers that take mail for a destination, as DNS or the configuration names them.
#[async_trait]
pub trait Destination: Send + Sync {
    /// The key for scheduling.
    fn site(&self) -> &SiteKey;

    /// Connects to the best server that can be reached and secures the connection.
    ///
    /// # Errors
    /// The failure of the last server tried, with [`crate::outcome::Scope::Site`] if it holds for
    /// all of them.
    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure>;
}

/// An open connection, past EHLO, TLS and AUTH.
#[async_trait]
pub trait Connection: Send {
    /// Sends one mail. Never fails as a whole: each recipient has its own outcome.
    async fn send(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt;

    /// Whether another mail can be sent over it.
    fn is_reusable(&self) -> bool;

    /// Waits, between mails, until the connection cannot be used any more: the server closes it, or sends a
    /// reply without a command. After a wait that was cancelled another mail may be sent.
    async fn disturbed(&mut self) {
        std::future::pending().await
    }

    /// Sends QUIT and disconnects, within a bounded time.
    async fn quit(self: Box<Self>);
}
