//! Operations on mailboxes, independent of any protocol.
//!
//! Sessions of IMAP and JMAP translate their commands into calls of this crate, and its errors into their
//! replies. Nothing here writes to a client, names a wire type, or knows a session.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
pub mod account_changes;
pub mod append;
pub mod changes;
pub mod copy;
pub mod cross_account_copy;
pub mod email_change;
pub mod emails;
mod entry;
pub mod flag_change;
pub mod flags;
pub mod lease;
pub mod memory;
pub mod opened;
pub mod ops;
pub mod quota_headroom;
pub mod read_ahead;
mod refusal;
pub mod resolve;
pub mod rights;
pub mod share;
pub mod share_notices;
pub mod shared_accounts;
pub mod usage_tracker;
pub mod watch;

pub use access::Access;
pub use lease::Lease;
pub use opened::OpenedMailbox;
pub use refusal::{MailboxGone, Refusal};
pub use resolve::{ResolvedMailbox, User};
