//! Limits on JMAP push subscriptions and pushes.

use std::time::Duration;

use super::sharing::SHARES;

/// JMAP push subscriptions of one account (RFC 8620 §8.6).
pub const PUSH_SUBSCRIPTIONS: usize = 16;
/// JMAP push subscriptions that an account creates in an hour: each costs its URL one request before
/// the client has shown that it reads there (RFC 8620 §8.6).
pub const PUSH_CREATED_PER_HOUR: usize = 30;
/// How long a JMAP push subscription lasts at most, and if the client names no end (RFC 8620 §7.2: at
/// least 48 hours, should be 7 days).
pub const PUSH_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// Accounts with JMAP push subscriptions that one node knows. Those beyond it get no pushes, and the
/// log says so.
pub const PUSH_ACCOUNTS: usize = 65_536;
/// Shared mailboxes of an account whose changes are pushed.
pub const PUSH_LOGS: usize = SHARES + 1;
/// Pushes that wait on one node for their time: one for each subscription. Further ones are dropped, and
/// the client finds the changes when it next looks (RFC 8620 §7).
pub const PUSH_WAITING: usize = 65_536;
/// Pushes that one node sends at the same time.
pub const PUSH_CONNECTIONS: usize = 32;
/// Between two pushes to one subscription: changes in between are pushed as one.
pub const PUSH_INTERVAL: Duration = Duration::from_secs(1);
/// What one push acquires while it is made and sent: all subscriptions of its account, and TLS.
pub const PUSH_WORK_BYTES: usize = 320 * 1024;
/// How long a client that makes a push subscription waits for the addresses of its host at most.
pub const PUSH_HOST_TIME: Duration = Duration::from_secs(5);
/// How long one push may take, from the name of the host to the response.
pub const PUSH_TIME: Duration = Duration::from_secs(30);
/// The pause after a push that failed; it doubles with each failure, up to [`PUSH_PAUSE_MOST`].
pub const PUSH_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause between two attempts, also if the push service names a longer one.
pub const PUSH_PAUSE_MOST: Duration = Duration::from_secs(3600);
/// Attempts at one push that fail in a row; then it is dropped, and the next change begins again.
pub const PUSH_ATTEMPTS: u32 = 12;
/// Bytes of the head of a push service's response.
pub const PUSH_HEAD_BYTES: usize = 8 * 1024;
/// Header fields of a push service's response.
pub const PUSH_HEAD_FIELDS: usize = 64;
/// Bytes of a push before it is encrypted: a push service takes 4,096 (RFC 8291 §4).
pub const PUSH_BYTES: usize = 3993;
/// Appends to accounts without subscriptions that a node remembers for a while, because another node
/// may just have got the first one.
pub const PUSH_APPENDS_REMEMBERED: usize = 4096;
/// Bytes of the file that says up to where a node has pushed.
pub const PUSH_POSITIONS_BYTES: u64 = 16 * 1024 * 1024;
