//! [`Outbox`]: takes a message from a user into the queue, for all protocols.
//!
//! A message streams through a [`Submission`]. It converts line ends to CRLF and completes the header. The
//! account must be allowed to send as all addresses in From and Sender. The body is hashed, for the signature
//! of the domain in From, as it streams into the queue. When [`Submission::finish`] returns, the message is
//! durable; before that it is not queued.
//!
//! A [`Refusal`] is the reason for refusing a message; each protocol translates it.

mod limits;
mod refusal;
mod submission;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::metrics::Counter;
use sealpost_base::{AccountId, Budget, Clock, Random, Timestamp};
use sealpost_directory::{AccountRecord, Directory};
use sealpost_queue::envelope::{Recipient, Ret, Source, TlsDemand};
use sealpost_queue::{MailId, Queue};
use sealpost_vault::mail_key::MailKeys;

use crate::domain_keys::DomainKeys;
use crate::forwarder::{Forwarder, ForwarderParts};
use crate::sender;
use crate::vacation::Vacations;
use crate::vacation::responder::{ResponderParts, VacationResponder};
pub use limits::{LimitReached, SendingLimits, Window};
pub use refusal::Refusal;
pub use submission::{ReadySubmission, Submission};

/// Unfinished submissions hold at most this part of the common budget.
const MEMORY_SHARE: usize = 4;
/// The same for headers that vacation responses depend on. Nothing waits for that part, so a client
/// that stalls keeps no submission waiting.
const VACATION_SHARE: usize = 16;

/// The parts of an outbox.
pub struct OutboxParts {
    /// The queue that takes accepted mail.
    pub queue: Queue,
    /// Decides which account may send as which address.
    pub directory: Directory,
    /// The keys that sign messages.
    pub domain_keys: DomainKeys,
    /// The keys that authenticate reverse-paths of forwarded mail.
    pub mail_keys: MailKeys,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// For Message-IDs.
    pub random: Arc<dyn Random>,
    /// The budget for messages under way.
    pub budget: Budget,
    /// The name of this server.
    pub hostname: String,
    /// The limits of accounts.
    pub limits: SendingLimits,
}

/// Takes messages that users send. Cheap to clone.
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    parts: OutboxParts,
    forwarder: Forwarder,
    vacation: VacationResponder,
    /// What all submissions that are not finished may draw.
    memory: Budget,
    /// Recipients of messages that are being queued, by account: they count before the queue has them.
    pending: Mutex<BTreeMap<AccountId, u32>>,
    metrics: OutboxMetrics,
}

/// The envelope and options of a message to send.
#[derive(Clone)]
pub struct Order {
    /// The account that sends, as it is recorded now; `None` for a client that the operator trusts: it
    /// may send as any address, and as much as it wants.
    pub account: Option<Arc<AccountRecord>>,
    /// The reverse-path; empty for the null sender.
    pub from: String,
    /// The recipients, at least one.
    pub recipients: Vec<Recipient>,
    /// RET.
    pub ret: Option<Ret>,
    /// ENVID, decoded.
    pub envid: Option<String>,
    /// The earliest time to send it.
    pub release: Option<Timestamp>,
    /// The demand on TLS; `Policy` lets the header field TLS-Required decide (RFC 8689 §3).
    pub tls: TlsDemand,
    /// The Received field, with its line end. It does not name the client.
    pub trace: Vec<u8>,
    /// The origin of the message.
    pub source: Source,
}

/// A message that the queue has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its id in the queue.
    pub id: MailId,
    /// Its Message-ID, unless that is longer than [`sealpost_base::limits::MESSAGE_ID_BYTES`].
    pub message_id: Option<String>,
    /// Its bytes.
    pub size: u64,
}

/// Counters of an outbox.
#[derive(Debug, Default)]
pub struct OutboxMetrics {
    /// Messages accepted.
    pub accepted: Counter,
    /// Their recipients.
    pub recipients: Counter,
    /// Messages and recipients refused because the account had sent too much.
    pub limited: Counter,
    /// Messages and reverse-paths refused because the account may not send as that address.
    pub wrong_senders: Counter,
}

impl Outbox {
    /// An outbox of these parts.
    pub fn new(parts: OutboxParts) -> Self {
        let memory = parts.budget.share(parts.budget.common() / MEMORY_SHARE);
        let forwarder = Forwarder::new(ForwarderParts {
            queue: parts.queue.clone(),
            directory: parts.directory.clone(),
            mail_keys: parts.mail_keys.clone(),
            clock: parts.clock.clone(),
            memory: memory.clone(),
            per_hour: parts.limits.forwards,
        });
        let vacation = VacationResponder::new(ResponderParts {
            vacations: Vacations::new(parts.directory.clone(), parts.mail_keys.clone(), parts.random.clone()),
            directory: parts.directory.clone(),
            mail_keys: parts.mail_keys.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            memory: parts.budget.share(parts.budget.common() / VACATION_SHARE),
        });
        let (pending, metrics) = (Mutex::default(), OutboxMetrics::default());
        Outbox(Arc::new(Inner { parts, forwarder, vacation, memory, pending, metrics }))
    }

    /// The queue that it fills.
    pub fn queue(&self) -> &Queue {
        &self.0.parts.queue
    }

    /// The forwarder of mail for aliases, into the same queue.
    pub fn forwarder(&self) -> &Forwarder {
        &self.0.forwarder
    }

    /// What replies to delivered mail, into the same queue.
    pub fn vacation(&self) -> &VacationResponder {
        &self.0.vacation
    }

    /// The most bytes of a message.
    pub fn message_size(&self) -> u64 {
        self.0.parts.limits.message_size
    }

    /// What it counts.
    pub fn metrics(&self) -> &OutboxMetrics {
        &self.0.metrics
    }

    /// Submissions that wait for memory.
    pub fn waiting(&self) -> usize {
        self.0.memory.waiting()
    }

    /// Begins a message.
    pub fn begin(&self, order: Order) -> Submission {
        Submission::new(self.clone(), order)
    }

    /// Refuses an address that the account may not send as.
    ///
    /// # Errors
    /// `Sender`, or `Store`.
    pub async fn check_sender(&self, account: &AccountRecord, address: &str) -> Result<(), Refusal> {
        match sender::may_send_as(&self.0.parts.directory, account, address).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.0.metrics.wrong_senders.increment();
                tracing::info!(account = %account.name, address, "not allowed to send as this address");
                Err(Refusal::Sender(address.to_owned()))
            }
            Err(error) => Err(Refusal::Store(error)),
        }
    }

    /// The same for several addresses, each once.
    async fn check_senders(&self, account: &AccountRecord, addresses: &[&str]) -> Result<(), Refusal> {
        for address in addresses.iter().copied().collect::<BTreeSet<_>>() {
            self.check_sender(account, address).await?;
        }
        Ok(())
    }

    /// Refuses a message with more recipients than the account may send to now.
    ///
    /// # Errors
    /// The limit, and when it ends.
    pub fn check_limits(&self, account: &AccountRecord, recipients: usize) -> Result<(), LimitReached> {
        let pending = self.pending().get(&account.id).copied().unwrap_or(0);
        self.check_limits_with(account, recipients, pending)
    }

    fn check_limits_with(
        &self,
        account: &AccountRecord,
        recipients: usize,
        pending: u32,
    ) -> Result<(), LimitReached> {
        let limits = self.0.parts.limits.of(account);
        let now = self.0.parts.clock.now();
        let sent = self.queue().state().sent(account.id, now);
        let more = pending.saturating_add(u32::try_from(recipients).unwrap_or(u32::MAX));
        limits::check(&sent, more, &limits, now).inspect_err(|reached| {
            self.0.metrics.limited.increment();
            tracing::warn!(account = %account.name, limit = %reached, "an account may send no more for now");
        })
    }

    /// Counts recipients until the queue does, or the message fails.
    fn reserve(&self, account: &AccountRecord, recipients: usize) -> Result<Reservation, LimitReached> {
        let mut pending = self.pending();
        let before = pending.get(&account.id).copied().unwrap_or(0);
        self.check_limits_with(account, recipients, before)?;
        let recipients = u32::try_from(recipients).unwrap_or(u32::MAX);
        pending.insert(account.id, before.saturating_add(recipients));
        Ok(Reservation { outbox: self.clone(), account: account.id, recipients })
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<AccountId, u32>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Recipients of a message that is being queued.
struct Reservation {
    outbox: Outbox,
    account: AccountId,
    recipients: u32,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut pending = self.outbox.pending();
        let left = pending.get(&self.account).copied().unwrap_or(0).saturating_sub(self.recipients);
        match left {
            0 => pending.remove(&self.account),
            left => pending.insert(self.account, left),
        };
    }
}
