//! Limits on DNS lookups and what is cached of them.

use std::time::Duration;

/// Time for one DNS lookup, all its queries, retries and aliases together.
pub const DNS_LOOKUP_TIME: Duration = Duration::from_secs(30);
/// Time for all lookups of one domain in a command that its user waits for.
pub const DOMAIN_CHECK_TIME: Duration = Duration::from_secs(20);
/// Domains that a command checks at the same time.
pub const DOMAIN_CHECKS: usize = 8;
/// Concurrent DNS lookups of a process. One more waits, and the wait counts towards its lookup time.
pub const DNS_LOOKUPS: usize = 256;
/// Bytes of cached DNS answers.
pub const DNS_CACHE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a name server's response over TCP.
pub const DNS_MESSAGE_BYTES: usize = 16 * 1024;
/// Records of one such response.
pub const DNS_MESSAGE_RECORDS: usize = 256;
/// Name server responses that recursion caches, besides [`DNS_CACHE_BYTES`].
pub const DNS_CACHED_MESSAGES: usize = 256;
/// Zones whose name servers recursion caches.
pub const DNS_CACHED_ZONES: usize = 512;
