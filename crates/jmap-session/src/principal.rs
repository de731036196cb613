//! Principals (RFC 9670 §2): the users of the caller's domain, and those that share something with the
//! caller or that the caller shares something with. Clients see no other users, whatever they ask for.
//!
//! A state is a print of what a client sees: it shows that there was a change, not which.

mod domain_users;
mod get;
mod id;
mod list;
mod query;
mod set;

pub(crate) use domain_users::DomainUsers;
pub(crate) use get::{changes, get};
pub(crate) use id::principal_id;
pub(crate) use list::state;
pub(crate) use query::{query, query_changes};
pub(crate) use set::set;
