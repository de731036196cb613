//! JMAP for one authenticated caller (RFC 8620, RFC 8621), without HTTP: credentials and Request
//! objects in, calls of the domain, a Response object out.
//!
//! [`JmapShared`] is what all callers share. [`JmapShared::authenticate`] checks the credentials of
//! an HTTP request and gives a [`Caller`], which has the Session object and answers API requests.
//! `dispatch.rs` runs the calls of a request in their order; each method is a function in a file
//! named after it, and gets the [`scope::Scope`] of the request and its own arguments.
//!
//! Responses are sent while they are made ([`ResponseSink`]), and nothing is sent while the state
//! of an account is held.
//!
//! Reasons: `docs/decisions/0091-jmap-session.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod blob;
mod caller;
mod capability_scopes;
mod collation;
mod dispatch;
mod email;
mod entries;
#[doc(hidden)]
pub mod fuzz;
mod login;
mod mailbox;
mod mdn;
mod method;
mod object_changes;
mod progress;
mod query_part;
mod quota;
mod responder;
mod scope;
mod session_object;
mod shared;
mod snippet;
mod state_changes;
mod state_string;
mod thread;
mod upload;
mod user;

pub use blob::BlobDownload;
pub use caller::Caller;
pub use login::{Credentials, LoginRefused};
pub use responder::{ApiError, ClientGone, ResponseSink};
pub use shared::JmapShared;
pub use state_changes::StateChanges;
pub use upload::{BodyEnded, UploadBody};

/// The scopes that clients of OAuth can use here.
pub fn supported_scopes() -> sealpost_auth::Scopes {
    capability_scopes::supported(session_object::USABLE)
}
