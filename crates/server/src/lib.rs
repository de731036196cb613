//! Listeners, TLS, authentication, policy, and the protocol sessions.
pub mod net;
pub mod session_log;
pub mod settings;
pub mod shutdown;
pub mod tls;
