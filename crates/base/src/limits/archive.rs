//! Limits on backups of other servers, on imports, and on evicted bodies.

/// Bytes of the names of all distinct flag sets in one archive folder. Beyond that, keywords are neither
/// compared nor shown.
pub const ARCHIVE_FLAG_BYTES: usize = 2 * 1024 * 1024;
/// Removed parts of an archived mbox when it is rewritten, about 30 MiB; an mbox with more is not rewritten.
pub const ARCHIVE_REWRITE_RANGES: usize = 1_000_000;
/// Bytes of one record in the journal of an archived folder.
pub const ARCHIVE_RECORD_BYTES: usize = 64 * 1024;
/// Bytes of one response of a source server, messages excluded: a SEARCH response with a million UIDs.
pub const ARCHIVE_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one message on a source server: the maximum in IMAP4rev1.
pub const ARCHIVE_MESSAGE_BYTES: u64 = u32::MAX as u64;
/// Bytes of a response that a source server must send per period (`MinThroughput`): 34 a second.
pub const ARCHIVE_PACE_BYTES: u64 = 4096;
/// Bytes of a message that passes from a source server to the backup in one piece; a larger one streams.
pub const ARCHIVE_INLINE_BYTES: u64 = 64 * 1024;
/// Bytes of messages that one archive connection holds until their FETCH completes. Further messages are
/// written, and removed again if the FETCH fails.
pub const ARCHIVE_HELD_BYTES: usize = 4 * 1024 * 1024;
/// Untagged OK, NO and BAD responses, and continuation requests, that a source server may send within one
/// command. At one every ten seconds, that takes a day.
pub const ARCHIVE_REMARKS: usize = 10_000;
/// All other responses within one command: the flags of every message, twice.
pub const ARCHIVE_RESPONSES: usize = 2 * ARCHIVE_FOLDER_MESSAGES as usize;
/// Messages of one folder on a source server.
pub const ARCHIVE_FOLDER_MESSAGES: u32 = 10_000_000;
/// Consecutive FETCH commands without a message before the pull of a folder ends.
pub const ARCHIVE_EMPTY_FETCHES: u32 = 10_000;
/// Messages of a folder that were requested and not received, and that are recorded and reported one by one.
pub const ARCHIVE_DOUBTFUL: usize = 100_000;
/// Messages of a backup folder that the source deleted and that are recognised if they reappear under other
/// UIDs: the latest ones, about 30 MiB. Of earlier ones, only those in the record of restores are recognised.
pub const ARCHIVE_RETURNING: u64 = 500_000;
/// Mailboxes that are read from a server's LIST.
pub const ARCHIVE_FOLDERS: usize = 100_000;
/// Indistinguishable mailboxes of a server's LIST that are reported one by one.
pub const ARCHIVE_LEFT_OUT: usize = 100;
/// Bytes of an OAuth 2.0 access token for an archive's server.
pub const ARCHIVE_TOKEN_BYTES: usize = 64 * 1024;
/// Bytes that a compressed mail file may expand to, however small it is.
pub const IMPORT_UNPACKED_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes that one byte of a compressed mail file may expand to, beyond [`IMPORT_UNPACKED_BYTES`]. Mail has a
/// ratio of five, attachments of one.
pub const IMPORT_UNPACKED_RATIO: u64 = 200;
/// Memory for decompressing a file, in bytes: enough for all levels of common programs, and for zstd's
/// `--long`.
pub const IMPORT_UNPACKING_BYTES: usize = 128 * 1024 * 1024;
/// Gmail labels of one message that an import uses.
pub const GMAIL_LABELS: usize = 100;
/// Messages whose bodies are evicted together.
pub const BODIES_TOGETHER: usize = 64;
/// As [`BODIES_TOGETHER`], in bytes of their stubs.
pub const BODIES_TOGETHER_BYTES: usize = 1024 * 1024;
/// Bodies that were fetched again and are cached, of all accounts of a process together.
pub const BODIES_SPOOLED: usize = 32;
/// Bytes of them, without the one that was fetched last.
pub const BODIES_SPOOLED_BYTES: u64 = 128 * 1024 * 1024;
