//! The mail key of this node: made once for an installation, and never a second one.

use std::path::Path;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Error, Kind, Position, Random, Result};
use sealpost_vault::Store;
use sealpost_vault::entry::{self, LogKey, Origin, Verdict};
use sealpost_vault::mail_key::MailKeys;

/// The mail key, in the data directory.
pub const KEY_FILE: &str = "mail.key";
/// Queues that are looked at.
const QUEUES: usize = 1000;
/// What a store has that is sealed under mail keys.
const SEALED: [&str; 4] = ["queue", "domains", "vacations", sealpost_push::ROOT];

/// The keys in the data directory; a new one if none of the stores has anything that is sealed under one.
///
/// # Errors
/// `Corrupt` if the key is missing or another one than what is queued was sealed under.
pub async fn load(data: &Path, stores: &[&Store], log_key: &LogKey, random: &dyn Random) -> Result<MailKeys> {
    let path = data.join(KEY_FILE);
    let keys = match MailKeys::load(&path) {
        Err(e) if e.kind() == Kind::NotFound => {
            for store in stores {
                if is_in_use(store).await? {
                    return Err(missing(&path));
                }
            }
            MailKeys::load_or_create(&path, random)?
        }
        keys => keys?,
    };
    for store in stores {
        check(&keys, store, log_key, &path).await?;
    }
    Ok(keys)
}

async fn is_in_use(store: &Store) -> Result<bool> {
    for folder in SEALED {
        if store.list(folder, None).try_next().await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the keys open the last entry of each queue.
async fn check(keys: &MailKeys, store: &Store, log_key: &LogKey, path: &Path) -> Result<()> {
    let nodes = store.names_below("queue").await?;
    for node in nodes.iter().filter_map(|name| name.parse().ok()).take(QUEUES) {
        if !opens(keys, store, log_key, node).await? {
            let path = path.display();
            return Err(Error::corrupt(format!(
                "{path} does not open the queued mail: copy mail.key from another node, or put it back from the \
                 backup. With sending.enabled = \"off\" the server runs and sends nothing"
            )));
        }
    }
    Ok(())
}

async fn opens(keys: &MailKeys, store: &Store, log_key: &LogKey, node: AccountId) -> Result<bool> {
    let last = match store.last(&format!("queue/{node}/log")).await {
        // It was trimmed meanwhile: another node runs that queue.
        Err(e) if e.kind() == Kind::NotFound => None,
        last => last?,
    };
    let Some((path, object)) = last else { return Ok(true) };
    let digits = path.rsplit('/').find_map(|name| u64::from_str_radix(name.get(..16)?, 16).ok());
    let Some(position) = digits.map(Position) else { return Ok(true) };
    match entry::judge(log_key, node, position, &object) {
        Verdict::Authentic(Origin::Owner, _) | Verdict::Retired(Origin::Owner, _) => {}
        // An attacker can put anything there; opening the queue judges it.
        _ => return Ok(true),
    }
    Ok(entry::open(&keys.queue(node), node, position, &object).is_ok())
}

fn missing(path: &Path) -> Error {
    let path = path.display();
    Error::corrupt(format!(
        "{path} is missing, but the store has a queue, signing keys, vacation responses or push subscriptions that it opens: copy it from another node, or \
         put it back from the backup. With sending.enabled = \"off\" the server runs and sends nothing"
    ))
}
