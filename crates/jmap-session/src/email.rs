//! Emails (RFC 8621 §4): messages with a visible placement in any log of the account.

mod add;
pub(crate) mod body_tree;
pub(crate) mod body_value;
mod changes;
mod compose;
mod copy;
mod filter;
mod get;
mod header_forms;
mod import;
pub(crate) mod keywords;
mod message_bytes;
mod object;
mod parse;
mod places;
mod plan;
mod query;
mod query_changes;
mod read;
mod refused;
mod set;
pub(crate) mod show;
mod sort;

pub(crate) use body_tree::is_attached;
pub(crate) use changes::changes;
pub(crate) use compose::Composer;
pub(crate) use copy::copy;
pub(crate) use get::get;
pub(crate) use import::import;
pub(crate) use parse::parse;
pub(crate) use query::query;
pub(crate) use query_changes::query_changes;
pub(crate) use set::{set, set_emails};
