//! Limits on what one account holds: mailboxes, keywords, threads, small objects, identities, metadata.

/// Bytes of a mailbox name: the whole path in UTF-8.
pub const MAILBOX_NAME_BYTES: usize = 1000;
/// Levels of a mailbox name.
pub const MAILBOX_LEVELS: usize = 32;
/// Mailboxes of one account.
pub const MAILBOXES: usize = 10_000;
/// Keywords of one account, all mailboxes together.
pub const KEYWORDS: usize = 2000;
/// Bytes of one keyword.
pub const KEYWORD_BYTES: usize = 128;
/// Distinct sets of flags of one account.
pub const FLAG_SETS: usize = 65_536;
/// Keywords of all those sets together.
pub const FLAG_SETS_KEYWORDS: usize = 524_288;
/// Keywords of one message.
pub const FLAG_SET_KEYWORDS: usize = 256;
/// Expunged UID ranges that a mailbox records for clients that resynchronise.
pub const VANISHED_RANGES: usize = 20_000;
/// Expunged messages, and likewise deleted mailboxes, that an account records for clients that request
/// changes since a position.
pub const TOMBSTONES: usize = 65_536;
/// Identifiers of one message that find its thread: its own, its oldest reference, and its latest ones.
pub const THREAD_LINKS: usize = 8;
/// Identifiers whose threads an account keeps, the latest ones.
pub const THREAD_LINKS_KNOWN: usize = 8192;
/// Messages of one thread that its mailbox counts include, the oldest ones: each change of one of them reads
/// all of them.
pub const THREAD_COUNTED: usize = 2048;
/// Placements of one message that these counts include.
pub const PLACEMENTS_COUNTED: usize = 256;
/// Small per-account objects (Sieve scripts, identities, import ledgers).
pub const ACCOUNT_OBJECTS: usize = 10_000;
/// Bytes of one small per-account object.
pub const ACCOUNT_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of all small per-account objects together.
pub const ACCOUNT_OBJECTS_BYTES: usize = 4 * 1024 * 1024;
/// Identities of an account, those of its own addresses included.
pub const IDENTITIES: usize = 256;
/// Bytes of one identity: its names, addresses and signatures.
pub const IDENTITY_BYTES: usize = 64 * 1024;
/// Bytes of all identities of an account together.
pub const IDENTITIES_BYTES: usize = 1024 * 1024;
/// Submissions that an account has a record of: beyond it the oldest that are final go.
pub const SUBMISSIONS: usize = 1000;
/// Bytes of all these records together, with the replies that each recipient may get: beyond it the
/// oldest that are final go.
pub const SUBMISSIONS_BYTES: usize = 4 * 1024 * 1024;
/// Delivery status notifications that the record of a submission names; others are mail alone.
pub const SUBMISSION_REPORTS: usize = 16;
/// Recipients of one submission over JMAP.
pub const SUBMISSION_RECIPIENTS: usize = 1000;
/// Bytes of a server's reply that the record of a submission keeps for each recipient.
pub const SUBMISSION_REPLY_BYTES: usize = 256;
/// Identities, and submissions, that were removed and that an account remembers for /changes.
pub const RECORD_TOMBSTONES: usize = 4096;
/// Bytes of all names that an account subscribes to; each counts 32 bytes more.
pub const SUBSCRIPTIONS_BYTES: usize = 1024 * 1024;
/// Bytes of the name of a metadata entry.
pub const METADATA_ENTRY_BYTES: usize = 500;
/// Bytes of the value of a metadata entry (RFC 5464 §4.1 asks for at least 1024).
pub const METADATA_VALUE_BYTES: usize = ACCOUNT_OBJECT_BYTES;
/// Metadata entries of one mailbox, or of the server for one account (RFC 5464 §4.1 asks for at least 10).
pub const METADATA_ENTRIES: usize = 1000;
/// Bytes of all metadata of an account, names included: half the limit of small objects.
pub const METADATA_BYTES: usize = ACCOUNT_OBJECTS_BYTES / 2;
/// Metadata changes that an account keeps for sessions that must report them.
pub const METADATA_CHANGES: usize = 512;
