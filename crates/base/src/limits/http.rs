//! Limits on HTTP requests, connections and bodies.

use std::time::Duration;

use super::jmap::JMAP_CONCURRENT_REQUESTS;

/// Bytes of the head of an HTTP request for metrics.
pub const HTTP_HEAD_BYTES: usize = 8 * 1024;
/// Header fields in it.
pub const HTTP_HEADERS: usize = 64;
/// Bytes of the head of any other HTTP request; in HTTP/2 as RFC 9113 §6.5.2 counts them.
pub const HTTP_REQUEST_HEAD_BYTES: usize = 16 * 1024;
/// Header fields in it (HTTP/1.1; in HTTP/2 each counts for 32 bytes at least).
pub const HTTP_REQUEST_HEADERS: usize = 100;
/// Bytes of a response that are passed to the connection at once.
pub const HTTP_PIECE_BYTES: usize = 16 * 1024;
/// Bytes that a request acquires before its handler runs: its head, and three pieces of the response: one in
/// preparation, one waiting, one in transit.
pub const HTTP_REQUEST_BYTES: usize = HTTP_REQUEST_HEAD_BYTES + 3 * HTTP_PIECE_BYTES;
/// The share of the memory budget for all HTTP requests: the common part divided by this. Their large held
/// bodies have another share of the same size. Handlers acquire from the rest.
pub const HTTP_BUDGET_SHARE: usize = 4;
/// The part of the requests' share that is for small held bodies: the common part divided by this.
pub const HTTP_SMALL_BODIES_SHARE: usize = 16;
/// The most bytes of a small held body. Others are large.
pub const HTTP_SMALL_BODY_BYTES: usize = 64 * 1024;
/// Small held bodies of one account at a time, over all its connections and WebSockets.
pub const HTTP_SMALL_BODIES_PER_ACCOUNT: usize = JMAP_CONCURRENT_REQUESTS;
/// Large ones.
pub const HTTP_LARGE_BODIES_PER_ACCOUNT: usize = 1;
/// How long a body on an HTTP/2 connection waits for other bodies of its account.
pub const HTTP2_BODY_WAIT: Duration = Duration::from_secs(2);
/// Concurrent requests of one HTTP/2 connection.
pub const HTTP_STREAMS: u32 = 16;
/// Bytes of request bodies that an HTTP/2 connection receives before a handler reads them: the minimum of RFC
/// 9113 §6.9.2.
pub const HTTP_WINDOW_BYTES: u32 = 65_535;
/// Bytes charged for an HTTP/2 connection beside [`CONNECTION_BYTES`](super::CONNECTION_BYTES): the window,
/// frame buffers, header tables, and an incomplete head.
pub const HTTP2_BYTES: usize = 112 * 1024;
/// Reset streams of an HTTP/2 connection that the server still tracks (CVE-2023-44487).
pub const HTTP_RESET_STREAMS: usize = 32;
/// Requests of a connection that its client cancelled, minus those that completed, before the server closes
/// the connection.
pub const HTTP_ABANDONED_REQUESTS: usize = 64;
/// Concurrent requests from one IPv4 address or one IPv6 /64 network; one more is refused.
pub const HTTP_REQUESTS_PER_ADDRESS: usize = 64;
/// Concurrent requests of one account; one more is refused. As many as an HTTP/2 connection has
/// ([`HTTP_STREAMS`]).
pub const HTTP_REQUESTS_PER_ACCOUNT: usize = HTTP_REQUESTS_PER_ADDRESS / 4;
/// Bytes of an `Authorization` field.
pub const HTTP_AUTHORIZATION_BYTES: usize = 4 * 1024;
/// Proxies that the fields of a request may name; one more, and the request is refused.
pub const HTTP_FORWARDED_HOPS: usize = 16;
/// The size from which a response is compressed, in bytes, if the client accepts it.
pub const HTTP_COMPRESSED_BYTES: u64 = 1024;
/// Bytes that a compressor acquires; if they are not free, the response is sent uncompressed.
pub const HTTP_COMPRESSOR_BYTES: usize = 320 * 1024;
/// Bytes of one server-sent event (`text/event-stream`), its lines included: enough for the state of each
/// type ([`JMAP_STATE_BYTES`](super::JMAP_STATE_BYTES)) in an account with the most logs.
pub const HTTP_EVENT_BYTES: usize = 64 * 1024;
/// Bytes that an HTTP/1.1 client may send while it receives events; they are ignored.
pub const HTTP_STRAY_BYTES: usize = 1024;
/// Bytes of a WebSocket message that needs no permit.
pub const HTTP_SMALL_MESSAGE_BYTES: usize = 4 * 1024;
/// Bytes of an unwanted body that the server discards, so that its client receives the refusal.
pub const HTTP_DISCARDED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a file name in `Content-Disposition`; the rest is cut off.
pub const HTTP_FILE_NAME_BYTES: usize = 255;
/// Bytes of a request body that is held as a whole; JMAP's `maxSizeRequest`.
pub const HTTP_HELD_BODY_BYTES: usize = 10_000_000;
/// How long a client may transfer less than [`HTTP_STALLED_BYTES`] while others wait for memory that it
/// holds.
pub const HTTP_STALLED: Duration = Duration::from_secs(10);
/// Bytes that a client must transfer in that time.
pub const HTTP_STALLED_BYTES: usize = 64 * 1024;
/// As [`HTTP_STALLED`] for a large held body.
pub const HTTP_LARGE_BODY_STALLED: Duration = Duration::from_secs(5);
/// Bytes of such a body that must come in that time at least.
pub const HTTP_LARGE_BODY_STALLED_BYTES: usize = 32 * 1024;
/// How many such periods such a body may take while others wait.
pub const HTTP_LARGE_BODY_PERIODS: usize = 12;
