//! Sealed chunks: what every sealed body is made of.
//!
//! A section is a run of chunks of [`CHUNK_BYTES`] plaintext each (the last one shorter, possibly
//! empty). A chunk on disk is four bytes of header (the version, and the length of the rest) and
//! the sealed content: the plaintext, compressed first where that pays, zeros up to one of few
//! sizes ([`padded`]), and a trailer with the compression and the length. So an observer of chunks
//! learns neither to the byte. The header is associated data, so it cannot be changed either.

use bytes::{Bytes, BytesMut};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, PiecePosition, TAG_BYTES};
use crate::compress::{self, Effort, Encoding};

/// Bytes before each chunk's ciphertext.
pub(crate) const HEADER_BYTES: usize = 4;
/// Bytes behind the padding: how the content is compressed, and its length.
const TRAILER_BYTES: usize = 4;
/// What sealing adds to a chunk's plaintext, padding aside.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES + TAG_BYTES;
/// The largest chunk on disk.
pub(crate) const MAX_SEALED_BYTES: usize = CHUNK_BYTES + OVERHEAD_BYTES;
/// The most zeros that a chunk has.
pub(crate) const MAX_PADDING_BYTES: usize = 2 * 1024;

const VERSION: u8 = 2;
/// Content is padded to a multiple of this at least.
const STEP_BYTES: usize = 32;

/// How many bytes the content of a chunk takes: of each power of two, up to the next, there are 16
/// sizes (32 from 64 KiB on), as in Padmé (Nikitin et al., PoPETs 2019). That is 3 % more on
/// average and 6 % at most above 512 bytes, and a length says four bits.
pub(crate) fn padded(length: usize) -> usize {
    let exponent = length.max(1).ilog2();
    let kept = exponent.max(1).ilog2() + 1;
    let step = (1 << exponent.saturating_sub(kept)).max(STEP_BYTES);
    length.max(1).next_multiple_of(step).min(CHUNK_BYTES)
}

/// Appends one sealed chunk to `out` and returns its size on disk.
pub(crate) fn seal(
    cipher: &ObjectCipher,
    place: PiecePosition,
    plain: &[u8],
    effort: &mut Effort,
    out: &mut Vec<u8>,
) -> usize {
    debug_assert!(plain.len() <= CHUNK_BYTES);
    let start = out.len();
    out.reserve(padded(plain.len()) + OVERHEAD_BYTES);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let body = out.len();
    let encoding = effort.compress(plain, out);
    if encoding == Encoding::Raw {
        out.extend_from_slice(plain);
    }
    let length = out.len() - body;
    out.resize(body + padded(length), 0);
    let mut trailer = (length as u32).to_be_bytes();
    trailer[0] = encoding as u8;
    out.extend_from_slice(&trailer);
    let sealed = u32::try_from(out.len() - body + TAG_BYTES).expect("a chunk is 64 KiB and a little");
    let mut header = sealed.to_be_bytes();
    header[0] = VERSION;
    out[start..body].copy_from_slice(&header);
    cipher.seal(place, header, out, body);
    out.len() - start
}

/// Seals all of `plain` as one section, appended to `out`, and returns the section's size on disk.
pub(crate) fn seal_section(cipher: &ObjectCipher, section: u8, plain: &[u8], out: &mut Vec<u8>) -> usize {
    seal_section_with(cipher, section, plain, Effort::default(), out)
}

/// The same, not compressed: for content with texts of several senders, or content that must seal
/// to the same bytes in every version of this program.
pub(crate) fn seal_section_raw(cipher: &ObjectCipher, section: u8, plain: &[u8], out: &mut Vec<u8>) -> usize {
    seal_section_with(cipher, section, plain, Effort::none(), out)
}

fn seal_section_with(
    cipher: &ObjectCipher,
    section: u8,
    plain: &[u8],
    mut effort: Effort,
    out: &mut Vec<u8>,
) -> usize {
    let start = out.len();
    let count = plain.len().div_ceil(CHUNK_BYTES).max(1);
    for number in 0..count {
        let piece = &plain[number * CHUNK_BYTES..plain.len().min((number + 1) * CHUNK_BYTES)];
        let place = PiecePosition { section, number: number as u32, last: number + 1 == count };
        seal(cipher, place, piece, &mut effort, out);
    }
    out.len() - start
}

/// The size on disk of the chunk that `bytes` starts with, checked against what a chunk may be.
pub(crate) fn sealed_size(bytes: &[u8]) -> Result<usize> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(Error::corrupt("an object ends within a chunk header"));
    };
    let size = HEADER_BYTES + u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    if header[0] != VERSION || !(OVERHEAD_BYTES..=MAX_SEALED_BYTES).contains(&size) {
        return Err(Error::corrupt("not a chunk header"));
    }
    Ok(size)
}

/// The plaintext of one whole sealed chunk; decrypts in place, so a raw chunk is not copied.
pub(crate) fn open(cipher: &ObjectCipher, place: PiecePosition, mut chunk: BytesMut) -> Result<Bytes> {
    if sealed_size(&chunk)? != chunk.len() {
        return Err(Error::corrupt("an object ends within a chunk"));
    }
    let header = [chunk[0], chunk[1], chunk[2], chunk[3]];
    let plain = cipher.open(place, header, &mut chunk[HEADER_BYTES..])?;
    let (encoding, length) = content(&chunk[HEADER_BYTES..HEADER_BYTES + plain])?;
    if encoding != Encoding::Raw {
        let content = &chunk[HEADER_BYTES..HEADER_BYTES + length];
        return Ok(Bytes::from(compress::decompress(encoding, content)?));
    }
    chunk.truncate(HEADER_BYTES + length);
    let _ = chunk.split_to(HEADER_BYTES);
    Ok(chunk.freeze())
}

/// Opens small chunks one after the other, into one buffer for the plaintext of all of them: a
/// thread that opens a group of messages and one that sends them exchange one block of memory, not
/// one for each message.
pub(crate) struct GroupOpener {
    opened: Vec<u8>,
    plain: BytesMut,
}

impl GroupOpener {
    /// For chunks of so many bytes of plaintext together.
    pub fn new(plain_bytes: usize) -> Self {
        GroupOpener { opened: Vec::new(), plain: BytesMut::with_capacity(plain_bytes) }
    }

    /// The plaintext of one whole sealed chunk, of `length` bytes.
    ///
    /// # Errors
    /// `Corrupt` if the chunk is not what was sealed in that place, or has another length.
    pub fn open(
        &mut self,
        cipher: &ObjectCipher,
        place: PiecePosition,
        chunk: &[u8],
        length: usize,
    ) -> Result<Bytes> {
        if sealed_size(chunk)? != chunk.len() {
            return Err(Error::corrupt("an object ends within a chunk"));
        }
        let header = [chunk[0], chunk[1], chunk[2], chunk[3]];
        self.opened.clear();
        self.opened.extend_from_slice(&chunk[HEADER_BYTES..]);
        let opened = cipher.open(place, header, &mut self.opened)?;
        let (encoding, content_bytes) = content(&self.opened[..opened])?;
        let content = &self.opened[..content_bytes];
        if encoding == Encoding::Raw {
            self.plain.extend_from_slice(content);
        } else {
            self.plain.resize(length, 0);
            compress::decompress_into(encoding, content, &mut self.plain)?;
        }
        let plain = self.plain.split().freeze();
        if plain.len() == length { Ok(plain) } else { Err(Error::corrupt("a chunk has a wrong size")) }
    }
}

/// How what was opened is compressed, and how long it is before the padding.
fn content(opened: &[u8]) -> Result<(Encoding, usize)> {
    let wrong = || Error::corrupt("a chunk whose length cannot be");
    let (padded_content, trailer) = opened.split_last_chunk::<TRAILER_BYTES>().ok_or_else(wrong)?;
    let length = u32::from_be_bytes([0, trailer[1], trailer[2], trailer[3]]) as usize;
    let padding = padded_content.get(length..).ok_or_else(wrong)?;
    if padded(length) != padded_content.len() || padding.iter().any(|byte| *byte != 0) {
        return Err(wrong());
    }
    Ok((Encoding::of(trailer[0]).ok_or_else(wrong)?, length))
}

/// The plaintext of a whole section, which must fill `sealed` exactly; at most `limit` bytes. It
/// may hold keys, so every copy made of it here is wiped.
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
        let place = PiecePosition { section, number: number as u32, last: rest.is_empty() };
        let opened = cipher.open(place, header, &mut scratch)?;
        let (encoding, length) = content(&scratch[..opened])?;
        scratch.truncate(length);
        let plain = match encoding {
            Encoding::Raw => scratch,
            encoding => Zeroizing::new(compress::decompress(encoding, &scratch)?),
        };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };

    fn cipher() -> ObjectCipher {
        ObjectCipher::new(&[], &[1; 32], [2; 32])
    }

    #[test]
    fn lengths_are_padded_to_few_sizes() {
        let sizes: std::collections::BTreeSet<usize> = (0..=CHUNK_BYTES).map(padded).collect();
        assert_eq!(sizes.len(), 16 + 7 * 16, "{sizes:?}");
        let (mut sum, mut plain) = (0, 0);
        for length in 512..=CHUNK_BYTES {
            let size = padded(length);
            assert!(size >= length && size - length < MAX_PADDING_BYTES);
            assert!(size as f64 <= length as f64 * 1.0625, "{length}: {size}");
            (sum, plain) = (sum + size, plain + length);
        }
        assert!((sum as f64) < plain as f64 * 1.03, "{}", sum as f64 / plain as f64);
        assert_eq!((padded(0), padded(1), padded(33), padded(CHUNK_BYTES)), (32, 32, 64, CHUNK_BYTES));
    }

    /// A chunk with another length or padding is refused, even from a holder of the key.
    #[test]
    fn padding_holds_nothing() {
        let seal = |body: &[u8], trailer: [u8; TRAILER_BYTES]| {
            let content = [body, &trailer].concat();
            let mut header = ((content.len() + TAG_BYTES) as u32).to_be_bytes();
            header[0] = VERSION;
            let mut sealed = [&header[..], &content].concat();
            cipher().seal(PLACE, header, &mut sealed, HEADER_BYTES);
            sealed
        };
        let mut body = [0; 32];
        body[..3].copy_from_slice(b"abc");
        assert_eq!(
            open(&cipher(), PLACE, BytesMut::from(&seal(&body, [0, 0, 0, 3])[..])).unwrap(),
            &b"abc"[..]
        );
        for (body, trailer) in [
            (&body[..], [0, 0, 0, 2]),
            (&body, [0, 0, 0, 33]),
            (&body, [3, 0, 0, 3]),
            (&body, [1, 0, 0, 3]),
            (&[0; 64], [0, 0, 0, 3]),
            (b"", [0, 0, 0, 0]),
        ] {
            let sealed = seal(body, trailer);
            assert!(open(&cipher(), PLACE, BytesMut::from(&sealed[..])).is_err(), "{trailer:?}");
            assert!(open_section(&cipher(), 0, &sealed, 1000).is_err(), "{trailer:?}");
        }
    }

    proptest! {
        #[test]
        fn sealed_bytes_open(plain: Vec<u8>, times in 1usize..2000) {
            let plain = plain.repeat(times);
            for raw in [true, false] {
                let mut sealed = Vec::new();
                let size = match raw {
                    true => seal_section_raw(&cipher(), 3, &plain, &mut sealed),
                    false => seal_section(&cipher(), 3, &plain, &mut sealed),
                };
                prop_assert_eq!(size, sealed.len());
                prop_assert_eq!(&*open_section(&cipher(), 3, &sealed, plain.len()).unwrap(), &plain);
            }
        }
    }
}
