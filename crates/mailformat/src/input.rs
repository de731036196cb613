//! The bytes of a file or pipe, decompressed, with the first of them available before the rest is
//! read.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;

use crate::packed::{Behind, Compression, Limit};
use crate::recognize::HEAD_BYTES;

/// Decompressed bytes, of which the first are available in advance.
pub(crate) struct Input {
    head: Vec<u8>,
    /// Its compression.
    compression: Option<Compression>,
    behind: Behind,
    /// The bytes after the head.
    rest: Box<dyn Read + Send>,
    /// The error that ended the head.
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

    /// Reads from `from`.
    ///
    /// # Errors
    /// If there is no memory to decompress it. Later failures, or damage, are errors of the reader.
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

    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Its compression.
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Reports, when all was read, whether something was left out.
    pub fn behind(&self) -> Behind {
        self.behind.clone()
    }

    /// The error that prevents reading past the head.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// All its bytes.
    pub fn into_reader(self) -> impl Read + Send + 'static {
        let failure = self.failure.map(|e| (e.kind(), e.to_string()));
        Cursor::new(self.head).chain(Rest { failure, rest: self.rest })
    }
}

/// The bytes after the head; if reading failed there, it fails again.
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
