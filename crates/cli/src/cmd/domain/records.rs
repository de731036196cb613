//! The DNS records that a domain needs for mail, and their forms: a value in one line, pieces of at
//! most 255 bytes, and lines of a zone file.

use sealpost_base::Timestamp;
use sealpost_dns::DnsName;
use sealpost_submission::domain_keys::KeyInfo;
use sealpost_vault::Hash;
use serde::Serialize;

/// Bytes of one string of a TXT record (RFC 1035 §3.3.14).
const STRING_BYTES: usize = 255;
/// How long others may remember a record, in seconds.
const TTL: u32 = 3600;

/// What a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Purpose {
    #[serde(rename = "MX")]
    Mx,
    #[serde(rename = "SPF")]
    Spf,
    #[serde(rename = "DKIM")]
    Dkim,
    #[serde(rename = "DMARC")]
    Dmarc,
    #[serde(rename = "MTA-STS")]
    MtaSts,
    #[serde(rename = "TLS-RPT")]
    TlsRpt,
    #[serde(rename = "JMAP")]
    Jmap,
}

impl Purpose {
    pub(super) fn name(self) -> &'static str {
        match self {
            Purpose::Mx => "MX",
            Purpose::Spf => "SPF",
            Purpose::Dkim => "DKIM",
            Purpose::Dmarc => "DMARC",
            Purpose::MtaSts => "MTA-STS",
            Purpose::TlsRpt => "TLS-RPT",
            Purpose::Jmap => "JMAP",
        }
    }
}

/// A required record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct WantedRecord {
    pub purpose: Purpose,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The value in one line.
    pub value: String,
    /// The same in strings of at most 255 bytes; for a TXT record.
    pub pieces: Vec<String>,
    /// The same as lines of a zone file.
    pub zone: String,
    /// Whether mail suffers without it.
    pub required: bool,
    pub why: &'static str,
}

impl WantedRecord {
    fn new(
        purpose: Purpose,
        name: &DnsName,
        (kind, value): (&'static str, String),
        required: bool,
        why: &'static str,
    ) -> Self {
        let pieces = if kind == "TXT" { pieces(&value) } else { Vec::new() };
        let quoted = |piece: &String| format!("\"{piece}\"");
        let data = match pieces.len() {
            0 => value.clone(),
            1 => quoted(&pieces[0]),
            _ => format!("( {} )", pieces.iter().map(quoted).collect::<Vec<_>>().join("\n    ")),
        };
        let zone = format!("{name}. {TTL} IN {kind} {data}");
        WantedRecord { purpose, name: name.to_string(), kind, value, pieces, zone, required, why }
    }
}

/// `value`, which is ASCII, in strings of at most 255 bytes.
pub(super) fn pieces(value: &str) -> Vec<String> {
    value.as_bytes().chunks(STRING_BYTES).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

/// The servers of a domain.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// The mail server.
    pub mail: DnsName,
    /// The host and port at which clients reach JMAP, if it is served.
    pub jmap: Option<(DnsName, u16)>,
}

/// The records for mail of `domain`.
pub(super) fn wanted(domain: &DnsName, hosts: &Hosts, keys: &[KeyInfo], now: Timestamp) -> Vec<WantedRecord> {
    let host = &hosts.mail;
    let mut records = vec![
        WantedRecord::new(
            Purpose::Mx,
            domain,
            ("MX", format!("10 {host}.")),
            true,
            "where others deliver mail for the domain",
        ),
        WantedRecord::new(
            Purpose::Spf,
            domain,
            ("TXT", "v=spf1 mx ~all".to_owned()),
            true,
            "which servers send mail of the domain; a domain has one such record: add `mx` to one that there is",
        ),
    ];
    for key in keys.iter().filter(|key| key.stage.is_published(now)) {
        if let Some(name) = key_name(domain, &key.selector) {
            let why = "the key that verifies signatures of the domain's mail";
            records.push(WantedRecord::new(Purpose::Dkim, &name, ("TXT", key.record.clone()), true, why));
        }
    }
    let at = |prefix: &str| domain.below(prefix).unwrap_or_else(|| domain.clone());
    let reports = format!("mailto:postmaster@{domain}");
    records.push(WantedRecord::new(
        Purpose::Dmarc,
        &at("_dmarc"),
        ("TXT", format!("v=DMARC1; p=none; rua={reports}")),
        true,
        "what others do with mail that neither SPF nor DKIM vouches for; large receivers want one. Change p=none \
         to p=quarantine when the reports show that your mail passes",
    ));
    records.push(WantedRecord::new(
        Purpose::TlsRpt,
        &at("_smtp._tls"),
        ("TXT", format!("v=TLSRPTv1; rua={reports}")),
        false,
        "where others report that TLS to this server failed",
    ));
    records.push(WantedRecord::new(
        Purpose::MtaSts,
        &at("_mta-sts"),
        ("TXT", format!("v=STSv1; id={}", policy_id(host))),
        false,
        "that others deliver over verified TLS alone; publish it when the policy is served",
    ));
    // RFC 8620 §2.2: where clients that know only an address find the server.
    records.extend(hosts.jmap.as_ref().map(|(target, port)| {
        let why = "where JMAP clients find the server";
        let value = format!("0 1 {port} {target}.");
        WantedRecord::new(Purpose::Jmap, &at("_jmap._tcp"), ("SRV", value), false, why)
    }));
    records
}

/// Where a key is published.
pub(super) fn key_name(domain: &DnsName, selector: &str) -> Option<DnsName> {
    domain.below(&format!("{selector}._domainkey"))
}

/// The policy of MTA-STS (RFC 8461 §3.2), to be served by a web server.
#[derive(Debug, Serialize)]
pub(super) struct Policy {
    /// Where it is to be served, with a certificate for that name.
    pub url: String,
    /// What.
    pub text: String,
}

pub(super) fn policy(domain: &DnsName, host: &DnsName) -> Policy {
    let url = format!("https://mta-sts.{domain}/.well-known/mta-sts.txt");
    Policy { url, text: policy_text(host) }
}

fn policy_text(host: &DnsName) -> String {
    format!("version: STSv1\r\nmode: testing\r\nmx: {host}\r\nmax_age: 604800\r\n")
}

/// Changes with the policy (RFC 8461 §3.1).
fn policy_id(host: &DnsName) -> String {
    Hash::of(policy_text(host).as_bytes()).to_string()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use sealpost_submission::domain_keys::{ALGORITHMS, Stage};

    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::new(text).unwrap()
    }

    #[test]
    fn long_values_are_in_pieces_that_join_to_the_value() {
        let record = format!("v=DKIM1; k=rsa; p={}", "A".repeat(392));
        let key = |stage, n: u8| KeyInfo {
            selector: format!("rsa-{n}"),
            algorithm: ALGORITHMS[0],
            record: record.clone(),
            stage,
        };
        let now = Timestamp::from_seconds(1_800_000_000);
        let old = Timestamp::from_seconds(1_700_000_000);
        let keys = [key(Stage::Signing(old), 1), key(Stage::Waiting(now), 2), key(Stage::Retired(old), 3)];
        let hosts = Hosts { mail: name("mx.example.org"), jmap: Some((name("web.example.org"), 443)) };
        let records = wanted(&name("example.org"), &hosts, &keys, now);
        let jmap = records.last().unwrap();
        assert_eq!(jmap.zone, "_jmap._tcp.example.org. 3600 IN SRV 0 1 443 web.example.org.");
        let hosts = Hosts { jmap: None, ..hosts };
        assert!(wanted(&name("example.org"), &hosts, &keys, now).iter().all(|record| record.kind != "SRV"));
        let dkim: Vec<_> = records.iter().filter(|record| record.purpose == Purpose::Dkim).collect();
        assert_eq!(dkim.len(), 2, "a key that was retired long ago is not published");
        assert_eq!(dkim[0].name, "rsa-1._domainkey.example.org");
        assert_eq!(dkim[0].pieces.concat(), record);
        assert!(dkim[0].pieces.len() == 2 && dkim[0].pieces.iter().all(|piece| piece.len() <= 255));
        let strings: String = dkim[0].zone.split('"').skip(1).step_by(2).collect();
        assert_eq!(strings, record, "{}", dkim[0].zone);
        assert!(dkim[0].zone.starts_with("rsa-1._domainkey.example.org. 3600 IN TXT ( \"v=DKIM1"));
        let mx = &records[0];
        assert_eq!(mx.zone, "example.org. 3600 IN MX 10 mx.example.org.");
        assert!(mx.pieces.is_empty());
    }

    #[test]
    fn the_id_of_a_policy_changes_with_it() {
        let (one, other) = (policy_id(&name("mx.example.org")), policy_id(&name("mx2.example.org")));
        assert!(one != other && one.len() <= 32 && one.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert!(
            policy(&name("example.org"), &name("mx.example.org")).text.contains("mx: mx.example.org\r\n")
        );
    }
}
