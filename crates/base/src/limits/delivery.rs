//! Limits on sending to other servers: DKIM, mail servers, DANE, MTA-STS, TLS reports.

use std::time::Duration;

/// DKIM signatures of a message that are verified, from the top.
pub const DKIM_SIGNATURES: usize = 8;
/// Names of signed fields in one DKIM signature.
pub const DKIM_SIGNED_FIELDS: usize = 256;
/// TXT records at the name of a DKIM key that are tried.
pub const DKIM_KEY_RECORDS: usize = 4;
/// Objects of the DKIM keys of one domain: two for each key.
pub const DKIM_DOMAIN_OBJECTS: usize = 128;
/// Domains whose signing keys a process caches; the least recently used is evicted.
pub const DKIM_DOMAINS_REMEMBERED: usize = 1024;
/// Policies of one day whose TLS sessions are counted for reports (RFC 8460); sessions under further policies
/// are counted together.
pub const TLS_REPORT_POLICIES: usize = 1000;
/// Kinds of failure of one such policy that are counted with their servers.
pub const TLS_REPORT_FAILURES: usize = 64;
/// Bytes of such a policy's text.
pub const TLS_REPORT_POLICY_BYTES: usize = 4096;
/// Estimated bytes of the counts of one day.
pub const TLS_REPORT_DAY_BYTES: usize = 512 * 1024;
/// Days of which TLS session counts are kept, today included.
pub const TLS_REPORT_DAYS: usize = 8;
/// Bytes of the key of a destination site; a longer one is replaced by its digest.
pub const SITE_KEY_BYTES: usize = 255;
/// Mail servers of a domain that are considered, best first.
pub const MX_HOSTS: usize = 16;
/// Addresses of each kind of one mail server that are tried.
pub const MX_ADDRESSES: usize = 4;
/// Connections tried for one destination before delivery is deferred.
pub const MX_ATTEMPTS: usize = 10;
/// TLSA records of a mail server that are compared with its certificate.
pub const DANE_RECORDS: usize = 32;
/// Bytes of an MTA-STS policy (RFC 8461 §3.3 suggests 64 KiB).
pub const STS_POLICY_BYTES: usize = 64 * 1024;
/// Patterns of mail servers in an MTA-STS policy.
pub const STS_MX_PATTERNS: usize = 256;
/// Bytes of the head of a response with an MTA-STS policy.
pub const STS_HEAD_BYTES: usize = 16 * 1024;
/// Time to fetch an MTA-STS policy (RFC 8461 §3.3 suggests a minute).
pub const STS_FETCH_TIME: Duration = Duration::from_secs(60);
/// MTA-STS policies that a node keeps, the most recently used ones.
pub const STS_POLICIES: std::num::NonZeroUsize = std::num::NonZeroUsize::new(1000).unwrap();
/// Bytes of all of them.
pub const STS_POLICIES_BYTES: usize = 1024 * 1024;
