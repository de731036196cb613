//! A connection without a buffer while it waits: ten thousand of them cost their sockets.
//!
//! Bytes are read into one buffer of the thread, scanned at once and dropped. Sending also reads
//! what comes in, so that client and server never wait for each other with full sockets.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::scan::{Line, Scanner, Syntax};

const BUFFER_BYTES: usize = 128 * 1024;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into_boxed_slice());
}

/// A byte stream: a socket, TLS over one, or a pipe within the process.
pub trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Receives the server's lines. It must not read or send itself.
pub trait Sink {
    /// A line came.
    fn line(&mut self, line: Line<'_>);
}

/// One connection to a server.
pub struct Wire {
    stream: Box<dyn Io>,
    scanner: Scanner,
    sent: u64,
    received: u64,
    /// Whether any bytes came.
    heard: bool,
}

impl Wire {
    /// Over a stream that was just opened.
    pub fn new(stream: Box<dyn Io>, syntax: Syntax) -> Self {
        Wire { stream, scanner: Scanner::new(syntax), sent: 0, received: 0, heard: false }
    }

    /// One without a peer, as a placeholder.
    pub fn closed(syntax: Syntax) -> Self {
        Wire::new(Box::new(tokio::io::join(tokio::io::empty(), tokio::io::sink())), syntax)
    }

    /// The underlying stream, for TLS over it. Unscanned bytes are lost: none may come before that
    /// (RFC 3207 §4).
    pub fn into_stream(self) -> Box<dyn Io> {
        self.stream
    }

    /// Bytes sent and received since the last call.
    pub fn traffic(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.sent), std::mem::take(&mut self.received))
    }

    /// Whether anything came since it was opened.
    pub fn has_received(&self) -> bool {
        self.heard
    }

    /// Sends all of `bytes`; lines that come meanwhile go to `sink`.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn send(&mut self, mut bytes: &[u8], sink: &mut impl Sink) -> io::Result<()> {
        self.sent += bytes.len() as u64;
        poll_fn(|cx| {
            loop {
                let written = if bytes.is_empty() {
                    Pin::new(&mut self.stream).poll_flush(cx).map_ok(|()| None)
                } else {
                    Pin::new(&mut self.stream).poll_write(cx, bytes).map_ok(Some)
                };
                match written {
                    Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(Some(0))) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(Some(count))) => bytes = &bytes[count..],
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                    // The server may be waiting for the client to read.
                    Poll::Pending => ready!(self.poll_receive(cx, sink))?,
                }
            }
        })
        .await
    }

    /// Waits for bytes and passes their lines to `sink`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the server has closed; if the connection is gone.
    pub async fn receive(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        poll_fn(|cx| self.poll_receive(cx, sink)).await
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, sink: &mut impl Sink) -> Poll<io::Result<()>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            self.received += read.filled().len() as u64;
            self.heard = true;
            self.scanner.feed(read.filled(), |line| sink.line(line));
            Poll::Ready(Ok(()))
        })
    }
}
