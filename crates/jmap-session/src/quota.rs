//! Quotas (RFC 9425): the limits of the account, and how much of each is used.
//!
//! A state string contains the values themselves, so the server can compute changes since any state, however
//! old.

mod changes;
mod get;
mod list;
mod query;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use list::Values;
pub(crate) use query::{query, query_changes};
