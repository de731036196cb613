//! JMAP (RFC 8620) for mail (RFC 8621), blobs (RFC 9404), quotas (RFC 9425) and
//! dispositions (RFC 9007), contacts (RFC 9610), WebSockets (RFC 8887): values, parser and
//! serializer; no I/O.
//!
//! A request is read in three steps, each usable alone: [`json`] (bytes to JSON values, strictly
//! and bounded), [`request`] (values to method calls), and for each method the arguments: those of
//! RFC 8620 §5 in [`standard`], the objects in the module named after the data type. Nothing is
//! guessed: a value of the wrong type is an error that names the argument and what was expected
//! ([`read::Mismatch`]).
//!
//! Every type that a server sends implements [`serde::Serialize`]; [`response::ResponseWriter`]
//! writes one response after another, so that a large one can be sent while it is made.
//!
//! Reasons: `docs/decisions/0088-jmap-wire.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod blob;
pub mod capability;
pub mod contact;
mod data_type;
pub mod date;
pub mod email;
pub mod error;
pub mod id;
pub mod identity;
pub mod invocation;
pub mod json;
pub mod mailbox;
pub mod mdn;
mod object;
pub mod patch;
pub mod pointer;
pub mod principal;
pub mod push;
pub mod quota;
pub mod read;
pub mod reference;
pub mod request;
pub mod response;
pub mod session;
pub mod share_notification;
pub mod snippet;
pub mod standard;
pub mod state;
pub mod submission;
pub mod thread;
pub mod true_set;
pub mod vacation;
pub mod websocket;

pub use data_type::Access;
pub use error::{MethodError, Problem, SetError};
pub use id::{CreationId, GivenId, Id};
pub use request::Request;
pub use response::ResponseWriter;
pub use state::State;

#[cfg(test)]
mod tests;
