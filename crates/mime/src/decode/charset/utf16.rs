//! `utf-16`, a label without a byte order. Streaming.
//!
//! A byte order mark decides. Without one it is big-endian by RFC 2781 §4.3, but programs on
//! Windows have written it little-endian, so the text is examined first: hardly any has no space,
//! line end or letter of ASCII, and one of the two bytes of those is 0.

use encoding_rs::{Decoder, UTF_16BE, UTF_16LE};

use super::decode_whatwg;

/// Bytes that are examined.
const LOOK_BYTES: usize = 256;

/// Decodes one text that arrives in pieces.
#[derive(Default)]
pub(super) struct Utf16 {
    held: Vec<u8>,
    /// Once the order is known.
    decoder: Option<Decoder>,
}

impl Utf16 {
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut String) {
        if self.decoder.is_none() {
            let room = LOOK_BYTES - self.held.len();
            let (looked, rest) = bytes.split_at(bytes.len().min(room));
            self.held.extend_from_slice(looked);
            bytes = rest;
            if self.held.len() == LOOK_BYTES {
                self.begin(out);
            }
        }
        if let Some(decoder) = self.decoder.as_mut().filter(|_| !bytes.is_empty()) {
            decode_whatwg(decoder, bytes, false, out);
        }
    }

    pub(super) fn finish(mut self, out: &mut String) {
        if self.decoder.is_none() {
            self.begin(out);
        }
        if let Some(decoder) = &mut self.decoder {
            decode_whatwg(decoder, b"", true, out);
        }
    }

    fn begin(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let encoding = if is_little(&held) { UTF_16LE } else { UTF_16BE };
        let decoder = self.decoder.insert(encoding.new_decoder_with_bom_removal());
        decode_whatwg(decoder, &held, false, out);
    }
}

fn is_little(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] => true,
        [0xfe, 0xff, ..] => false,
        _ => {
            let zeros = |first: usize| bytes.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
            zeros(1) > zeros(0)
        }
    }
}
