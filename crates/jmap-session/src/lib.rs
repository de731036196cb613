//! JMAP for one authenticated caller (RFC 8620, RFC 8621, RFC 9610), without HTTP: credentials and Request
//! objects in, calls of the domain, a Response object out.
//!
//! [`JmapShared`] holds the state that all callers share. [`JmapShared::authenticate`] checks the credentials
//! of an HTTP request and returns a [`Caller`], which has the Session object and runs API requests.
//! `dispatch.rs` runs the calls of a request in order. Each method is a function in a file of the same name,
//! and takes the [`scope::Scope`] of the request and its own arguments.
//!
//! Responses are streamed ([`ResponseSink`]), and no method sends while it borrows the state of an account.
//!
//! Reasons: `docs/decisions/0091-jmap-session.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod api_error;
mod blob;
mod caller;
mod capability_scopes;
mod collation;
mod contact;
mod dispatch;
mod email;
mod entries;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod login;
mod logs;
mod mailbox;
mod mdn;
mod method;
mod object_changes;
mod own_facts;
mod principal;
mod progress;
mod push;
mod query_part;
mod quota;
mod record_state;
mod request_memory;
mod responder;
mod scope;
mod session_object;
mod share_notification;
mod shared;
mod shared_accounts;
mod snippet;
mod state_changes;
mod state_string;
mod submission;
mod sync_point_text;
mod thread;
mod type_capabilities;
mod upload;
mod usable_capabilities;
mod user;
mod vacation;

pub use api_error::ApiError;
pub use blob::BlobDownload;
pub use caller::{Caller, ReadRequest};
pub use login::{Credentials, LoginRefused};
pub use push::JmapPayloads;
pub use request_memory::RequestPermit;
pub use responder::{ClientGone, ResponseSink};
pub use shared::JmapShared;
pub use state_changes::StateChanges;
pub use upload::{BodyEnded, UploadBody};

/// The scopes that clients of OAuth can use here.
pub fn supported_scopes() -> sealpost_auth::Scopes {
    capability_scopes::supported(usable_capabilities::USABLE)
}
