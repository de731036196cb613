//! Messages from a backup.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use sealpost_base::{Result, Uid, UidSet};
use sealpost_imap::types::DateTime;
use tokio::sync::mpsc;

use super::contents::{Contents, Like};
use super::key::{Key, by_id, ends};
use super::message_chunk::{MessageChunk, MessageMeta};
use crate::backup::sent::{received_or_sent, sent};
use crate::backup::{Backup, BackupFolder, Folder, FolderName};
use crate::blocking::blocking;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a message in which its header is looked for.
const HEADER_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a message that are held until it was verified to its end. Larger ones are read twice.
const HELD_BYTES: usize = 4 * 1024 * 1024;
/// Why a message is not put there, when that is known without asking the server.
const NOWHERE: &str = "the body is evicted, and the server no longer has the message";

/// The backup's folders, sorted; the superseded ones too if `include_superseded`.
pub(super) async fn folders(backup: Arc<dyn Backup>, include_superseded: bool) -> Result<Vec<BackupFolder>> {
    let mut kept = blocking(move || {
        let mut kept = backup.folders()?;
        if include_superseded {
            kept.extend(backup.superseded()?);
        }
        Ok(kept)
    })
    .await?;
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kept)
}

/// The UIDs of a folder, if it is of this UIDVALIDITY.
pub(super) async fn uids(backup: Arc<dyn Backup>, name: FolderName, uidvalidity: u32) -> Result<UidSet> {
    blocking(move || {
        let kept = backup.folders()?;
        match kept.iter().find(|kept| kept.name == name && kept.identity.uidvalidity == uidvalidity) {
            Some(kept) => Ok(backup.open_to_read(&kept.name)?.known().uids()),
            None => Ok(UidSet::new()),
        }
    })
    .await
}

/// The messages of a folder; without `keys` no message is read.
pub(super) async fn contents(backup: Arc<dyn Backup>, kept: BackupFolder, keys: bool) -> Result<Contents> {
    blocking(move || {
        let folder = backup.open_to_read(&kept.name)?;
        let (mut contents, mut complete) = (Contents::new(kept.identity.uidvalidity), folder.unread() == 0);
        for stored in folder.messages()? {
            let Ok(stored) = stored else {
                complete = false;
                continue;
            };
            if !keys {
                contents.add(stored.uid, Key::default(), Like::default(), &stored.flags);
                continue;
            }
            let meta = header(&*folder, stored.uid);
            let date = stored.internaldate.map(DateTime::timestamp);
            match by_id(&meta) {
                Some(key) => contents.add(stored.uid, key, Like::of(stored.size, date), &stored.flags),
                None => {
                    // An export falls back to the date in the header.
                    let dated = date.is_some() && date != sent(&meta).map(DateTime::timestamp);
                    contents.add_without_id((stored.uid, &meta), stored.size, date, dated, &stored.flags);
                }
            }
        }
        contents.end(complete);
        Ok(contents)
    })
    .await
}

/// The first bytes of a message, its header among them unless that is longer than [`HEADER_BYTES`];
/// none if it is damaged.
pub(crate) fn header(folder: &dyn Folder, uid: u32) -> Vec<u8> {
    let mut most = PIECE_BYTES;
    loop {
        let meta = folder.head(uid, most).unwrap_or_default();
        if meta.len() < most || most >= HEADER_BYTES || ends(&meta) {
            return meta;
        }
        most = HEADER_BYTES.min(8 * most);
    }
}

/// Sends these messages, in the order of the backup.
pub(super) fn send(
    backup: &dyn Backup,
    name: &FolderName,
    missing: &UidSet,
    to: &mpsc::Sender<MessageChunk>,
) -> Result<()> {
    let folder = backup.open_to_read(name)?;
    // The receiver reports why it stopped.
    let give = |chunk| to.blocking_send(chunk).is_ok();
    for stored in folder.messages()? {
        let stored = match stored {
            Ok(stored) => stored,
            Err(e) => {
                if !give(MessageChunk::Failed(0, e.to_string())) {
                    return Ok(());
                }
                continue;
            }
        };
        let uid = stored.uid;
        if !Uid::new(uid).is_some_and(|uid| missing.contains(uid)) {
            continue;
        }
        let Good { held, rest } = match good(&*folder, uid, to) {
            Ok(Some(good)) => good,
            Ok(None) => return Ok(()),
            Err(why) => {
                if !give(MessageChunk::Failed(uid, why)) {
                    return Ok(());
                }
                continue;
            }
        };
        let date = received_or_sent(&*folder, &stored);
        let meta = MessageMeta { uid, flags: stored.flags, date, size: stored.size };
        let begin = std::iter::once(MessageChunk::Begin(meta));
        if !begin.chain(held.into_iter().map(MessageChunk::Bytes)).all(give) {
            return Ok(());
        }
        let mut rest = rest;
        while let Some(reader) = &mut rest {
            let chunk = match piece(reader) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => MessageChunk::Bytes(bytes),
                Err(e) => {
                    rest = None;
                    MessageChunk::Failed(uid, e.to_string())
                }
            };
            if !give(chunk) {
                return Ok(());
            }
        }
        if !give(MessageChunk::End) {
            return Ok(());
        }
    }
    Ok(())
}

/// A message that was verified to its end.
struct Good<'a> {
    /// All of it, if it fits into [`HELD_BYTES`].
    held: Vec<Bytes>,
    /// A reader of it from its beginning, if it does not.
    rest: Option<Box<dyn Read + 'a>>,
}

/// Verifies a message to its end; `None` if the receiver is gone. A message that turns out to be
/// damaged, or whose body is lost, when half of it was sent costs the connection and the other
/// messages in flight. So a message that is too long to be held is read twice; an evicted body is
/// fetched once, as [`crate::refetch`] keeps it for a while.
fn good<'a>(
    folder: &'a dyn Folder,
    uid: u32,
    to: &mpsc::Sender<MessageChunk>,
) -> Result<Option<Good<'a>>, String> {
    let open = || folder.read(uid).map_err(|e| e.to_string());
    let (mut reader, mut held, mut bytes) = (open()?, Vec::new(), 0);
    // A reader fails at its end if the message differs from what was stored.
    loop {
        let piece = piece(&mut reader).map_err(|e| e.to_string())?;
        if piece.is_empty() {
            break;
        }
        if to.is_closed() {
            return Ok(None);
        }
        bytes += piece.len();
        if bytes <= HELD_BYTES {
            held.push(piece);
        } else {
            held.clear();
        }
    }
    let rest = (bytes > HELD_BYTES).then(open).transpose()?;
    Ok(Some(Good { held, rest }))
}

/// The next bytes; none at the end.
fn piece(reader: &mut dyn Read) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    reader.take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
    Ok(piece.into())
}

/// Those of these messages with evicted bodies that their server no longer has, so that they are
/// lost. No server is asked.
pub(super) async fn lost(
    backup: Arc<dyn Backup>,
    kept: BackupFolder,
    among: UidSet,
) -> Result<Vec<(u32, String)>> {
    blocking(move || {
        let folder = backup.open_to_read(&kept.name)?;
        let mut lost = Vec::new();
        for uid in among.iter().map(Uid::get) {
            // A superseded folder belonged to another mailbox than the server's of that name.
            let gone = kept.was.is_some() || folder.known().is_deleted_upstream(uid);
            if gone && folder.evicted(uid)?.is_some() {
                lost.push((uid, NOWHERE.to_owned()));
            }
        }
        Ok(lost)
    })
    .await
}
