//! The objects of a domain's keys: their paths and their sealed content.

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Random, Result, Timestamp};
use sealpost_dns::DnsName;
use sealpost_mailauth::dkim::{Algorithm, SigningKey};
use sealpost_vault::{Put, Sealed};
use zeroize::Zeroizing;

use super::DomainKeys;

/// The folder of all domains.
pub(super) const ROOT: &str = "domains";
/// Private keys.
pub(super) const KEY: &str = "dkim";
/// Notes that a key signs.
pub(super) const ACTIVE: &str = "active";
/// Notes that a key has stopped signing.
pub(super) const RETIRED: &str = "retired";

/// A private key.
#[derive(Encode, Decode)]
#[cbor(map)]
struct KeyNote<'a> {
    /// In PKCS #8, DER.
    #[cbor(b(0), with = "minicbor::bytes")]
    pkcs8: &'a [u8],
    #[n(1)]
    created: Timestamp,
}

/// Since when a key signs.
#[derive(Encode, Decode)]
#[cbor(map)]
struct ActiveNote {
    #[n(0)]
    since: Timestamp,
}

/// When a key stopped signing, and its published half.
#[derive(Encode, Decode)]
#[cbor(map)]
pub(super) struct RetiredNote {
    #[n(0)]
    pub(super) since: Timestamp,
    #[n(1)]
    pub(super) algorithm: u8,
    #[n(2)]
    pub(super) record: String,
}

pub(super) fn folder(domain: &DnsName) -> String {
    format!("{ROOT}/{domain}")
}

pub(super) fn path(domain: &DnsName, kind: &str, selector: &str) -> String {
    format!("{ROOT}/{domain}/{kind}/{selector}")
}

/// The purpose that notes of a kind are sealed for.
fn label(kind: &str) -> String {
    format!("domain {kind}")
}

/// The algorithm of that number in a note.
pub(super) fn algorithm(number: u8) -> Result<Algorithm> {
    match number {
        0 => Ok(Algorithm::RsaSha256),
        1 => Ok(Algorithm::Ed25519Sha256),
        _ => Err(Error::corrupt(format!("{number} is no algorithm of a DKIM key; a later version wrote it"))),
    }
}

fn number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::RsaSha256 => 0,
        Algorithm::Ed25519Sha256 => 1,
    }
}

impl DomainKeys {
    pub(super) async fn read_key(&self, domain: &DnsName, selector: &str) -> Result<(SigningKey, Timestamp)> {
        let plain = self.open(domain, KEY, selector).await?;
        let note: KeyNote<'_> = decode(&plain, domain, KEY, selector)?;
        Ok((SigningKey::from_pkcs8(note.pkcs8)?, note.created))
    }

    pub(super) async fn read_activation(&self, domain: &DnsName, selector: &str) -> Result<Timestamp> {
        let plain = self.open(domain, ACTIVE, selector).await?;
        decode::<ActiveNote>(&plain, domain, ACTIVE, selector).map(|note| note.since)
    }

    pub(super) async fn read_retirement(&self, domain: &DnsName, selector: &str) -> Result<RetiredNote> {
        let plain = self.open(domain, RETIRED, selector).await?;
        decode(&plain, domain, RETIRED, selector)
    }

    pub(super) async fn write_key(
        &self,
        domain: &DnsName,
        selector: &str,
        pkcs8: &[u8],
        created: Timestamp,
        random: &dyn Random,
    ) -> Result<Put> {
        self.write(domain, KEY, selector, &KeyNote { pkcs8, created }, random).await
    }

    pub(super) async fn write_activation(
        &self,
        domain: &DnsName,
        selector: &str,
        since: Timestamp,
        random: &dyn Random,
    ) -> Result<Put> {
        self.write(domain, ACTIVE, selector, &ActiveNote { since }, random).await
    }

    pub(super) async fn write_retirement(
        &self,
        domain: &DnsName,
        selector: &str,
        key: &SigningKey,
        since: Timestamp,
        random: &dyn Random,
    ) -> Result<Put> {
        let note = RetiredNote { since, algorithm: number(key.algorithm()), record: key.record() };
        self.write(domain, RETIRED, selector, &note, random).await
    }

    async fn open(&self, domain: &DnsName, kind: &str, selector: &str) -> Result<Zeroizing<Vec<u8>>> {
        let (path, label) = (path(domain, kind, selector), label(kind));
        let open = |object: &bytes::Bytes| self.0.mail_keys.open_note(&label, &path, object);
        self.0.store.read_opened(&path, open).await
    }

    async fn write(
        &self,
        domain: &DnsName,
        kind: &str,
        selector: &str,
        note: &impl Encode<()>,
        random: &dyn Random,
    ) -> Result<Put> {
        let path = path(domain, kind, selector);
        // Large enough for any key: a buffer that grows leaves an unwiped copy behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(8 * 1024));
        minicbor::encode(note, &mut *plain).map_err(|_| Error::internal("a key cannot be encoded"))?;
        let sealed: Sealed = self.0.mail_keys.seal_note(&label(kind), &path, &plain, random);
        self.0.store.put_new(&path, sealed).await
    }
}

fn decode<'a, T: Decode<'a, ()>>(plain: &'a [u8], domain: &DnsName, kind: &str, selector: &str) -> Result<T> {
    minicbor::decode(plain)
        .map_err(|e| Error::corrupt(path(domain, kind, selector)).with_source(e.to_string()))
}
