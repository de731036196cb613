//! What sessions of every protocol are given: the client's connection, the context of the server
//! with its settings and counters, a place in the table of sessions, and the token by which they
//! learn that the server stops.
//!
//! The protocols are in crates of their own above this one; the server, which accepts connections
//! and starts sessions, is above those.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod admission;
pub mod clock_watch;
pub mod content_urls;
mod context;
pub mod health;
mod ip_range;
pub mod metrics;
pub mod net;
pub mod session_log;
pub mod sessions;
pub mod settings;
mod shutdown;

pub use context::Context;
pub use settings::Settings;
pub use shutdown::Shutdown;
