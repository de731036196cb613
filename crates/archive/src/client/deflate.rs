//! DEFLATE (RFC 1951) over a connection (RFC 4978): what is received is expanded a bounded number
//! of bytes at a time.
//!
//! `miniz_oxide` is named here and, for the server, in `crates/imap-session/src/deflate.rs`.

use bytes::{Buf, BytesMut};
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush};
use sealpost_base::Result;

use super::peer_fault::protocol_violation;

/// Bytes that are expanded at a time.
const PIECE_BYTES: usize = 32 * 1024;
/// Without the header of RFC 1950.
const RAW: i32 = -15;
/// What is sent is short, except when mail is restored.
const LEVEL: i32 = 3;

/// Both directions of a connection.
pub(super) struct Deflate {
    inflate: Box<InflateState>,
    piece: Box<[u8; PIECE_BYTES]>,
    /// Received and not yet expanded.
    pub(super) input: BytesMut,
    deflate: Box<CompressorOxide>,
}

impl Deflate {
    /// At the beginning of both streams.
    pub(super) fn new() -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, RAW, 0);
        Deflate {
            inflate: InflateState::new_boxed(DataFormat::Raw),
            piece: Box::new([0; PIECE_BYTES]),
            input: BytesMut::new(),
            deflate: Box::new(CompressorOxide::new(flags)),
        }
    }

    /// Expands some of what was received, at most [`PIECE_BYTES`], to the end of `out`; how many
    /// bytes. None: more has to be received.
    ///
    /// # Errors
    /// `Retry` if it is not DEFLATE.
    pub(super) fn expand(&mut self, out: &mut BytesMut) -> Result<usize> {
        // Even without input there may be something in the window that did not fit.
        let result = inflate(&mut self.inflate, &self.input, &mut *self.piece, MZFlush::None);
        self.input.advance(result.bytes_consumed);
        match result.status {
            Ok(_) | Err(MZError::Buf) => {
                out.extend_from_slice(&self.piece[..result.bytes_written]);
                Ok(result.bytes_written)
            }
            Err(_) => Err(protocol_violation("the server sent invalid compressed data")),
        }
    }

    /// Compresses `bytes` to the end of `out`, so that the server can read all of them.
    pub(super) fn compress(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        let mut piece = [0; 4096];
        loop {
            let result = deflate(&mut self.deflate, bytes, &mut piece, MZFlush::Sync);
            bytes = &bytes[result.bytes_consumed..];
            out.extend_from_slice(&piece[..result.bytes_written]);
            if bytes.is_empty() && result.bytes_written < piece.len() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deflate_round_trips_however_input_is_divided() {
        let text: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8 % 11).collect();
        for size in [1, 7, 1000, 4096, 70_000] {
            let (mut from, mut to) = (Deflate::new(), Deflate::new());
            let mut back = BytesMut::new();
            for part in text.chunks(size.max(97)) {
                let mut packed = Vec::new();
                from.compress(part, &mut packed);
                for bytes in packed.chunks(size) {
                    to.input.extend_from_slice(bytes);
                    while to.expand(&mut back).unwrap() > 0 {}
                }
            }
            assert_eq!(back, text, "{size}");
        }
    }

    #[test]
    fn little_that_expands_to_much_comes_in_pieces() {
        let (mut from, mut to) = (Deflate::new(), Deflate::new());
        let mut packed = Vec::new();
        from.compress(&vec![0; 50_000_000], &mut packed);
        to.input.extend_from_slice(&packed);
        let (mut out, mut total) = (BytesMut::new(), 0);
        loop {
            out.clear();
            match to.expand(&mut out).unwrap() {
                0 => break,
                n => total += n,
            }
            assert!(out.len() <= PIECE_BYTES);
        }
        assert_eq!(total, 50_000_000);
    }

    #[test]
    fn noise_is_an_error() {
        let mut to = Deflate::new();
        to.input.extend_from_slice(&[0xff; 64]);
        let mut out = BytesMut::new();
        assert!((0..10).any(|_| to.expand(&mut out).is_err()));
    }
}
