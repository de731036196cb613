//! The mail key of this node: made once for an installation, and never a second one.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Error, Kind, Random, Result, limits};
use sealpost_directory::Directory;
use sealpost_queue::end;
use sealpost_submission::domain_keys;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::{MailKeys, looks_like_note};
use sealpost_vault::{ListedObject, Store};

/// The mail key, in the data directory.
pub const KEY_FILE: &str = "mail.key";
/// Queues that are looked at.
const QUEUES: usize = 1000;

/// What a store tells of mail keys.
#[derive(Clone, Copy)]
pub struct Traces<'a> {
    /// Where queues, and what else mail keys seal, may be.
    pub stores: &'a [&'a Store],
    /// Authenticates lists of vacation replies.
    pub directory: &'a Directory,
    /// Authenticates the logs of queues.
    pub log_key: &'a LogKey,
}

/// Something that a mail key sealed.
enum Trace {
    /// This installation wrote it: `server.key` authenticates it.
    Authentic(String),
    /// Only the mail key can tell whether it is what it looks like.
    Likeness(String),
}

/// The keys in the data directory; a new one if none of the stores has anything that is sealed under one.
///
/// # Errors
/// `Corrupt` if the key is missing or another one than what is queued was sealed under.
pub async fn load(data: &Path, traces: Traces<'_>, random: &Arc<dyn Random>) -> Result<MailKeys> {
    let path = data.join(KEY_FILE);
    let keys = match MailKeys::load(&path) {
        Err(e) if e.kind() == Kind::NotFound => {
            if let Some(trace) = traces.any(random).await? {
                return Err(missing(&path, &trace));
            }
            MailKeys::load_or_create(&path, &**random)?
        }
        keys => keys?,
    };
    for store in traces.stores {
        check(&keys, store, traces.log_key, &path, random).await?;
    }
    Ok(keys)
}

impl Traces<'_> {
    /// One of a mail key, if there is any; an authentic one first. An attacker with write access to the store
    /// can make none that is authentic, and noise is none at all.
    async fn any(self, random: &Arc<dyn Random>) -> Result<Option<Trace>> {
        for store in self.stores {
            for node in nodes(store).await? {
                if end::is_begun(store, node, self.log_key, random).await? {
                    return Ok(Some(Trace::Authentic(format!("a queue (queue/{node})"))));
                }
            }
        }
        for store in self.stores {
            if let Some(account) = self.vacation(store).await? {
                return Ok(Some(Trace::Authentic(format!("vacation responses (vacations/{account})"))));
            }
        }
        for store in self.stores {
            let note = [
                note(store, domain_keys::ROOT, domain_keys::is_stored).await?,
                note(store, sealpost_push::ROOT, sealpost_push::is_stored).await?,
            ];
            if let Some(path) = note.into_iter().flatten().next() {
                return Ok(Some(Trace::Likeness(path)));
            }
        }
        Ok(None)
    }

    /// An account with a list of vacation replies.
    async fn vacation(self, store: &Store) -> Result<Option<AccountId>> {
        let names = store.names_below("vacations").await?;
        for account in names.iter().filter_map(|name| name.parse().ok()).take(limits::MAIL_KEY_TRACES) {
            match self.directory.vacation_replies(account).await {
                Ok((Some(_), _)) => return Ok(Some(account)),
                Ok((None, _)) => {}
                // It was planted, or is damaged: not even a mail key makes anything of it.
                Err(e) if e.kind() == Kind::Corrupt => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// The path of an object below `root` that has the form of a note.
async fn note(store: &Store, root: &str, is_stored: fn(&ListedObject) -> bool) -> Result<Option<String>> {
    let mut listed = store.list(root, None);
    let mut read = 0;
    while let Some(object) = listed.try_next().await? {
        if !is_stored(&object) {
            continue;
        }
        read += 1;
        match store.read(&object.path).await {
            Ok(bytes) if looks_like_note(&bytes) => return Ok(Some(object.path)),
            // Too many to read them all, and what comes behind may be genuine.
            _ if read == limits::MAIL_KEY_TRACES => return Ok(Some(object.path)),
            Ok(_) => {}
            // Removed meanwhile, or an object that the store lists and does not give out.
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// The nodes that have a queue in the store.
async fn nodes(store: &Store) -> Result<Vec<AccountId>> {
    let names = store.names_below("queue").await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).take(QUEUES).collect())
}

/// Whether the keys open the last entry of each queue.
async fn check(
    keys: &MailKeys,
    store: &Store,
    log_key: &LogKey,
    path: &Path,
    random: &Arc<dyn Random>,
) -> Result<()> {
    for node in nodes(store).await? {
        if !end::opens(keys, store, node, log_key, random).await? {
            let path = path.display();
            return Err(Error::corrupt(format!(
                "{path} does not open the queued mail: copy mail.key from another node, or put it back from the \
                 backup. With sending.enabled = \"off\" the server runs and sends nothing"
            )));
        }
    }
    Ok(())
}

fn missing(path: &Path, trace: &Trace) -> Error {
    let path = path.display();
    let remedy = "copy it from another node, or put it back from the backup";
    let off = "With sending.enabled = \"off\" the server runs and sends nothing";
    Error::corrupt(match trace {
        Trace::Authentic(what) => {
            format!("{path} is missing, but the store has {what} that it opens: {remedy}. {off}")
        }
        Trace::Likeness(object) => format!(
            "{path} is missing, but {object} looks as if a mail key had sealed it: {remedy}. If this installation \
             never had a mail key, that object was planted: remove it. {off}"
        ),
    })
}
