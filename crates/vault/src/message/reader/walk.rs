//! [`Walk`]: a message's bytes, read and opened ahead of their consumer.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Kind, Result};

use super::source::{Batch, Source};

/// A stream under way.
pub(super) struct Walk {
    source: Arc<Source>,
    /// What is still to be handed out.
    range: Range<u64>,
    state: State,
    /// The source of bytes that the object does not have.
    elsewhere: bool,
}

enum State {
    Start,
    Ahead(BoxFuture<'static, Result<Batch>>),
    /// The object is not here, or not any more: the rest comes from there.
    BodySource(BoxStream<'static, Result<Vec<Bytes>>>),
    End,
}

impl Walk {
    /// The non-empty range `range`; `elsewhere`: the source of bytes that the object does not have.
    pub(super) fn new(source: Arc<Source>, range: Range<u64>, elsewhere: bool) -> Self {
        Walk { source, range, state: State::Start, elsewhere }
    }

    /// Several pieces at a time. Ends after its first error.
    pub(super) fn batches(self) -> BoxStream<'static, Result<Vec<Bytes>>> {
        futures::stream::unfold(self, Walk::step).boxed()
    }

    async fn step(mut self) -> Option<(Result<Vec<Bytes>>, Walk)> {
        let batch = match std::mem::replace(&mut self.state, State::End) {
            State::Start => self.source.clone().first(self.range.clone()).await,
            State::Ahead(batch) => batch.await,
            State::BodySource(rest) => return self.go_on(rest).await,
            State::End => return None,
        };
        match batch {
            Ok(batch) => Some((Ok(self.accept(batch)), self)),
            Err(e) if self.elsewhere && e.kind() == Kind::NotFound => {
                match self.source.bytes_elsewhere(self.range.clone(), e).await {
                    Ok(rest) => self.go_on(rest).await,
                    Err(e) => Some((Err(e), self)),
                }
            }
            Err(e) => Some((Err(e), self)),
        }
    }

    async fn go_on(
        mut self,
        mut rest: BoxStream<'static, Result<Vec<Bytes>>>,
    ) -> Option<(Result<Vec<Bytes>>, Walk)> {
        let next = rest.next().await?;
        self.state = State::BodySource(rest);
        Some((next, self))
    }

    /// Takes what was opened, and has the next batch opened meanwhile.
    fn accept(&mut self, batch: Batch) -> Vec<Bytes> {
        if batch.next.number <= batch.next.until {
            self.state = State::Ahead(self.source.clone().batch(batch.next));
        }
        batch.pieces.into_iter().map(|piece| self.cut(piece)).collect()
    }

    /// The requested part of `piece`. Pieces come in order, so only the first and the last are cut.
    fn cut(&mut self, mut piece: Bytes) -> Bytes {
        let skip = (self.range.start % CHUNK_BYTES as u64) as usize;
        let piece_end = self.range.start - skip as u64 + piece.len() as u64;
        if piece_end > self.range.end {
            piece.truncate(piece.len() - (piece_end - self.range.end) as usize);
        }
        let wanted = piece.split_off(skip);
        self.range.start += wanted.len() as u64;
        wanted
    }
}
