//! The end of a queue's log, for a process that does not run that queue. `server.key` tells what is an entry,
//! so that objects that an attacker planted behind the end change nothing.

use std::sync::Arc;

use sealpost_base::{AccountId, Kind, Position, Random, Result};
use sealpost_journal::{Content, Journal, Tail};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;

/// Whether a process of this installation has written into the log of `node`.
///
/// # Errors
/// `Corrupt` if it holds so many other objects that its end cannot be found; errors of the store.
pub async fn is_begun(
    store: &Store,
    node: AccountId,
    log_key: &LogKey,
    random: &Arc<dyn Random>,
) -> Result<bool> {
    let log = Journal::of_queue(store.clone(), node, log_key, random.clone());
    Ok(log.tail(Tail::EMPTY).await?.position > Position::ZERO)
}

/// Whether these keys open the last entry of the log of `node`. True if it has none, or damage hides it:
/// opening the queue judges that.
///
/// # Errors
/// Errors of the store.
pub async fn opens(
    keys: &MailKeys,
    store: &Store,
    node: AccountId,
    log_key: &LogKey,
    random: &Arc<dyn Random>,
) -> Result<bool> {
    let log = Journal::of_queue(store.clone(), node, log_key, random.clone());
    let end = match log.tail(Tail::EMPTY).await {
        Err(e) if e.kind() == Kind::Corrupt => return Ok(true),
        end => end?.position,
    };
    if end == Position::ZERO {
        return Ok(true);
    }
    match log.entry(&keys.queue(node), end).await {
        Ok(entry) => Ok(!matches!(entry.content, Content::Sealed(_))),
        // It was trimmed meanwhile: another node runs that queue.
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => Ok(true),
        Err(e) => Err(e),
    }
}
