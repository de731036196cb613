//! Mailboxes (RFC 8621 §2): those of the account's own log, including those that the account shares.
//!
//! Mailboxes that other accounts share with this one are not among them: they belong to accounts of their own
//! (RFC 9670).

mod changes;
mod get;
mod list;
mod place;
mod query;
mod rights;
mod set;
mod target;

pub(crate) use changes::{changes, has_changed};
pub(crate) use get::get;
pub(crate) use list::tree_print;
pub(crate) use place::place_of_id;
pub(crate) use query::{query, query_changes};
pub(crate) use rights::to_other as rights_to_other;
pub(crate) use set::set;
