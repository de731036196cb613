//! PushSubscription (RFC 8620 §7.2): the methods, and what is written into pushes.
//!
//! Subscriptions belong to a login, not to an account: a client sees those that were made with the
//! secret that it logged in with. What is stored and sent is the matter of `sealpost_push`.

mod get;
mod payloads;
mod set;

pub(crate) use get::get;
pub use payloads::JmapPayloads;
use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;
use sealpost_push::Pusher;
pub(crate) use set::set;

use crate::scope::Scope;

/// What pushes.
fn pusher<'a>(scope: &Scope<'a>) -> Result<&'a Pusher, MethodError> {
    let none =
        || MethodError::from(MethodErrorType::Forbidden).describe("this server does not push to devices");
    scope.user().shared.push.as_ref().ok_or_else(none)
}
