//! The load generator: any IMAP, SMTP or LMTP server, ours or not, driven as a scenario says.
//!
//! A [`Scenario`] is read ([`scenario`]), mail is made for it ([`data`]), clients do what it says
//! ([`client`]) on threads of their own, each with its part of the connections ([`engine`]), and
//! what they saw is a [`crate::result::ServerRun`].
//!
//! - Every response is read to its end and judged; literals go by without being kept ([`scan`]).
//! - A client that waits costs its socket and a few hundred bytes, so that ten thousand fit ([`wire`]).
//! - In an open loop, latency counts from when a command was due ([`schedule`]).
//! - The same seed sends the same bytes, connection by connection.
//! - It works in mailboxes of its own and removes them; whatever else a scenario would change is told before
//!   ([`Scenario::writes_elsewhere`]).
//! - It says so when the bench itself was the bottleneck.
//!
//! Nothing here prints: an [`Observer`] is told what happens. [`null`] is a server that does
//! nothing, to measure the bench.

pub mod client;
pub mod data;
pub mod engine;
pub mod notice;
pub mod null;
pub mod protocol;
pub mod scan;
pub mod scenario;
pub mod schedule;
pub mod target;
mod text;
pub mod tls;
pub mod wire;

pub use engine::{Observer, Options, Progress, run};
pub use protocol::Protocol;
pub use scenario::Scenario;
pub use target::{Endpoint, Target, TargetAddr, User};
