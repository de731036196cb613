//! The exact bytes of a message, from its text and the line ends in the journal.

use std::io::{self, Read};

use sealpost_base::{Error, Result};

use super::digest::{Digest, Digesting};
use super::journal::{Journal, Message, Record, Records};
use super::line_ends::ToBytes;

/// Text that is converted at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// Reads a message; the end is reached only if the digest matches that of the journal.
pub(super) struct StoredMessage<'a> {
    text: Box<dyn Read + 'a>,
    runs: Runs,
    to_bytes: ToBytes,
    piece: Vec<u8>,
    ready: Vec<u8>,
    taken: usize,
    left: u64,
    digesting: Digesting,
    digest: Digest,
    uid: u32,
}

impl<'a> StoredMessage<'a> {
    /// `text`: that of `message`, perhaps with more after it.
    ///
    /// # Errors
    /// `Retry` if the journal cannot be read.
    pub fn new(text: Box<dyn Read + 'a>, journal: &Journal, message: &Message) -> Result<Self> {
        let records = match message.line_ends {
            0 => None,
            at => Some(journal.records_from(at)?),
        };
        Ok(StoredMessage {
            text,
            runs: Runs { records, bytes: Vec::new().into_iter() },
            to_bytes: ToBytes::default(),
            piece: vec![0; PIECE_BYTES],
            ready: Vec::new(),
            taken: 0,
            left: message.bytes,
            digesting: Digesting::like(&message.digest),
            digest: message.digest,
            uid: message.uid,
        })
    }

    /// Makes some bytes ready; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.ready.clear();
        self.taken = 0;
        while self.ready.is_empty() && self.left > 0 {
            let n = match self.text.read(&mut self.piece) {
                Ok(0) => return Err(self.damaged("ends too early")),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let runs = &mut self.runs;
            let converted = self.to_bytes.push(&self.piece[..n], &mut self.ready, || runs.next());
            converted.map_err(io::Error::other)?;
            self.ready.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= self.ready.len() as u64;
            self.digesting.push(&self.ready);
        }
        if self.ready.is_empty() && self.digesting.finish() != self.digest {
            return Err(self.damaged("does not match its stored hash"));
        }
        Ok(!self.ready.is_empty())
    }

    fn damaged(&self, why: &str) -> io::Error {
        let error = Error::corrupt(format!("the backup of the message of UID {} {why}", self.uid));
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl Read for StoredMessage<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || (self.taken == self.ready.len() && !self.fill()?) {
            return Ok(0);
        }
        let n = out.len().min(self.ready.len() - self.taken);
        out[..n].copy_from_slice(&self.ready[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

/// The bytes of the line-end records that stand before a message.
struct Runs {
    records: Option<Records>,
    bytes: std::vec::IntoIter<u8>,
}

impl Runs {
    fn next(&mut self) -> Result<Option<u8>> {
        loop {
            if let Some(byte) = self.bytes.next() {
                return Ok(Some(byte));
            }
            match self.records.as_mut().and_then(Iterator::next).transpose()? {
                Some((_, Record::LineEnds { runs })) => self.bytes = runs.into_iter(),
                Some((_, Record::Message(_) | Record::Abandoned)) | None => {
                    self.records = None;
                    return Ok(None);
                }
                Some(_) => {}
            }
        }
    }
}
