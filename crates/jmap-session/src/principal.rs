//! Principals (RFC 9670 §2): the users of the caller's domain, and those that share something with the
//! caller or that the caller shares something with. Nobody else is shown, whatever a client asks for.
//!
//! A state is a print of what is shown: a change cannot be told, only that there was one.

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
