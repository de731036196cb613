//! Limits on addresses, aliases and the records of accounts.

/// Bytes of the part of an address before the `@`; RFC 5321 §4.5.3.1.1 promises 64, and tags make it longer.
pub const LOCAL_PART_BYTES: usize = 128;
/// Bytes of the domain of an address (RFC 5321 §4.5.3.1.2).
pub const DOMAIN_BYTES: usize = 255;
/// Domains of accounts and aliases that are cached; with more, every domain counts as local.
pub const SERVED_DOMAINS: usize = 65_536;
/// Targets of one alias.
pub const ALIAS_TARGETS: usize = 100;
/// Length of a chain of aliases.
pub const ALIAS_DEPTH: usize = 8;
/// Addresses looked up to resolve one recipient.
pub const ALIAS_LOOKUPS: usize = 300;
/// Bytes of one sealed version of a record. A larger object is no version and is not read. An account with
/// all app passwords takes 64 KiB.
pub const RECORD_BYTES: usize = 1024 * 1024;
/// Versions of one record. An object with a higher number is no version, whichever process wrote it, so that
/// there is always a next one.
pub const RECORD_VERSIONS: u64 = 1 << 62;
/// Objects in a record's folder that are no versions and are read; with more, the record cannot be used.
pub const RECORD_NOISE: usize = 64;
/// Such objects that are cached for a minute, of all records together.
pub const RECORD_NOISE_REMEMBERED: usize = 4096;
/// Attempts to change a record while other writers keep changing it.
pub const RECORD_ATTEMPTS: usize = 32;
/// Records of accounts and aliases that are cached for deliveries.
pub const RECORDS_REMEMBERED: usize = 1024;
/// Size of a cached record with its path, in bytes: one with a password and a dozen app passwords.
pub const RECORD_REMEMBERED_BYTES: usize = 4096;
