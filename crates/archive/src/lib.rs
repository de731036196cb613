//! Backups of mailboxes of other servers.
//!
//! [`client`] is the IMAP client, [`backup`] holds the formats on disk. [`pull`](mod@pull) brings a
//! backup up to date, [`push`] restores it to another server and mirrors accounts,
//! [`verify`](mod@verify) compares a backup with its server, and [`refetch`] fetches evicted
//! bodies. Mail formats that other programs read and write are in `sealpost_mailformat`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod backup;
mod blocking;
pub mod client;
#[doc(hidden)]
pub mod fuzz;
pub mod pull;
pub mod push;
pub mod refetch;
pub mod restored;
mod same;
pub mod verify;
