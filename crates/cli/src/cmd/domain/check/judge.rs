//! Each record: what is there, whether that does, and how to correct it.

use std::net::IpAddr;

use sealpost_dns::{DnsName, LookupError, Mx, Resolver, ResolverExt};
use sealpost_submission::domain_keys::{KeyInfo, Stage};
use serde::Serialize;

use crate::cmd::domain::records::{Purpose, WantedRecord};
use crate::cmd::domain::spf::{self, Covers, Server};

/// Labels of a domain that are looked at for a DMARC record (RFC 9989 §4.10).
const DMARC_LABELS: usize = 8;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cmd::domain) enum Found {
    /// It is right.
    Ok,
    /// It works, but look at it.
    Warning,
    /// It is not there, and need not be.
    Optional,
    /// It is not there.
    Missing,
    /// It is wrong.
    Wrong,
    /// DNS did not answer.
    Unknown,
}

/// One check.
#[derive(Debug, Serialize)]
pub(in crate::cmd::domain) struct Checked {
    pub what: &'static str,
    pub name: String,
    pub found: Found,
    /// What DNS has.
    pub is: Vec<String>,
    /// What is wanted; empty if it is right.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wanted: String,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

impl Checked {
    fn new(what: &'static str, name: &DnsName, found: Found, is: Vec<String>) -> Self {
        let (wanted, fix) = Default::default();
        Checked { what, name: name.to_string(), found, is, wanted, fix }
    }

    fn wanting(mut self, wanted: impl Into<String>, fix: impl Into<String>) -> Self {
        (self.wanted, self.fix) = (wanted.into(), fix.into());
        self
    }

    /// Whether it has to be looked at.
    pub fn is_wrong(&self) -> bool {
        matches!(self.found, Found::Missing | Found::Wrong | Found::Unknown)
    }

    /// Whether DNS says so.
    pub fn is_certainly_wrong(&self) -> bool {
        matches!(self.found, Found::Missing | Found::Wrong)
    }

    pub fn lines(&self) -> String {
        let found = match self.found {
            Found::Ok => "ok",
            Found::Warning => "look at it",
            Found::Optional => "not there (optional)",
            Found::Missing => "MISSING",
            Found::Wrong => "WRONG",
            Found::Unknown => "NO ANSWER",
        };
        let mut text = format!("  {:<8} {:<12} {}\n", self.what, found, self.name);
        if self.found != Found::Ok {
            self.is.iter().for_each(|is| text.push_str(&format!("    there   {is}\n")));
        }
        if !self.wanted.is_empty() {
            text.push_str(&format!("    wanted  {}\n", self.wanted));
        }
        if !self.fix.is_empty() {
            text.push_str(&format!("    do      {}\n", self.fix));
        }
        text
    }
}

/// Checks everything of a domain whose mail server is `host`.
pub(in crate::cmd::domain) async fn check(
    resolver: &dyn Resolver,
    domain: &DnsName,
    host: &DnsName,
    records: &[WantedRecord],
    keys: &[KeyInfo],
) -> Vec<Checked> {
    let (mut checks, addresses) = host_addresses(resolver, host).await;
    for address in &addresses {
        checks.push(reverse(resolver, host, *address).await);
    }
    let mut is_mx = false;
    for record in records {
        let Some(name) = DnsName::new(&record.name) else { continue };
        checks.push(match record.purpose {
            Purpose::Mx => {
                let check = mx(resolver, &name, host).await;
                is_mx = matches!(check.found, Found::Ok | Found::Warning);
                check
            }
            Purpose::Spf => {
                sender_policy(resolver, &Server { domain, host, is_mx, addresses: &addresses }).await
            }
            Purpose::Dkim => key(resolver, &name, record, keys).await,
            Purpose::Dmarc => dmarc(resolver, domain, record).await,
            Purpose::TlsRpt => marked(resolver, &name, record, "v=TLSRPTv1").await,
            Purpose::MtaSts => sts(resolver, domain, &name, record).await,
        });
    }
    checks
}

/// The texts at a name; none if there are none.
async fn texts(resolver: &dyn Resolver, name: &DnsName) -> Result<Vec<String>, LookupError> {
    match resolver.txt(name).await {
        Ok(found) => {
            Ok(found.records.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        }
        Err(e) if e.is_negative() => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn unknown(what: &'static str, name: &DnsName, e: &LookupError) -> Checked {
    let fix =
        "try again later; look whether the name servers of the domain work, and its DNSSEC if it has it";
    Checked::new(what, name, Found::Unknown, vec![e.to_string()]).wanting("", fix)
}

/// Whether the mail server has addresses that others can reach; they.
async fn host_addresses(resolver: &dyn Resolver, host: &DnsName) -> (Vec<Checked>, Vec<IpAddr>) {
    let mut addresses: Vec<IpAddr> = Vec::new();
    let (v4, v6) = (resolver.ipv4(host).await, resolver.ipv6(host).await);
    let owners = [v4.as_ref().ok().map(|found| &found.owner), v6.as_ref().ok().map(|found| &found.owner)];
    let is_alias = owners.into_iter().flatten().any(|owner| owner != host);
    for e in [v4.as_ref().err(), v6.as_ref().err()].into_iter().flatten() {
        if !e.is_negative() {
            return (vec![unknown("host", host, e)], addresses);
        }
    }
    addresses.extend(v4.into_iter().flat_map(|found| found.records).map(IpAddr::from));
    addresses.extend(v6.into_iter().flat_map(|found| found.records).map(IpAddr::from));
    let is: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let wanted = "A and AAAA records with the public addresses of this server";
    let check = |found, is| Checked::new("host", host, found, is);
    let check = if addresses.is_empty() {
        check(Found::Missing, is).wanting(wanted, format!("publish A and AAAA records for {host}"))
    } else if is_alias {
        // RFC 5321 §5.1, RFC 2181 §10.3: the name in an MX record is no alias.
        check(Found::Wrong, is)
            .wanting(wanted, format!("{host} is an alias (CNAME): give it the addresses itself"))
    } else if let Some(private) = addresses.iter().find(|address| !is_public(**address)) {
        let fix = format!("{private} cannot be reached from outside: publish the public address instead");
        check(Found::Wrong, is).wanting(wanted, fix)
    } else {
        check(Found::Ok, is)
    };
    (vec![check], addresses)
}

/// Whether it is an address that others can reach.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified()),
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            // RFC 4193, RFC 4291 §2.5.6.
            !(v6.is_loopback() || v6.is_unspecified() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80)
        }
    }
}

/// Whether an address has the name of the mail server.
async fn reverse(resolver: &dyn Resolver, host: &DnsName, address: IpAddr) -> Checked {
    let name = DnsName::reverse(address);
    let fix = format!(
        "ask the provider of {address} to set its reverse name to {host}; until then send from another address \
         (sending.family)"
    );
    match resolver.ptr(&name).await {
        Ok(found) => {
            let is = found.records.iter().map(DnsName::to_string).collect();
            match found.records.contains(host) {
                true => Checked::new("PTR", &name, Found::Ok, is),
                false => Checked::new("PTR", &name, Found::Wrong, is).wanting(host.to_string(), fix),
            }
        }
        Err(e) if e.is_negative() => {
            Checked::new("PTR", &name, Found::Missing, Vec::new()).wanting(host.to_string(), fix)
        }
        Err(e) => unknown("PTR", &name, &e),
    }
}

async fn mx(resolver: &dyn Resolver, domain: &DnsName, host: &DnsName) -> Checked {
    let wanted = format!("10 {host}.");
    let check = |found, is| Checked::new("MX", domain, found, is);
    let mut found = match resolver.mx(domain).await {
        Ok(found) => found.records,
        Err(e) if e.is_negative() => {
            let fix = format!("publish an MX record of {domain} that names {host}");
            return check(Found::Missing, Vec::new()).wanting(wanted, fix);
        }
        Err(e) => return unknown("MX", domain, &e),
    };
    found.sort();
    let is: Vec<String> = found.iter().map(|mx| format!("{} {}.", mx.preference, mx.exchange)).collect();
    let is_ours = |mx: &&Mx| mx.exchange == *host;
    match (found.iter().find(is_ours), found.first()) {
        (Some(ours), Some(first)) if first.preference < ours.preference => {
            let fix =
                format!("mail goes to {} first: remove that record unless it is meant so", first.exchange);
            check(Found::Warning, is).wanting(wanted, fix)
        }
        (Some(_), _) if found.len() > 1 => {
            let fix = "others get some of the mail: remove their records unless that is meant so";
            check(Found::Warning, is).wanting(wanted, fix)
        }
        (Some(_), _) => check(Found::Ok, is),
        (None, _) => {
            let fix = format!("mail goes elsewhere: let the MX record name {host}");
            check(Found::Wrong, is).wanting(wanted, fix)
        }
    }
}

async fn sender_policy(resolver: &dyn Resolver, server: &Server<'_>) -> Checked {
    let (domain, new) = (server.domain, "v=spf1 mx ~all");
    let check = |found, is| Checked::new("SPF", domain, found, is);
    let found = match texts(resolver, domain).await {
        Ok(found) => found,
        Err(e) => return unknown("SPF", domain, &e),
    };
    let found: Vec<String> = found.into_iter().filter(|text| spf::is_spf(text)).collect();
    let record = match &found[..] {
        [] => {
            return check(Found::Missing, found)
                .wanting(new, format!("publish this TXT record for {domain}"));
        }
        [one] => one.clone(),
        // RFC 7208 §4.5: then the check fails for all of them.
        _ => {
            let fix = "several SPF records count as none: join them into one";
            return check(Found::Wrong, found).wanting(spf::with_mx(""), fix);
        }
    };
    match spf::covers(&record, server) {
        Covers::Yes => check(Found::Ok, found),
        Covers::Elsewhere => check(Found::Warning, found).wanting(
            spf::with_mx(&record),
            "whether this server may send depends on records that it refers to: add `mx` unless one of them \
             includes this server",
        ),
        Covers::No => check(Found::Wrong, found)
            .wanting(spf::with_mx(&record), "this server may not send: add `mx`, and keep the rest"),
    }
}

/// What is published where a key should be.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cmd::domain) enum Key {
    Published,
    /// The beginning of it.
    Cut,
    Other,
}

/// Compares the key of each record, without white space, with the one that is wanted.
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

async fn key(resolver: &dyn Resolver, name: &DnsName, record: &WantedRecord, keys: &[KeyInfo]) -> Checked {
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
async fn dmarc(resolver: &dyn Resolver, domain: &DnsName, record: &WantedRecord) -> Checked {
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

/// A record that others look for only if there is one.
async fn marked(resolver: &dyn Resolver, name: &DnsName, record: &WantedRecord, version: &str) -> Checked {
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
async fn sts(resolver: &dyn Resolver, domain: &DnsName, name: &DnsName, record: &WantedRecord) -> Checked {
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
