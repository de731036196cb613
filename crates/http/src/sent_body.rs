//! The body of a response while it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use sealpost_base::limits::HTTP_PIECE_BYTES;

use crate::response_body::ResponseBody;
use crate::streams::StreamWatch;
use crate::work::Work;

/// The body that hyper sends, in pieces of at most [`HTTP_PIECE_BYTES`].
///
/// HTTP/2: h2 takes a whole piece as soon as it may send one byte of it, and a stream's task ends when it has
/// handed over the last piece. So the last byte is a piece of its own. The task and its permit thus live
/// until everything before that byte was sent.
pub(crate) struct SentBody {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// The rest of the last piece.
    rest: Bytes,
    /// HTTP/2: a piece held back until it is known whether it is the last one.
    ahead: Option<Bytes>,
    watch: Option<StreamWatch>,
    length: Option<u64>,
    given: u64,
    is_empty: bool,
    is_over: bool,
    /// Resolves when the server stops; for a long-lived body.
    stopping: Option<BoxFuture<'static, ()>>,
    work: Work,
}

impl SentBody {
    /// `watch` is the HTTP/2 stream; `stopping` resolves when the server stops.
    pub(crate) fn new(
        body: ResponseBody,
        work: Work,
        watch: Option<StreamWatch>,
        stopping: BoxFuture<'static, ()>,
    ) -> Self {
        let is_empty = body.is_empty();
        let stopping = body.is_lasting.then_some(stopping);
        let length = body.length;
        let pieces = body.into_pieces();
        if is_empty {
            work.complete();
        }
        SentBody {
            pieces,
            rest: Bytes::new(),
            ahead: None,
            watch: watch.filter(|_| !is_empty),
            length,
            given: 0,
            is_empty,
            is_over: is_empty,
            stopping,
            work,
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while self.rest.is_empty() {
            if self.stopping.as_mut().is_some_and(|stopping| stopping.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(None);
            }
            match ready!(self.pieces.poll_next_unpin(cx)) {
                Some(Ok(piece)) => self.rest = piece,
                other => return Poll::Ready(other),
            }
        }
        let next = self.rest.split_to(self.rest.len().min(HTTP_PIECE_BYTES));
        Poll::Ready(Some(Ok(next)))
    }

    /// The next piece, with the last byte as a piece of its own.
    fn poll_divided(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if self.is_over {
                return Poll::Ready(self.ahead.take().map(Ok));
            }
            match ready!(self.poll_piece(cx)) {
                Some(Ok(piece)) => {
                    if let Some(before) = self.ahead.replace(piece) {
                        return Poll::Ready(Some(Ok(before)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.is_over = true;
                    let last = self.ahead.as_mut().filter(|last| last.len() > 1);
                    if let Some(last) = last {
                        let most = last.split_to(last.len() - 1);
                        return Poll::Ready(Some(Ok(most)));
                    }
                }
            }
        }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if this.is_empty {
            return Poll::Ready(None);
        }
        if let Some(watch) = &this.watch {
            watch.is_servers_turn();
        }
        // Pieces of a long-lived body are small, and must be sent at once.
        let divides = this.watch.is_some() && this.stopping.is_none();
        let next = ready!(if divides { this.poll_divided(cx) } else { this.poll_piece(cx) });
        match &next {
            Some(Ok(piece)) => {
                this.given += piece.len() as u64;
                if this.length == Some(this.given) {
                    this.work.complete();
                }
                if let Some(watch) = &this.watch {
                    watch.is_clients_turn(piece.len());
                }
            }
            Some(Err(error)) => tracing::debug!(%error, "a response was cut short"),
            None => this.work.complete(),
        }
        Poll::Ready(next.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.length.map(|length| length.saturating_sub(self.given));
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
