//! What a mail becomes for a server that takes 7 bits only (RFC 6152 §3): parts with 8-bit text in
//! quoted-printable. Signatures that were made at acceptance do not fit it: they are left out, and
//! new ones of the same domain are made.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use sealpost_base::{Clock, Result, limits};
use sealpost_delivery::envelope::{BodyForm, MessageReader};
use sealpost_mailauth::dkim::{BodyHash, Signature, SigningOptions, sign};
use sealpost_mime::seven_bit::{EightBitFinder, EightBitParts, SevenBit};
use sealpost_queue::runner::{Forms, Pieces, QueuedMessage};
use sealpost_submission::domain_keys::DomainKeys;

/// The name of the fields that are made at acceptance, before all others.
const SIGNATURE: &[u8] = b"dkim-signature:";

/// Mail as it was accepted, or with its 8-bit parts encoded.
pub(super) struct Downgraded {
    keys: DomainKeys,
    clock: Arc<dyn Clock>,
}

impl Downgraded {
    pub(super) fn new(keys: DomainKeys, clock: Arc<dyn Clock>) -> Self {
        Downgraded { keys, clock }
    }

    /// The signatures of the encoded message; none if it had none, or if the domain has no keys any more.
    async fn signed(&self, message: &QueuedMessage, parts: &EightBitParts) -> Result<Vec<u8>> {
        let Some(domain) = signing_domain(&message.mail.header) else { return Ok(Vec::new()) };
        let keys = self.keys.signing(&domain).await?;
        let (mut head, mut encoded) = (Head::default(), Encoded::of(message, parts.clone(), Vec::new()));
        while let Some(piece) = encoded.next().await? {
            head.push(&piece);
        }
        if keys.is_empty() || !head.is_whole {
            return Ok(Vec::new());
        }
        let timestamp = u64::try_from(self.clock.now().seconds()).unwrap_or(0);
        let options = SigningOptions { domain: &domain, timestamp, expiry: None };
        let keys: Vec<_> = keys.iter().map(|key| (&*key.selector, key.signer())).collect();
        sign(&head.header, head.body, options, &keys)
    }
}

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
        let parts = finder.finish();
        let signatures = self.signed(&message, &parts).await?;
        Ok(Box::new(Encoded::of(&message, parts, signatures)))
    }
}

/// The header of a message that streams by, and the hash of its body.
#[derive(Default)]
struct Head {
    header: Vec<u8>,
    is_whole: bool,
    body: BodyHash,
}

impl Head {
    fn push(&mut self, piece: &[u8]) {
        if self.is_whole {
            return self.body.push(piece);
        }
        // The end may be cut in two. Larger headers are not accepted.
        let from = self.header.len().saturating_sub(3);
        if self.header.len() > 2 * limits::SUBMISSION_HEADER_BYTES {
            return;
        }
        self.header.extend_from_slice(piece);
        let end = self.header[from..].windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(end) = end {
            let body = self.header.split_off(from + end + 4);
            self.is_whole = true;
            self.body.push(&body);
        }
    }
}

/// A message as it streams through the encoder.
struct Encoded {
    /// What goes before it.
    signatures: Vec<u8>,
    pieces: Unsigned,
    /// `None` at the end.
    encoder: Option<SevenBit>,
}

impl Encoded {
    fn of(message: &QueuedMessage, parts: EightBitParts, signatures: Vec<u8>) -> Self {
        Encoded { signatures, pieces: Unsigned::of(message), encoder: Some(SevenBit::new(parts)) }
    }
}

#[async_trait]
impl MessageReader for Encoded {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut out = std::mem::take(&mut self.signatures);
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

/// The domain of the signatures that a header begins with.
fn signing_domain(header: &[u8]) -> Option<String> {
    let first = header.get(..signatures(header)).filter(|fields| !fields.is_empty())?;
    let value = &first[SIGNATURE.len()..field(first)];
    Signature::parse(value).ok().map(|signature| signature.domain)
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
