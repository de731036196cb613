//! The public half of a key, as DNS publishes it (RFC 6376 §3.6.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, signature as crypto};

use super::{Algorithm, Fault, Signature};
use crate::tag_list::{TagList, colon_list, without_space};

/// A key record that may verify signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    key: PublicKey,
    is_testing: bool,
    is_strict: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PublicKey {
    /// RSAPublicKey in DER.
    Rsa(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeyRecord {
    /// Parses the text of a TXT record, its strings joined.
    ///
    /// # Errors
    /// [`Fault::KeySyntax`], [`Fault::KeyRevoked`], or [`Fault::KeyUnsuitable`] for other services, hashes or kinds of keys.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let tags = TagList::parse(text).ok_or(Fault::KeySyntax)?;
        // RFC 6376 §3.6.1: v= is the first tag if it is there, and "DKIM1".
        if tags.value("v").is_some_and(|version| version != "DKIM1" || tags.first() != Some("v")) {
            return Err(Fault::KeySyntax);
        }
        let bytes = without_space(tags.value("p").ok_or(Fault::KeySyntax)?);
        if bytes.is_empty() {
            return Err(Fault::KeyRevoked);
        }
        let lists = |tag: &str, wanted: &[&str]| {
            tags.value(tag).is_none_or(|list| colon_list(list).any(|item| wanted.contains(&item)))
        };
        if !lists("h", &["sha256"]) || !lists("s", &["*", "email"]) {
            return Err(Fault::KeyUnsuitable);
        }
        let bytes = STANDARD.decode(bytes).map_err(|_| Fault::KeySyntax)?;
        let key = match tags.value("k").unwrap_or("rsa") {
            "rsa" => PublicKey::Rsa(rsa_public_key(&bytes).ok_or(Fault::KeySyntax)?.to_vec()),
            "ed25519" if bytes.len() == 32 => PublicKey::Ed25519(bytes),
            "ed25519" => return Err(Fault::KeySyntax),
            _ => return Err(Fault::KeyUnsuitable),
        };
        let has_flag = |flag| tags.value("t").is_some_and(|flags| colon_list(flags).any(|item| item == flag));
        Ok(KeyRecord { key, is_testing: has_flag("y"), is_strict: has_flag("s") })
    }

    /// Whether the domain only tries DKIM out: its mail counts as unsigned (RFC 6376 §3.6.1, `t=y`).
    pub fn is_testing(&self) -> bool {
        self.is_testing
    }

    /// Whether this key made `signature` over `signed`.
    pub(super) fn verify(&self, signature: &Signature, signed: &[u8]) -> Result<(), Fault> {
        // RFC 6376 §3.6.1: t=s forbids identities below the domain.
        if self.is_strict && signature.identity_domain != signature.domain {
            return Err(Fault::DomainMismatch);
        }
        match (&self.key, signature.algorithm) {
            (PublicKey::Rsa(key), Algorithm::RsaSha256) => {
                // RFC 8301 §3.2: at least 1024 bits; the library takes up to 8192.
                let algorithm = &crypto::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
                crypto::UnparsedPublicKey::new(algorithm, key).verify(signed, &signature.signature)
            }
            (PublicKey::Ed25519(key), Algorithm::Ed25519Sha256) => {
                // RFC 8463 §3: the hash is signed.
                let hash = digest::digest(&digest::SHA256, signed);
                crypto::UnparsedPublicKey::new(&crypto::ED25519, key)
                    .verify(hash.as_ref(), &signature.signature)
            }
            _ => return Err(Fault::KeyUnsuitable),
        }
        .map_err(|_| Fault::Mismatch)
    }
}

/// RSAPublicKey within `der`: as RFC 6376 requires, or the SubjectPublicKeyInfo around it, which
/// its own examples and all programs publish.
fn rsa_public_key(der: &[u8]) -> Option<&[u8]> {
    let (content, rest) = element(der, 0x30)?;
    if !rest.is_empty() {
        return None;
    }
    // An INTEGER comes first in RSAPublicKey, a SEQUENCE, the name of the algorithm, in SubjectPublicKeyInfo.
    if content.first() == Some(&0x02) {
        return Some(der);
    }
    let (_, after) = element(content, 0x30)?;
    let (bits, rest) = element(after, 0x03)?;
    let key = bits.strip_prefix(&[0])?;
    (rest.is_empty() && element(key, 0x30)?.1.is_empty()).then_some(key)
}

/// The content of the element with tag `tag` that `der` begins with, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    const RSA: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQi\
                       Y/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3\
                       Ip3G+2kryOTIKT+l/K4w3QIDAQAB";

    #[test]
    fn records_are_parsed() {
        let record = KeyRecord::parse(&format!("v=DKIM1; k=ed25519; t=y : s; n=note; p={ED25519}")).unwrap();
        assert!(record.is_testing() && record.is_strict);
        let whole = KeyRecord::parse(&format!("p={RSA}")).unwrap();
        let PublicKey::Rsa(inner) = &whole.key else { panic!("{whole:?}") };
        let bare = KeyRecord::parse(&format!("k=rsa; p={}", STANDARD.encode(inner))).unwrap();
        assert_eq!(bare, whole);
    }

    #[test]
    fn wrong_records_have_their_fault() {
        for (text, fault) in [
            ("", Fault::KeySyntax),
            ("v=spf1 -all", Fault::KeySyntax),
            ("v=DKIM1", Fault::KeySyntax),
            ("v=DKIM1; p=", Fault::KeyRevoked),
            ("v=DKIM1.0; p=AAAA", Fault::KeySyntax),
            ("p=AAAA; v=DKIM1", Fault::KeySyntax),
            ("p=AAAA", Fault::KeySyntax),
            ("p=*", Fault::KeySyntax),
            ("k=dsa; p=AAAA", Fault::KeyUnsuitable),
            ("k=ed25519; p=AAAA", Fault::KeySyntax),
            ("h=sha1; p=AAAA", Fault::KeyUnsuitable),
            ("s=other; p=AAAA", Fault::KeyUnsuitable),
        ] {
            assert_eq!(KeyRecord::parse(text), Err(fault), "{text:?}");
        }
        assert!(KeyRecord::parse(&format!("h=sha1:sha256; s=web:email; k=ed25519; p={ED25519}")).is_ok());
    }
}
