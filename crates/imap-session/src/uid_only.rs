//! UIDONLY (RFC 9586): once enabled, neither commands nor responses use message numbers.

use sealpost_imap::types::{Code, CommandBody, SearchKey, SelectParameter, Store};

use super::dialect::Dialect;
use super::reply::Reply;

/// Rejects message numbers once UIDONLY is enabled.
///
/// # Errors
/// `BAD [UIDREQUIRED]` for a command with message numbers.
pub(super) fn check_numbers(dialect: Dialect, body: &CommandBody) -> Result<(), Reply> {
    if dialect.uid_only() && has_numbers(body) { Err(uid_required()) } else { Ok(()) }
}

/// The reply to message numbers once UIDONLY is enabled (RFC 9586 §3).
pub(super) fn uid_required() -> Reply {
    let text = "message numbers are not allowed once UIDONLY is enabled";
    Reply { code: Some(Code::UidRequired), ..Reply::bad(text) }
}

/// Whether a command uses message numbers (RFC 9586 §3.2, §3.5, §3.7, §3.8).
fn has_numbers(body: &CommandBody) -> bool {
    match body {
        CommandBody::Fetch { uid, .. }
        | CommandBody::Store(Store { uid, .. })
        | CommandBody::Copy { uid, .. }
        | CommandBody::Move { uid, .. } => !uid,
        CommandBody::Select { parameters, .. } => parameters
            .iter()
            .any(|parameter| matches!(parameter, SelectParameter::QResync(known) if known.matches.is_some())),
        _ => body.search().is_some_and(|search| !search.uid || searches_numbers(&search.keys)),
    }
}

/// Whether a search uses message numbers, so that no expunge may be sent during it (RFC 7162 §3.2.10.2).
pub(super) fn searches_numbers(keys: &[SearchKey]) -> bool {
    // `$` is no number (RFC 5182 §2.1).
    let numbers = |key: &SearchKey| matches!(key, SearchKey::Sequence(set) if !set.ranges().is_empty());
    keys.iter().any(|key| key.any(&numbers))
}
