//! DANE for SMTP (RFC 7672): certificates judged by TLSA records that DNSSEC validated.
//!
//! Usages 2 (DANE-TA) and 3 (DANE-EE) only; others are unusable here (RFC 7672 §3.1.3). A record
//! with usage 2 whose data is a whole key (selector 1, matching type 0) is not supported, because a
//! chain cannot be built to a bare key.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use sealpost_base::limits::DANE_RECORDS;
use sealpost_dns::Tlsa;
use webpki::EndEntityCert;

use crate::digest::{sha256, sha512};
use crate::tls::{CertificateProblem, by_roots};

/// Usage: a trust anchor above the server's certificate.
const DANE_TA: u8 = 2;
/// Usage: the server's certificate itself.
const DANE_EE: u8 = 3;

/// The records that this client can use, at most [`DANE_RECORDS`]. Without any, TLS is still
/// mandatory, but the server is not authenticated (RFC 7672 §2.2).
pub(crate) fn usable(records: Vec<Tlsa>) -> Vec<Tlsa> {
    records.into_iter().filter(is_usable).take(DANE_RECORDS).collect()
}

fn is_usable(record: &Tlsa) -> bool {
    let data = match record.matching {
        0 => !record.data.is_empty(),
        1 => record.data.len() == 32,
        2 => record.data.len() == 64,
        _ => false,
    };
    let bare_key = (record.usage, record.selector, record.matching) == (DANE_TA, 1, 0);
    matches!(record.usage, DANE_TA | DANE_EE) && record.selector <= 1 && data && !bare_key
}

/// Judges a server's certificate and the chain that it sent.
pub(crate) fn verify(
    records: &[Tlsa],
    leaf: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    names: &[ServerName<'static>],
    now: UnixTime,
    provider: &Arc<CryptoProvider>,
) -> Result<(), CertificateProblem> {
    // RFC 7672 §3.1.1: names and dates in the certificate do not count.
    if records.iter().any(|record| record.usage == DANE_EE && matches(record, leaf)) {
        return Ok(());
    }
    let mut problem = CertificateProblem::DaneMismatch;
    for record in records.iter().filter(|record| record.usage == DANE_TA) {
        for anchor in anchors(record, chain) {
            match below_anchor(&anchor, leaf, chain, names, now, provider) {
                Ok(()) => return Ok(()),
                Err(found) => problem = found,
            }
        }
    }
    Err(problem)
}

/// The certificates that a DANE-TA record names: of the chain, or the one that it holds whole.
fn anchors(record: &Tlsa, chain: &[CertificateDer<'_>]) -> Vec<CertificateDer<'static>> {
    let sent = chain.iter().filter(|certificate| matches(record, certificate));
    let sent = sent.map(|certificate| certificate.clone().into_owned());
    let held = ((record.selector, record.matching) == (0, 0)).then(|| record.data.clone().into());
    sent.chain(held).collect()
}

/// RFC 7672 §3.1.2: the chain has to end in the anchor, and the name has to be right.
fn below_anchor(
    anchor: &CertificateDer<'static>,
    leaf: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    names: &[ServerName<'static>],
    now: UnixTime,
    provider: &Arc<CryptoProvider>,
) -> Result<(), CertificateProblem> {
    let mut roots = RootCertStore::empty();
    roots.add(anchor.clone()).map_err(|_| CertificateProblem::DaneMismatch)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|_| CertificateProblem::DaneMismatch)?;
    by_roots(&verifier, leaf, chain, names, now)
}

/// Whether `record` is about `certificate` (RFC 6698 §2.1).
fn matches(record: &Tlsa, certificate: &CertificateDer<'_>) -> bool {
    let key;
    let selected: &[u8] = match record.selector {
        0 => certificate,
        _ => match EndEntityCert::try_from(certificate) {
            Ok(parsed) => {
                key = parsed.subject_public_key_info();
                &key
            }
            Err(_) => return false,
        },
    };
    match record.matching {
        0 => selected == record.data,
        1 => sha256(selected)[..] == record.data[..],
        _ => sha512(selected)[..] == record.data[..],
    }
}
