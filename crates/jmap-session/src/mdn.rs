//! Message disposition notifications (RFC 9007).

mod compose;
mod parse;
mod send;

pub(crate) use parse::parse;
pub(crate) use send::send;
