//! Records that are texts at names of their own: DKIM, DMARC, TLS-RPT, MTA-STS.

use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt};
use sealpost_submission::domain_keys::{KeyInfo, Stage};

use super::found::{Checked, Found};
use crate::cmd::domain::records::WantedRecord;

/// Labels of a domain that are searched for a DMARC record (RFC 9989 §4.10).
const DMARC_LABELS: usize = 8;

/// The texts at a name; none if there are none.
pub(super) async fn texts(resolver: &dyn Resolver, name: &DnsName) -> Result<Vec<String>, LookupError> {
    match resolver.txt(name).await {
        Ok(found) => {
            Ok(found.records.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        }
        Err(e) if e.is_negative() => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

pub(super) fn unknown(what: &'static str, name: &DnsName, e: &LookupError) -> Checked {
    let fix = "try again later, or with --resolver system where a firewall blocks DNS; look whether the name \
               servers of the domain work, and its DNSSEC if it has it";
    Checked::new(what, name, Found::Unknown, vec![e.to_string()]).wanting("", fix)
}

/// What is published where a key should be.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cmd::domain) enum Key {
    Published,
    /// The beginning of it.
    Cut,
    Other,
}

/// Compares the key of each record, without white space, with the required one.
pub(in crate::cmd::domain) fn judge_key(records: &[Vec<u8>], wanted: &str) -> Key {
    let wanted = public_key(wanted);
    let found: Vec<String> =
        records.iter().map(|record| public_key(&String::from_utf8_lossy(record))).collect();
    if found.contains(&wanted) {
        return Key::Published;
    }
    match found.iter().any(|found| found.len() > 16 && wanted.starts_with(found.as_str())) {
        true => Key::Cut,
        false => Key::Other,
    }
}

/// `p=` of a key record.
fn public_key(record: &str) -> String {
    let value = record.split(';').filter_map(|tag| tag.split_once('=')).find(|(tag, _)| tag.trim() == "p");
    value.map(|(_, value)| value.split_ascii_whitespace().collect()).unwrap_or_default()
}

pub(super) async fn key(
    resolver: &dyn Resolver,
    name: &DnsName,
    record: &WantedRecord,
    keys: &[KeyInfo],
) -> Checked {
    let stage = keys.iter().find(|key| key.record == record.value).map(|key| key.stage);
    let is_old = matches!(stage, Some(Stage::Retired(_)));
    let check = |found, is| Checked::new("DKIM", name, found, is);
    let publish = "publish this TXT record, in pieces of 255 characters if the form cuts it off";
    match resolver.txt(name).await {
        Ok(found) => {
            let is = found.records.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
            match judge_key(&found.records, &record.value) {
                Key::Published if matches!(stage, Some(Stage::Waiting(_))) => {
                    let fix = "it waits to be used: run `sealpost domain rotate` again";
                    check(Found::Warning, is).wanting("", fix)
                }
                Key::Published => check(Found::Ok, is),
                Key::Cut => {
                    let fix = "the value is cut off: enter it in pieces of 255 characters, each in quotes";
                    check(Found::Wrong, is).wanting(record.value.clone(), fix)
                }
                Key::Other => check(Found::Wrong, is).wanting(record.value.clone(), publish),
            }
        }
        Err(e) if e.is_negative() && is_old => {
            let fix = "it signs no more, but mail on its way needs it for a week: publish it until then";
            check(Found::Warning, Vec::new()).wanting(record.value.clone(), fix)
        }
        Err(e) if e.is_negative() => check(Found::Missing, Vec::new()).wanting(record.value.clone(), publish),
        Err(e) => unknown("DKIM", name, &e),
    }
}

/// A domain without a record has that of a domain above it (RFC 9989 §4.10).
pub(super) async fn dmarc(resolver: &dyn Resolver, domain: &DnsName, record: &WantedRecord) -> Checked {
    let labels: Vec<&str> = domain.as_str().split('.').collect();
    let first = labels.len().saturating_sub(DMARC_LABELS);
    let own = DnsName::new(&record.name).unwrap_or_else(|| domain.clone());
    for from in [0].into_iter().chain(first.max(1)..labels.len().saturating_sub(1)) {
        let above = labels.get(from..).unwrap_or_default().join(".");
        let Some(name) = DnsName::new(&format!("_dmarc.{above}")) else { continue };
        let found = match texts(resolver, &name).await {
            Ok(found) => found,
            Err(e) => return unknown("DMARC", &name, &e),
        };
        let found: Vec<String> = found.into_iter().filter(|text| is_version(text, "v=DMARC1")).collect();
        match found.len() {
            0 => {}
            1 => return Checked::new("DMARC", &name, Found::Ok, found),
            _ => {
                let fix = "several DMARC records count as none: leave one";
                return Checked::new("DMARC", &name, Found::Wrong, found).wanting("", fix);
            }
        }
    }
    Checked::new("DMARC", &own, Found::Missing, Vec::new())
        .wanting(record.value.clone(), "publish this TXT record")
}

/// Whether a record begins with that version.
fn is_version(text: &str, version: &str) -> bool {
    text.split(';').next().is_some_and(|first| first.trim().eq_ignore_ascii_case(version))
}

/// A record that is optional.
pub(super) async fn marked(
    resolver: &dyn Resolver,
    name: &DnsName,
    record: &WantedRecord,
    version: &str,
) -> Checked {
    let what = record.purpose.name();
    let found = match texts(resolver, name).await {
        Ok(found) => found,
        Err(e) => return unknown(what, name, &e),
    };
    let found: Vec<String> = found.into_iter().filter(|text| is_version(text, version)).collect();
    match found.len() {
        0 => Checked::new(what, name, Found::Optional, found).wanting(record.value.clone(), ""),
        1 => Checked::new(what, name, Found::Ok, found),
        _ => Checked::new(what, name, Found::Wrong, found)
            .wanting(record.value.clone(), "several such records count as none: leave one"),
    }
}

/// The record of MTA-STS says that there is a policy; whether its host is there, too.
pub(super) async fn sts(
    resolver: &dyn Resolver,
    domain: &DnsName,
    name: &DnsName,
    record: &WantedRecord,
) -> Checked {
    let check = marked(resolver, name, record, "v=STSv1").await;
    let Some(host) = domain.below("mta-sts").filter(|_| check.found == Found::Ok) else { return check };
    let is_absent = |e: &LookupError| e.is_negative();
    let (v4, v6) = (resolver.ipv4(&host).await, resolver.ipv6(&host).await);
    match v4.err().is_some_and(|e| is_absent(&e)) && v6.err().is_some_and(|e| is_absent(&e)) {
        true => {
            let fix = format!(
                "the record says that there is a policy, but {host} does not exist: serve the policy there"
            );
            Checked { found: Found::Wrong, ..check }.wanting(record.value.clone(), fix)
        }
        false => check,
    }
}
