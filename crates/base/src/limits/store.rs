//! Limits on stores: objects, the local database, requests to a bucket, keys.

use std::time::Duration;

/// Plaintext bytes in one sealed chunk of a message object.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// The newest rows of the local store that a server checks against the indexes when it starts. New rows are
/// appended after them.
pub const NEWEST_ROWS: usize = 10_000;
/// How long a starting server checks the indexes of the local store; `sealpost check` checks the rest.
pub const DATABASE_START_TIME: Duration = Duration::from_secs(10);
/// How long `sealpost check` checks the database of the local store; after that it reports the timeout and
/// continues.
pub const DATABASE_CHECK_TIME: Duration = Duration::from_secs(6 * 3600);
/// Lines of a report on a damaged database.
pub const DATABASE_FINDINGS: usize = 100;
/// Lost objects that a repair of the local store names; all are counted.
pub const REPAIR_NAMED: usize = 10_000;
/// Bytes of a local store's disk that are reserved for expunge and removal, the default of the setting
/// `store.reserve`. Twice the maximum size of the write-ahead log, so that a checkpoint into the database
/// always fits.
pub const STORE_RESERVE_BYTES: u64 = 32 * 1024 * 1024;
/// Objects up to this many sealed bytes live in the local backend's database; larger ones are files.
pub const INLINE_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of blocks queued for the cache of a remote store. A read beyond them waits briefly for the disk, or
/// skips the cache.
pub const STORE_CACHE_QUEUE_BYTES: usize = 3 * 1024 * 1024;
/// Concurrent requests of one process to a remote store, the default of the setting `store.requests`; one
/// more waits.
pub const STORE_REQUESTS: usize = 32;
/// Bytes that one read takes from a connection to a remote store; the connection keeps the buffer between
/// requests.
pub const STORE_READ_BYTES: usize = 64 * 1024;
/// Bytes of a remote store's response to a request without a range: more than a log entry or a page of a
/// listing.
pub const STORE_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of its response to a request that it refuses.
pub const STORE_REFUSAL_BYTES: usize = 64 * 1024;
/// Mail keys in a key file, earlier ones included.
pub const MAIL_KEYS: usize = 64;
/// Objects that a node without a mail key reads to learn whether one sealed them. With more of them it does not
/// make a key.
pub const MAIL_KEY_TRACES: usize = 1024;
/// Bytes of a small value sealed on its own under the mail key.
pub const MAIL_NOTE_BYTES: usize = 1024 * 1024;
/// Records that a starting node reads to check that its server key authenticates them.
pub const SERVER_KEY_RECORDS: usize = 1024;
/// Server keys in a key file, older ones included.
pub const SERVER_KEYS: usize = 64;
