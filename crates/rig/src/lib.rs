//! Our test rig: checks of a mail server from outside, over its sockets.
//!
//! Nothing here knows how a server works inside: it starts one as a process ([`server`]), speaks
//! LMTP and IMAP to it ([`lmtp`], [`imap`]), measures its process, and compares what the server
//! acknowledged with what it shows later. Every run is seeded, so that chosen operations are
//! reproducible.
//!
//! - [`compare`](mod@compare): the benchmark cases, two servers alternately, a report.
//! - [`clients`]: every FETCH and SEARCH of a trace of real clients, beside Dovecot; [`shapes`]
//!   extracts them from the trace.
//! - [`crash`]: SIGKILL under load, restart, verify; thousands of times.
//! - [`huge`]: a 1 GiB message in and out in bounded memory.
//! - [`million`]: a mailbox of a million messages within the memory limit.
//! - [`hostile`]: clients that stall, flood and never finish.
//! - [`crowd`]: thousands of such clients at once, under a kernel limit that ends a server which
//!   takes too much.
//! - [`bulk`]: accounts that change half a million messages again and again, and a visitor meanwhile.
//! - [`idle`]: thousands of idle clients, and the cost of each; [`followers`]: the same over JMAP.
//! - [`http_load`]: HTTP requests again and again, over several connections.
//!
//! The load generator that users run, generated mail and reports are in `sealpost_bench`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program reports on its terminal")]

pub mod bulk;
pub mod cases;
pub mod clients;
pub mod compare;
pub mod crash;
pub mod crowd;
pub mod desktops;
pub mod followers;
pub mod hostile;
pub mod http_load;
pub mod huge;
pub mod idle;
pub mod imap;
pub mod lmtp;
pub mod million;
pub mod parts;
mod quiet;
pub mod server;
pub mod shapes;
pub mod small;
pub mod table;
mod visitor;
mod wire;
