//! Every limit on what an outsider can grow, by name, with its unit; a file for each subject.
//!
//! Each has a test that exceeds it, next to the code that enforces it.

mod account;
mod archive;
mod bench;
mod connection;
mod contacts;
mod delivery;
mod directory;
mod dns;
mod http;
mod imap;
mod index;
mod jmap;
mod log;
mod login;
mod mime;
mod oauth;
mod operation;
mod push;
mod queue;
mod search;
mod sharing;
mod smtp;
mod store;
mod submission;
mod vacation;

pub use account::*;
pub use archive::*;
pub use bench::*;
pub use connection::*;
pub use contacts::*;
pub use delivery::*;
pub use directory::*;
pub use dns::*;
pub use http::*;
pub use imap::*;
pub use index::*;
pub use jmap::*;
pub use log::*;
pub use login::*;
pub use mime::*;
pub use oauth::*;
pub use operation::*;
pub use push::*;
pub use queue::*;
pub use search::*;
pub use sharing::*;
pub use smtp::*;
pub use store::*;
pub use submission::*;
pub use vacation::*;
