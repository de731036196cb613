//! The proof side of Sealpost: drives mail servers from outside, over their sockets, and measures or checks them.
//!
//! Nothing here knows how a server works inside: it starts one as a process ([`server`]), speaks LMTP and IMAP to
//! it ([`lmtp`], [`imap`]), reads its CPU time and memory from `/proc` ([`process`]) and compares what the server
//! acknowledged with what it later shows. Every run is seeded, so that generated mail ([`mail`]) and chosen
//! operations can be made again.
//!
//! - [`result`]: what a run measured, as a document; [`process`]: what the server used meanwhile.
//! - [`report`]: that document as a page, as plots, as a summary, and beside others.
//! - [`compare`]: the benchmark cases, two servers alternately, a report.
//! - [`crash`]: SIGKILL under load, restart, verify; thousands of times.
//! - [`huge`]: a 1 GiB message in and out in bounded memory.
//! - [`million`]: a mailbox of a million messages within the bound on memory.
//! - [`hostile`]: clients that stall, flood and never finish.
//! - [`crowd`]: the same in short, under a limit that ends a server which takes too much.
//! - [`idle`]: thousands that do nothing, and what each costs.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program reports on its terminal")]

pub mod cases;
pub mod compare;
pub mod crash;
pub mod crowd;
pub mod desktops;
pub mod dots;
pub mod hostile;
pub mod huge;
pub mod idle;
pub mod imap;
pub mod lmtp;
pub mod load;
pub mod mail;
pub mod million;
pub mod parts;
pub mod process;
pub mod report;
pub mod result;
pub mod seeds;
pub mod server;
pub mod small;
pub mod table;
pub mod wire;
mod words;
mod wrong;

pub use wrong::Wrong;
