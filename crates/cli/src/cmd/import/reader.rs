//! Reads archives on a thread of its own and hands on what it finds, piece by piece.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use sealpost_mailformat::discover::{Format, FoundArchive};
use sealpost_mailformat::mbox::Options;
use sealpost_mailformat::{Meta, Source};
use tokio::sync::mpsc;

/// Pieces that wait to be stored; each is at most about 128 KiB.
const AHEAD: usize = 16;

/// What the reader found.
pub enum ReaderItem {
    /// The archive for this mailbox comes next. One that is a folder is a mailbox also if no
    /// message is in it.
    Archive { mailbox: String, is_folder: bool },
    /// A message begins.
    Begin(Meta),
    /// The next bytes of it.
    Piece(Bytes),
    /// It is complete.
    End,
    /// The rest of it cannot be read.
    Broken(String),
    /// A message, or a whole archive, cannot be read.
    Failed { place: String, reason: String },
    /// So many bytes of all archives are done.
    Progress(u64),
    /// All archives are read. Without it the reader did not come to its end.
    Done,
}

/// Starts to read; the thread ends when all is read or the receiver is dropped. `spool`: where what
/// cannot be read as it is is unpacked to.
pub fn start(archives: Vec<FoundArchive>, options: Options, spool: PathBuf) -> mpsc::Receiver<ReaderItem> {
    let (out, items) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut before = 0;
        for archive in archives {
            if read(&archive, options, &spool, before, &out).is_none() {
                return;
            }
            before += archive.bytes;
        }
        let _ = out.blocking_send(ReaderItem::Done);
    });
    items
}

/// `None` if the receiver is gone.
fn read(
    archive: &FoundArchive,
    options: Options,
    spool: &Path,
    before: u64,
    out: &mpsc::Sender<ReaderItem>,
) -> Option<()> {
    let send = |item| out.blocking_send(item).ok();
    let place = archive.path.display().to_string();
    let is_folder = archive.format == Format::Maildir;
    send(ReaderItem::Archive { mailbox: archive.mailbox.clone(), is_folder })?;
    let mut source = match archive.open(options, spool) {
        Ok(source) => source,
        Err(e) => return send(ReaderItem::Failed { place, reason: e.to_string() }),
    };
    loop {
        let begun = source.bytes_done();
        match source.next_message() {
            Ok(None) => return Some(()),
            Ok(Some(meta)) if meta.internal => {}
            Ok(Some(meta)) => {
                send(ReaderItem::Begin(meta))?;
                let end = match pieces(&mut *source, out)? {
                    Ok(()) => ReaderItem::End,
                    Err(reason) => ReaderItem::Broken(reason),
                };
                send(end)?;
            }
            Err(e) => {
                send(ReaderItem::Failed { place: place.clone(), reason: e.to_string() })?;
                // A Maildir has further files; a file that cannot be read on has no end.
                if archive.format != Format::Maildir && source.bytes_done() <= begun {
                    return Some(());
                }
            }
        }
        // What is unpacked has more bytes than its file.
        send(ReaderItem::Progress(before + source.bytes_done().min(archive.bytes)))?;
    }
}

fn pieces(source: &mut dyn Source, out: &mpsc::Sender<ReaderItem>) -> Option<Result<(), String>> {
    loop {
        match source.next_chunk() {
            Ok(Some(piece)) => out.blocking_send(ReaderItem::Piece(Bytes::copy_from_slice(piece))).ok()?,
            Ok(None) => return Some(Ok(())),
            Err(e) => return Some(Err(e.to_string())),
        }
    }
}
