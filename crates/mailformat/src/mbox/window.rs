//! A buffered view of a seekable file: bounded lookahead, consume, and reads elsewhere.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes held at once, whatever the file.
const WINDOW_BYTES: usize = 64 * 1024;

/// The bytes around the reader's position.
pub(super) struct Window<R> {
    file: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Offset in the file of `buffer[start]`.
    offset: u64,
    at_end: bool,
}

impl<R: Read + Seek> Window<R> {
    pub fn new(mut file: R) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let buffer = vec![0; WINDOW_BYTES].into_boxed_slice();
        Ok(Window { file, buffer, start: 0, end: 0, offset: 0, at_end: false })
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// At least `least` bytes (at most half the window) unless the file ends, or fails, before;
    /// maybe many more.
    pub fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        let least = least.min(WINDOW_BYTES / 2);
        while self.end - self.start < least && !self.at_end {
            if self.buffer.len() - self.start < least || self.end == self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Bytes read before the error are valid: the error comes again once they are
                // consumed.
                Err(_) if self.end > self.start => break,
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Moves ahead by `n` bytes, at most those last peeked.
    pub fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Moves to `offset`.
    pub fn jump(&mut self, offset: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        (self.start, self.end, self.offset, self.at_end) = (0, 0, offset, false);
        Ok(())
    }

    /// Up to `most` bytes at `offset`, without moving. `None` if the file is shorter than `offset`.
    pub fn glance(&mut self, offset: u64, most: usize) -> io::Result<Option<Vec<u8>>> {
        let resume = self.offset + (self.end - self.start) as u64;
        let length = self.file.seek(SeekFrom::End(0))?;
        let seen = if offset > length {
            None
        } else {
            self.file.seek(SeekFrom::Start(offset))?;
            let mut seen = Vec::new();
            match (&mut self.file).take(most as u64).read_to_end(&mut seen) {
                Err(e) if seen.is_empty() => return Err(e),
                _ => Some(seen),
            }
        };
        self.file.seek(SeekFrom::Start(resume))?;
        Ok(seen)
    }
}
