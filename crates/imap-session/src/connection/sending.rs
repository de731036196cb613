//! The sending side of a connection, and how long it waits for a stalled client.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use sealpost_base::limits;
use tokio::io::AsyncWriteExt;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Connection, End, FLUSH_BYTES, ROOM_SLICE, ROOM_SLICE_BYTES, SLICE_BYTES, SLICES};

/// Bytes of compressed output sent at once.
const PACKED_BYTES: usize = 16 * 1024;

impl Connection {
    /// Sends all pending output.
    pub(crate) async fn flush(&mut self) -> Result<(), End> {
        if !self.out.is_empty() {
            let waiting = self.take_output();
            self.send(&[&waiting]).await?;
        }
        if self.deflater.is_some() {
            let mut packed = vec![0; PACKED_BYTES];
            while let Some(written @ 1..) = self.deflater.as_mut().map(|deflater| deflater.flush(&mut packed))
            {
                self.transmit(&[&packed[..written]]).await?;
            }
        }
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        let flushed = timeout(self.timeouts.write, stream.flush()).await;
        Ok(flushed.map_err(|_| End::Timeout)??)
    }

    /// Takes the pending output. Frees the buffer of a single large response, since the next wait may be
    /// long.
    fn take_output(&mut self) -> BytesMut {
        let waiting = self.out.take();
        let most = if self.out_memory.is_some() { 2 * FLUSH_BYTES } else { limits::IMAP_OUTPUT_FREE_BYTES };
        if waiting.len() + self.out.buffer().capacity() > most {
            *self.out.buffer() = BytesMut::new();
        }
        waiting
    }

    /// How many bytes of output may be pending when `more` are added: few, unless memory for more is free.
    fn may_wait(&mut self, more: usize) -> usize {
        if self.out_memory.is_none() && self.out.len() + more > limits::IMAP_OUTPUT_FREE_BYTES {
            self.out_memory = self.budget.try_acquire(FLUSH_BYTES);
        }
        if self.out_memory.is_some() { FLUSH_BYTES } else { limits::IMAP_OUTPUT_FREE_BYTES }
    }

    /// Sends pending output if it is large. If the client takes the output at once, sending never waits, so
    /// this also lets other tasks run.
    pub(crate) async fn relieve(&mut self) -> Result<(), End> {
        if self.out.len() > self.may_wait(0) {
            let waiting = self.take_output();
            self.send(&[&waiting]).await?;
            yield_now().await;
        }
        Ok(())
    }

    /// Writes bytes of a literal: copies a few, and sends many without copying.
    pub(crate) async fn literal_bytes(&mut self, bytes: &[u8]) -> Result<(), End> {
        if self.out.len() + bytes.len() <= self.may_wait(bytes.len()) {
            self.out.raw(bytes);
            return Ok(());
        }
        let waiting = self.take_output();
        self.send(&[&waiting, bytes]).await
    }

    /// As [`Connection::literal_bytes`] for several pieces at once.
    pub(crate) async fn literal_pieces(&mut self, pieces: &[Bytes]) -> Result<(), End> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        if self.out.len() + bytes <= self.may_wait(bytes) {
            for piece in pieces {
                self.out.raw(piece);
            }
            return Ok(());
        }
        let waiting = self.take_output();
        let parts: Vec<&[u8]> =
            std::iter::once(&waiting[..]).chain(pieces.iter().map(|piece| &piece[..])).collect();
        self.send(&parts).await
    }

    /// Sends all parts in order. With compression, a rest may stay pending until [`Connection::flush`].
    async fn send(&mut self, parts: &[&[u8]]) -> Result<(), End> {
        self.check_standing()?;
        if self.deflater.is_none() {
            return self.transmit(parts).await;
        }
        let mut packed = vec![0; PACKED_BYTES];
        for mut part in parts.iter().copied() {
            while let (Some(deflater), false) = (&mut self.deflater, part.is_empty()) {
                let (taken, written) = deflater.push(part, &mut packed);
                if taken == 0 && written == 0 {
                    return Err(End::Broken);
                }
                part = &part[taken..];
                self.transmit(&[&packed[..written]]).await?;
            }
        }
        Ok(())
    }

    /// Sends all parts uncompressed. Within the write timeout the client must take some bytes, and more of
    /// them while others wait for memory or account memory.
    pub(super) async fn transmit(&mut self, parts: &[&[u8]]) -> Result<(), End> {
        let stream = self.stream.as_mut().ok_or(End::Closed)?;
        let (mut looked, mut looks) = (Instant::now(), 0);
        // Bytes taken in this slice, and in the last slices that count for memory.
        let (mut taken, mut taken_long) = (0, 0);
        let mut stuck = Instant::now() + self.timeouts.write;
        let mut slices: Vec<IoSlice<'_>> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let look = looked + ROOM_SLICE;
            match timeout_at(look.min(stuck), stream.write_vectored(slices)).await {
                Ok(Ok(0)) => return Err(End::Closed),
                Ok(Ok(written)) => {
                    IoSlice::advance_slices(&mut slices, written);
                    taken += written;
                    stuck = Instant::now() + self.timeouts.write;
                }
                Ok(Err(e)) => return Err(e.into()),
                Err(_) if Instant::now() >= stuck => return Err(End::Timeout),
                Err(_) => {}
            }
            if Instant::now() >= look {
                (looked, looks, taken_long) = (Instant::now(), looks + 1, taken_long + taken);
                if taken < ROOM_SLICE_BYTES && self.accounts.is_pressure_severe() {
                    return Err(End::Timeout);
                }
                taken = 0;
                if looks % SLICES == 0 {
                    if taken_long < SLICE_BYTES && (self.budget.waiting() > 0 || stream.is_wanted()) {
                        return Err(End::Timeout);
                    }
                    taken_long = 0;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use sealpost_session::net::Stream;

    #[tokio::test]
    async fn a_large_response_leaves_no_buffer_behind() {
        let (mut client, server) = Stream::pair().unwrap();
        let mut connection = Connection::new(server, &crate::shared::for_tests(), Instant::now());
        let reading = tokio::spawn(async move { client.read_exact(&mut vec![0; 600_000]).await });
        for _ in 0..600 {
            connection.out().raw([b'x'; 1000]);
        }
        connection.relieve().await.unwrap_or_else(|_| panic!("the client reads"));
        reading.await.unwrap().unwrap();
        connection.out().raw(b"small");
        let kept = connection.out().buffer().capacity();
        assert!(kept <= limits::IMAP_OUTPUT_FREE_BYTES, "{kept}");
    }
}
