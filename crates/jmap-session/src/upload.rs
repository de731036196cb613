//! Uploads (RFC 8620 §6.1, RFC 9404 §4.1): bytes that clients send for later emails. [`sealpost_account`]
//! stores them under a quota of their own.

mod copy;
mod create;
mod receive;
mod refusal;

pub(crate) use copy::copy;
pub(crate) use create::create;
pub(crate) use receive::receive;
pub use receive::{BodyEnded, UploadBody};
