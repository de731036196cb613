//! zstd for one chunk or one message at a time, with contexts that are used again, and never more
//! output than was allowed.
//!
//! No frame depends on another, so that no size tells what two senders wrote alike. What is small
//! is compressed with a dictionary that comes with the program: words of headers and of HTML that
//! any mail has (`docs/decisions/0053-sizes.md`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};

use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::get_frame_content_size;

/// zstd level: within 3 % of level 3 on mail, and nearly twice as fast.
const LEVEL: i32 = 1;
/// zstd level of short pieces, which most messages and structures are: matches as at level 1, and literals as they are. To read a Huffman
/// table takes more time than all else of such a piece, and saves a tenth
/// (`docs/decisions/0087-parts.md`).
const SHORT_PIECE_LEVEL: i32 = -1;
/// Plaintexts up to this are short pieces.
const SHORT_PIECE_BYTES: usize = 2 * 1024;
/// Plaintexts below this are never worth a frame.
const WORTH_TRYING_BYTES: usize = 128;
/// After an attempt that did not pay, this many chunks of the same section at most are kept raw
/// without trying.
const RETRY_POLICY: u32 = 15;
/// Idle contexts kept of each kind (a few hundred KiB together); more are made when needed and
/// dropped after use.
const IDLE_CONTEXTS: usize = 4;

/// Plaintexts above this gain nothing from a dictionary.
const DICTIONARY_PAYS_BYTES: usize = 16 * 1024;
/// What every frame begins with, and pieces do not have.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// More than a frame can be longer than its content.
const FRAME_BYTES: usize = 64;

/// Part of the formats: what was compressed with it cannot be read without it.
static WORDS: &[u8] = include_bytes!("dictionary.txt");
static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, LEVEL));
static SHORT_PIECE_ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, SHORT_PIECE_LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(WORDS));

// Scratch memory only: no result depends on which context is taken.
static COMPRESSORS: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
static DECOMPRESSORS: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());
static WORD_COMPRESSORS: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
static SHORT_PIECE_COMPRESSORS: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
static WORD_DECOMPRESSORS: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());

/// Whether a context may hold what it was last used for.
static USED: AtomicBool = AtomicBool::new(false);

/// How the content of a chunk is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Not.
    Raw = 0,
    /// A frame by itself.
    Zstd = 1,
    /// A frame with the dictionary.
    Words = 2,
}

impl Encoding {
    /// The encoding of that number.
    pub fn of(number: u8) -> Option<Self> {
        [Encoding::Raw, Encoding::Zstd, Encoding::Words].into_iter().find(|known| *known as u8 == number)
    }
}

/// Decides, chunk after chunk of one section, whether compression is tried: attachments are mostly base64 of
/// compressed data, and trying each of their chunks costs more than sealing them.
#[derive(Default)]
pub(crate) struct Effort {
    skip: u32,
    failures: u32,
    /// Short plaintexts keep their literals, so that they are read faster.
    keeps_literals: bool,
}

impl Effort {
    /// Of chunks that are not to be compressed.
    pub fn none() -> Self {
        Effort { skip: u32::MAX, ..Effort::default() }
    }

    /// Of the bytes of messages, which clients read most.
    pub fn of_message() -> Self {
        Effort { keeps_literals: true, ..Effort::default() }
    }

    /// Appends `plain` compressed to `out` if that pays; `Raw` (and nothing appended) if not.
    pub fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Encoding {
        if self.skip > 0 {
            self.skip -= 1;
            return Encoding::Raw;
        }
        let encoding = if plain.len() <= DICTIONARY_PAYS_BYTES { Encoding::Words } else { Encoding::Zstd };
        let short = self.keeps_literals && plain.len() <= SHORT_PIECE_BYTES;
        let paid = compress(encoding, short, plain, out);
        self.failures = if paid { 0 } else { self.failures + 1 };
        self.skip = if paid || self.failures < 2 { 0 } else { (1 << (self.failures - 1).min(4)) - 1 };
        debug_assert!(self.skip <= RETRY_POLICY);
        if paid { encoding } else { Encoding::Raw }
    }
}

/// Whether `compressed` bytes instead of `plain` ones are worth the time it takes to undo it.
///
/// base64 shrinks by a quarter because of its alphabet alone, and its decompression halves the
/// speed of reading an attachment; text shrinks to less than half. See
/// `docs/decisions/0002-ciphers-and-compression.md`.
fn pays(plain: usize, compressed: usize) -> bool {
    compressed <= plain * 5 / 8
}

fn compress(encoding: Encoding, short: bool, plain: &[u8], out: &mut Vec<u8>) -> bool {
    if plain.len() < WORTH_TRYING_BYTES {
        return false;
    }
    let start = out.len();
    // A buffer of the size that pays and no more: zstd ends as soon as it would need more.
    out.resize(start + plain.len() * 5 / 8, 0);
    let written =
        with_compressor(encoding, short, |context| context.compress_to_buffer(plain, &mut out[start..]).ok());
    let paid = written.flatten().is_some_and(|n| pays(plain.len(), n));
    out.truncate(start + if paid { written.flatten().unwrap_or(0) } else { 0 });
    paid
}

/// `short`: what is compressed is a short piece.
fn with_compressor<T>(
    encoding: Encoding,
    short: bool,
    work: impl FnOnce(&mut Compressor<'static>) -> T,
) -> Option<T> {
    match encoding {
        Encoding::Words if short => {
            let new = || Compressor::with_prepared_dictionary(&SHORT_PIECE_ENCODER);
            with_one_of(&SHORT_PIECE_COMPRESSORS, new, work)
        }
        Encoding::Words => {
            with_one_of(&WORD_COMPRESSORS, || Compressor::with_prepared_dictionary(&ENCODER), work)
        }
        _ => with_one_of(&COMPRESSORS, || Compressor::new(LEVEL), work),
    }
}

fn with_one_of<T>(
    pool: &Mutex<Vec<Compressor<'static>>>,
    new: impl FnOnce() -> std::io::Result<Compressor<'static>>,
    work: impl FnOnce(&mut Compressor<'static>) -> T,
) -> Option<T> {
    let kept = lock(pool).pop();
    let mut context = kept.or_else(|| new().ok())?;
    USED.store(true, Ordering::Relaxed);
    let done = work(&mut context);
    put_back(pool, context);
    Some(done)
}

fn with_decompressor<T>(encoding: Encoding, work: impl FnOnce(&mut Decompressor<'static>) -> T) -> Result<T> {
    let (pool, new): (_, fn() -> std::io::Result<Decompressor<'static>>) = match encoding {
        Encoding::Words => (&WORD_DECOMPRESSORS, || Decompressor::with_prepared_dictionary(&DECODER)),
        _ => (&DECOMPRESSORS, Decompressor::new),
    };
    let kept = lock(pool).pop();
    let mut context = match kept {
        Some(context) => context,
        None => new().map_err(|e| Error::internal("no zstd context").with_source(e))?,
    };
    USED.store(true, Ordering::Relaxed);
    let done = work(&mut context);
    put_back(pool, context);
    Ok(done)
}

/// The plaintext of a compressed chunk, at most [`CHUNK_BYTES`].
pub(crate) fn decompress(encoding: Encoding, compressed: &[u8]) -> Result<Vec<u8>> {
    let claim = claim(compressed)?;
    if claim > CHUNK_BYTES {
        return Err(Error::corrupt(format!("a chunk claims {claim} bytes, the limit is {CHUNK_BYTES}")));
    }
    let mut plain = Vec::with_capacity(claim);
    match with_decompressor(encoding, |context| context.decompress_to_buffer(compressed, &mut plain))? {
        Ok(n) if n == claim => Ok(plain),
        _ => Err(corrupt()),
    }
}

/// The plaintext of a compressed chunk, which must fill `plain` exactly.
pub(crate) fn decompress_into(encoding: Encoding, compressed: &[u8], plain: &mut [u8]) -> Result<()> {
    if claim(compressed)? != plain.len() {
        return Err(corrupt());
    }
    match with_decompressor(encoding, |context| context.decompress_to_buffer(compressed, plain))? {
        Ok(n) if n == plain.len() => Ok(()),
        _ => Err(corrupt()),
    }
}

/// Appends `plain` as a piece by itself to `out`: a frame with the dictionary, without its first
/// bytes; nothing if it is empty. How many bytes that is.
///
/// # Errors
/// `Internal` if zstd fails.
pub(crate) fn put_piece(plain: &[u8], out: &mut Vec<u8>) -> Result<usize> {
    if plain.is_empty() {
        return Ok(0);
    }
    let start = out.len();
    out.resize(start + plain.len() + plain.len() / 128 + FRAME_BYTES, 0);
    let compress =
        |context: &mut Compressor<'static>| context.compress_to_buffer(plain, &mut out[start..]).ok();
    let compressed = with_compressor(Encoding::Words, plain.len() <= SHORT_PIECE_BYTES, compress);
    let written = compressed.flatten().ok_or_else(|| Error::internal("a piece was not compressed"))?;
    out.truncate(start + written);
    out.drain(start..start + FRAME_MAGIC.len());
    Ok(out.len() - start)
}

/// Appends the plaintext of a piece to `out`, at most `limit` bytes of it. `scratch` is used again.
///
/// # Errors
/// `Corrupt` if it is none, or longer.
pub(crate) fn take_piece(piece: &[u8], limit: usize, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    scratch.clear();
    scratch.extend_from_slice(&FRAME_MAGIC);
    scratch.extend_from_slice(piece);
    let claim = claim(scratch)?;
    if claim > limit {
        return Err(Error::corrupt(format!("a piece claims {claim} bytes, the limit is {limit}")));
    }
    let start = out.len();
    out.resize(start + claim, 0);
    match with_decompressor(Encoding::Words, |context| {
        context.decompress_to_buffer(scratch, &mut out[start..])
    })? {
        Ok(n) if n == claim => Ok(()),
        _ => Err(corrupt()),
    }
}

/// How much a frame says that comes out of it.
fn claim(compressed: &[u8]) -> Result<usize> {
    match get_frame_content_size(compressed) {
        Ok(Some(claim)) => Ok(usize::try_from(claim).unwrap_or(usize::MAX)),
        _ => Err(corrupt()),
    }
}

fn corrupt() -> Error {
    Error::corrupt("a compressed chunk does not decompress")
}

/// Overwrites what idle contexts hold of what they were used for last: the literals of a chunk, in
/// memory of zstd's own.
pub(crate) fn wipe() {
    if !USED.swap(false, Ordering::Relaxed) {
        return;
    }
    let mut state = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    })
    .take(CHUNK_BYTES)
    .collect();
    let mut out = vec![0; CHUNK_BYTES + CHUNK_BYTES / 128 + FRAME_BYTES];
    // Of 16 letters, so that all of it is literals that are decoded into the context.
    let letters: Vec<u8> = noise.iter().map(|byte| byte & 15).collect();
    let mut idle = std::mem::take(&mut *lock(&SHORT_PIECE_COMPRESSORS));
    for context in &mut idle {
        let _ = context.compress_to_buffer(&noise[..DICTIONARY_PAYS_BYTES], &mut out[..]);
    }
    idle.into_iter().for_each(|context| put_back(&SHORT_PIECE_COMPRESSORS, context));
    for (bytes, compressors, decompressors) in [
        (CHUNK_BYTES, &COMPRESSORS, &DECOMPRESSORS),
        (DICTIONARY_PAYS_BYTES, &WORD_COMPRESSORS, &WORD_DECOMPRESSORS),
    ] {
        let mut idle = std::mem::take(&mut *lock(compressors));
        let mut frame = Vec::new();
        for context in &mut idle {
            let _ = context.compress_to_buffer(&noise[..bytes], &mut out[..]);
        }
        if let Some(context) = idle.first_mut() {
            let written = context.compress_to_buffer(&letters[..bytes], &mut out[..]).unwrap_or(0);
            frame.extend_from_slice(&out[..written]);
        }
        idle.into_iter().for_each(|context| put_back(compressors, context));
        if frame.is_empty() {
            let compressed =
                Compressor::new(LEVEL).and_then(|mut context| context.compress(&letters[..bytes]));
            frame = compressed.unwrap_or_default();
        }
        let idle = std::mem::take(&mut *lock(decompressors));
        for mut context in idle {
            let _ = context.decompress_to_buffer(&frame, &mut out[..bytes]);
            put_back(decompressors, context);
        }
    }
}

fn lock<T>(pool: &Mutex<Vec<T>>) -> std::sync::MutexGuard<'_, Vec<T>> {
    pool.lock().unwrap_or_else(|e| e.into_inner())
}

fn put_back<T>(pool: &Mutex<Vec<T>>, context: T) {
    let mut kept = lock(pool);
    if kept.len() < IDLE_CONTEXTS {
        kept.push(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::sha256;

    /// What was compressed with other words cannot be read any more.
    #[test]
    fn the_dictionary_is_part_of_the_format() {
        let hash: String = sha256(&[WORDS]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "e9316ebf467911dbbcda79d54e6fe718ccc28b7445db7b913b926f409550e3f4");
    }

    #[test]
    fn pieces_come_back_one_by_one() {
        let texts =
            ["", "x", "subject: hello\ncontent-type: text/plain; charset=utf-8\n", &"äöü".repeat(3000)];
        let (mut section, mut lengths) = (Vec::new(), Vec::new());
        for text in texts {
            lengths.push(put_piece(text.as_bytes(), &mut section).unwrap());
        }
        assert!(lengths[0] == 0 && lengths[2] < 30, "{lengths:?}");
        let (mut rest, mut scratch) = (&section[..], Vec::new());
        for (text, length) in texts.iter().zip(lengths) {
            let (piece, after) = rest.split_at(length);
            rest = after;
            let mut out = b"before".to_vec();
            take_piece(piece, text.len(), &mut scratch, &mut out).unwrap();
            assert_eq!(&out[6..], text.as_bytes());
            if !text.is_empty() {
                assert!(take_piece(piece, text.len() - 1, &mut scratch, &mut out).is_err());
                assert!(take_piece(&piece[..length - 1], text.len(), &mut scratch, &mut out).is_err());
            }
        }
        wipe();
        let mut out = Vec::new();
        let length = put_piece(b"again", &mut section).unwrap();
        take_piece(&section[section.len() - length..], 5, &mut scratch, &mut out).unwrap();
        assert_eq!(out, b"again");
    }

    /// The attack: a sender guesses the content of another's mail, and checks whether the stored
    /// object became shorter.
    #[test]
    fn common_text_of_two_messages_saves_no_bytes() {
        let secret = "the code for your account is QZXJVK, do not tell it to anybody";
        let piece = |text: &str, section: &mut Vec<u8>| put_piece(text.as_bytes(), section).unwrap();
        for rest in ["", &"a text of some length ".repeat(SHORT_PIECE_BYTES / 8)] {
            for code in ["QZXJVK", "ZKQVXJ"] {
                let guess = secret.replace("QZXJVK", code) + rest;
                let by_itself = piece(&guess, &mut Vec::new());
                let mut section = Vec::new();
                piece(&(secret.to_owned() + rest), &mut section);
                assert_eq!(piece(&guess, &mut section), by_itself, "{code}");
            }
        }
    }
}
