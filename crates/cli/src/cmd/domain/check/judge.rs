//! The server of a domain and each of its records: whether DNS has the required values, and how to
//! correct them.

use std::net::IpAddr;

use futures::future::{join, join_all};
use sealpost_base::limits::DOMAIN_CHECK_TIME;
use sealpost_dns::deadline::DeadlineResolver;
use sealpost_dns::{DnsName, Mx, Resolver, ResolverExt};
use sealpost_submission::domain_keys::KeyInfo;

use super::found::{Checked, Found};
use super::texts::{dmarc, key, marked, sts, texts, unknown};
use crate::cmd::domain::records::{Purpose, WantedRecord};
use crate::cmd::domain::spf::{self, Covers, Server};

/// Checks everything of a domain whose mail server is `host`. Takes [`DOMAIN_CHECK_TIME`] at most: what
/// DNS has not answered by then is unknown.
pub(in crate::cmd::domain) async fn check(
    resolver: &dyn Resolver,
    domain: &DnsName,
    host: &DnsName,
    records: &[WantedRecord],
    keys: &[KeyInfo],
) -> Vec<Checked> {
    let resolver = &DeadlineResolver::new(resolver, DOMAIN_CHECK_TIME);
    // At once, as far as one does not need another: an answer that does not come takes its time.
    let (host_found, mx_found) = join(host_addresses(resolver, host), mx(resolver, domain, host)).await;
    let (mut checks, addresses) = host_found;
    let is_mx = matches!(mx_found.found, Found::Ok | Found::Warning);
    let server = Server { domain, host, is_mx, addresses: &addresses };
    let reverse_names = join_all(addresses.iter().map(|address| reverse(resolver, host, *address)));
    let others = join_all(records.iter().filter(|record| record.purpose != Purpose::Mx).map(|record| {
        let server = &server;
        async move {
            let name = DnsName::new(&record.name)?;
            Some(match record.purpose {
                Purpose::Mx => return None,
                Purpose::Spf => sender_policy(resolver, server).await,
                Purpose::Dkim => key(resolver, &name, record, keys).await,
                Purpose::Dmarc => dmarc(resolver, domain, record).await,
                Purpose::TlsRpt => marked(resolver, &name, record, "v=TLSRPTv1").await,
                Purpose::Jmap => service(resolver, &name, record).await,
                Purpose::MtaSts => sts(resolver, domain, &name, record).await,
            })
        }
    }));
    let (reverse_names, others) = join(reverse_names, others).await;
    checks.extend(reverse_names);
    checks.push(mx_found);
    checks.extend(others.into_iter().flatten());
    checks
}

/// Whether the mail server has addresses that others can reach; they.
async fn host_addresses(resolver: &dyn Resolver, host: &DnsName) -> (Vec<Checked>, Vec<IpAddr>) {
    let mut addresses: Vec<IpAddr> = Vec::new();
    let (v4, v6) = join(resolver.ipv4(host), resolver.ipv6(host)).await;
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

/// The location of a service, which is optional.
async fn service(resolver: &dyn Resolver, name: &DnsName, record: &WantedRecord) -> Checked {
    let what = record.purpose.name();
    let wanted = record.value.clone();
    let mut found = match resolver.srv(name).await {
        Ok(found) => found.records,
        Err(e) if e.is_negative() => {
            return Checked::new(what, name, Found::Optional, Vec::new()).wanting(wanted, "");
        }
        Err(e) => return unknown(what, name, &e),
    };
    found.sort();
    let is: Vec<String> = found
        .iter()
        .map(|srv| format!("{} {} {} {}.", srv.priority, srv.weight, srv.port, srv.target))
        .collect();
    // Priority and weight are for the operator to choose.
    let location = |value: &str| value.splitn(3, ' ').nth(2).map(str::to_owned);
    match is.iter().any(|value| location(value) == location(&wanted)) {
        true => Checked::new(what, name, Found::Ok, is),
        false => {
            let fix = "JMAP clients look elsewhere: let the SRV record name this server";
            Checked::new(what, name, Found::Wrong, is).wanting(wanted, fix)
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
