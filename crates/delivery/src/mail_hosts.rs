//! Finds the servers that take mail for a domain (RFC 5321 §5.1, RFC 7505), and their site.

use sealpost_base::Random;
use sealpost_base::limits::{MX_HOSTS, SITE_KEY_BYTES};
use sealpost_dns::{DnsName, LookupError, Mx, Resolver, ResolverExt};

use crate::digest::sha256;
use crate::outcome::{Failure, Reason};
use crate::transport::SiteKey;

/// The mail servers of a domain, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MailHosts {
    /// Their names; at most [`MX_HOSTS`].
    pub hosts: Vec<DnsName>,
    /// Whether DNSSEC validated that they are the domain's.
    pub secure: bool,
    /// All of them as one key.
    pub site: SiteKey,
}

/// Looks up the mail servers of `domain`. Leaves out this server, which `is_own` recognises, and those that
/// are not better than it.
///
/// # Errors
/// The reason if there are none.
pub(crate) async fn mail_hosts(
    resolver: &dyn Resolver,
    random: &dyn Random,
    domain: &DnsName,
    is_own: impl Fn(&DnsName) -> bool,
) -> Result<MailHosts, Failure> {
    let (mut records, secure) = match resolver.mx(domain).await {
        Ok(answer) => (answer.records, answer.secure),
        // RFC 5321 §5.1: without MX records the domain itself is the host, an implicit MX.
        Err(LookupError::NoData { secure }) => (vec![Mx { preference: 0, exchange: domain.clone() }], secure),
        Err(error) => return Err(dns_failure(&error, domain)),
    };
    // RFC 7505 §3: "." as the only exchange. Beside others it is no host and is ignored.
    if records.iter().all(|mx| mx.exchange.is_root()) {
        return Err(Failure::new(Reason::NullMx, domain.as_str()));
    }
    records.retain(|mx| !mx.exchange.is_root());
    records.sort();
    records.dedup_by(|a, b| a.exchange == b.exchange);
    let site = site_key(&records);
    // RFC 5321 §5.1: send no mail to a host that is not better than this one.
    if let Some(own) = records.iter().filter(|mx| is_own(&mx.exchange)).map(|mx| mx.preference).min() {
        records.retain(|mx| mx.preference < own);
        if records.is_empty() {
            return Err(Failure::new(Reason::MailLoop, domain.as_str()));
        }
    }
    shuffle(&mut records, random);
    records.truncate(MX_HOSTS);
    let hosts = records.into_iter().map(|mx| mx.exchange).collect();
    Ok(MailHosts { hosts, secure, site })
}

/// The failure of mail to `name` after a failed lookup.
pub(crate) fn dns_failure(error: &LookupError, name: &DnsName) -> Failure {
    let reason = match error {
        LookupError::NoSuchName { .. } => Reason::NoSuchDomain,
        LookupError::NoData { .. } => Reason::NoAddress,
        LookupError::Bogus => Reason::DnsBogus,
        LookupError::TimedOut | LookupError::Failed(_) => Reason::DnsFailed,
    };
    Failure::new(reason, name.as_str())
}

/// RFC 5321 §5.1: hosts of equal preference in random order. `records` are sorted.
fn shuffle(records: &mut [Mx], random: &dyn Random) {
    for group in records.chunk_by_mut(|a, b| a.preference == b.preference) {
        for last in (1..group.len()).rev() {
            let bound = last as u64 + 1;
            // The bias of a remainder of 64 bits is negligible.
            let other = random.next_u64() % bound;
            group.swap(last, usize::try_from(other).unwrap_or(0));
        }
    }
}

/// The key of a set of hosts, whatever their preferences: domains with one set share a site.
fn site_key(records: &[Mx]) -> SiteKey {
    let mut names: Vec<&str> = records.iter().map(|mx| mx.exchange.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    bounded_key(&names.join(","))
}

/// `text` as a key, its end replaced by a digest of the whole if it is too long.
pub(crate) fn bounded_key(text: &str) -> SiteKey {
    if text.len() <= SITE_KEY_BYTES {
        return SiteKey::new(text);
    }
    let digest: String = sha256(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut cut = SITE_KEY_BYTES - digest.len() - 1;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    SiteKey::new(&format!("{}#{digest}", &text[..cut]))
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;
    use sealpost_dns::Record;
    use sealpost_dns::scripted::{Script, ScriptedResolver};

    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::new(text).unwrap()
    }

    fn mx(preference: u16, exchange: &str) -> Record {
        let exchange = if exchange == "." { DnsName::root() } else { name(exchange) };
        Record::Mx(Mx { preference, exchange })
    }

    async fn find(zone: &ScriptedResolver, domain: &str, own: &str, seed: u64) -> Result<MailHosts, Reason> {
        let own = name(own);
        mail_hosts(zone, &SeededRandom::new(seed), &name(domain), |host| *host == own)
            .await
            .map_err(|failure| failure.reason)
    }

    fn texts(hosts: &MailHosts) -> Vec<&str> {
        hosts.hosts.iter().map(DnsName::as_str).collect()
    }

    #[tokio::test]
    async fn preferences_are_kept_and_equals_shuffled() {
        let zone = ScriptedResolver::new();
        for (preference, host) in [(20, "c.example"), (10, "a.example"), (10, "b.example")] {
            zone.add("d.example", mx(preference, host));
        }
        let mut first = std::collections::BTreeSet::new();
        for seed in 0..32 {
            let found = find(&zone, "d.example", "me.example", seed).await.unwrap();
            assert_eq!(found.hosts[2], name("c.example"));
            assert_eq!(found.site.as_str(), "a.example,b.example,c.example");
            assert!(!found.secure);
            first.insert(found.hosts[0].to_string());
        }
        assert_eq!(first.len(), 2);
    }

    #[tokio::test]
    async fn domains_without_mx_are_their_own_host() {
        let zone = ScriptedResolver::new();
        zone.add_secure("d.example", Record::A([192, 0, 2, 1].into()));
        let found = find(&zone, "d.example", "me.example", 0).await.unwrap();
        assert_eq!((texts(&found), found.secure), (vec!["d.example"], true));
        assert_eq!(found.site.as_str(), "d.example");
    }

    #[tokio::test]
    async fn dns_failures_have_distinct_reasons() {
        let zone = ScriptedResolver::new();
        zone.add("null.example", mx(0, "."));
        zone.add("odd.example", mx(0, "."));
        zone.add("odd.example", mx(10, "a.example"));
        zone.script("dead.example", Script::Fail);
        zone.script("forged.example", Script::Bogus);
        for (domain, reason) in [
            ("null.example", Reason::NullMx),
            ("none.example", Reason::NoSuchDomain),
            ("dead.example", Reason::DnsFailed),
            ("forged.example", Reason::DnsBogus),
        ] {
            assert_eq!(find(&zone, domain, "me.example", 0).await.unwrap_err(), reason, "{domain}");
        }
        let odd = find(&zone, "odd.example", "me.example", 0).await.unwrap();
        assert_eq!(texts(&odd), ["a.example"]);
    }

    #[tokio::test]
    async fn hosts_not_preferred_over_this_one_get_no_mail() {
        let zone = ScriptedResolver::new();
        for (preference, host) in
            [(10, "a.example"), (20, "me.example"), (20, "b.example"), (30, "c.example")]
        {
            zone.add("d.example", mx(preference, host));
        }
        let found = find(&zone, "d.example", "me.example", 0).await.unwrap();
        assert_eq!(texts(&found), ["a.example"]);
        let looped = find(&zone, "d.example", "a.example", 0).await;
        assert_eq!(looped.unwrap_err(), Reason::MailLoop);
    }

    #[tokio::test]
    async fn many_hosts_are_cut_and_their_key_is_bounded() {
        let zone = ScriptedResolver::new();
        for i in 0..1000 {
            zone.add("d.example", mx(i, &format!("host{i}.example")));
        }
        let found = find(&zone, "d.example", "me.example", 0).await.unwrap();
        assert_eq!(found.hosts.len(), MX_HOSTS);
        assert_eq!(found.hosts[0], name("host0.example"));
        assert_eq!(found.site.as_str().len(), SITE_KEY_BYTES);
        // Another set with the same beginning is another site.
        zone.add("e.example", mx(0, "other.example"));
        for i in 0..1000 {
            zone.add("e.example", mx(i, &format!("host{i}.example")));
        }
        let other = find(&zone, "e.example", "me.example", 0).await.unwrap();
        assert_ne!(found.site, other.site);
    }
}
