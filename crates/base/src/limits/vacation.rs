//! Limits on vacation responses.

/// Bytes of the subject of a vacation response.
pub const VACATION_SUBJECT_BYTES: usize = 998;
/// Bytes of its plain text, and of its HTML.
pub const VACATION_TEXT_BYTES: usize = 64 * 1024;
/// Senders to whom an account has replied within the last week; more get no reply.
pub const VACATION_SENDERS: usize = 1000;
/// Replies of one account within an hour; further mail gets none.
pub const VACATION_REPLIES_PER_HOUR: usize = 60;
/// Received fields in a message beyond which it gets no vacation response: it may loop.
pub const VACATION_RECEIVED_FIELDS: usize = 50;
/// Bytes of a message's header that are held to decide on a vacation response, drawn from the
/// budget: the fields that matter, and the one that arrives.
pub const VACATION_HEADER_BYTES: usize = 32 * 1024;
/// Addresses in To, Cc and their like of one message that are compared with those of an account.
pub const VACATION_ADDRESSES: usize = 16;
/// Characters of the original subject, and of the recipient's name, that a vacation response repeats.
pub const VACATION_QUOTED_CHARS: usize = 200;
/// Delivered messages that wait for a decision on a vacation response; more get none.
pub const VACATION_WAITING: usize = 256;
/// Accounts whose vacation dates a node has in memory.
pub const VACATION_ACCOUNTS_CACHED: usize = 1024;
/// Accounts whose lists of replies a node has in memory, 12 KB each.
pub const VACATION_LISTS_CACHED: usize = 64;
