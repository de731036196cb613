//! Data sets from files, and into files.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::Timestamp;
use sealpost_mailformat::discover::discover;
use sealpost_mailformat::lines::LineEnds;
use sealpost_mailformat::maildir::{MaildirWriter, Placed};
use sealpost_mailformat::mbox::{Envelope, MboxWriter, Options};

use super::DataSet;

/// The most bytes that are read of files: they are kept in memory.
const READ_BYTES: usize = 1 << 30;
/// 14 October 2025, 12:00 UTC: the arrival of generated mail.
const RECEIVED: Timestamp = Timestamp(1_760_443_200_000);

/// The format of a written data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A Maildir.
    Maildir,
    /// One file, mboxrd.
    Mbox,
}

/// All messages of the archives at `path`.
pub(super) fn read(path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    let mut total = 0;
    let discovery = discover(path)?;
    if let Some(failed) = discovery.failed.first() {
        bail!("{}: {}", failed.path.display(), failed.reason);
    }
    for found in discovery.found {
        let mut source = found.open(Options::default(), &std::env::temp_dir())?;
        while let Some(meta) = source.next_message()? {
            let mut message = Vec::new();
            while let Some(chunk) = source.next_chunk()? {
                total += chunk.len();
                ensure!(total <= READ_BYTES, "more than {} MiB of mail: take a part of it", READ_BYTES >> 20);
                message.extend_from_slice(chunk);
            }
            if !meta.internal && !message.is_empty() {
                messages.push(message);
            }
        }
    }
    ensure!(!messages.is_empty(), "no mail was found");
    Ok(messages)
}

/// Writes the first `count` messages of `data` into a new Maildir or mbox file at `path`; returns
/// their size in bytes.
///
/// # Errors
/// If it cannot be written, or exists already.
pub fn write(data: &DataSet, count: u64, format: Format, path: &Path) -> Result<u64> {
    ensure!(!path.exists(), "{} is there already", path.display());
    match format {
        Format::Maildir => maildir(data, count, path),
        Format::Mbox => mbox(data, count, path).with_context(|| path.display().to_string()),
    }
}

fn maildir(data: &DataSet, count: u64, path: &Path) -> Result<u64> {
    let mut writer = MaildirWriter::open(path, "INBOX", LineEnds::Lf)?;
    let mut bytes = 0;
    for nth in 0..count {
        let about = data.about(nth, count);
        let received = about.received.unwrap_or(RECEIVED);
        let flags: Vec<String> = about.flags.split_whitespace().map(str::to_owned).collect();
        let name = format!("{}.M{nth:09}P1.bench", received.seconds());
        if writer.place(&name, &flags)? == Placed::Absent {
            let message = data.message(nth);
            writer.begin(&name)?;
            writer.write(&message)?;
            writer.end(&flags, received)?;
            bytes += message.len() as u64;
        }
    }
    writer.finish()?;
    Ok(bytes)
}

fn mbox(data: &DataSet, count: u64, path: &Path) -> Result<u64> {
    let mut writer = MboxWriter::create(path, LineEnds::Lf)?;
    let mut bytes = 0;
    for nth in 0..count {
        let (message, about) = (data.message(nth), data.about(nth, count));
        let flags: Vec<String> = about.flags.split_whitespace().map(str::to_owned).collect();
        let received = about.received.unwrap_or(RECEIVED);
        writer.begin(&Envelope { sender: "a@sender.example", received, flags: &flags })?;
        writer.write(&message)?;
        writer.end()?;
        bytes += message.len() as u64;
    }
    writer.finish()?.flush()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_data_sets_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        for (name, format) in [("tiny", Format::Maildir), ("mailbox-100", Format::Mbox)] {
            let path = dir.path().join(name);
            let data = DataSet::open(name, 3).unwrap();
            let bytes = write(&data, 40, format, &path).unwrap();
            let again = DataSet::open(path.to_str().unwrap(), 9).unwrap();
            assert_eq!((again.len(), again.bytes()), (Some(40), bytes));
            let mut read: Vec<_> = (0..40).map(|nth| again.message(nth)).collect();
            let mut made: Vec<_> = (0..40).map(|nth| data.message(nth)).collect();
            read.sort();
            made.sort();
            assert!(read == made, "{name}");
            assert!(write(&data, 1, format, &path).is_err(), "nothing is overwritten");
        }
    }
}
