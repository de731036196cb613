//! A client of IMAP servers as they are: connections with TLS, logins and compression, commands in
//! a pipeline.
//!
//! [`Connection`] is one connection, logged in. It holds a bounded number of bytes however much a
//! server sends: a message of any size comes in pieces ([`sealpost_imap::client`]), a response that
//! is too long ends the connection. A fault of the server is an error of kind `Retry` as long as a
//! new connection may help: the caller makes a new one then, after a while ([`Backoff`]), and
//! continues where it was; unless the server never answered ([`ServerSeen`]).

mod answers;
mod backoff;
mod capabilities;
mod connection;
mod deflate;
mod io;
mod listing;
mod login;
mod min_throughput;
mod peer_fault;
mod pinned;
mod refusal;
mod select;
mod server;
mod server_seen;
mod sets;
mod shown;
mod tls;

pub use backoff::Backoff;
pub use capabilities::Capabilities;
pub use connection::{Connection, Done};
pub use listing::{ListedMailbox, Listing, Numbers};
pub use refusal::{is_later, lowest, suggested_wait};
pub use select::Selected;
pub use server::{Compress, Credential, Credentials, Security, Server, Timeouts};
pub use server_seen::ServerSeen;
pub use sets::commands;
pub use shown::{ShownCertificate, is_untrusted};
pub use tls::Trust;
