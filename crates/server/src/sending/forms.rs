//! What a mail becomes for a server that takes 7 bits only (RFC 6152 §3): parts with 8-bit text in
//! quoted-printable, without the signatures that were made before.

use async_trait::async_trait;
use bytes::Bytes;
use sealpost_base::Result;
use sealpost_delivery::envelope::{BodyForm, MessageReader};
use sealpost_mime::seven_bit::{EightBitFinder, SevenBit};
use sealpost_queue::runner::{Forms, Pieces, QueuedMessage};

/// The name of the fields that are made at acceptance, before all others.
const SIGNATURE: &[u8] = b"dkim-signature:";

/// Mail as it was accepted, or with its 8-bit parts encoded.
pub(super) struct Downgraded;

#[async_trait]
impl Forms for Downgraded {
    async fn open(&self, message: QueuedMessage, form: BodyForm) -> Result<Box<dyn MessageReader>> {
        if form == BodyForm::AsIs || !message.mail.facts.eight_bit {
            return Ok(Box::new(message.read()));
        }
        let mut finder = EightBitFinder::new();
        let mut pieces = Unsigned::of(&message);
        while let Some(piece) = pieces.next().await? {
            finder.push(&piece);
        }
        let encoder = Some(SevenBit::new(finder.finish()));
        Ok(Box::new(Encoded { pieces: Unsigned::of(&message), encoder }))
    }
}

/// A message as it streams through the encoder.
struct Encoded {
    pieces: Unsigned,
    /// `None` at the end.
    encoder: Option<SevenBit>,
}

#[async_trait]
impl MessageReader for Encoded {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(encoder) = &mut self.encoder else { return Ok(None) };
            match self.pieces.next().await? {
                Some(piece) => encoder.push(&piece, &mut out),
                None => {
                    if let Some(encoder) = self.encoder.take() {
                        encoder.finish(&mut out);
                    }
                }
            }
        }
        Ok(Some(out.into()))
    }
}

/// A message without the signatures of this server, which what is encoded does not fit.
struct Unsigned {
    pieces: Pieces,
    /// Bytes at the beginning that are signatures.
    skip: usize,
}

impl Unsigned {
    fn of(message: &QueuedMessage) -> Self {
        Unsigned { pieces: message.read(), skip: signatures(&message.mail.header) }
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(piece) = self.pieces.next().await? {
            let skipped = self.skip.min(piece.len());
            self.skip -= skipped;
            if skipped < piece.len() {
                return Ok(Some(piece.slice(skipped..)));
            }
        }
        Ok(None)
    }
}

/// Bytes of the signature fields that a header begins with.
fn signatures(header: &[u8]) -> usize {
    let mut end = 0;
    while header[end..].get(..SIGNATURE.len()).is_some_and(|name| name.eq_ignore_ascii_case(SIGNATURE)) {
        end += field(&header[end..]);
    }
    end
}

/// Bytes of the first field, with the lines that continue it.
fn field(header: &[u8]) -> usize {
    let mut end = 0;
    loop {
        let line = header[end..].iter().position(|byte| *byte == b'\n');
        end = line.map_or(header.len(), |at| end + at + 1);
        if !matches!(header.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signatures_at_the_beginning_are_left_out() {
        for (header, left) in [
            ("", ""),
            ("Received: x\r\nDKIM-Signature: y\r\n", "Received: x\r\nDKIM-Signature: y\r\n"),
            (
                "DKIM-Signature: a;\r\n\tb=c\r\ndkim-signature: d\r\nReceived: x\r\n\ty\r\n",
                "Received: x\r\n\ty\r\n",
            ),
            ("DKIM-Signature: a", ""),
        ] {
            assert_eq!(&header[signatures(header.as_bytes())..], left);
        }
    }
}
