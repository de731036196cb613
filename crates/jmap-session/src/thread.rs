//! Threads (RFC 8621 §3), over all logs of the account.

mod changes;
mod get;

pub(crate) use changes::changes;
pub(crate) use get::get;
