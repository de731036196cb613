//! APPENDLIMIT (RFC 7889): the same for every mailbox, so both the capability and STATUS report it.
//!
//! The decoder refuses a larger message with NO [TOOBIG]; for a synchronizing literal, before it is sent.

use sealpost_session::Settings;

/// The largest message that APPEND accepts, in bytes. The grammar has 32 bits (RFC 7889 §5), so a higher
/// configured limit is announced as the maximum of these.
pub(super) fn append_limit(settings: &Settings) -> u32 {
    u32::try_from(settings.message_size).unwrap_or(u32::MAX)
}
