//! Shared by the sessions of all protocols: the client's connection, the server's context with its settings
//! and metrics, the table of sessions, and the shutdown signal.
//!
//! Each protocol has crates of its own above this one; the server, which accepts connections and starts
//! sessions, is above those.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod account_turns;
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
