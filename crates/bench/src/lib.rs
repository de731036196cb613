//! The load generator: drives mail servers from outside, over their sockets, as their clients do,
//! and reports.
//!
//! Nothing here knows how a server works inside. It starts one as a process ([`server`]), or is
//! told where one listens, and reads its CPU time and memory from `/proc` ([`process`]). Every run
//! is seeded, so that generated mail ([`mail`]) and chosen operations can be made again.
//!
//! - [`load`]: scenarios, clients, the engine that runs them.
//! - [`result`]: what a run measured, as a document; [`process`]: what the server used meanwhile.
//! - [`report`]: that document as a page, as plots, as a summary, and beside others.
//! - [`seeds`]: the work of a published study; [`trace`]: that of a published trace of clients.
//!
//! What we check of our own server with is in `sealpost_rig`.

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
