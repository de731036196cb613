//! SMTP (RFC 5321) and LMTP (RFC 2033) without sockets: from bytes to events, and back.
//!
//! Three steps, the same for server and client: [`types`] that cannot hold a wrong value, [`parse`] and
//! [`write`](mod@write) between them and bytes, and two state machines, [`server::Decoder`] and
//! [`client::Client`], that take input cut anywhere. Memory does not grow with a message: mail data passes
//! through as it arrives.
//!
//! Extensions understood: PIPELINING (RFC 2920), SIZE (RFC 1870), 8BITMIME (RFC 6152), BINARYMIME
//! and CHUNKING (RFC 3030), SMTPUTF8 (RFC 6531), DSN parameters (RFC 3461), ENHANCEDSTATUSCODES
//! (RFC 2034), STARTTLS (RFC 3207); AUTH (RFC 4954) is parsed. Source routes are read and ignored
//! (RFC 5321 Appendix C). Deliberately absent: TURN, SEND, SOML, SAML and all line ends except CRLF.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod client;
pub mod data;
pub mod fuzz;
pub mod line_ends;
pub mod parse;
pub mod server;
pub mod types;
pub mod write;
