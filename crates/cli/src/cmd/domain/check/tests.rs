use sealpost_base::{Timestamp, limits};
use sealpost_dns::scripted::{Script, ScriptedResolver};
use sealpost_dns::{DnsName, Mx, Record, RecordType, Srv};
use sealpost_submission::domain_keys::{ALGORITHMS, KEY_OVERLAP, KeyInfo, Stage};

use super::found::{Checked, Found};
use super::judge::check;
use crate::cmd::domain::records::{Hosts, wanted};

const DOMAIN: &str = "example.org";
const HOST: &str = "mx.example.org";
const KEY: &str = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtest";

fn name(text: &str) -> DnsName {
    DnsName::new(text).unwrap()
}

fn txt(text: &str) -> Record {
    Record::Txt(text.as_bytes().to_vec())
}

fn mx(preference: u16, exchange: &str) -> Record {
    Record::Mx(Mx { preference, exchange: name(exchange) })
}

fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

fn key(stage: Stage) -> KeyInfo {
    let record = format!("v=DKIM1; k=rsa; p={KEY}");
    KeyInfo { selector: "rsa-1".to_owned(), algorithm: ALGORITHMS[0], record, stage }
}

/// A domain as it should be.
fn right() -> ScriptedResolver {
    let dns = ScriptedResolver::new();
    dns.add(HOST, Record::A("192.0.2.7".parse().unwrap()));
    dns.add("7.2.0.192.in-addr.arpa", Record::Ptr(name(HOST)));
    dns.add(DOMAIN, mx(10, HOST));
    dns.add(DOMAIN, txt("google-site-verification=x"));
    dns.add(DOMAIN, txt("v=spf1 mx -all"));
    dns.add("rsa-1._domainkey.example.org", txt(&format!("v=DKIM1; k=rsa; p={KEY}")));
    dns.add("_dmarc.example.org", txt("v=DMARC1; p=reject"));
    dns
}

async fn checked(dns: &ScriptedResolver, domain: &str, stage: Stage) -> Vec<Checked> {
    let (domain, host, keys) = (name(domain), name(HOST), [key(stage)]);
    let hosts = Hosts { mail: host.clone(), jmap: Some((host.clone(), 443)) };
    let records = wanted(&domain, &hosts, &keys, now());
    check(dns, &domain, &host, &records, &keys).await
}

/// The check called `what`, of a key that signs.
async fn one(dns: &ScriptedResolver, what: &str) -> Checked {
    let checks = checked(dns, DOMAIN, Stage::Signing(now())).await;
    checks.into_iter().find(|check| check.what == what).unwrap()
}

#[tokio::test]
async fn a_domain_as_it_should_be_is_right() {
    let checks = checked(&right(), DOMAIN, Stage::Signing(now())).await;
    for check in &checks {
        let expected =
            if matches!(check.what, "TLS-RPT" | "MTA-STS" | "JMAP") { Found::Optional } else { Found::Ok };
        assert_eq!(check.found, expected, "{check:?}");
    }
    let whats: Vec<_> = checks.iter().map(|check| check.what).collect();
    assert_eq!(whats, ["host", "PTR", "MX", "SPF", "DKIM", "DMARC", "TLS-RPT", "MTA-STS", "JMAP"]);
    assert!(!checks.iter().any(Checked::is_wrong));
}

#[tokio::test]
async fn an_empty_zone_lists_the_records_to_publish() {
    let checks = checked(&ScriptedResolver::new(), DOMAIN, Stage::Signing(now())).await;
    for check in checks.iter().filter(|check| !matches!(check.what, "TLS-RPT" | "MTA-STS" | "JMAP")) {
        assert_eq!(check.found, Found::Missing, "{check:?}");
        assert!(!check.wanted.is_empty() && !check.fix.is_empty(), "{check:?}");
    }
}

#[tokio::test]
async fn the_host_needs_public_addresses_with_its_name() {
    let dns = right();
    dns.add(HOST, Record::A("10.0.0.1".parse().unwrap()));
    assert_eq!(one(&dns, "host").await.found, Found::Wrong);
    let dns = right();
    dns.remove(HOST);
    dns.add(HOST, Record::Cname(name("other.example")));
    dns.add("other.example", Record::A("192.0.2.7".parse().unwrap()));
    assert!(one(&dns, "host").await.fix.contains("alias"));
    let dns = right();
    dns.remove("7.2.0.192.in-addr.arpa");
    dns.add("7.2.0.192.in-addr.arpa", Record::Ptr(name("static-7.provider.example")));
    let reverse = one(&dns, "PTR").await;
    assert_eq!((reverse.found, reverse.is), (Found::Wrong, vec!["static-7.provider.example".to_owned()]));
}

#[tokio::test]
async fn mail_comes_here_and_nowhere_else() {
    for (records, expected) in [
        (vec![mx(10, HOST), mx(20, "backup.example")], Found::Warning),
        (vec![mx(5, "old.example"), mx(10, HOST)], Found::Warning),
        (vec![mx(10, "old.example")], Found::Wrong),
        (vec![Record::Mx(Mx { preference: 0, exchange: DnsName::root() })], Found::Wrong),
    ] {
        let dns = ScriptedResolver::new();
        records.iter().for_each(|record| dns.add(DOMAIN, record.clone()));
        assert_eq!(one(&dns, "MX").await.found, expected, "{records:?}");
    }
}

#[tokio::test]
async fn an_spf_record_is_added_to_and_never_replaced() {
    for (texts, expected, wanted) in [
        (vec!["v=spf1 include:news.example -all"], Found::Warning, "v=spf1 mx include:news.example -all"),
        (vec!["v=spf1 ip4:192.0.2.9 -all"], Found::Wrong, "v=spf1 mx ip4:192.0.2.9 -all"),
        (vec!["v=spf1 ip4:192.0.2.7 -all"], Found::Ok, ""),
        (vec!["v=spf1 mx -all", "v=spf1 a -all"], Found::Wrong, "v=spf1 mx"),
        (vec!["v=spf10 mx"], Found::Missing, "v=spf1 mx ~all"),
    ] {
        let dns = right();
        dns.remove(DOMAIN);
        dns.add(DOMAIN, mx(10, HOST));
        texts.iter().for_each(|text| dns.add(DOMAIN, txt(text)));
        let spf = one(&dns, "SPF").await;
        assert_eq!((spf.found, spf.wanted.as_str()), (expected, wanted), "{texts:?}");
    }
}

#[tokio::test]
async fn keys_are_compared_whole() {
    let at = "rsa-1._domainkey.example.org";
    for (text, expected) in [
        (format!("k=rsa; p={} {}", &KEY[..20], &KEY[20..]), Found::Ok),
        (format!("v=DKIM1; k=rsa; p={}", &KEY[..40]), Found::Wrong),
        ("v=DKIM1; k=rsa; p=".to_owned(), Found::Wrong),
        ("parked".to_owned(), Found::Wrong),
    ] {
        let dns = right();
        dns.remove(at);
        dns.add(at, txt(&text));
        let dkim = one(&dns, "DKIM").await;
        assert_eq!(dkim.found, expected, "{text}");
        assert_eq!(dkim.fix.contains("cut off"), text.contains(&KEY[..40]) && expected == Found::Wrong);
    }
    let dkim = async |dns: &ScriptedResolver, stage| {
        let checks = checked(dns, DOMAIN, stage).await;
        checks.into_iter().find(|check| check.what == "DKIM").map(|check| check.found)
    };
    assert_eq!(dkim(&right(), Stage::Waiting(now())).await, Some(Found::Warning), "rotate again");
    let dns = right();
    dns.remove(at);
    assert_eq!(dkim(&dns, Stage::Waiting(now())).await, Some(Found::Missing));
    assert_eq!(dkim(&dns, Stage::Retired(now())).await, Some(Found::Warning));
    let long_ago = Timestamp(now().0 - i64::try_from(KEY_OVERLAP.as_millis()).unwrap());
    assert_eq!(dkim(&dns, Stage::Retired(long_ago)).await, None);
}

#[tokio::test]
async fn dmarc_may_be_of_a_domain_above() {
    let dmarc = async |dns: &ScriptedResolver, domain: &str| {
        let checks = checked(dns, domain, Stage::Signing(now())).await;
        checks.into_iter().find(|check| check.what == "DMARC").unwrap()
    };
    let found = dmarc(&right(), "lists.mail.example.org").await;
    assert_eq!((found.found, found.name.as_str()), (Found::Ok, "_dmarc.example.org"));
    let dns = right();
    dns.add("_dmarc.example.org", txt("v=DMARC1; p=none"));
    assert_eq!(dmarc(&dns, DOMAIN).await.found, Found::Wrong, "two count as none");
    let dns = right();
    dns.remove("_dmarc.example.org");
    dns.add("_dmarc.org", txt("v=DMARC1; p=reject"));
    let found = dmarc(&dns, DOMAIN).await;
    assert_eq!((found.found, found.name.as_str()), (Found::Missing, "_dmarc.example.org"));
}

#[tokio::test]
async fn a_policy_that_is_announced_has_a_host() {
    let dns = right();
    dns.add("_mta-sts.example.org", txt("v=STSv1; id=1"));
    assert_eq!(one(&dns, "MTA-STS").await.found, Found::Wrong);
    dns.add("mta-sts.example.org", Record::A("192.0.2.8".parse().unwrap()));
    assert_eq!(one(&dns, "MTA-STS").await.found, Found::Ok);
    dns.add("_smtp._tls.example.org", txt("v=TLSRPTv1; rua=mailto:tls@example.org"));
    assert_eq!(one(&dns, "TLS-RPT").await.found, Found::Ok);
}

#[tokio::test]
async fn clients_of_jmap_are_led_here() {
    let srv = |port, target: &str| Record::Srv(Srv { priority: 5, weight: 0, port, target: name(target) });
    for (records, expected) in [
        (vec![srv(443, HOST)], Found::Ok),
        (vec![srv(443, "old.example"), srv(443, HOST)], Found::Ok),
        (vec![srv(8443, HOST)], Found::Wrong),
        (vec![srv(443, "old.example")], Found::Wrong),
    ] {
        let dns = right();
        records.iter().for_each(|record| dns.add("_jmap._tcp.example.org", record.clone()));
        assert_eq!(one(&dns, "JMAP").await.found, expected, "{records:?}");
    }
}

#[tokio::test]
async fn no_answer_is_not_an_answer() {
    let dns = right();
    dns.script(DOMAIN, Script::Fail);
    for what in ["MX", "SPF"] {
        let check = one(&dns, what).await;
        assert!(
            check.found == Found::Unknown && check.is_wrong() && !check.is_certainly_wrong(),
            "{check:?}"
        );
    }
    dns.script_type(HOST, RecordType::Aaaa, Script::Bogus);
    assert_eq!(one(&dns, "host").await.found, Found::Unknown);
}

#[tokio::test(start_paused = true)]
async fn silent_dns_ends_the_check_in_bounded_time() {
    let dns = right();
    for name in ["7.2.0.192.in-addr.arpa", "_dmarc.example.org", DOMAIN, HOST] {
        dns.script(name, Script::Stall);
        let begun = tokio::time::Instant::now();
        let checks = checked(&dns, DOMAIN, Stage::Signing(now())).await;
        assert!(begun.elapsed() <= limits::DOMAIN_CHECK_TIME, "{name}: {:?}", begun.elapsed());
        assert!(checks.iter().any(|check| check.found == Found::Unknown));
    }
}
