//! zstd for one chunk at a time, with contexts that are used again, and never more output than a chunk may hold.

use std::sync::Mutex;

use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

/// zstd level: within 3 % of level 3 on mail, and nearly twice as fast.
const LEVEL: i32 = 1;
/// Plaintexts below this are never worth a frame.
const WORTH_TRYING_BYTES: usize = 128;
/// After an attempt that did not pay, this many chunks of the same section at most are kept raw without trying.
const PATIENCE: u32 = 15;
/// Idle contexts kept of each kind (a few hundred KiB together); more are made when needed and dropped after use.
const KEPT: usize = 4;

// Scratch memory only: no result depends on which context is taken.
static COMPRESSORS: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
static DECOMPRESSORS: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());

/// Decides, chunk after chunk of one section, whether compression is tried: attachments are mostly base64 of
/// compressed data, and trying each of their chunks costs more than sealing them.
#[derive(Default)]
pub(crate) struct Effort {
    skip: u32,
    failures: u32,
}

impl Effort {
    /// Of chunks that are not to be compressed.
    pub fn none() -> Self {
        Effort { skip: u32::MAX, failures: 0 }
    }

    /// Appends `plain` compressed to `out` if that pays; `false` (and nothing appended) if not.
    pub fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let paid = compress(plain, out);
        self.failures = if paid { 0 } else { self.failures + 1 };
        self.skip = if paid || self.failures < 2 { 0 } else { (1 << (self.failures - 1).min(4)) - 1 };
        debug_assert!(self.skip <= PATIENCE);
        paid
    }
}

/// Whether `compressed` bytes instead of `plain` ones are worth the time it takes to undo it.
///
/// base64 shrinks by a quarter because of its alphabet alone, and its decompression halves the speed of reading an
/// attachment; text shrinks to less than half. See `docs/decisions/0002-ciphers-and-compression.md`.
fn pays(plain: usize, compressed: usize) -> bool {
    compressed <= plain * 5 / 8
}

fn compress(plain: &[u8], out: &mut Vec<u8>) -> bool {
    if plain.len() < WORTH_TRYING_BYTES {
        return false;
    }
    let kept = lock(&COMPRESSORS).pop();
    let Some(mut context) = kept.or_else(|| Compressor::new(LEVEL).ok()) else { return false };
    let start = out.len();
    // Room for what pays and no more: zstd gives up as soon as it would need more.
    out.resize(start + plain.len() * 5 / 8, 0);
    let written = context.compress_to_buffer(plain, &mut out[start..]).ok();
    put_back(&COMPRESSORS, context);
    let paid = written.is_some_and(|n| pays(plain.len(), n));
    out.truncate(start + if paid { written.unwrap_or(0) } else { 0 });
    paid
}

/// The plaintext of a compressed chunk, at most [`CHUNK_BYTES`].
pub(crate) fn decompress(compressed: &[u8]) -> Result<Vec<u8>> {
    let corrupt = || Error::corrupt("a compressed chunk does not decompress");
    let claim = match get_frame_content_size(compressed) {
        Ok(Some(claim)) => usize::try_from(claim).unwrap_or(usize::MAX),
        _ => return Err(corrupt()),
    };
    if claim > CHUNK_BYTES {
        return Err(Error::corrupt(format!("a chunk claims {claim} bytes, the limit is {CHUNK_BYTES}")));
    }
    let kept = lock(&DECOMPRESSORS).pop();
    let mut context = match kept {
        Some(context) => context,
        None => Decompressor::new().map_err(|e| Error::internal("no zstd context").with_source(e))?,
    };
    let mut plain = Vec::with_capacity(claim);
    let written = context.decompress_to_buffer(compressed, &mut plain);
    put_back(&DECOMPRESSORS, context);
    match written {
        Ok(n) if n == claim => Ok(plain),
        _ => Err(corrupt()),
    }
}

fn lock<T>(pool: &Mutex<Vec<T>>) -> std::sync::MutexGuard<'_, Vec<T>> {
    pool.lock().unwrap_or_else(|e| e.into_inner())
}

fn put_back<T>(pool: &Mutex<Vec<T>>, context: T) {
    let mut kept = lock(pool);
    if kept.len() < KEPT {
        kept.push(context);
    }
}
