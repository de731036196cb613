//! Verifying the signatures of a message while it streams (RFC 6376 §6).

use ring::digest;
use sealpost_base::limits;
use sealpost_mime::header;

use super::signature::without_signature;
use super::{FIELD, Fault, KeyRecord, Signature, signed_bytes};
use crate::canonical::{BodyCanonicalizer, Canonicalization};

/// Verifies a message. Memory: its header, and 4 KiB for each different way in which its signatures
/// cover the body.
pub struct Verifier {
    header: Vec<u8>,
    signatures: Vec<FoundSignature>,
    bodies: Vec<BodyHash>,
}

/// A signature field: its index among the fields, and its tags.
struct FoundSignature {
    field: usize,
    parsed: Result<Signature, Fault>,
    /// Bytes of the body that it leaves out; 0 until the body is over.
    unsigned: u64,
}

/// A body on its way to one hash.
struct BodyHash {
    how: (Canonicalization, Option<u64>),
    canonicalizer: BodyCanonicalizer,
    hash: LimitedHash,
}

/// A hash over as many bytes as `l=` says.
struct LimitedHash {
    context: digest::Context,
    left: u64,
    /// Bytes that came after those.
    unsigned: u64,
}

impl LimitedHash {
    fn update(&mut self, bytes: &[u8]) {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.context.update(&bytes[..count]);
        self.left -= count as u64;
        self.unsigned += (bytes.len() - count) as u64;
    }
}

impl Verifier {
    /// Begins with the header of a message, with or without the empty line after it. The first
    /// [`limits::DKIM_SIGNATURES`] signatures count, from the top.
    pub fn new(header: &[u8]) -> Self {
        let signatures: Vec<FoundSignature> = header::raw_fields(header)
            .enumerate()
            .filter(|(_, (name, _))| name.eq_ignore_ascii_case(FIELD.as_bytes()))
            .take(limits::DKIM_SIGNATURES)
            .map(|(field, (_, raw))| FoundSignature {
                field,
                parsed: Signature::parse(value(raw)),
                unsigned: 0,
            })
            .collect();
        let mut bodies: Vec<BodyHash> = Vec::new();
        for how in signatures.iter().filter_map(|found| found.parsed.as_ref().ok()).map(how) {
            if bodies.iter().all(|body| body.how != how) {
                bodies.push(BodyHash::new(how));
            }
        }
        Verifier { header: header.to_vec(), signatures, bodies }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        for BodyHash { canonicalizer, hash, .. } in &mut self.bodies {
            canonicalizer.push(piece, &mut |bytes| hash.update(bytes));
        }
    }

    /// The body is over.
    pub fn finish(self) -> SignedMessage {
        let hashes: Vec<_> = self.bodies.into_iter().map(|body| (body.how, body.finish())).collect();
        let mut signatures = self.signatures;
        for found in &mut signatures {
            let Ok(signature) = &found.parsed else { continue };
            let hash = hashes.iter().find(|(other, _)| *other == how(signature)).map(|(_, hash)| hash);
            match hash.map_or(Err(Fault::BodyHash), |hash| hash.compare(signature)) {
                Ok(unsigned) => found.unsigned = unsigned,
                Err(fault) => found.parsed = Err(fault),
            }
        }
        SignedMessage { header: self.header, signatures }
    }
}

/// How a signature covers the body.
fn how(signature: &Signature) -> (Canonicalization, Option<u64>) {
    (signature.body_canonicalization, signature.body_length)
}

/// The value of a raw field.
fn value(raw: &[u8]) -> &[u8] {
    memchr::memchr(b':', raw).map_or(&[], |colon| &raw[colon + 1..])
}

/// A hash over a body.
struct HashedBody {
    hash: digest::Digest,
    is_short: bool,
    unsigned: u64,
}

impl BodyHash {
    fn new(how: (Canonicalization, Option<u64>)) -> Self {
        let context = digest::Context::new(&digest::SHA256);
        let hash = LimitedHash { context, left: how.1.unwrap_or(u64::MAX), unsigned: 0 };
        BodyHash { how, canonicalizer: BodyCanonicalizer::new(how.0), hash }
    }

    fn finish(self) -> HashedBody {
        let BodyHash { how, canonicalizer, mut hash } = self;
        canonicalizer.finish(&mut |bytes| hash.update(bytes));
        let is_short = how.1.is_some() && hash.left > 0;
        HashedBody { hash: hash.context.finish(), is_short, unsigned: hash.unsigned }
    }
}

impl HashedBody {
    /// How many bytes of the body are not signed, if the others match the signature.
    fn compare(&self, signature: &Signature) -> Result<u64, Fault> {
        if self.is_short {
            return Err(Fault::BodyLength);
        }
        if self.hash.as_ref() == signature.body_hash { Ok(self.unsigned) } else { Err(Fault::BodyHash) }
    }
}

/// The result of looking up the name of a key in DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLookup<'a> {
    /// The texts of the TXT records there, the strings of each joined.
    Records(&'a [String]),
    /// DNS says that there are none.
    NotFound,
    /// DNS does not answer.
    Unavailable,
}

/// The verdict on a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The domain of the signature takes responsibility for the message.
    Pass {
        /// Bytes of the canonical body that `l=` does not cover: anyone may have added them.
        unsigned_body_bytes: u64,
        /// The domain only tries DKIM out (`t=y`).
        is_testing: bool,
    },
    /// It does not, or that cannot be verified.
    Fail(Fault),
    /// Its key could not be looked up now.
    TemporaryError,
}

/// A message whose body was read; the keys of its signatures are still to be looked up.
pub struct SignedMessage {
    header: Vec<u8>,
    signatures: Vec<FoundSignature>,
}

impl SignedMessage {
    /// How many signatures it has that count, whether in order or not.
    pub fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.signatures.is_empty()
    }

    /// Signature `index`; `None` if it is invalid already and its key need not be looked up.
    pub fn signature(&self, index: usize) -> Option<&Signature> {
        self.signatures.get(index)?.parsed.as_ref().ok()
    }

    /// The verdict on signature `index` with the DNS result for its [`Signature::key_name`], at
    /// `now` in seconds since 1970.
    pub fn verify(&self, index: usize, keys: KeyLookup<'_>, now: u64) -> Verdict {
        let Some(found) = self.signatures.get(index) else { return Verdict::Fail(Fault::SignatureSyntax) };
        let signature = match &found.parsed {
            Ok(signature) => signature,
            Err(fault) => return Verdict::Fail(*fault),
        };
        if signature.expiry.is_some_and(|end| now > end) {
            return Verdict::Fail(Fault::Expired);
        }
        let records = match keys {
            KeyLookup::Records(records) => records,
            KeyLookup::NotFound => return Verdict::Fail(Fault::NoKey),
            KeyLookup::Unavailable => return Verdict::TemporaryError,
        };
        let signed = self.signed_bytes(found.field, signature);
        // RFC 6376 §6.1.2 point 4: of several records one that verifies is enough.
        let mut fault = Fault::NoKey;
        for record in records.iter().take(limits::DKIM_KEY_RECORDS) {
            let verified = KeyRecord::parse(record)
                .and_then(|key| key.verify(signature, &signed).map(|()| key.is_testing()));
            match verified {
                Ok(is_testing) => return Verdict::Pass { unsigned_body_bytes: found.unsigned, is_testing },
                Err(new) => fault = new,
            }
        }
        Verdict::Fail(fault)
    }

    fn signed_bytes(&self, field: usize, signature: &Signature) -> Vec<u8> {
        let fields: Vec<(&[u8], &[u8])> = header::raw_fields(&self.header).collect();
        // RFC 6376 §3.5: h= never means the field itself.
        let (before, after) = fields.split_at(field);
        let others = [before, after.get(1..).unwrap_or_default()].concat();
        let raw = after.first().map_or(&b""[..], |(_, raw)| raw);
        let colon = memchr::memchr(b':', raw).map_or(raw.len(), |colon| colon + 1);
        let own = [&raw[..colon], &without_signature(&raw[colon..])].concat();
        signed_bytes(signature.header_canonicalization, &others, &signature.signed_fields, &own)
    }
}
