//! Quotas (RFC 9425): the limits of the account, and how much of each is used.
//!
//! A state is the values themselves, so that changes since any state can be told, however old.

mod changes;
mod get;
mod list;
mod query;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use query::{query, query_changes};
