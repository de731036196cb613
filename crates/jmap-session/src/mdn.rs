//! Message disposition notifications (RFC 9007).

mod parse;

pub(crate) use parse::parse;
