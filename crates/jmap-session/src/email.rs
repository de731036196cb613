//! Emails (RFC 8621 §4): messages with a visible placement in any log of the account.

pub(crate) mod body_tree;
pub(crate) mod body_value;
mod changes;
mod filter;
mod get;
mod header_forms;
pub(crate) mod keywords;
mod message_bytes;
mod object;
mod parse;
mod plan;
mod query;
mod query_changes;
mod read;
mod sort;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use parse::parse;
pub(crate) use query::query;
pub(crate) use query_changes::query_changes;
