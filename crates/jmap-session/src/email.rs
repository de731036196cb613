//! Emails (RFC 8621 §4): messages with a visible placement in any log of the account.

mod body_tree;
mod body_value;
mod changes;
mod get;
mod header_forms;
pub(crate) mod keywords;
mod message_bytes;
mod object;
mod parse;
mod plan;
mod read;
pub(crate) mod show;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use parse::parse;
