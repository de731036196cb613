//! DEFLATE (RFC 1951) in both directions of a connection, with bounded memory.
//!
//! - [`Deflater`] compresses output. It has a compressor only while there is enough output to be worth it and
//!   [`COMPRESSOR_BYTES`] are free; otherwise it writes stored blocks, which take no memory. After every
//!   flush the stream is at the start of a byte and of a block. There one compressor can be dropped and
//!   another continue.
//! - [`Inflater`] decompresses input, a bounded number of bytes at a time, however small their input is.
//!   Between two blocks it needs only the window that the client may refer to: as much as the client has
//!   sent, at most 32 KiB (RFC 1951 §2).
//!
//! The reasons are in `docs/decisions/0018-compression.md`. `miniz_oxide` appears in this file only.

use bytes::{Buf, BytesMut};
use miniz_oxide::MZFlush;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, compress, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{
    BlockBoundaryState, DecompressorOxide, decompress_with_limit, inflate_flags,
};
use sealpost_base::{Budget, Permit, limits};

#[cfg(test)]
mod tests;

/// Memory of a compressor, in bytes: window, hash chains, codes and a block's output.
pub(super) const COMPRESSOR_BYTES: usize = 320 * 1024;
/// Maximum memory of an inflater, in bytes: the window and 11 KiB of tables.
pub(super) const INFLATER_BYTES: usize = WINDOW_BYTES + 12 * 1024;
/// How far back a stream may refer (RFC 1951 §2).
const WINDOW_BYTES: usize = 32 * 1024;
/// The initial window, for a client that has sent little.
const FIRST_WINDOW_BYTES: usize = 1024;
/// The fastest level that searches for repetitions: cheap CPU matters more here than the last bytes.
const LEVEL: i32 = 1;
/// Without the header of RFC 1950.
const RAW: i32 = -15;

/// The end of a stream without a compressor: an empty last block with fixed codes (RFC 1951 §3.2.6).
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];
/// The least output that is worth a compressor, in bytes.
const WORTHWHILE_BYTES: usize = 1024;
/// Bytes of the header of a stored block (RFC 1951 §3.2.4), at the start of a byte.
const STORED_HEADER_BYTES: usize = 5;

/// Compresses output.
pub(super) struct Deflater {
    budget: Budget,
    /// The budget of all compressors together.
    share: Budget,
    compressor: Option<Compressor>,
}

struct Compressor {
    state: Box<CompressorOxide>,
    /// Whether there is input that was not flushed.
    dirty: bool,
    _memory: [Permit; 2],
}

impl Deflater {
    /// A new stream. It acquires only free memory from `budget`, and never waits.
    pub(super) fn new(compressions: &Compressions, budget: Budget) -> Self {
        Deflater { budget, share: compressions.compressors.clone(), compressor: None }
    }

    /// Takes some of `input`, which is not empty, and writes output to `packed`, which is longer than a block
    /// header. Returns the bytes taken and written.
    pub(super) fn push(&mut self, input: &[u8], packed: &mut [u8]) -> (usize, usize) {
        if self.compressor.is_none() && input.len() >= WORTHWHILE_BYTES {
            self.compressor = self.memory().map(Compressor::new);
        }
        match &mut self.compressor {
            Some(compressor) => {
                compressor.dirty = true;
                let result = deflate(&mut compressor.state, input, packed, MZFlush::None);
                (result.bytes_consumed, result.bytes_written)
            }
            None => store(input, packed),
        }
    }

    /// The memory for a compressor, if it is free.
    fn memory(&self) -> Option<[Permit; 2]> {
        // A permit trimmed to the fair part would be too small.
        if self.share.fair_part() < COMPRESSOR_BYTES {
            return None;
        }
        Some([self.share.try_acquire(COMPRESSOR_BYTES)?, self.budget.try_acquire(COMPRESSOR_BYTES)?])
    }

    /// Writes output so that the client can decode everything taken (RFC 4978 §4). Returns the bytes written;
    /// call it until that is 0.
    pub(super) fn flush(&mut self, packed: &mut [u8]) -> usize {
        let Some(compressor) = self.compressor.as_mut().filter(|compressor| compressor.dirty) else {
            return 0;
        };
        // An empty stored block, unless the stream is already at the start of a byte; nothing on the second
        // call.
        let (_, _, written) = compress(&mut compressor.state, &[], packed, TDEFLFlush::SyncOpt);
        compressor.dirty = written > 0;
        written
    }

    /// Writes the end of the stream; returns the bytes written. Call it once, after [`Deflater::flush`], with
    /// space for a header.
    pub(super) fn finish(mut self, packed: &mut [u8]) -> usize {
        self.rest();
        packed[..LAST_BLOCK.len()].copy_from_slice(&LAST_BLOCK);
        LAST_BLOCK.len()
    }

    /// Whether it holds memory that can be freed.
    pub(super) fn rests(&self) -> bool {
        self.compressor.is_none()
    }

    /// Frees the memory if everything is flushed. Later output does not refer to earlier output.
    pub(super) fn rest(&mut self) {
        if self.compressor.as_ref().is_some_and(|compressor| !compressor.dirty) {
            self.compressor = None;
        }
    }
}

impl Compressor {
    fn new(memory: [Permit; 2]) -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, RAW, 0);
        Compressor { state: Box::new(CompressorOxide::new(flags)), dirty: false, _memory: memory }
    }
}

/// One stored block (RFC 1951 §3.2.4).
fn store(input: &[u8], packed: &mut [u8]) -> (usize, usize) {
    let room = packed.len().saturating_sub(STORED_HEADER_BYTES);
    let bytes = &input[..input.len().min(room).min(usize::from(u16::MAX))];
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let [a, b] = len.to_le_bytes();
    packed[..STORED_HEADER_BYTES].copy_from_slice(&[0, a, b, !a, !b]);
    packed[STORED_HEADER_BYTES..STORED_HEADER_BYTES + bytes.len()].copy_from_slice(bytes);
    (bytes.len(), STORED_HEADER_BYTES + bytes.len())
}

/// Decompresses input.
pub(super) struct Inflater {
    engine: Engine,
    /// The last output, as a ring; its length is a power of two.
    window: Vec<u8>,
    /// The index of the next byte.
    at: usize,
    /// Input not yet processed.
    input: BytesMut,
    /// Output bytes of the current block so far.
    from_block: usize,
    /// At the start of a block and of a byte, after an empty block: the state that a flush leaves.
    flushed: bool,
    /// Whether the last block was read.
    done: bool,
    /// Whether the client announced the end of the stream.
    ending: bool,
}

enum Engine {
    Running(Box<DecompressorOxide>),
    /// The state between two blocks.
    Resting(BlockBoundaryState),
}

/// The result of processing some input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inflated {
    /// Output was produced.
    Some,
    /// No output: more input is needed.
    Nothing,
    /// No output: the stream has ended, and later input is uncompressed ([`Inflater::into_rest`]).
    Ended,
}

/// The input is not DEFLATE, or does not end where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;

impl Inflater {
    /// A new stream whose first bytes are `input`.
    pub(super) fn new(input: BytesMut) -> Self {
        Inflater {
            engine: Engine::Running(Box::default()),
            window: vec![0; FIRST_WINDOW_BYTES],
            at: 0,
            input,
            from_block: 0,
            flushed: false,
            done: false,
            ending: false,
        }
    }

    /// The input buffer; only append to it.
    pub(super) fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Appends output to `out`, at most the size of the window.
    ///
    /// # Errors
    /// [`Corrupt`]; do not call it again.
    pub(super) fn inflate(&mut self, out: &mut BytesMut) -> Result<Inflated, Corrupt> {
        loop {
            if self.done {
                return if self.ending { Ok(Inflated::Ended) } else { Err(Corrupt) };
            }
            let Some(&first) = self.input.first() else { return Ok(Inflated::Nothing) };
            // A client that ends its stream may omit the last block. Neither a fixed nor a stored one looks
            // like a command.
            if self.ending && self.flushed && !matches!(first, 0x01 | 0x03) {
                self.done = true;
                continue;
            }
            let written = self.step()?;
            if written == 0 {
                continue;
            }
            if self.ending {
                return Err(Corrupt);
            }
            out.extend_from_slice(&self.window[self.at - written..self.at]);
            return Ok(Inflated::Some);
        }
    }

    /// Announces that the stream ends with the last output byte (RFC 8437 §4.1).
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// The input after the end of the stream.
    pub(super) fn into_rest(self) -> BytesMut {
        self.input
    }

    /// Frees the memory that is not needed while no input arrives.
    pub(super) fn rest(&mut self) {
        if !self.input.is_empty() {
            return;
        }
        self.input = BytesMut::new();
        if let Engine::Running(running) = &self.engine
            && let Some(boundary) = running.block_boundary_state()
        {
            self.engine = Engine::Resting(boundary);
        }
    }

    /// Bytes held while no input arrives.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let running = match &self.engine {
            Engine::Running(_) => size_of::<DecompressorOxide>(),
            Engine::Resting(_) => 0,
        };
        size_of::<Inflater>() + self.window.len() + self.input.capacity() + running
    }

    /// Processes some input. Returns the number of output bytes, which end at `self.at`.
    fn step(&mut self) -> Result<usize, Corrupt> {
        const FLAGS: u32 =
            inflate_flags::TINFL_FLAG_HAS_MORE_INPUT | inflate_flags::TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;
        if let Engine::Resting(boundary) = &self.engine {
            self.engine = Engine::Running(Box::new(DecompressorOxide::from_block_boundary_state(boundary)));
        }
        let Engine::Running(engine) = &mut self.engine else { return Err(Corrupt) };
        if self.at == self.window.len() {
            // The ring wraps only at its maximum size.
            match self.window.len() {
                len if len < WINDOW_BYTES => self.window.resize(2 * len, 0),
                _ => self.at = 0,
            }
        }
        let room = self.window.len() - self.at;
        let (status, taken, written) =
            decompress_with_limit(engine, &self.input, &mut self.window, self.at, room, FLAGS);
        self.input.advance(taken);
        self.at += written;
        self.from_block += written;
        self.flushed = false;
        match status {
            TINFLStatus::BlockBoundary => {
                let aligned = engine.block_boundary_state().is_some_and(|boundary| boundary.num_bits == 0);
                self.flushed = aligned && self.from_block == 0;
                self.from_block = 0;
            }
            TINFLStatus::Done => self.done = true,
            TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput => {}
            _ => return Err(Corrupt),
        }
        Ok(written)
    }
}

/// Bounds how many connections may be compressed. Inflaters live as long as their connection, so they have a
/// share of the memory that leaves enough for short-lived buffers. Compressors are short-lived, but the
/// allocator does not return the memory of many to the system. So they have a share of their own, and output
/// without memory there is sent uncompressed.
#[derive(Clone)]
pub struct Compressions {
    places: Budget,
    compressors: Budget,
}

/// The right of one connection to be compressed, with its memory.
pub(super) struct Compression {
    _place: Permit,
    _memory: Permit,
}

impl Compressions {
    /// The limits of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        Compressions {
            places: Budget::new(budget.common() / limits::IMAP_COMPRESSED_SHARE),
            compressors: Budget::new(budget.common() / limits::IMAP_COMPRESSORS_SHARE),
        }
    }

    /// Admits another connection and waits for its memory from `budget`; `None` if all places are taken.
    pub(super) async fn admit(&self, budget: &Budget) -> Option<Compression> {
        // A permit trimmed to the fair part of a small budget would be too small.
        if self.places.fair_part() < INFLATER_BYTES {
            return None;
        }
        let place = self.places.try_acquire(INFLATER_BYTES)?;
        let memory = budget.acquire(INFLATER_BYTES).await;
        Some(Compression { _place: place, _memory: memory })
    }
}
