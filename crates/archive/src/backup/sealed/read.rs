//! A stored message as a blocking reader.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::{BoxStream, Fuse};
use sealpost_base::Result;
use tokio::runtime::Handle;

/// Reads a message, piece by piece. Reads at its end return nothing.
pub struct Blocking {
    runtime: Handle,
    pieces: Fuse<BoxStream<'static, Result<Bytes>>>,
    piece: Bytes,
}

impl Blocking {
    /// `runtime` drives the stream.
    pub fn new(runtime: Handle, pieces: BoxStream<'static, Result<Bytes>>) -> Self {
        Blocking { runtime, pieces: pieces.fuse(), piece: Bytes::new() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_after_the_end_return_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pieces = futures::stream::unfold(2u8, |left| async move {
            let next = left.checked_sub(1)?;
            Some((Ok(Bytes::from_static(b"piece ")), next))
        });
        let mut reader = Blocking::new(runtime.handle().clone(), pieces.boxed());
        let mut bytes = Vec::new();
        for _ in 0..3 {
            reader.read_to_end(&mut bytes).unwrap();
        }
        assert_eq!(bytes, b"piece piece ");
    }
}
