//! The load generator: any IMAP, JMAP, SMTP or LMTP server, ours or not, driven by a scenario.
//!
//! A [`Scenario`] is read ([`scenario`]), mail is generated for it ([`data`]), clients follow it
//! ([`client`]) on separate threads, each with its part of the connections ([`engine`]), and their
//! measurements become a [`crate::result::ServerRun`].
//!
//! - Every response is read to its end and checked; literals are skipped without being kept
//!   ([`scan`]), and of JMAP only ids, states and errors are kept ([`client::jmap`]).
//! - A waiting client costs its socket and a few hundred bytes, so that ten thousand fit
//!   ([`wire`]).
//! - In an open loop, latency counts from when a command was due ([`schedule`]).
//! - The same seed sends the same bytes, connection by connection.
//! - It works in mailboxes of its own and removes them; other changes of a scenario are reported in
//!   advance ([`Scenario::writes_elsewhere`]).
//! - It reports when the bench itself was the bottleneck.
//!
//! Nothing here prints: an [`Observer`] receives the events. [`null`] is a server that does
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
pub mod shared;
pub mod target;
mod text;
pub mod tls;
pub mod wire;

pub use engine::{Observer, Progress, run};
pub use protocol::Protocol;
pub use scenario::Scenario;
pub use shared::Options;
pub use target::{Endpoint, Target, TargetAddr, User};
