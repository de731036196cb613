//! The digests of blobs that a client can ask for.

use sealpost_vault::DigestAlgorithm;

/// The algorithms of `digest:` properties (RFC 9404 §3.1, `supportedDigestAlgorithms`).
pub(crate) const DIGESTS: [(&str, DigestAlgorithm); 3] = [
    ("sha", DigestAlgorithm::Sha1),
    ("sha-256", DigestAlgorithm::Sha256),
    ("sha-512", DigestAlgorithm::Sha512),
];
