//! APPENDLIMIT (RFC 7889): the same for every mailbox, so the capability says it, and STATUS too.
//!
//! The message that is larger is refused by the decoder, before it is sent if the client waits: NO [TOOBIG].

use sealpost_session::Settings;

/// The largest message that APPEND takes, in bytes. The grammar has 32 bits for it (RFC 7889 §5):
/// where more is allowed, the announced limit is the lower one.
pub(super) fn append_limit(settings: &Settings) -> u32 {
    u32::try_from(settings.message_size).unwrap_or(u32::MAX)
}
