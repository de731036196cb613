//! A single message in a file of its own (`.eml`).

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sealpost_base::{Result, Timestamp};

use crate::lines::{LineEnds, ToCrlf};
use crate::{Meta, Source, io_error};

const PIECE_BYTES: usize = 64 * 1024;

/// When a file was last changed.
pub(crate) fn modified(metadata: &Metadata) -> Option<Timestamp> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

/// The pieces of one message file, with the line ends of the wire.
pub(crate) struct MessageFile {
    path: PathBuf,
    file: File,
    buffer: Box<[u8]>,
    started: bool,
    to_crlf: Option<ToCrlf>,
    out: Vec<u8>,
}

impl MessageFile {
    pub fn open(path: &Path) -> Result<(Self, Metadata)> {
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            Ok((file, metadata))
        };
        let (file, metadata) = open().map_err(|e| io_error(path, e))?;
        let buffer = vec![0; PIECE_BYTES].into_boxed_slice();
        let file = MessageFile {
            path: path.to_owned(),
            file,
            buffer,
            started: false,
            to_crlf: None,
            out: Vec::new(),
        };
        Ok((file, metadata))
    }

    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.file.read(&mut self.buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_error(&self.path, e)),
            }
        }
        let piece = &self.buffer[..filled];
        if !std::mem::replace(&mut self.started, true) && LineEnds::of_first_line(piece) == LineEnds::Lf {
            self.to_crlf = Some(ToCrlf::default());
        }
        if piece.is_empty() {
            return Ok(None);
        }
        let Some(convert) = &mut self.to_crlf else { return Ok(Some(piece)) };
        self.out.clear();
        convert.push(piece, &mut self.out);
        Ok(Some(&self.out))
    }
}

/// One message in one file.
pub struct EmlReader {
    path: PathBuf,
    file: Option<MessageFile>,
    begun: bool,
    done: u64,
}

impl EmlReader {
    /// Reads the message at `path`.
    pub fn new(path: &Path) -> Self {
        EmlReader { path: path.to_owned(), file: None, begun: false, done: 0 }
    }
}

impl Source for EmlReader {
    fn next_message(&mut self) -> Result<Option<Meta>> {
        self.file = None;
        if std::mem::replace(&mut self.begun, true) {
            return Ok(None);
        }
        let (file, metadata) = MessageFile::open(&self.path)?;
        self.file = Some(file);
        self.done = metadata.len();
        let place = self.path.display().to_string();
        Ok(Some(Meta { modified: modified(&metadata), place, ..Meta::default() }))
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        match &mut self.file {
            Some(file) => file.next_chunk(),
            None => Ok(None),
        }
    }

    fn bytes_done(&self) -> u64 {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crlf_is_kept_and_lf_converted() {
        let dir = tempfile::tempdir().unwrap();
        for (bytes, expected) in
            [(&b"A: b\r\n\r\nx\ny"[..], &b"A: b\r\n\r\nx\ny"[..]), (b"A: b\n\nx", b"A: b\r\n\r\nx")]
        {
            let path = dir.path().join("x.eml");
            std::fs::write(&path, bytes).unwrap();
            let mut reader = EmlReader::new(&path);
            assert!(reader.next_message().unwrap().unwrap().modified.is_some());
            assert_eq!(reader.next_chunk().unwrap().unwrap(), expected);
            assert!(reader.next_chunk().unwrap().is_none());
            assert!(reader.next_message().unwrap().is_none());
        }
    }
}
