//! DKIM: a domain's signature over a message (RFC 6376), verified and made while the message streams.
//!
//! - [`Verifier`]: header first, then the body in pieces, then the texts of the DNS records that it names.
//! - [`Signer`]: header first, then the body in pieces; gives the fields to put before the message.
//!   [`BodyHash`] and [`sign()`] are its parts, for those who own the header.
//! - [`SigningKey`], [`KeyRecord`]: the two halves of a key; the second is what DNS publishes.
//!
//! RSA-SHA256 and Ed25519-SHA256 are known. RSA-SHA1, and RSA keys below 1024 bits, count for
//! nothing (RFC 8301 §3.1, §3.2).

mod key_record;
mod sign;
mod signature;
mod signing_key;
mod verify;

use std::fmt;

pub use key_record::KeyRecord;
pub use sign::{BodyHash, Signer, SigningOptions, sign};
pub use signature::Signature;
pub use signing_key::SigningKey;
pub use verify::{KeyLookup, SignedMessage, Verdict, Verifier};

use crate::canonical;
use crate::canonical::Canonicalization;

/// The name of the field that holds a signature.
pub const FIELD: &str = "DKIM-Signature";

/// How a signature is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 over SHA-256 (RFC 6376 §3.3.2).
    RsaSha256,
    /// PureEdDSA over the SHA-256 hash (RFC 8463 §3).
    Ed25519Sha256,
}

impl Algorithm {
    /// Its name in `a=`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "rsa-sha256",
            Algorithm::Ed25519Sha256 => "ed25519-sha256",
        }
    }

    /// The name of its kind of key, in `k=` of a key record.
    pub fn key_type(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "rsa",
            Algorithm::Ed25519Sha256 => "ed25519",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Algorithm::RsaSha256, Algorithm::Ed25519Sha256]
            .into_iter()
            .find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// Why a signature does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The field or one of its tags is not as RFC 6376 §3.5 wants it.
    SignatureSyntax,
    /// `v=` is not 1.
    Version,
    /// A required tag is missing.
    MissingTag,
    /// An algorithm that is unknown, or broken as SHA-1 is.
    Algorithm,
    /// `i=` is outside of `d=`.
    DomainMismatch,
    /// `h=` does not name From.
    FromNotSigned,
    /// `q=` names nothing but unknown ways to find the key.
    QueryMethod,
    /// `x=` is over.
    Expired,
    /// DNS has no key under that name.
    NoKey,
    /// The DNS record is no key record.
    KeySyntax,
    /// `p=` is empty.
    KeyRevoked,
    /// The key is of another kind, for another service or hash, or too short.
    KeyUnsuitable,
    /// The body was changed.
    BodyHash,
    /// `l=` says more than the body has.
    BodyLength,
    /// A signed field was changed, added or removed, or another key signed.
    Mismatch,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::SignatureSyntax => "signature syntax error",
            Fault::Version => "incompatible version",
            Fault::MissingTag => "signature missing required tag",
            Fault::Algorithm => "unsupported algorithm",
            Fault::DomainMismatch => "domain mismatch",
            Fault::FromNotSigned => "From field not signed",
            Fault::QueryMethod => "unsupported query method",
            Fault::Expired => "signature expired",
            Fault::NoKey => "no key for signature",
            Fault::KeySyntax => "key syntax error",
            Fault::KeyRevoked => "key revoked",
            Fault::KeyUnsuitable => "unsuitable key",
            Fault::BodyHash => "body hash did not verify",
            Fault::BodyLength => "body shorter than signed",
            Fault::Mismatch => "signature did not verify",
        })
    }
}

/// The bytes that a signature covers: the fields that `signed` names, each name from the last such
/// field upwards (RFC 6376 §5.4.2), then `own`, the signature's field with an empty `b=`.
fn signed_bytes(how: Canonicalization, fields: &[(&[u8], &[u8])], signed: &[String], own: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut left: Vec<usize> = signed.iter().map(|_| fields.len()).collect();
    for (at, name) in signed.iter().enumerate() {
        // Where the search for the one before of the same name ended.
        let from = signed[..at]
            .iter()
            .rposition(|other| other.eq_ignore_ascii_case(name))
            .map_or(fields.len(), |before| left[before]);
        let found = fields[..from].iter().rposition(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()));
        left[at] = found.unwrap_or(0);
        if let Some(found) = found {
            canonical::header_field(how, fields[found].1, &mut out);
            out.extend_from_slice(b"\r\n");
        }
    }
    canonical::header_field(how, own, &mut out);
    out
}

#[cfg(test)]
mod tests;
