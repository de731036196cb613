//! Listeners, TLS, authentication, policy, and the protocol sessions.
