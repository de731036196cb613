//! The load generator: drives mail servers from outside, over their sockets, as mail clients do,
//! and reports.
//!
//! Nothing here knows how a server works inside. It starts one as a process ([`server`]), or
//! connects to a given address, and reads its CPU time and memory from `/proc` ([`process`]). Every
//! run is seeded, so that generated mail ([`mail`]) and chosen operations are reproducible.
//!
//! - [`load`]: scenarios, clients, the engine that runs them.
//! - [`result`]: the document that a run produces; [`process`]: the server's resource use
//!   meanwhile.
//! - [`report`]: that document as a page, as plots, as a summary, and beside others.
//! - [`seeds`]: the work of a published study; [`trace`]: that of a published trace of clients.
//!
//! The checks of our own server are in `sealpost_rig`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program reports on its terminal")]

pub mod dots;
pub mod load;
pub mod mail;
pub mod process;
pub mod report;
pub mod result;
pub mod seeds;
pub mod server;
pub mod trace;
mod usage_error;
pub mod words;

pub use usage_error::UsageError;
