//! Limits on IMAP commands, and on what one session keeps.

/// Bytes of one IMAP command before login, literals included: the longest ID that is allowed takes 32 KiB
/// (RFC 2971 §3.3).
pub const IMAP_COMMAND_BYTES_ANONYMOUS: usize = 40 * 1024;
/// Bytes of one IMAP command after login, streamed literals (messages) excluded.
pub const IMAP_COMMAND_BYTES: usize = 256 * 1024;
/// Bytes of an IMAP command that a session holds without a permit.
pub const IMAP_COMMAND_FREE_BYTES: usize = 4 * 1024;
/// Bytes of pending IMAP output that a session holds without a permit.
pub const IMAP_OUTPUT_FREE_BYTES: usize = 4 * 1024;
/// Bytes of a non-synchronizing literal where LITERAL- is announced (RFC 7888 §5).
pub const IMAP_LITERAL_MINUS_BYTES: u64 = 4096;
/// Nesting of lists and search keys in an IMAP command.
pub const IMAP_NESTING: usize = 64;
/// Nesting of lists in an IMAP response that our client reads: body structures nest deeper than commands.
pub const IMAP_VALUE_NESTING: usize = 200;
/// FETCH or STATUS items, header field names of one section, or LIST patterns of one command.
pub const IMAP_ITEMS: usize = 1000;
/// Ranges in one IMAP sequence set.
pub const IMAP_SEQUENCE_RANGES: usize = 32 * 1024;
/// Search keys of one command.
pub const IMAP_SEARCH_KEYS: usize = 2000;
/// Ranges of UIDs that `$` may stand for; the result of a search that has more is not saved.
pub const IMAP_SAVED_RANGES: usize = 64 * 1024;
/// Searches of one session that are kept up to date (RFC 5267 §4.3.1).
pub const IMAP_CONTEXTS: usize = 16;
/// UID ranges in the results of all of them together; each message of a sorted result counts as a range.
pub const IMAP_CONTEXT_RANGES: usize = 64 * 1024;
/// Messages in a sorted result that is kept up to date.
pub const IMAP_SORTED_CONTEXT: usize = 20_000;
/// Criteria of one SORT.
pub const IMAP_SORT_CRITERIA: usize = 32;
/// Bytes of an IMAP command's tag.
pub const IMAP_TAG_BYTES: usize = 128;
/// Literals of one IMAP command, messages excluded.
pub const IMAP_LITERALS: usize = 2000;
/// Bytes of a client's line after a continuation request. The longest are SASL tokens (RFC 4959, RFC 7628).
pub const IMAP_LINE_BYTES: usize = 16 * 1024;
/// Bytes of a refused command that the server discards before login; after that it closes the connection.
pub const IMAP_SKIPPED_BYTES_ANONYMOUS: u64 = 64 * 1024;
/// Bytes of the messages in a refused command that the server discards after login.
pub const IMAP_SKIPPED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of its other parts: four times the longest command. A bound against decompression bombs, which
/// expand a thousandfold.
pub const IMAP_SKIPPED_COMMAND_BYTES: u64 = 1024 * 1024;
/// Share of the memory budget for compressed connections: the budget divided by this.
pub const IMAP_COMPRESSED_SHARE: usize = 4;
/// Share of the memory budget for the compressors of connections that are sending: the budget divided by
/// this.
pub const IMAP_COMPRESSORS_SHARE: usize = 8;
/// Fields of an ID command (RFC 2971 §3.3).
pub const IMAP_ID_FIELDS: usize = 30;
/// Consecutive bad commands of one IMAP session before the server closes it. A good command after login
/// resets the count.
pub const IMAP_ERRORS: usize = 20;
/// Mailboxes that one session watches by NOTIFY (RFC 5465 §5.8).
pub const NOTIFY_MAILBOXES: usize = 2000;
/// Shared mailboxes that one session watches by NOTIFY: each keeps a log open.
pub const NOTIFY_SHARES: usize = 32;
/// Patterns of one LIST command.
pub const IMAP_LIST_PATTERNS: usize = 16;
/// Bytes of the patterns of one LIST command; the reference counts with each.
pub const IMAP_LIST_PATTERN_BYTES: usize = 4096;
/// Messages of one APPEND (RFC 3502).
pub const APPEND_MESSAGES: usize = 1000;
/// Bytes of the names of all keywords of one APPEND, all its messages together.
pub const APPEND_KEYWORD_BYTES: usize = 1024 * 1024;
/// Memory that one APPEND uses without a permit for messages stored and not yet placed, in bytes.
pub const APPEND_FREE_BYTES: usize = 4 * 1024;
/// Bytes that it acquires at once for more of them.
pub const APPEND_STEP_BYTES: usize = 16 * 1024;
/// Parts that form the messages of one APPEND (RFC 4469).
pub const IMAP_CATENATE_PARTS: usize = 10_000;
/// URLs of one GENURLAUTH or URLFETCH (RFC 4467).
pub const IMAP_URLS: usize = 100;
/// Bytes of an IMAP URL (RFC 5092).
pub const IMAP_URL_BYTES: usize = 8192;
/// Messages of one COPY or MOVE into or out of a shared mailbox; they are one log entry.
pub const COPY_BETWEEN: usize = 10_000;
