//! An unnamed file for input that cannot be read twice: decompressed data, or data from a pipe.
//!
//! The mbox reader looks ahead and back, as far as lengths in the file lead. The spool file never
//! has a name, so no other process can open it, and the system removes it with the process.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

const PIECE_BYTES: usize = 128 * 1024;

/// The data that was read before the end or an error; after an error, reading past its end fails as
/// well.
pub(crate) struct Spool {
    file: File,
    failure: Option<(ErrorKind, String)>,
}

impl Spool {
    /// Reads all of `from` into a file on the disk of `directory`.
    ///
    /// # Errors
    /// If that cannot be written. An error of `from` is kept: reading the spool to its end returns it.
    pub fn of(mut from: impl Read, directory: &Path) -> io::Result<Self> {
        let mut file = tempfile::tempfile_in(directory)?;
        let mut piece = vec![0; PIECE_BYTES];
        let failure = loop {
            match from.read(&mut piece) {
                Ok(0) => break None,
                Ok(n) => file.write_all(&piece[..n])?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break Some((e.kind(), e.to_string())),
            }
        };
        file.seek(SeekFrom::Start(0))?;
        Ok(Spool { file, failure })
    }
}

impl Read for Spool {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (self.file.read(buffer)?, &self.failure) {
            (0, Some((kind, says))) if !buffer.is_empty() => Err(io::Error::new(*kind, says.clone())),
            (n, _) => Ok(n),
        }
    }
}

impl Seek for Spool {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_keeps_the_bytes_before_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::new(ErrorKind::InvalidData, "cut off"))
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let text = vec![7; 300_000];
        for (fails, from) in [
            (false, Box::new(&text[..]) as Box<dyn Read>),
            (true, Box::new((&text[..]).chain(Fails)) as Box<dyn Read>),
        ] {
            let mut spool = Spool::of(from, directory.path()).unwrap();
            for _ in 0..2 {
                let mut read = Vec::new();
                let end = spool.read_to_end(&mut read);
                assert_eq!((read.len(), end.is_err()), (text.len(), fails));
                assert_eq!(spool.seek(SeekFrom::End(0)).unwrap(), text.len() as u64);
                spool.seek(SeekFrom::Start(0)).unwrap();
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has no name");
    }
}
