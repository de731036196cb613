//! The server: listeners, TLS, metrics, the bus between nodes, the operator's socket, start and stop.
//!
//! [`Server::start`] opens what [`Settings`] say and serves it until [`Server::stop`]. Each connection becomes a session, a
//! task of the crate of its protocol.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod admin;
mod blocking;
pub mod bus;
pub mod files;
pub mod fuzz;
mod housekeeping;
mod http;
mod listener;
pub mod metrics;
mod push;
pub mod sending;
mod server;
mod sockets;
mod survive;
pub mod tls;

pub use sealpost_auth::failed_logins;
pub use sealpost_imap_session::parse_stored_search;
pub use sealpost_session::{Context, Settings, Shutdown, clock_watch, settings};
pub use server::Server;

/// A context over a store in memory.
#[cfg(test)]
fn context_for_tests() -> Context {
    let random = std::sync::Arc::new(sealpost_base::SeededRandom::new(1));
    let key = sealpost_vault::server_key::ServerKeys::generate(&*random);
    let clock = std::sync::Arc::new(sealpost_base::SystemClock::new());
    let settings = Settings { domain: Some("localhost".to_owned()), ..Settings::default() };
    Context::new(settings, sealpost_vault::Store::memory(), key, None, clock, random)
        .expect("default settings")
}
