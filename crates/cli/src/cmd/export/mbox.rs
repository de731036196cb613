//! A mailbox as an mbox file.
//!
//! Written under a temporary name beside its path and renamed when it is complete, unless a file is
//! there by then.

use std::fs::{self, File};
use std::io::{ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use sealpost_files::owner;
use sealpost_mailformat::lines::LineEnds;
use sealpost_mailformat::maildir::folder;
use sealpost_mailformat::mbox::{Envelope, MboxWriter};
use sealpost_mime::header::fields;

use super::{ExportedMessage, Summary, Walk};
use crate::exit::Usage;

/// Refuses a path that is taken before anything is read.
pub fn check(path: &Path, single: bool) -> Result<()> {
    if single && fs::symlink_metadata(path).is_ok() {
        bail!(Usage(format!("{} exists already; export overwrites no files", path.display())));
    }
    if !single && path.exists() && !path.is_dir() {
        let what = "is not a directory; to export one mailbox to one file, use --mailbox";
        bail!(Usage(format!("{} {what}", path.display())));
    }
    Ok(())
}

/// The file of the mailbox `name` below `root`: `Work/2026.mbox`. Import gives it the same name
/// again, unless a level of it is too long for a file.
pub fn path(root: &Path, name: &str) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(name.split('/').map(folder::file_name));
    let mut file = path.file_name().unwrap_or_default().to_owned();
    file.push(".mbox");
    path.set_file_name(file);
    path
}

/// Writes one mailbox. A message that cannot be read is taken back and reported.
///
/// # Errors
/// If the file cannot be written; nothing is left of it then.
pub async fn write(
    path: &Path,
    name: &str,
    walk: Walk,
    line_ends: LineEnds,
    summary: &mut Summary,
) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        bail!("{} exists already; export overwrites no files", path.display());
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    owner::make_directory(directory).with_context(|| directory.display().to_string())?;
    let unfinished = unfinished(path);
    let before = summary.exported;
    let written = messages(&unfinished, name, walk, line_ends, summary).await;
    let placed = written.and_then(|()| {
        put(&unfinished, path).with_context(|| path.display().to_string())?;
        File::open(directory).and_then(|d| d.sync_all()).with_context(|| directory.display().to_string())
    });
    if placed.is_err() {
        summary.exported = before;
        let _ = fs::remove_file(&unfinished);
    }
    placed
}

async fn messages(
    path: &Path,
    name: &str,
    mut walk: Walk,
    line_ends: LineEnds,
    summary: &mut Summary,
) -> Result<()> {
    let at = || path.display().to_string();
    let mut writer = MboxWriter::create(path, line_ends).with_context(at)?;
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
    file.sync_all().with_context(at)
}

/// Which side failed: an error of the store is about one message, an error of the file about all.
enum Failure {
    Read(sealpost_base::Error),
    Write(std::io::Error),
}

async fn message<W: Write>(
    writer: &mut MboxWriter<W>,
    walk: &Walk,
    item: &ExportedMessage,
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
        let long = path(Path::new("x"), &format!("a/{}", "m".repeat(250)));
        assert!(long.starts_with("x/a") && long.file_name().unwrap().len() <= 255, "{}", long.display());
    }

    #[test]
    fn the_sender_is_found() {
        assert_eq!(return_path(b"Return-Path: <a@b>\r\nA: b\r\n\r\n"), "a@b");
        assert_eq!(return_path(b"Return-Path: <>\r\n\r\n"), "");
        assert_eq!(return_path(b"A: b\r\n\r\nReturn-Path: <a@b>\r\n"), "");
    }
}
