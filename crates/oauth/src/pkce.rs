//! Proof Key for Code Exchange (RFC 7636), with S256 alone: the client that redeems a code shows
//! that it began the flow.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealpost_vault::{Digest, DigestAlgorithm};

/// Bytes of a digest.
pub(crate) const DIGEST_BYTES: usize = 32;

/// SHA-256 over the parts, each behind its length.
pub(crate) fn digest(parts: &[&str]) -> [u8; DIGEST_BYTES] {
    let mut digest = Digest::new(DigestAlgorithm::Sha256);
    for part in parts {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    array(&digest.finish())
}

/// Whether two digests are equal; their inputs may be secret, so time does not tell where they differ.
pub(crate) fn same(a: &[u8; DIGEST_BYTES], b: &[u8; DIGEST_BYTES]) -> bool {
    a.iter().zip(b).fold(0, |difference, (x, y)| std::hint::black_box(difference | (x ^ y))) == 0
}

/// Whether that is a challenge of S256 (§4.2): a SHA-256 in base64url.
pub(crate) fn is_challenge(text: &str) -> bool {
    text.len() == 43 && URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == DIGEST_BYTES)
}

/// The challenge of a verifier; `None` if it is none (§4.1: 43 to 128 unreserved characters).
pub(crate) fn challenge_of(verifier: &str) -> Option<String> {
    let is_unreserved = |c: u8| c.is_ascii_alphanumeric() || b"-._~".contains(&c);
    if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(is_unreserved) {
        return None;
    }
    let mut digest = Digest::new(DigestAlgorithm::Sha256);
    digest.update(verifier.as_bytes());
    Some(URL_SAFE_NO_PAD.encode(digest.finish()))
}

fn array(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut out = [0; DIGEST_BYTES];
    out.copy_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 7636 appendix B.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").as_deref(), Some(challenge));
        assert!(is_challenge(challenge));
    }

    #[test]
    fn rejects_malformed_verifiers_and_challenges() {
        for wrong in ["", &"a".repeat(42), &"a".repeat(129), &"ü".repeat(43), &" ".repeat(43)] {
            assert!(challenge_of(wrong).is_none() && !is_challenge(wrong), "{wrong}");
        }
        assert!(challenge_of(&"a".repeat(128)).is_some() && !is_challenge(&"+".repeat(43)));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}
