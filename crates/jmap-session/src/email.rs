//! Emails (RFC 8621 §4): messages with a visible placement in any log of the account.

mod changes;
#[allow(dead_code)]
pub(crate) mod keywords;

pub(crate) use changes::changes;
