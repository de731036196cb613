//! Listeners, TLS, authentication, policy, and the protocol sessions.
//!
//! [`Server::start`] opens what [`settings::Settings`] says and serves it until [`Server::stop`]. Every session is
//! a task that gets a [`net::Stream`] and the [`context::Context`]; protocols are state machines of the protocol
//! crates, and only the sessions here join them to accounts.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod admin;
pub mod bus;
pub mod clock_watch;
pub mod context;
pub mod files;
pub mod fuzz;
pub mod health;
pub mod imap;
mod ip_range;
mod listener;
pub mod metrics;
pub mod net;
mod server;
pub mod session_log;
pub mod sessions;
pub mod settings;
pub mod shutdown;
pub mod smtp;
mod survive;
pub mod tls;

pub use context::Context;
pub use sealpost_auth::failed_logins;
pub use server::Server;
pub use settings::Settings;
pub use shutdown::Shutdown;
