//! The body of a response: bytes, or pieces as they are produced.
//!
//! The server polls the producer for the next piece when the client has taken the previous ones. A slow
//! client delays only its own response, and holds at most a few pieces in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use sealpost_base::limits::HTTP_PIECE_BYTES;
use tokio::sync::mpsc;

use crate::io::Watched;

/// The body of a response.
pub struct ResponseBody {
    pub(crate) source: Source,
    /// The length in bytes, if known in advance.
    pub(crate) length: Option<u64>,
    /// Whether it is long-lived: it ends when the client disconnects or the server stops.
    pub(crate) is_lasting: bool,
}

pub(crate) enum Source {
    Bytes(Bytes),
    Stream(BoxStream<'static, io::Result<Bytes>>),
    /// For a connection that leaves HTTP and is taken over.
    Upgrade(Upgrade),
}

/// Runs on the stream of a connection that has left HTTP, and on the bytes received after the request.
pub(crate) type Upgrade = Box<dyn FnOnce(Watched, Bytes) -> BoxFuture<'static, &'static str> + Send>;

/// Writes a response piece by piece.
#[derive(Clone)]
pub struct BodyWriter(mpsc::Sender<Bytes>);

impl ResponseBody {
    /// An empty body.
    pub fn empty() -> Self {
        Self::bytes(Bytes::new())
    }

    /// A body of these bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        ResponseBody { length: Some(bytes.len() as u64), source: Source::Bytes(bytes), is_lasting: false }
    }

    /// A body of these pieces; `length` is their total, if known. After an error the response is truncated in
    /// a way that the client can detect.
    pub fn stream(
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        length: Option<u64>,
    ) -> Self {
        ResponseBody { source: Source::Stream(pieces.boxed()), length, is_lasting: false }
    }

    /// A body that `write` writes. Its future is a part of the response: it waits while the client takes the
    /// bytes, and is dropped if the client disconnects.
    pub fn written<W, F>(write: W, length: Option<u64>) -> Self
    where
        W: FnOnce(BodyWriter) -> F,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(1);
        let writing: BoxFuture<'static, _> = Box::pin(write(BodyWriter(sender)));
        Self::stream(Written { writing: Some(writing), pieces, failed: None }, length)
    }

    /// Waits for the first piece of the body. If that is the whole body, its length is known from then on.
    ///
    /// # Errors
    /// The error of the body, if it fails before its first piece. The client has received nothing, so the
    /// server can send another response.
    pub async fn begun(self) -> io::Result<Self> {
        let Source::Stream(mut pieces) = self.source else { return Ok(self) };
        let Some(first) = pieces.next().await.transpose()? else {
            return Ok(ResponseBody { is_lasting: self.is_lasting, ..Self::empty() });
        };
        // Polling once loses nothing if the next piece is not ready.
        let (rest, length) = match pieces.next().now_or_never() {
            Some(None) => return Ok(ResponseBody { is_lasting: self.is_lasting, ..Self::bytes(first) }),
            Some(Some(second)) => (stream::iter([Ok(first), second]).chain(pieces).boxed(), self.length),
            None => (stream::iter([Ok(first)]).chain(pieces).boxed(), self.length),
        };
        Ok(ResponseBody { source: Source::Stream(rest), length, is_lasting: self.is_lasting })
    }

    /// Makes the body long-lived: it ends when the server stops, and releases its memory between pieces.
    pub(crate) fn lasting(self) -> Self {
        ResponseBody { is_lasting: true, ..self }
    }

    /// The body as a stream of pieces.
    pub(crate) fn into_pieces(self) -> BoxStream<'static, io::Result<Bytes>> {
        match self.source {
            Source::Bytes(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Source::Stream(pieces) => pieces,
            // Only a response that takes over its connection has this source.
            Source::Upgrade(_) => stream::empty().boxed(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.source, Source::Bytes(bytes) if bytes.is_empty())
    }
}

impl BodyWriter {
    /// Writes a piece. Waits until the client has taken all pieces but the last one.
    ///
    /// # Errors
    /// `BrokenPipe` if the response has ended.
    pub async fn write(&mut self, piece: impl Into<Bytes>) -> io::Result<()> {
        let mut piece = piece.into();
        while !piece.is_empty() {
            let next = piece.split_to(piece.len().min(HTTP_PIECE_BYTES));
            self.0.send(next).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(())
    }
}

/// Polls a future that writes, and passes on the pieces.
struct Written {
    writing: Option<BoxFuture<'static, io::Result<()>>>,
    pieces: mpsc::Receiver<Bytes>,
    /// The error of the future, reported after the pieces that it wrote before.
    failed: Option<io::Error>,
}

impl Stream for Written {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.pieces.poll_recv(cx) {
                Poll::Ready(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Poll::Ready(None) if this.writing.is_none() => {
                    return Poll::Ready(this.failed.take().map(Err));
                }
                // The writer is gone, but its future may still have work to do.
                Poll::Ready(None) | Poll::Pending => {}
            }
            let Some(writing) = &mut this.writing else { return Poll::Pending };
            match writing.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => this.writing = None,
                Poll::Ready(Err(error)) => (this.writing, this.failed) = (None, Some(error)),
                // The piece that it has just written is already there.
                Poll::Pending => match this.pieces.try_recv() {
                    Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                    Err(_) => return Poll::Pending,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn pieces(body: ResponseBody) -> BoxStream<'static, io::Result<Bytes>> {
        body.into_pieces()
    }

    #[tokio::test]
    async fn a_writer_is_never_far_ahead_of_the_client() {
        let written = Arc::new(AtomicUsize::new(0));
        let count = written.clone();
        let body = ResponseBody::written(
            |mut out| async move {
                for _ in 0..100 {
                    out.write(vec![7; HTTP_PIECE_BYTES]).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            },
            None,
        );
        let mut pieces = pieces(body);
        for taken in 1..=100 {
            assert_eq!(pieces.next().await.unwrap().unwrap().len(), HTTP_PIECE_BYTES);
            assert!(written.load(Ordering::Relaxed) <= taken + 1);
        }
        assert!(pieces.next().await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_fails_at_once_can_be_replaced() {
        let written = |texts: &'static [&'static str], fails| {
            ResponseBody::written(
                move |mut out| async move {
                    for text in texts {
                        out.write(*text).await?;
                    }
                    if fails { Err(io::Error::other("failed")) } else { Ok(()) }
                },
                None,
            )
        };
        assert!(written(&[], true).begun().await.is_err());
        assert_eq!(written(&[], false).begun().await.unwrap().length, Some(0));
        let whole = written(&["ab"], false).begun().await.unwrap();
        assert_eq!(whole.length, Some(2));
        let cut = written(&["ab", "c"], true).begun().await.unwrap();
        assert_eq!(cut.length, None);
        let all: Vec<_> = pieces(cut).collect().await;
        let lengths: Vec<_> = all.iter().map(|piece| piece.as_ref().map_or(0, Bytes::len)).collect();
        assert_eq!(lengths, [2, 1, 0]);
    }

    #[tokio::test]
    async fn large_pieces_are_divided_and_errors_follow_written_data() {
        let body = ResponseBody::written(
            |mut out| async move {
                out.write(vec![7; HTTP_PIECE_BYTES + 1]).await?;
                Err(io::Error::other("lost"))
            },
            None,
        );
        let all: Vec<_> = pieces(body).collect().await;
        let lengths: Vec<_> = all.iter().map(|piece| piece.as_ref().map_or(0, Bytes::len)).collect();
        assert_eq!(lengths, [HTTP_PIECE_BYTES, 1, 0]);
    }
}
