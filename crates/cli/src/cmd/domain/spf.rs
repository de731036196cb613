//! Whether an SPF record lets the mail server send (RFC 7208), as far as the record itself tells.

use std::net::IpAddr;

use sealpost_dns::DnsName;

/// What a record says of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Covers {
    /// It may send.
    Yes,
    /// It may not.
    No,
    /// Other records, which it refers to, decide.
    Elsewhere,
}

/// The query.
pub(super) struct Server<'a> {
    pub domain: &'a DnsName,
    pub host: &'a DnsName,
    /// Whether an MX record of the domain names the host.
    pub is_mx: bool,
    pub addresses: &'a [IpAddr],
}

/// Whether a TXT record is one of SPF (RFC 7208 §4.5).
pub(super) fn is_spf(text: &str) -> bool {
    let mut terms = text.split(' ');
    terms.next().is_some_and(|version| version.eq_ignore_ascii_case("v=spf1"))
}

/// Whether the record lets the server send.
pub(super) fn covers(record: &str, server: &Server<'_>) -> Covers {
    let mut uncovered: Vec<IpAddr> = server.addresses.to_vec();
    let mut is_elsewhere = false;
    for term in record.split_ascii_whitespace().skip(1) {
        let term = term.to_ascii_lowercase();
        let passing = term.strip_prefix('+').unwrap_or(&term);
        if passing.starts_with(['-', '~', '?']) {
            continue;
        }
        // A length behind the slash is of the addresses that the name has.
        let (name, value) = match passing.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (passing.split('/').next().unwrap_or_default(), None),
        };
        let of = |own: &DnsName| {
            value.is_none_or(|value| {
                DnsName::new(value.split('/').next().unwrap_or_default()).as_ref() == Some(own)
            })
        };
        match name {
            "mx" if of(server.domain) && server.is_mx => return Covers::Yes,
            "a" if value.is_none() && server.domain == server.host => return Covers::Yes,
            "a" if value.is_some() && of(server.host) => return Covers::Yes,
            "ip4" | "ip6" => {
                uncovered.retain(|address| !value.is_some_and(|value| contains(value, *address)))
            }
            "all" => return Covers::Yes,
            "include" | "exists" | "ptr" | "mx" | "a" => is_elsewhere = true,
            name if name.starts_with("redirect=") => is_elsewhere = true,
            _ => {}
        }
    }
    match (uncovered.is_empty() && !server.addresses.is_empty(), is_elsewhere) {
        (true, _) => Covers::Yes,
        (false, true) => Covers::Elsewhere,
        (false, false) => Covers::No,
    }
}

/// The record with the domain's mail servers added.
pub(super) fn with_mx(record: &str) -> String {
    let rest = record.trim_start().get("v=spf1".len()..).unwrap_or_default().trim();
    format!("v=spf1 mx {rest}").trim_end().to_owned()
}

/// Whether `network`, an address with or without the length of a prefix, contains `address`.
fn contains(network: &str, address: IpAddr) -> bool {
    let (base, length) = match network.split_once('/') {
        Some((base, length)) => (base, length.parse::<u32>().ok()),
        None => (network, Some(128)),
    };
    let (Ok(base), Some(length)) = (base.parse::<IpAddr>(), length) else { return false };
    let same = |a: u128, b: u128, bits: u32| {
        let rest = bits.saturating_sub(length);
        a.checked_shr(rest) == b.checked_shr(rest) || rest >= bits
    };
    match (base, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_covers_the_server_or_names_the_deciding_domain() {
        let (domain, host) = (DnsName::new("example.org").unwrap(), DnsName::new("mx.example.org").unwrap());
        let addresses: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        let server = |is_mx| Server { domain: &domain, host: &host, is_mx, addresses: &addresses };
        for (record, expected) in [
            ("v=spf1 mx -all", Covers::Yes),
            ("v=spf1 +MX ~all", Covers::Yes),
            ("v=spf1 mx/24 -all", Covers::Yes),
            ("v=spf1 a:mx.example.org. -all", Covers::Yes),
            ("v=spf1 a -all", Covers::Elsewhere),
            ("v=spf1 mx:other.example -all", Covers::Elsewhere),
            ("v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all", Covers::Yes),
            ("v=spf1 ip4:192.0.2.7 -all", Covers::No),
            ("v=spf1 ip4:192.0.3.0/24 ip6:2001:db8::/32 -all", Covers::No),
            ("v=spf1 ip4:0.0.0.0/0 ip6:::/0 -all", Covers::Yes),
            ("v=spf1 ip4:x ip6:2001:db8::7/200 -all", Covers::No),
            ("v=spf1 include:_spf.other.example -all", Covers::Elsewhere),
            ("v=spf1 redirect=_spf.other.example", Covers::Elsewhere),
            ("v=spf1 -mx ~all", Covers::No),
            ("v=spf1 -all", Covers::No),
            ("v=spf1 +all", Covers::Yes),
        ] {
            assert_eq!(covers(record, &server(true)), expected, "{record}");
        }
        assert_eq!(covers("v=spf1 mx -all", &server(false)), Covers::Elsewhere);
    }

    #[test]
    fn spf_records_are_recognized_and_extended() {
        assert!(is_spf("v=spf1") && is_spf("V=SPF1 -all") && !is_spf("v=spf10 -all") && !is_spf("v=DKIM1"));
        assert_eq!(with_mx("v=spf1 include:x.example -all"), "v=spf1 mx include:x.example -all");
        assert_eq!(with_mx("v=spf1"), "v=spf1 mx");
    }
}
