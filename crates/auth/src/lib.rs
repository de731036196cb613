//! Authentication for every protocol: checks names and secrets against account records, delays attempts after
//! failures, ends sessions when their login is revoked, and gives each account a fair share of the CPUs.
//!
//! Nothing here knows a protocol or a connection: a session passes the client's address, a name and a secret.

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
