//! A mailbox as an mbox file.
//!
//! Written beside its place under another name and put there when it is complete, unless something is there by then.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use sealpost_archive::lines::LineEnds;
use sealpost_archive::maildir::folder;
use sealpost_archive::mbox::{Envelope, MboxWriter};
use sealpost_mime::header::fields;

use super::{Item, Summary, Walk};
use crate::exit::Usage;

const BUFFER_BYTES: usize = 256 * 1024;

/// Refuses a path that is taken before anything is read.
pub fn check(path: &Path, single: bool) -> Result<()> {
    if single && fs::symlink_metadata(path).is_ok() {
        bail!(Usage(format!("{} is there already; nothing is overwritten", path.display())));
    }
    if !single && path.exists() && !path.is_dir() {
        let what = "is no directory; for one mailbox in one file name it with --mailbox";
        bail!(Usage(format!("{} {what}", path.display())));
    }
    Ok(())
}

/// The file of the mailbox `name` below `root`: `Work/2026.mbox`. Import gives it the same name again.
pub fn path(root: &Path, name: &str) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(name.split('/').map(on_disk));
    let mut file = path.file_name().unwrap_or_default().to_owned();
    file.push(".mbox");
    path.set_file_name(file);
    path
}

/// One level as a file name: dots and what else has a meaning there escaped.
fn on_disk(level: &str) -> String {
    if level == "INBOX" {
        return level.to_owned();
    }
    folder::directory(level).trim_start_matches('.').to_owned()
}

/// Writes one mailbox. A message that cannot be read is taken back and reported.
pub async fn write(
    path: &Path,
    name: &str,
    mut walk: Walk,
    line_ends: LineEnds,
    summary: &mut Summary,
) -> Result<()> {
    let at = || path.display().to_string();
    if fs::symlink_metadata(path).is_ok() {
        summary.fail(name, None, format!("{} is there already; nothing is overwritten", at()));
        return Ok(());
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let unfinished = unfinished(path);
    let file = File::create(&unfinished).with_context(|| unfinished.display().to_string())?;
    let mut writer = MboxWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file), line_ends);
    let mut begun = 0;
    while let Some(item) = walk.next() {
        match message(&mut writer, &walk, &item).await {
            Ok(()) => {
                summary.exported += 1;
                begun = writer.file().stream_position().with_context(at)?;
            }
            Err(Failure::Read(e)) => {
                summary.fail(name, Some(item.uid), e.to_string());
                let file = writer.file();
                file.flush().with_context(at)?;
                file.get_mut().set_len(begun).with_context(at)?;
                file.seek(std::io::SeekFrom::Start(begun)).with_context(at)?;
            }
            Err(Failure::Write(e)) => return Err(e).with_context(at),
        }
    }
    let file = writer.finish().with_context(at)?;
    let file = file.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(at)?;
    file.sync_all().with_context(at)?;
    put(&unfinished, path).with_context(at)?;
    File::open(directory).and_then(|d| d.sync_all()).with_context(at)?;
    summary.mailboxes += 1;
    Ok(())
}

/// Which side failed: what comes from the store is about one message, what goes to the file about all.
enum Failure {
    Read(sealpost_base::Error),
    Write(std::io::Error),
}

async fn message<W: Write>(
    writer: &mut MboxWriter<W>,
    walk: &Walk,
    item: &Item,
) -> std::result::Result<(), Failure> {
    let mut raw = walk.account.reader(&item.message).raw(0..u64::MAX);
    let mut first = raw.try_next().await.map_err(Failure::Read)?.unwrap_or_default();
    let sender = return_path(&first);
    let envelope = Envelope { sender: &sender, received: item.received(), flags: &item.flags };
    writer.begin(&envelope).map_err(Failure::Write)?;
    loop {
        writer.write(&first).map_err(Failure::Write)?;
        match raw.try_next().await.map_err(Failure::Read)? {
            Some(piece) => first = piece,
            None => return writer.end().map_err(Failure::Write),
        }
    }
}

/// The envelope sender, if the message still says (RFC 5321 §4.4).
fn return_path(head: &[u8]) -> String {
    let field = fields(head).take(32).find(|(name, _)| name.eq_ignore_ascii_case(b"return-path"));
    let value = field.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    value.trim().trim_start_matches('<').trim_end_matches('>').to_owned()
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    path.with_file_name(name)
}

/// Gives the complete file its name, unless another file has it.
fn put(unfinished: &Path, path: &Path) -> std::io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Ok(()) => fs::remove_file(unfinished),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(e),
        // A file system without links.
        Err(_) if fs::symlink_metadata(path).is_err() => fs::rename(unfinished, path),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names() {
        let at = |name| path(Path::new("x"), name).display().to_string();
        assert_eq!(at("INBOX"), "x/INBOX.mbox");
        assert_eq!(at("Work/2026"), "x/Work/2026.mbox");
        assert_eq!(at("../v1.2"), "x/\\2e\\2e/v1\\2e2.mbox");
        assert_eq!(at("Entwürfe"), "x/Entw&APw-rfe.mbox");
    }

    #[test]
    fn the_sender_is_found() {
        assert_eq!(return_path(b"Return-Path: <a@b>\r\nA: b\r\n\r\n"), "a@b");
        assert_eq!(return_path(b"Return-Path: <>\r\n\r\n"), "");
        assert_eq!(return_path(b"A: b\r\n\r\nReturn-Path: <a@b>\r\n"), "");
    }
}
