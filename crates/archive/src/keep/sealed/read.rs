//! A stored message as a reader that blocks.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::Result;
use tokio::runtime::Handle;

/// Reads a message, piece by piece.
pub struct Blocking {
    runtime: Handle,
    pieces: BoxStream<'static, Result<Bytes>>,
    piece: Bytes,
}

impl Blocking {
    /// `runtime` drives the stream.
    pub fn new(runtime: Handle, pieces: BoxStream<'static, Result<Bytes>>) -> Self {
        Blocking { runtime, pieces, piece: Bytes::new() }
    }
}

impl Read for Blocking {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !out.is_empty() {
            match self.runtime.block_on(self.pieces.next()) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(e)) => return Err(io::Error::other(e)),
                None => return Ok(0),
            }
        }
        let n = out.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut out[..n]);
        Ok(n)
    }
}
