//! Authentication, for every protocol: names and secrets against account records, delays after
//! failed logins, sessions that end when their login is revoked, and a fair share of the processors
//! for each account.
//!
//! Nothing here speaks a protocol or knows a connection: a session brings the client's address, a
//! name and a secret.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod authenticator;
pub mod failed_logins;
pub mod fair_scheduler;
pub mod grant_token;
mod metrics;
pub mod sasl;
mod scopes;
mod settings;
pub mod throttle;

pub use authenticator::{Authenticator, Denied, Entered, checks, standing};
pub use metrics::LoginMetrics;
pub use scopes::{Scope, Scopes};
pub use settings::Login;
