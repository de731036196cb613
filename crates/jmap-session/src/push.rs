//! PushSubscription (RFC 8620 §7.2): the methods, and what is written into pushes.
//!
//! A server that does not push has no subscriptions, and refuses new ones.
//!
//! Subscriptions belong to a login, not to an account: a client sees those that were made with the
//! secret that it logged in with. What is stored and sent is the matter of `sealpost_push`.

mod get;
mod payloads;
mod set;

pub(crate) use get::get;
pub use payloads::JmapPayloads;
pub(crate) use set::set;
