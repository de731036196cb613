//! A client's side of COMPRESS=DEFLATE (RFC 4978), over any wire.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::imap_world::Wire;

/// Compresses the bytes written, completely at every flush; decompresses the bytes read. Both end
/// where the server ends them.
pub struct DeflateWire {
    wire: Box<dyn Wire>,
    compressor: Option<Box<CompressorOxide>>,
    inflater: Option<Box<InflateState>>,
    to_send: Vec<u8>,
    unflushed: bool,
    received: Vec<u8>,
    expanded: Vec<u8>,
}

impl DeflateWire {
    pub fn new(wire: Box<dyn Wire>) -> Self {
        let flags = create_comp_flags_from_zip_params(6, -15, 0);
        DeflateWire {
            wire,
            compressor: Some(Box::new(CompressorOxide::new(flags))),
            inflater: Some(InflateState::new_boxed(DataFormat::Raw)),
            to_send: Vec::new(),
            unflushed: false,
            received: Vec::new(),
            expanded: Vec::new(),
        }
    }

    /// What is written from now on is not compressed.
    pub fn end_writing(&mut self) {
        self.compressor = None;
    }

    fn compress(&mut self, bytes: &[u8], flush: MZFlush) {
        let Some(compressor) = &mut self.compressor else { return self.to_send.extend_from_slice(bytes) };
        let (mut bytes, mut room) = (bytes, vec![0; 64 * 1024]);
        loop {
            let result = deflate(compressor, bytes, &mut room, flush);
            bytes = &bytes[result.bytes_consumed..];
            self.to_send.extend_from_slice(&room[..result.bytes_written]);
            if bytes.is_empty() && result.bytes_written < room.len() {
                return;
            }
        }
    }

    fn expand(&mut self) {
        let Some(inflater) = &mut self.inflater else { return self.expanded.append(&mut self.received) };
        let mut room = vec![0; 64 * 1024];
        loop {
            let result = inflate(inflater, &self.received, &mut room, MZFlush::Sync);
            self.received.drain(..result.bytes_consumed);
            self.expanded.extend_from_slice(&room[..result.bytes_written]);
            match result.status {
                Ok(MZStatus::StreamEnd) => {
                    self.inflater = None;
                    return self.expanded.append(&mut self.received);
                }
                _ if result.bytes_written == 0 => {
                    assert!(self.received.is_empty(), "{:?}", result.status);
                    return;
                }
                _ => {}
            }
        }
    }
}

impl AsyncRead for DeflateWire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.expanded.is_empty() {
            let mut space = [0; 8192];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.wire).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.received.extend_from_slice(read.filled());
            this.expand();
        }
        let n = buf.remaining().min(this.expanded.len());
        buf.put_slice(&this.expanded[..n]);
        this.expanded.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for DeflateWire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        while !this.to_send.is_empty() {
            let n = ready!(Pin::new(&mut this.wire).poll_write(cx, &this.to_send))?;
            this.to_send.drain(..n);
        }
        let bytes = &bytes[..bytes.len().min(256 * 1024)];
        this.compress(bytes, MZFlush::None);
        this.unflushed = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.unflushed) {
            this.compress(b"", MZFlush::Sync);
        }
        while !this.to_send.is_empty() {
            let n = ready!(Pin::new(&mut this.wire).poll_write(cx, &this.to_send))?;
            this.to_send.drain(..n);
        }
        Pin::new(&mut this.wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}
