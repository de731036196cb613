//! Limits on JMAP requests and responses.

use std::time::Duration;

/// Bytes of one request to the JMAP API (RFC 8620 §2, `maxSizeRequest`).
pub const JMAP_REQUEST_BYTES: usize = 10_000_000;
/// Bytes of one upload over JMAP (RFC 8620 §2, `maxSizeUpload`).
pub const JMAP_UPLOAD_BYTES: u64 = 50_000_000;
/// Concurrent JMAP API requests of one user (RFC 8620 §2, `maxConcurrentRequests`).
pub const JMAP_CONCURRENT_REQUESTS: usize = 4;
/// Concurrent JMAP uploads of one user (RFC 8620 §2, `maxConcurrentUpload`).
pub const JMAP_CONCURRENT_UPLOADS: usize = 4;
/// Bytes of all uploads of an account (RFC 8620 §6); beyond that the oldest are removed.
pub const JMAP_UPLOADS_BYTES: u64 = 500_000_000;
/// Bytes of the texts and attachments of an email that a JMAP client composes, decoded (RFC 8621 §1.3.1,
/// `maxSizeAttachmentsPerEmail`).
pub const JMAP_EMAIL_BYTES: u64 = 100_000_000;
/// Uploads of an account within an hour; others are refused. Beyond that number older ones are removed.
pub const JMAP_UPLOADS: usize = 1000;
/// Method calls of one JMAP request (RFC 8620 §2, `maxCallsInRequest`).
pub const JMAP_CALLS: usize = 16;
/// Ids of one JMAP /get (RFC 8620 §2, `maxObjectsInGet`).
pub const JMAP_GET_OBJECTS: usize = 500;
/// Objects that one JMAP /set creates, updates and destroys (RFC 8620 §2, `maxObjectsInSet`).
pub const JMAP_SET_OBJECTS: usize = 500;
/// Nesting of arrays and objects in a JMAP request.
pub const JMAP_JSON_DEPTH: usize = 64;
/// The share of the memory budget for the values of JMAP requests: the common part divided by this.
pub const JMAP_VALUES_SHARE: usize = 4;
/// The part of that share for the values of small requests: the common part divided by this.
pub const JMAP_SMALL_VALUES_SHARE: usize = 32;
/// The most memory for the values of a small JMAP request, in bytes. Other requests are large.
pub const JMAP_SMALL_VALUES_BYTES: usize = 64 * 1024;
/// Small JMAP requests of one user that have or wait for memory for their values. More than run at a time
/// ([`JMAP_CONCURRENT_REQUESTS`]): one too many is refused, and must be read before that.
pub const JMAP_SMALL_REQUESTS_PER_USER: usize = 2 * JMAP_CONCURRENT_REQUESTS;
/// Large ones.
pub const JMAP_LARGE_REQUESTS_PER_USER: usize = 1;
/// How long the client of a large JMAP request may keep the server waiting while it takes the response, over
/// the whole of it, if others wait for memory.
pub const JMAP_LARGE_REQUEST_WAIT: Duration = Duration::from_secs(60);
/// Memory for the values of one JMAP request beside their text, in bytes. It bounds requests with millions of
/// empty objects in few bytes.
pub const JMAP_JSON_VALUE_BYTES: usize = 32 * 1024 * 1024;
/// Capabilities in `using` of one JMAP request.
pub const JMAP_USING: usize = 64;
/// Creation ids in `createdIds` of one JMAP request.
pub const JMAP_CREATED_IDS: usize = 10_000;
/// Bytes of a JMAP state string from a client: a position for each of [`SHARES`](super::SHARES) and one more.
pub const JMAP_STATE_BYTES: usize = 8192;
/// Bytes of a JSON pointer in a JMAP patch or result reference.
pub const JMAP_POINTER_BYTES: usize = 1024;
/// Parts of a JSON pointer in a JMAP patch or result reference.
pub const JMAP_POINTER_PARTS: usize = 16;
/// Paths of one JMAP patch.
pub const JMAP_PATCH_PATHS: usize = 1024;
/// Values that the result references of one JMAP call select together; text counts as one more for
/// each 64 bytes.
pub const JMAP_REFERENCE_VALUES: usize = 50_000;
/// Bytes of the responses that later calls of the same JMAP request refer to, all together.
pub const JMAP_REFERENCED_BYTES: usize = 16 * 1024 * 1024;
/// Nesting of operators in a JMAP filter.
pub const JMAP_FILTER_DEPTH: usize = 16;
/// Operators and conditions of one JMAP filter.
pub const JMAP_FILTER_CONDITIONS: usize = 512;
/// Comparators of one JMAP sort.
pub const JMAP_COMPARATORS: usize = 16;
/// Properties that one JMAP /get names.
pub const JMAP_PROPERTIES: usize = 256;
/// Properties `header:Name` of one JMAP /get or of one part of a new email.
pub const JMAP_HEADER_PROPERTIES: usize = 100;
/// Bytes of the headers that JMAP reads of one message and its parts; further fields are left out.
pub const JMAP_HEADER_BYTES: u64 = 256 * 1024;
/// Bytes of the header values of one email in a JMAP response; further values are null.
pub const JMAP_HEADER_VALUE_BYTES: usize = 1024 * 1024;
/// Bytes of the texts (`bodyValues`) of one email in a JMAP response; a longer text is cut and marked as
/// such.
pub const JMAP_BODY_VALUE_BYTES: usize = 2 * 1024 * 1024;
/// Nested messages that a JMAP blob id leads through.
pub const JMAP_BLOB_STEPS: usize = 4;
/// Bytes of one blob in the response to Blob/get; clients request larger blobs in several ranges.
pub const JMAP_BLOB_DATA_BYTES: u64 = 4 * 1024 * 1024;
/// Sources of one blob in JMAP's Blob/upload (RFC 9404 §3.1, `maxDataSources`: at least 64).
pub const JMAP_DATA_SOURCES: usize = 64;
/// Bytes of a JMAP response that are buffered before they are sent; one object may exceed it.
pub const JMAP_SEND_BYTES: usize = 16 * 1024;
/// Ids of one JMAP /changes, even if the client requests more.
pub const JMAP_CHANGES: usize = 4096;
/// The interval at which the server compares an account for a client that waits for changes. Changes within
/// it are pushed as one.
pub const JMAP_PUSH_INTERVAL: Duration = Duration::from_millis(200);
/// The shortest ping interval of a JMAP event stream, even if the client requests less.
pub const JMAP_PING_LEAST: Duration = Duration::from_secs(5);
/// The longest ping interval.
pub const JMAP_PING_MOST: Duration = Duration::from_secs(300);
/// Bytes of the id that a client gives a JMAP request on a WebSocket.
pub const JMAP_WEBSOCKET_ID_BYTES: usize = 255;
/// Bytes of the URL of a JMAP push subscription.
pub const JMAP_PUSH_URL_BYTES: usize = 2048;
/// Bytes of `deviceClientId` of a JMAP push subscription.
pub const JMAP_DEVICE_ID_BYTES: usize = 255;
/// Types that a JMAP push subscription names.
pub const JMAP_PUSH_TYPES: usize = 64;
/// Bytes of the name of a type in a JMAP push subscription.
pub const JMAP_PUSH_TYPE_BYTES: usize = 64;
/// Words and phrases of the texts in one JMAP filter.
pub const JMAP_FILTER_WORDS: usize = 256;
/// Bytes of an email's text in which SearchSnippet/get finds words.
pub const JMAP_SNIPPET_TEXT_BYTES: usize = 256 * 1024;
/// Ids of one response to Email/query, even if the client requests more.
pub const JMAP_QUERY_IDS: usize = 8192;
