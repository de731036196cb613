//! Takes a message from a user up to the queue (RFC 6409), for all protocols: SMTP submission, and JMAP's
//! EmailSubmission.
//!
//! - [`parameters`]: parameters of an envelope that are given one by one, for JMAP.
//! - [`outbox`]: where messages are submitted; it uses everything else.
//! - [`domain_keys`]: the keys of domains, which messages are signed with (DKIM).
//! - [`sender`]: which addresses an account may send as.
//! - [`forwarder`]: mail that aliases lead to other servers; [`srs`]: its reverse-paths.
//! - [`vacation`]: vacation responses of accounts, and the replies to delivered mail.
//! - [`lines`]: line ends. No bare CR or LF leaves this server: what another server takes for the
//!   end of a message must not be in one (RFC 5321 §2.3.8).
//! - [`header`]: the header of a message, collected while it streams, then completed: Date and
//!   Message-ID added, Bcc removed.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod domain_keys;
pub mod forwarder;
pub mod header;
pub mod lines;
pub mod outbox;
pub mod parameters;
pub mod sender;
pub mod srs;
pub mod vacation;
