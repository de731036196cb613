//! The receivers of a part's body: the text pipe, or the scan of an encoded message.
//!
//! RFC 2046 §5.2.1 forbids encoding a message/rfc822, RFC 6532 §3.7 permits it for message/global,
//! and programs do both. Such a message has its own structure, whose offsets count its decoded
//! bytes.

use sealpost_base::limits;

use super::pipe::Pipe;
use super::{Shared, Walk};
use crate::decode::{Encoding, TransferDecoder};
use crate::envelope::Envelope;
use crate::structure::Part;
use crate::text::TextSink;

/// Bytes of an encoded message that are decoded at once.
const SLICE_BYTES: usize = 8 * 1024;

pub(super) enum Feed {
    Text(Box<Pipe>),
    Message(Box<Encoded>),
}

/// The scan of an encoded message.
pub(super) struct Encoded {
    decoder: TransferDecoder,
    walk: Walk,
    decoded: Vec<u8>,
}

impl Encoded {
    /// A message at that depth, within so many encoded ones, itself included; `None` if these are
    /// too many.
    pub(super) fn new(encoding: Encoding, depth: usize, layers: usize) -> Option<Self> {
        let (decoder, decoded) = (TransferDecoder::new(encoding), Vec::new());
        let walk = || Walk::new(depth, layers);
        (layers <= limits::MIME_ENCODED_DEPTH).then(|| Encoded { decoder, walk: walk(), decoded })
    }

    fn forward(&mut self, shared: &mut Shared<impl TextSink>) {
        self.walk.push(&self.decoded, shared);
        self.decoded.clear();
    }
}

impl Feed {
    pub(super) fn push(&mut self, bytes: &[u8], shared: &mut Shared<impl TextSink>) {
        match self {
            Feed::Text(pipe) => pipe.push(bytes, &mut shared.preview, &mut shared.sink),
            Feed::Message(message) => {
                for slice in bytes.chunks(SLICE_BYTES) {
                    message.decoder.push(slice, &mut message.decoded);
                    message.forward(shared);
                }
            }
        }
    }

    /// Ends the body; returns the message, if it is one.
    pub(super) fn finish(self, shared: &mut Shared<impl TextSink>) -> Option<Box<(Envelope, Part)>> {
        match self {
            Feed::Text(pipe) => {
                pipe.finish(&mut shared.preview, &mut shared.sink);
                None
            }
            Feed::Message(mut message) => {
                let decoder =
                    std::mem::replace(&mut message.decoder, TransferDecoder::new(Encoding::Identity));
                decoder.finish(&mut message.decoded);
                message.forward(shared);
                message.walk.finish(shared);
                let Walk { envelope, root, .. } = message.walk;
                Some(Box::new((envelope, root)))
            }
        }
    }
}
