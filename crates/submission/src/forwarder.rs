//! [`Forwarder`]: queues mail that an alias forwards to other servers, and returns reports about it.
//!
//! Incoming mail and queued mail for local domains are forwarded here, by the same steps: the
//! reverse-path is rewritten ([`crate::srs`]), the limit of the alias counts, and the message streams
//! unchanged through a [`Forwarding`], so that its signatures stay valid. When
//! [`Forwarding::finish`] returns, the queue has it for all recipients.
//!
//! A message that returns to an alias that has forwarded it carries that alias's mark, in a field
//! that no other server can write, and is refused: it would loop until it has too many Received
//! fields. Decision 90.

mod counts;
mod forwarding;
mod route;
mod scan;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::metrics::Counter;
use sealpost_base::{Budget, Clock, Error, Result, limits};
use sealpost_directory::{Address, AliasName, Directory, Outside, OutsideAddress, Resolved};
use sealpost_queue::Queue;
use sealpost_smtp::types::{Host, Mailbox, ReversePath};
use sealpost_vault::mail_key::MailKeys;

use crate::outbox::LimitReached;
use crate::srs::{Invalid, Srs};
use counts::Counts;
pub use forwarding::{Forwarding, Onward};
pub use route::Route;

/// The purpose that the mark of an alias is derived for.
const MARK: &str = "forwarding mark";
/// Bytes of a mark in hexadecimal digits: 80 bits.
const MARK_BYTES: usize = 10;
/// The local part that reports to rewritten senders are counted and marked as.
const REPORTS: &str = "srs0";

/// The parts of a forwarder.
pub struct ForwarderParts {
    /// The queue that takes forwarded mail.
    pub queue: Queue,
    /// Resolves addresses.
    pub directory: Directory,
    /// The keys that authenticate reverse-paths and marks.
    pub mail_keys: MailKeys,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The budget for messages under way.
    pub memory: Budget,
    /// Recipients that one alias forwards to in an hour.
    pub per_hour: u32,
}

/// Forwards mail. Cheap to clone.
#[derive(Clone)]
pub struct Forwarder(Arc<Inner>);

struct Inner {
    parts: ForwarderParts,
    srs: Srs,
    counts: Mutex<Counts>,
    metrics: ForwarderMetrics,
}

/// Counters of a forwarder.
#[derive(Debug, Default)]
pub struct ForwarderMetrics {
    /// Messages that the queue took.
    pub accepted: Counter,
    /// Messages refused because of the limit of their alias.
    pub limited: Counter,
    /// Messages refused because of a loop.
    pub looped: Counter,
}

impl Forwarder {
    /// A forwarder of these parts.
    pub fn new(parts: ForwarderParts) -> Self {
        let srs = Srs::new(parts.mail_keys.clone());
        let (counts, metrics) = Default::default();
        Forwarder(Arc::new(Inner { parts, srs, counts, metrics }))
    }

    /// Its counters.
    pub fn metrics(&self) -> &ForwarderMetrics {
        &self.0.metrics
    }

    /// Resolves an address for mail from `sender`: by [`Directory::resolve`], or to the original sender if
    /// this server rewrote the address.
    ///
    /// # Errors
    /// As [`Directory::resolve`]. `NotFound` also for rewritten addresses that this server did not write, or
    /// wrote too long ago. `Denied` if `sender` is not the null sender: only reports go back.
    pub async fn resolve(&self, to: &Mailbox, sender: &ReversePath) -> Result<Resolved> {
        let parts = &self.0.parts;
        let mut to = to.clone();
        // The original sender may be a rewritten address of this server: the mail came here twice.
        for _ in 0..limits::ALIAS_DEPTH {
            let original = self.0.srs.original(to.local.as_str(), parts.clock.now());
            let Some(original) = original.filter(|_| to.host.as_domain().is_some()) else { break };
            if !parts.directory.serves(&to.host.to_string()).await? {
                break;
            }
            let original = original.map_err(|invalid| match invalid {
                Invalid::Forged => Error::not_found(format!("{to} was not written by this server")),
                Invalid::Expired => Error::not_found(format!("{to} is too old")),
            })?;
            if *sender != ReversePath::Null {
                return Err(Error::denied(format!("{to} takes reports only")));
            }
            if !parts.directory.serves(&original.host.to_string()).await? {
                let alias = AliasName::Address(Address::from_parts(REPORTS, &to.host.to_string())?);
                let address = OutsideAddress::parse(&original.to_string())?;
                return Ok(Resolved { outside: vec![Outside { address, alias }], ..Resolved::default() });
            }
            to = original;
        }
        parts.directory.resolve(&to.to_string()).await
    }

    /// Where mail for an address goes that `from` submits now.
    ///
    /// # Errors
    /// What the store says.
    pub async fn route(&self, address: &str, from: &str) -> Result<Route> {
        route::find(self, address, from).await
    }

    /// Refuses recipients that are more than their aliases may forward to now.
    ///
    /// # Errors
    /// The limit, and when it ends.
    pub fn check(&self, outside: &[Outside]) -> Result<(), LimitReached> {
        self.limited(|counts, hour| counts.check(outside, hour, self.0.parts.per_hour))
    }

    /// Counts the recipients.
    fn count(&self, outside: &[Outside]) -> Result<(), LimitReached> {
        self.limited(|counts, hour| counts.add(outside, hour, self.0.parts.per_hour))
    }

    fn limited(
        &self,
        check: impl FnOnce(&mut Counts, sealpost_base::Timestamp) -> Result<(), counts::Full>,
    ) -> Result<(), LimitReached> {
        check(&mut self.counts(), self.0.parts.clock.now()).map_err(|full| {
            self.0.metrics.limited.increment();
            tracing::warn!(alias = %full.alias, limit = %full.reached, "an alias may forward no more mail for now");
            full.reached
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reverse-path of forwarded mail. Senders of this server, the null sender, and reverse-paths that
    /// would become too long stay as they are.
    async fn reverse_path(&self, sender: &ReversePath, alias: &AliasName) -> Result<String> {
        let ReversePath::Mailbox(mailbox) = sender else { return Ok(String::new()) };
        if self.0.parts.directory.serves(&mailbox.host.to_string()).await? {
            return Ok(mailbox.to_string());
        }
        let rewritten = Host::domain(alias.domain())
            .and_then(|here| self.0.srs.rewrite(mailbox, &here, self.0.parts.clock.now()));
        if rewritten.is_none() {
            tracing::info!(sender = %mailbox, "too long to be rewritten; forwarded with its own sender");
        }
        Ok(rewritten.as_ref().unwrap_or(mailbox).to_string())
    }

    /// The marks of an alias: the one to write first, then those under other keys.
    fn marks(&self, alias: &AliasName) -> Vec<String> {
        let hex = |mac: [u8; 32]| mac[..MARK_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.parts.mail_keys.macs(MARK, alias.to_string().as_bytes()).map(hex).collect()
    }
}
