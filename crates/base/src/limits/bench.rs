//! Limits on what the load generator reads of a server.

/// Bytes of one HTTP response that the load generator reads; a longer one ends the connection.
pub const BENCH_RESPONSE_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a server (`text/event-stream`) that the load generator reads.
pub const BENCH_EVENT_BYTES: usize = 64 * 1024;
