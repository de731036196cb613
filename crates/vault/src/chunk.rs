//! Sealed chunks: what every sealed body is made of.
//!
//! A section is a run of chunks of [`CHUNK_BYTES`] plaintext each (the last one shorter, possibly empty). A chunk
//! on disk is four bytes of header (a flag, and the length of what follows) and the sealed plaintext, compressed
//! first where that pays. The header is associated data, so it cannot be changed either.

use bytes::{Bytes, BytesMut};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, Place, TAG_BYTES};
use crate::compress::{self, Effort};

/// Bytes before each chunk's ciphertext.
pub(crate) const HEADER_BYTES: usize = 4;
/// What sealing adds to a chunk's plaintext.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The largest chunk on disk.
pub(crate) const MAX_SEALED_BYTES: usize = CHUNK_BYTES + OVERHEAD_BYTES;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// Appends one sealed chunk to `out` and returns its size on disk.
pub(crate) fn seal(
    cipher: &ObjectCipher,
    place: Place,
    plain: &[u8],
    effort: &mut Effort,
    out: &mut Vec<u8>,
) -> usize {
    debug_assert!(plain.len() <= CHUNK_BYTES);
    let start = out.len();
    out.reserve(plain.len() + OVERHEAD_BYTES);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let body = out.len();
    let flag = if effort.compress(plain, out) {
        ZSTD
    } else {
        out.extend_from_slice(plain);
        RAW
    };
    let length = u32::try_from(out.len() - body + TAG_BYTES).expect("a chunk is at most 64 KiB and a tag");
    let mut header = length.to_be_bytes();
    header[0] = flag;
    out[start..body].copy_from_slice(&header);
    cipher.seal(place, header, out, body);
    out.len() - start
}

/// Seals all of `plain` as one section, appended to `out`, and returns the section's size on disk.
pub(crate) fn seal_section(cipher: &ObjectCipher, section: u8, plain: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let mut effort = Effort::default();
    let count = plain.len().div_ceil(CHUNK_BYTES).max(1);
    for number in 0..count {
        let piece = &plain[number * CHUNK_BYTES..plain.len().min((number + 1) * CHUNK_BYTES)];
        let place = Place { section, number: number as u32, last: number + 1 == count };
        seal(cipher, place, piece, &mut effort, out);
    }
    out.len() - start
}

/// Seals `plain`, of one chunk at most, as a section that is not compressed, so that the same octets come of it whatever version
/// of this program makes them. Appended to `out`.
pub(crate) fn seal_section_raw(cipher: &ObjectCipher, section: u8, plain: &[u8], out: &mut Vec<u8>) {
    seal(cipher, Place { section, number: 0, last: true }, plain, &mut Effort::none(), out);
}

/// The size on disk of the chunk that `bytes` starts with, checked against what a chunk may be.
pub(crate) fn sealed_size(bytes: &[u8]) -> Result<usize> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(Error::corrupt("an object ends within a chunk header"));
    };
    let size = HEADER_BYTES + u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    if header[0] > ZSTD || !(OVERHEAD_BYTES..=MAX_SEALED_BYTES).contains(&size) {
        return Err(Error::corrupt("not a chunk header"));
    }
    Ok(size)
}

/// The plaintext of one whole sealed chunk; decrypts in place, so a raw chunk is not copied.
pub(crate) fn open(cipher: &ObjectCipher, place: Place, mut chunk: BytesMut) -> Result<Bytes> {
    if sealed_size(&chunk)? != chunk.len() {
        return Err(Error::corrupt("an object ends within a chunk"));
    }
    let header = [chunk[0], chunk[1], chunk[2], chunk[3]];
    let plain = cipher.open(place, header, &mut chunk[HEADER_BYTES..])?;
    if header[0] == ZSTD {
        return Ok(Bytes::from(compress::decompress(&chunk[HEADER_BYTES..HEADER_BYTES + plain])?));
    }
    chunk.truncate(HEADER_BYTES + plain);
    let _ = chunk.split_to(HEADER_BYTES);
    Ok(chunk.freeze())
}

/// The plaintext of a whole section, which must fill `sealed` exactly; at most `limit` bytes. It may hold keys, so
/// every copy made of it here is wiped.
pub(crate) fn open_section(
    cipher: &ObjectCipher,
    section: u8,
    mut sealed: &[u8],
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let count = count(sealed)?;
    if (count - 1).saturating_mul(CHUNK_BYTES) > limit {
        return Err(over(limit));
    }
    let mut out = Zeroizing::new(Vec::new());
    for number in 0..count {
        let (chunk, rest) = sealed.split_at(sealed_size(sealed)?);
        let header = [chunk[0], chunk[1], chunk[2], chunk[3]];
        let mut scratch = Zeroizing::new(chunk[HEADER_BYTES..].to_vec());
        let place = Place { section, number: number as u32, last: rest.is_empty() };
        let opened = cipher.open(place, header, &mut scratch)?;
        scratch.truncate(opened);
        let plain = if header[0] == ZSTD { Zeroizing::new(compress::decompress(&scratch)?) } else { scratch };
        if !rest.is_empty() && plain.len() != CHUNK_BYTES {
            return Err(Error::corrupt("a chunk before the last is not full"));
        }
        if out.len() + plain.len() > limit {
            return Err(over(limit));
        }
        if count == 1 {
            return Ok(plain);
        }
        if number == 0 {
            // Once and for all: growing would leave copies behind.
            out.reserve_exact(count * CHUNK_BYTES);
        }
        out.extend_from_slice(&plain);
        sealed = rest;
    }
    Ok(out)
}

/// How many chunks fill `sealed` exactly; at least one.
fn count(sealed: &[u8]) -> Result<usize> {
    let (mut rest, mut count) = (sealed, 0);
    loop {
        let size = sealed_size(rest)?;
        rest = rest.get(size..).ok_or_else(|| Error::corrupt("an object ends within a chunk"))?;
        count += 1;
        if rest.is_empty() {
            return Ok(count);
        }
    }
}

fn over(limit: usize) -> Error {
    Error::corrupt(format!("a sealed section holds more than {limit} bytes"))
}
