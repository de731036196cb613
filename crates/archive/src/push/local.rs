//! Messages from a copy.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::types::DateTime;
use tokio::sync::mpsc;

use super::contents::Contents;
use super::key::{Key, by_id};
use super::{Head, Item};
use crate::keep::{Copy, Folder, FolderName, Kept, received_or_sent, sent};

/// Octets that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The copy's folders, sorted; also what was `put_aside`, or not.
pub(super) async fn folders(copy: Arc<dyn Copy>, put_aside: bool) -> Result<Vec<Kept>> {
    let mut kept = blocking(move || {
        let mut kept = copy.folders()?;
        if put_aside {
            kept.extend(copy.put_aside()?);
        }
        Ok(kept)
    })
    .await?;
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kept)
}

/// What is in a folder; without `keys` no message is read.
pub(super) async fn contents(copy: Arc<dyn Copy>, kept: Kept, keys: bool) -> Result<Contents> {
    blocking(move || {
        let folder = copy.look(&kept.name)?;
        let mut contents = Contents::new(kept.identity.uidvalidity);
        for stored in folder.messages()? {
            // One that is damaged is told when it is to be sent.
            let Ok(stored) = stored else { continue };
            if !keys {
                contents.add(stored.uid, Key::default(), &stored.flags);
                continue;
            }
            let head = folder.head(stored.uid, PIECE_BYTES).unwrap_or_default();
            match by_id(&head) {
                Some(key) => contents.add(stored.uid, key, &stored.flags),
                None => {
                    let date = stored.internaldate.map(DateTime::timestamp);
                    // An export writes what the header says where it knows nothing else.
                    let dated = date.is_some() && date != sent(&head).map(DateTime::timestamp);
                    contents.add_without_id((stored.uid, &head), stored.size, date, dated, &stored.flags);
                }
            }
        }
        contents.end(true);
        Ok(contents)
    })
    .await
}

/// Sends these messages, in the order of the copy.
pub(super) fn send(
    copy: &dyn Copy,
    name: &FolderName,
    missing: &UidSet,
    to: &mpsc::Sender<Item>,
) -> Result<()> {
    let folder = copy.look(name)?;
    // Whoever takes them says why it stopped.
    let give = |item| to.blocking_send(item).is_ok();
    let mut piece = vec![0; PIECE_BYTES];
    for stored in folder.messages()? {
        let stored = match stored {
            Ok(stored) => stored,
            Err(e) => {
                if !give(Item::Failed(0, e.to_string())) {
                    return Ok(());
                }
                continue;
            }
        };
        let uid = stored.uid;
        if !Uid::new(uid).is_some_and(|uid| missing.contains(uid)) {
            continue;
        }
        let mut first = Vec::with_capacity(PIECE_BYTES);
        let mut reader = match opened(&*folder, uid, &mut first, to) {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(()),
            Err(why) => {
                if !give(Item::Failed(uid, why)) {
                    return Ok(());
                }
                continue;
            }
        };
        let date = received_or_sent(&*folder, &stored);
        let head = Head { uid, flags: stored.flags, date, size: stored.size };
        let octets = (!first.is_empty()).then(|| Item::Octets(first.into()));
        if ![Some(Item::Begin(head)), octets].into_iter().flatten().all(give) {
            return Ok(());
        }
        loop {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => {
                    if !give(Item::Octets(Bytes::copy_from_slice(&piece[..n]))) {
                        return Ok(());
                    }
                }
                Err(e) => {
                    give(Item::Failed(uid, e.to_string()));
                    break;
                }
            }
        }
        if !give(Item::End) {
            return Ok(());
        }
    }
    Ok(())
}

/// A message that is good to its end: its first piece, and a reader of the rest; nothing if nobody takes it any more. One that turns
/// out to be damaged, or whose body is nowhere any more, when half of it was sent costs the connection, and what else was on its
/// way. So those that are larger than a piece are read twice; a body that was given up is fetched once, whoever fetches it keeps it for a while.
fn opened<'a>(
    folder: &'a dyn Folder,
    uid: u32,
    first: &mut Vec<u8>,
    to: &mpsc::Sender<Item>,
) -> Result<Option<Box<dyn Read + 'a>>, String> {
    let why = |e: io::Error| e.to_string();
    let begin = |first: &mut Vec<u8>| {
        let mut reader = folder.read(uid).map_err(|e| e.to_string())?;
        first.clear();
        (&mut reader).take(PIECE_BYTES as u64).read_to_end(first).map_err(why)?;
        Ok::<_, String>(reader)
    };
    let mut reader = begin(first)?;
    let (mut piece, mut is_longer) = (vec![0; PIECE_BYTES], false);
    // A reader says at its end whether the message is what was kept.
    while reader.read(&mut piece).map_err(why)? > 0 {
        if to.is_closed() {
            return Ok(None);
        }
        is_longer = true;
    }
    if is_longer { begin(first).map(Some) } else { Ok(Some(reader)) }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::internal("a task did not finish").with_source(e))?
}
