//! Parsers over complete buffers: one command or one response, its literals where they stand.
//!
//! The rule of RFC 3501 §9 that a function reads stands above it. No parser looks back, none
//! allocates more than a constant times its input, recursion is bounded by `limits::IMAP_NESTING`.

mod acl;
mod append;
mod command;
mod cursor;
mod date;
mod esearch;
mod fetch;
mod list;
mod loose;
mod metadata;
mod modifier;
mod multisearch;
mod notify;
mod quota;
mod response;
mod search;
mod urlauth;
mod value;

pub(crate) use append::{Piece, Syntax, append_begin};
pub use command::{Refused, command};
pub(crate) use command::{is_set_metadata, refused, tag_of};
pub(crate) use cursor::{Cursor, Failure, LiteralHeader, literal_at_end};
pub(crate) use fetch::section;
pub use response::response;
pub(crate) use response::{FetchStep, fetch_begin, fetch_step};
pub use search::search_keys;
pub use value::Value;
