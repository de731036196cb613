//! What is at a path, or comes from a pipe, as the bytes in it: compression is seen through, and
//! how it begins is known before anything is made of it.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;

use crate::packed::{Behind, Compression, Limit};
use crate::recognize::HEAD_BYTES;

/// Bytes to be read, unpacked, of which the first were looked at.
pub(crate) struct Input {
    head: Vec<u8>,
    /// How it was compressed.
    compression: Option<Compression>,
    behind: Behind,
    /// What follows the head.
    rest: Box<dyn Read + Send>,
    /// Why it could not be read on behind the head.
    failure: Option<io::Error>,
}

impl Input {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// Takes what `from` has.
    ///
    /// # Errors
    /// If there is no memory to unpack it. What fails later, or is damaged, is an error when it is read.
    pub fn of(from: impl Read + Send + 'static) -> io::Result<Self> {
        let plain = Self::begin(Box::new(from), None);
        match Compression::of(&plain.head) {
            None => Ok(plain),
            Some(compression) => {
                let unpacked = compression.unpack(plain.into_reader(), Limit::default())?;
                let behind = unpacked.behind();
                Ok(Input { behind, ..Self::begin(Box::new(unpacked), Some(compression)) })
            }
        }
    }

    fn begin(mut rest: Box<dyn Read + Send>, compression: Option<Compression>) -> Self {
        let mut head = Vec::new();
        let failure = (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head).err();
        Input { head, compression, behind: Behind::default(), rest, failure }
    }

    /// How it begins.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// How it was compressed.
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// What tells, when all was read, whether something was left out.
    pub fn behind(&self) -> Behind {
        self.behind.clone()
    }

    /// Why it cannot be read further than its head.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// All of it.
    pub fn into_reader(self) -> impl Read + Send + 'static {
        let failure = self.failure.map(|e| (e.kind(), e.to_string()));
        Cursor::new(self.head).chain(Rest { failure, rest: self.rest })
    }
}

/// What follows the head; if that failed, it fails again.
struct Rest {
    failure: Option<(ErrorKind, String)>,
    rest: Box<dyn Read + Send>,
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.failure {
            Some((kind, says)) => Err(io::Error::new(*kind, says.clone())),
            None => self.rest.read(buffer),
        }
    }
}
