//! Message disposition notifications (RFC 9007).

mod compose;
mod parse;
mod send;

pub(crate) use compose::{FIELDS_OF_HEADER, notification_about};
pub(crate) use parse::parse;
pub(crate) use send::send;
