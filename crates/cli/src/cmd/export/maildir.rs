//! Mailboxes as the folders of a Maildir.

use std::path::Path;

use anyhow::{Result, bail};
use futures::TryStreamExt;
use sealpost_mailformat::lines::LineEnds;
use sealpost_mailformat::maildir::{MaildirWriter, Placed};

use super::{ExportedMessage, Summary, Walk, entries};
use crate::exit::Usage;

/// Refuses a directory of something else.
pub fn check(root: &Path) -> Result<()> {
    match entries(root)? {
        Some(found) if !found.is_empty() && !root.join("cur").is_dir() => {
            bail!(Usage(format!("{} is neither empty nor a Maildir", root.display())))
        }
        _ => Ok(()),
    }
}

/// Writes one mailbox. Messages that an earlier export wrote are not written again, only their flags.
///
/// # Errors
/// If its folder cannot be written.
pub async fn write(
    root: &Path,
    name: &str,
    mut walk: Walk,
    line_ends: LineEnds,
    summary: &mut Summary,
) -> Result<()> {
    let mut folder = MaildirWriter::open(root, name, line_ends)?;
    while let Some(item) = walk.next() {
        let unique = unique(&walk, &item);
        match folder.place(&unique, &item.flags)? {
            Placed::Unchanged | Placed::Renamed => summary.present += 1,
            Placed::Absent => match message(&mut folder, &walk, &item, &unique).await? {
                Ok(()) => summary.exported += 1,
                Err(e) => {
                    summary.fail(name, Some(item.uid), e.to_string());
                    // What cannot be removed is in `tmp`, where readers expect such things and do not look.
                    let _ = folder.abandon();
                }
            },
        }
    }
    summary.lost_keywords += folder.finish()?;
    Ok(())
}

/// The inner error is about one message, the outer one about the folder.
async fn message(
    folder: &mut MaildirWriter,
    walk: &Walk,
    item: &ExportedMessage,
    unique: &str,
) -> Result<sealpost_base::Result<()>> {
    folder.begin(unique)?;
    let mut raw = walk.account.reader(&item.message).raw(0..u64::MAX);
    loop {
        match raw.try_next().await {
            Ok(Some(piece)) => folder.write(&piece)?,
            Ok(None) => break,
            Err(e) => return Ok(Err(e)),
        }
    }
    folder.end(&item.flags, item.received())?;
    Ok(Ok(()))
}

/// The same for the same message in every export: when it was received, its object, where it stands.
fn unique(walk: &Walk, item: &ExportedMessage) -> String {
    let seconds = item.received().seconds().max(0);
    format!("{seconds}.{}U{}M{}.sealpost", item.message.object, item.uid, walk.mailbox.0)
}
