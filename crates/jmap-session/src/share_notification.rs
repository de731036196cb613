//! Share notifications (RFC 9670 §3): how the caller's rights to other owners' mailboxes changed. They
//! are noted in the caller's own log when the caller's sessions look
//! (`sealpost_mailbox::share_notices`).

mod get;
mod list;
mod query;
mod set;

pub(crate) use get::{changes, get};
pub(crate) use list::state_of;
pub(crate) use query::{query, query_changes};
pub(crate) use set::set;
