//! Limits on the queue of outbound mail.

use std::time::Duration;

use super::smtp::SMTP_ACCOUNTS;

/// Bytes of a message, its trace header included, that a queue's log holds itself; a larger one is
/// an object of its own.
pub const QUEUE_INLINE_BYTES: usize = 64 * 1024;
/// Bytes of one entry of a queue's log; further pending events go into the next one.
pub const QUEUE_ENTRY_BYTES: usize = 1024 * 1024;
/// Events in one entry of a queue's log.
pub const QUEUE_ENTRY_EVENTS: usize = 2048;
/// Recipients of one queued mail.
pub const QUEUE_RECIPIENTS: usize = SMTP_ACCOUNTS;
/// Bytes of one queued mail in the log, envelope included: less than an entry may have
/// ([`ENTRY_BYTES`](super::ENTRY_BYTES)).
pub const QUEUE_ENVELOPE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a server's reply that are kept with a recipient.
pub const QUEUE_REPLY_BYTES: usize = 512;
/// Bytes of the reason that a queue shows for a mail that waits.
pub const QUEUE_REASON_BYTES: usize = 160;
/// Standing rules of an operator in one queue.
pub const QUEUE_RULES: usize = 1000;
/// Bytes of a note that an operator adds to a rule.
pub const QUEUE_NOTE_BYTES: usize = 200;
/// Mails that a queue has in memory, ready to be sent.
pub const QUEUE_WINDOW: usize = 20_000;
/// Recipients of all these mails together.
pub const QUEUE_WINDOW_RECIPIENTS: usize = 200_000;
/// Mails of one account that enter that window although it is full.
pub const QUEUE_WINDOW_ACCOUNT: usize = 100;
/// Mails by which such accounts may exceed it.
pub const QUEUE_WINDOW_RESERVE: usize = 5_000;
/// Accounts whose recipients of the last day one queue counts. Beyond that it drops those that sent least;
/// their counts start again at zero.
pub const QUEUE_SENDERS: usize = 16_384;
/// Handled requests that a queue remembers, so that it handles none twice.
pub const QUEUE_REQUESTS: usize = 1024;
/// How long a queue keeps the history of a mail.
pub const QUEUE_HISTORY_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Bytes of that history in one queue; the oldest is dropped first. A mail takes about 400.
pub const QUEUE_HISTORY_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one request to a queue.
pub const QUEUE_REQUEST_BYTES: usize = 64 * 1024;
/// Sites with the most queued mail that the metrics name.
pub const QUEUE_METRIC_SITES: usize = 20;
