//! One TCP connection with a read buffer, for lines and counted bytes.
//!
//! The reader never holds more than [`LINE_BYTES`] and passes literals through without keeping
//! them, so that the client costs little beside the measured server.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER_BYTES: usize = 256 * 1024;
/// The longest line that is accepted from a server, in bytes.
pub const LINE_BYTES: usize = 8 * 1024 * 1024;

/// A buffered connection to a server.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    received: u64,
}

impl Wire {
    /// Connects, without Nagle's delay.
    pub async fn connect(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, received: 0 })
    }

    /// Bytes received so far, including those in the buffer.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Sends all of `bytes`.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// The next line, without its CRLF. End of stream is an error.
    pub async fn line(&mut self) -> Result<Vec<u8>> {
        let mut scanned = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &unread[scanned..]) {
                let line = &unread[..scanned + at];
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.start += scanned + at + 1;
                return Ok(line);
            }
            scanned = unread.len();
            if scanned > LINE_BYTES {
                bail!("a line of more than {LINE_BYTES} bytes");
            }
            self.fill().await?;
        }
    }

    /// Passes the next `count` bytes to `sink`, piece by piece.
    pub async fn take(&mut self, mut count: u64, mut sink: impl FnMut(&[u8])) -> Result<()> {
        while count > 0 {
            if self.start == self.end {
                self.fill().await?;
            }
            let piece = (self.end - self.start).min(usize::try_from(count).unwrap_or(usize::MAX));
            sink(&self.buffer[self.start..self.start + piece]);
            self.start += piece;
            count -= piece as u64;
        }
        Ok(())
    }

    /// Waits for the server to close, dropping bytes that still arrive; returns how many.
    pub async fn drain(&mut self) -> u64 {
        let mut dropped = (self.end - self.start) as u64;
        self.start = self.end;
        while self.fill().await.is_ok() {
            dropped += (self.end - self.start) as u64;
            self.start = self.end;
        }
        dropped
    }

    async fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
        }
        let count = self.stream.read(&mut self.buffer[self.end..]).await?;
        if count == 0 {
            bail!("the server closed the connection");
        }
        self.end += count;
        self.received += count as u64;
        Ok(())
    }
}
