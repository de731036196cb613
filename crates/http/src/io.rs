//! The stream of a connection, as hyper reads and writes it. It reports received bytes to the connection, and
//! fails a write if the client is stalled.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sealpost_session::admission::NoMemory;
use sealpost_session::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::connection::Connection;
use crate::pace::Pace;

/// A stream whose writes fail if the client takes nothing for too long.
pub(crate) struct Watched {
    stream: Stream,
    connection: Arc<Connection>,
    /// A write that waits for the client: since when, and the timer for the next check.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    pace: Pace,
}

impl Watched {
    pub(crate) fn new(stream: Stream, connection: Arc<Connection>) -> Self {
        Watched { stream, connection, waiting: None, pace: Pace::default() }
    }

    /// As [`Stream::rest`].
    pub(crate) fn rest(&mut self, bytes: usize) {
        self.stream.rest(bytes);
    }

    /// As [`Stream::stir`].
    ///
    /// # Errors
    /// `TimedOut` if no memory becomes available.
    pub(crate) async fn stir(&mut self) -> io::Result<()> {
        self.stream.stir().await.map_err(|NoMemory| io::ErrorKind::TimedOut.into())
    }

    /// As [`Stream::stir_for_input`].
    ///
    /// # Errors
    /// As [`Watched::stir`].
    pub(crate) async fn stir_for_input(&mut self) -> io::Result<()> {
        self.stream.stir_for_input().await.map_err(|NoMemory| io::ErrorKind::TimedOut.into())
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Evaluates the result of a write; `bytes` is how many it took.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        let timeouts = self.connection.shared.timeouts;
        if let Poll::Ready(done) = polled {
            if let (Some((since, _)), Ok(done)) = (self.waiting.take(), &done) {
                self.pace.add(since.elapsed(), bytes(done));
                if self.is_too_slow() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
            return Poll::Ready(done);
        }
        let look = timeouts.stalled.min(timeouts.write);
        let (since, mut timer) =
            self.waiting.take().unwrap_or_else(|| (Instant::now(), Box::pin(sleep(look))));
        while timer.as_mut().poll(cx).is_ready() {
            let others_wait = self.connection.shared.others_wait();
            if since.elapsed() >= timeouts.write || others_wait && since.elapsed() >= timeouts.stalled {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(Instant::now() + look);
        }
        self.waiting = Some((since, timer));
        Poll::Pending
    }

    fn is_too_slow(&mut self) -> bool {
        let shared = &self.connection.shared;
        self.pace.is_too_slow(shared.timeouts.stalled, shared.others_wait())
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.received();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.connection.note_blocked(written.is_pending());
        self.watch(cx, written, |bytes| *bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.connection.note_blocked(written.is_pending());
        self.watch(cx, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, closed, |()| 0)
    }
}
