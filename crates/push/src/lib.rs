//! Pushes changes of accounts to devices (RFC 8620 §7.2, RFC 8030).
//!
//! A client leaves a URL of a push service. When the client's account changes, the node that appended
//! the entry sends a small message there: new state strings, encrypted for the device (RFC 8291) and
//! signed by this installation (RFC 8292). The device wakes up and asks the server what is new.
//!
//! Subscriptions are sealed under the mail key ([`notes`]), so that nodes push while no user is
//! logged in. [`Pusher`] runs the pushes of one node: [`index`] knows which accounts have
//! subscriptions, [`schedule`] when each may be pushed to, [`post`] makes one request.
//!
//! This crate knows no JMAP: [`Payloads`] writes the messages. It must never connect to an address
//! that is not on the internet, and never to a URL that the client has not verified, but for the one
//! request that verifies it. Reasons: `docs/decisions/0099-push.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod crypto;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod job;
mod metrics;
mod noise;
mod notes;
mod payload;
mod positions;
mod post;
mod pusher;
mod schedule;
mod signing_key;
mod subscription;
mod upkeep;
mod url;
mod vapid;

pub use metrics::PushMetrics;
pub use notes::{is_stored, unopened};
pub use payload::{Change, Payloads};
pub use pusher::{Parts, Pusher};
pub use sealpost_delivery::https::ConnectProblem;
pub use subscription::{AccountNote, ClientKeys, Subscription, SubscriptionId};
pub use url::PushUrl;

/// The folder of everything that this crate stores.
pub const ROOT: &str = "push";
