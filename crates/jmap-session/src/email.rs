//! Emails (RFC 8621 §4): messages with a visible placement in any log of the account.

mod attached;
mod changes;
mod filter;
#[allow(dead_code)]
pub(crate) mod keywords;
mod query;
mod query_changes;
mod sort;
mod words;

pub(crate) use changes::changes;
pub(crate) use query::query;
pub(crate) use query_changes::query_changes;
