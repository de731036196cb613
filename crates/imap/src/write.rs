//! Serializers: responses for the server, commands for the client, and their common [`Writer`].
//!
//! Nothing written here can be misread: strings are sent as an atom, quoted, or as a literal,
//! whichever can carry them (RFC 3501 §4.3), and text for people has no characters that would end
//! the line.

mod acl;
mod command;
mod metadata;
mod modifier;
mod notify;
mod quota;
mod response;
mod search;
mod urlauth;
mod writer;

pub use writer::{Literals, Writer};
