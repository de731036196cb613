//! Limits on SMTP and LMTP sessions and the messages that they receive.

/// Bytes of one message, the default of the setting `message_size`.
pub const MESSAGE_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Recipients of one SMTP or LMTP transaction (RFC 5321 §4.5.3.1.8 asks for at least 100).
pub const SMTP_RECIPIENTS: usize = 1000;
/// Memory that the recipients of one transaction use without a permit, in bytes: about ten of them. The
/// charge of a connection covers it ([`CONNECTION_BYTES`](super::CONNECTION_BYTES)).
pub const SMTP_ENVELOPE_FREE_BYTES: usize = 4 * 1024;
/// Bytes that further recipients acquire at once.
pub const SMTP_ENVELOPE_STEP_BYTES: usize = 16 * 1024;
/// Accounts that the recipients of one SMTP or LMTP transaction may lead to through aliases.
pub const SMTP_ACCOUNTS: usize = 10_000;
/// Bytes of a message that a session holds before it acquires memory for it.
pub const SMTP_HEAD_BYTES: usize = 8 * 1024;
/// Bytes of a message to several recipients that are held in memory (acquired from the budget); a
/// larger one is spooled.
pub const SMTP_MEMORY_BYTES: usize = 256 * 1024;
/// Bytes of one SMTP command line, CRLF included (RFC 5321 §4.5.3.1.4 asks for 512; extensions add to it).
pub const SMTP_COMMAND_BYTES: usize = 4096;
/// Bytes of a client's response to an AUTH challenge, CRLF included (RFC 4954 §4: 12,288).
pub const SMTP_AUTH_LINE_BYTES: usize = 12_288;
/// Bytes of one address in MAIL or RCPT (RFC 5321 §4.5.3.1.3 asks for 256): it has to fit into a header line.
pub const SMTP_PATH_BYTES: usize = 512;
/// Bytes that a session discards while it looks for the end of a bad SMTP command line, before it closes.
pub const SMTP_DISCARD_BYTES: usize = 1024 * 1024;
/// Errors of one SMTP session before it is closed.
pub const SMTP_ERRORS: usize = 20;
/// Received fields in a message; one more is a loop (RFC 5321 §6.3).
pub const RECEIVED_FIELDS: usize = 100;
/// Addresses of other servers that the recipients of one SMTP or LMTP transaction may lead to; one
/// alias leads to fewer ([`ALIAS_LOOKUPS`](super::ALIAS_LOOKUPS)).
pub const SMTP_FORWARDS: usize = 500;
