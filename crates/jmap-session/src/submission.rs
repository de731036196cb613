//! Submissions of emails (RFC 8621 §7): from the account into the queue, and what becomes of them there.
//!
//! The record of a submission is in the account's log before the queue has the mail; nodes report there
//! what becomes of it. Reasons: `docs/decisions/0101-jmap-submission.md`.

mod changes;
mod get;
mod query;
mod set;
mod settle;
mod show;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use query::{query, query_changes};
pub(crate) use set::{Refused, SourceEmail, envelope_of, invalid_property, limit_error, received_field, set};
