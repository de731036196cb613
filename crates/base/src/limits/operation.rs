//! Limits on what operators see and what a node notes: its own log, the admin socket, the clock, the bus.

use std::time::Duration;

/// How far the clock may be ahead of the newest known time before all permanent removal stops.
pub const CLOCK_AHEAD: Duration = Duration::from_secs(30 * 86_400);
/// How often a running server records the time.
pub const CLOCK_NOTED: Duration = Duration::from_secs(60 * 60);
/// Distinct errors that one call site logs within an hour; further ones are only counted.
pub const LOGGED_ERRORS: usize = 1000;
/// Warnings that one call site logs within an hour; further ones are only counted. Failed logins have limits
/// of their own.
pub const LOGGED_WARNINGS: usize = 1000;
/// Bytes of log lines that wait for standard error; lines beyond them are dropped and counted.
pub const LOG_QUEUE_BYTES: usize = 1024 * 1024;
/// Concurrent connections to `/metrics`, and likewise to the admin socket.
pub const OPERATOR_CONNECTIONS: usize = 8;
/// Bytes of one request on the admin socket.
pub const ADMIN_REQUEST_BYTES: usize = 1024;
/// Sessions, and likewise accounts, in one response on the admin socket.
pub const ADMIN_ROWS: usize = 200;
/// Entries that this process appended and has not yet announced on the bus. Beyond them, other nodes find
/// entries by reading the log.
pub const APPENDED_QUEUE: usize = 1024;
/// Bytes of a line that the bus between nodes sends.
pub const BUS_LINE_BYTES: usize = 64 * 1024;
/// Bytes of a bus message; larger ones are skipped.
pub const BUS_MESSAGE_BYTES: usize = 256;
/// Other nodes that a node tracks by their bus messages.
pub const BUS_NODES: usize = 1024;
