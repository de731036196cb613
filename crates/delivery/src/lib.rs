//! Delivers mail to the servers of its destination.
//!
//! The caller, the queue, decides what to send and when. This crate finds the servers of a
//! destination, secures the connection by the policy of that destination, sends, and reports an
//! [`outcome::Attempt`]: for each recipient whether the mail is delivered, may be retried or is
//! refused permanently, and why.
//!
//! It stores nothing and never retries. Each step has a timeout and each buffer a limit, whatever a
//! server or a name server answers. Time, randomness, DNS and caches are arguments.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod auth;
mod body;
mod dane;
pub mod deliverer;
pub mod dial;
mod digest;
pub mod envelope;
#[doc(hidden)]
pub mod fuzz;
pub mod https;
mod mail_hosts;
mod open;
mod opening;
pub mod outcome;
mod plan;
pub mod public_address;
pub mod reports;
pub mod routes;
mod security;
pub mod settings;
pub mod sts;
pub mod timeouts;
pub mod tls;
pub mod transport;
mod wire;
