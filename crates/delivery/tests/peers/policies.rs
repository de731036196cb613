//! TLS: opportunistic, MTA-STS, DANE, REQUIRETLS; servers that lie about it; reports.

use std::time::Duration;

use ring::digest;
use rustls::RootCertStore;
use sealpost_delivery::envelope::TlsDemand;
use sealpost_delivery::outcome::{Attempt, Reason, Scope, TlsMode};
use sealpost_dns::scripted::Script;
use sealpost_dns::{Record, Tlsa};

use crate::net::{OWN_ADDRESS, World, a, envelope, failure, is_delivered, message, mx, reason, timed};
use crate::server::{Act, Identity, Server};

fn tls_of(attempt: &Attempt) -> (TlsMode, bool) {
    (attempt.tls.mode, attempt.tls.verified)
}

#[tokio::test(start_paused = true)]
async fn offered_tls_is_used_whatever_the_certificate() {
    let identity = Identity::new("mx.d.example");
    let other = Identity::between("elsewhere.example", 2001, 2002);
    for (server, verified) in
        [(Server::modern().with_tls(&identity), true), (Server::modern().with_tls(&other), false)]
    {
        let mut world = World::new(&server);
        world.roots = identity.roots();
        let attempt = world.send().await;
        assert!(is_delivered(&attempt));
        assert_eq!(tls_of(&attempt), (TlsMode::Opportunistic, verified));
        assert!(attempt.tls.parameters.starts_with("TLSv1.3 TLS13_"), "{}", attempt.tls.parameters);
        assert_eq!(world.reports.results(), ["ok"]);
        assert_eq!(server.commands()[..3], ["EHLO me.example", "STARTTLS", "EHLO me.example"]);
    }
    let attempt = World::new(&Server::modern()).send().await;
    assert_eq!(tls_of(&attempt), (TlsMode::None, false));
}

#[tokio::test(start_paused = true)]
async fn servers_that_lie_about_tls_get_the_mail_without_it() {
    let identity = Identity::new("mx.d.example");
    let broken = || Server::modern().with_tls(&identity);
    for server in [
        broken().at("STARTTLS", Act::Say("454 not now\r\n")),
        broken().at("STARTTLS", Act::Say("500 what?\r\n")),
        broken().at("STARTTLS", Act::Close),
        broken().at("tls", Act::Close),
        broken().at("tls", Act::Say("this is no handshake\r\n")),
        // Bytes before the handshake, which an attacker could have put there.
        broken().at("STARTTLS", Act::Say("220 go\r\n250 injected\r\n")),
        Server::modern().offering("STARTTLS"),
    ] {
        let world = World::new(&server);
        let (attempt, took) = timed(world.send()).await;
        assert!(is_delivered(&attempt), "{:?}", attempt.recipients);
        assert_eq!(tls_of(&attempt), (TlsMode::None, false));
        assert!(took <= Duration::from_secs(60));
        assert!(matches!(world.reports.results()[0], "validation-failure" | "starttls-not-supported"));
    }
}

/// A world whose domain has an MTA-STS policy.
fn with_policy(server: &Server, web: &'static str) -> (World, Identity) {
    let mut world = World::new(server);
    let site = Identity::new("mta-sts.d.example");
    world.roots = site.roots();
    world.zone.add("_mta-sts.d.example", Record::Txt(b"v=STSv1; id=1;".to_vec()));
    world.zone.add("mta-sts.d.example", a("192.0.2.80"));
    world.net.put("192.0.2.80:443", &Server::web(&site, web));
    (world, site)
}

fn trust(world: &mut World, identity: &Identity) {
    world.roots.add(identity.authority.clone()).unwrap();
}

const ENFORCE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 61\r\n\r\n\
                       version: STSv1\nmode: enforce\nmx: mx.d.example\nmax_age: 86400\n";
const TESTING: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\
                       \r\n21\r\nversion: STSv1\nmode: testing\nmx: \r\n1d\r\nother.example\nmax_age: 86400\n\r\n0\r\n\r\n";
const ELSEWHERE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n\
                         version: STSv1\nmode: enforce\nmx: *.other.example\nmax_age: 86400\n";

#[tokio::test(start_paused = true)]
async fn an_enforced_policy_wants_a_good_certificate() {
    let good = Identity::new("mx.d.example");
    let (mut world, _) = with_policy(&Server::modern().with_tls(&good), ENFORCE);
    trust(&mut world, &good);
    let attempt = world.send().await;
    assert!(is_delivered(&attempt), "{:?}", attempt.recipients);
    assert_eq!(tls_of(&attempt), (TlsMode::MtaSts, true));
    assert_eq!(world.reports.results(), ["ok"]);

    for (identity, trusted, name) in [
        (Identity::new("mx.d.example"), false, "certificate-not-trusted"),
        (Identity::new("other.example"), true, "certificate-host-mismatch"),
        (Identity::between("mx.d.example", 2001, 2002), true, "certificate-expired"),
    ] {
        let server = Server::modern().with_tls(&identity);
        let (mut world, _) = with_policy(&server, ENFORCE);
        if trusted {
            trust(&mut world, &identity);
        }
        let attempt = world.send().await;
        let failed = failure(&attempt);
        assert_eq!((failed.reason, failed.permanent), (Reason::CertificateInvalid, false), "{name}");
        assert_eq!(world.reports.results(), [name]);
        assert!(server.commands().iter().all(|line| !line.starts_with("MAIL")));
    }
    let (world, _) = with_policy(&Server::modern(), ENFORCE);
    assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
    assert_eq!(world.reports.results(), ["starttls-not-supported"]);
}

#[tokio::test(start_paused = true)]
async fn an_enforced_policy_names_the_servers() {
    let good = Identity::new("mx.d.example");
    let (mut world, _) = with_policy(&Server::modern().with_tls(&good), ELSEWHERE);
    trust(&mut world, &good);
    let attempt = world.send().await;
    let failed = failure(&attempt);
    assert_eq!((failed.reason, failed.scope), (Reason::StsMxMismatch, Scope::Site));
    assert_eq!(world.net.dialled(), ["192.0.2.80:443"]);
    // A server that the policy does name is used instead.
    world.zone.add("d.example", mx(20, "a.other.example"));
    world.zone.add("a.other.example", a("192.0.2.2"));
    let named = Identity::new("a.other.example");
    trust(&mut world, &named);
    world.net.put("192.0.2.2:25", &Server::modern().with_tls(&named));
    let attempt = world.send().await;
    assert_eq!(attempt.server.as_ref().unwrap().host, "a.other.example");
    assert_eq!(tls_of(&attempt), (TlsMode::MtaSts, true));
}

#[tokio::test(start_paused = true)]
async fn tls_reports_name_both_ends_of_a_connection() {
    let other = Identity::new("elsewhere.example");
    let server_address = Some("192.0.2.1".parse().unwrap());
    for server in [Server::modern(), Server::modern().with_tls(&other)] {
        let (mut world, _) = with_policy(&server, ENFORCE);
        world.send().await;
        assert_eq!(world.reports.ends(), [(Some(OWN_ADDRESS), server_address)]);
        let configured = "192.0.2.77".parse().unwrap();
        world.settings.source_ipv4 = Some(configured);
        world.send().await;
        assert_eq!(world.reports.ends()[1], (Some(configured.into()), server_address));
    }
    // No server was chosen: there is no connection.
    let (world, _) = with_policy(&Server::modern(), ELSEWHERE);
    world.send().await;
    assert_eq!(world.reports.ends(), [(None, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_in_testing_only_reports() {
    let other = Identity::new("elsewhere.example");
    let (world, _) = with_policy(&Server::modern().with_tls(&other), TESTING);
    let attempt = world.send().await;
    assert!(is_delivered(&attempt));
    assert_eq!(tls_of(&attempt), (TlsMode::Opportunistic, false));
    assert_eq!(world.reports.results(), ["certificate-not-trusted"]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_kept_and_outlives_its_record_and_site() {
    let (mut world, _) = with_policy(&Server::modern(), ENFORCE);
    assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
    // Suppressing DNS, the web site and TLS does not help an attacker.
    world.zone.remove("_mta-sts.d.example");
    world.zone.script("mta-sts.d.example", Script::Fail);
    assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
    let fetches = |world: &World| world.net.dialled().iter().filter(|to| to.ends_with(":443")).count();
    assert_eq!(fetches(&world), 1);
    // A new id leads to the site, whose failure is reported and not repeated at once.
    world.zone.add("_mta-sts.d.example", Record::Txt(b"v=STSv1; id=2;".to_vec()));
    for _ in 0..3 {
        assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
    }
    assert!(world.reports.results().contains(&"sts-policy-fetch-error"));
    // After its time it no longer holds.
    world.clock.advance(Duration::from_secs(86_400));
    world.zone.remove("_mta-sts.d.example");
    assert!(is_delivered(&world.send().await));
    world.settings.mta_sts = false;
    assert!(is_delivered(&world.send().await));
}

#[tokio::test(start_paused = true)]
async fn domains_of_one_server_share_connections_if_their_policies_agree() {
    let (mut world, _) = with_policy(&Server::modern(), ENFORCE);
    world.zone.add("plain.example", mx(10, "mx.d.example"));
    world.zone.add_secure("signed.example", mx(10, "mx.d.example"));
    let site =
        async |world: &World, domain: &str| world.destination(domain).await.unwrap().site().to_string();
    assert_eq!(site(&world, "plain.example").await, "mx.d.example");
    assert_eq!(site(&world, "d.example").await, "mx.d.example mta-sts");
    assert_eq!(site(&world, "signed.example").await, "mx.d.example dnssec");
    let (excluding, _) = with_policy(&Server::modern(), ELSEWHERE);
    assert_eq!(site(&excluding, "d.example").await, "mx.d.example mta-sts -mx.d.example");
    world.settings.mta_sts = false;
    assert_eq!(site(&world, "d.example").await, "mx.d.example");
}

#[tokio::test(start_paused = true)]
async fn unavailable_policies_do_not_delay_mail_for_long() {
    let endless = Box::leak(format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(100_000)).into_boxed_str());
    let large: &'static str = Box::leak(
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{}", "x: y\n".repeat(100_000))
            .into_boxed_str(),
    );
    for (response, problem) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "sts-policy-fetch-error"),
        ("HTTP/1.1 301 Moved\r\nLocation: https://x/\r\n\r\n", "sts-policy-fetch-error"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "sts-policy-fetch-error"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9999999\r\n\r\n",
            "sts-policy-fetch-error",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
            "sts-policy-fetch-error",
        ),
        // Sizes that add up to more than a number holds.
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nve\r\nffffffffffffffff\r\nrsion\r\n0\r\n\r\n",
            "sts-policy-fetch-error",
        ),
        ("SSH-2.0-x\r\n", "sts-policy-fetch-error"),
        (&*endless, "sts-policy-fetch-error"),
        (large, "sts-policy-fetch-error"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n",
            "sts-policy-invalid",
        ),
    ] {
        let (world, _) = with_policy(&Server::modern(), response);
        let (attempt, took) = timed(world.send()).await;
        assert!(is_delivered(&attempt));
        assert_eq!(world.reports.results()[0], problem, "{}", &response[..response.len().min(80)]);
        assert!(took < Duration::from_secs(1));
    }
    let (world, _) = with_policy(&Server::modern(), ENFORCE);
    world.net.put("192.0.2.80:443", &Server::silent());
    let (attempt, took) = timed(world.send()).await;
    assert!(is_delivered(&attempt));
    assert_eq!(took, Duration::from_secs(60));
    // A web site with another certificate is none.
    let (world, _) = with_policy(&Server::modern(), ENFORCE);
    world.net.put("192.0.2.80:443", &Server::web(&Identity::new("mta-sts.d.example"), ENFORCE));
    assert!(is_delivered(&world.send().await));
    assert_eq!(world.reports.results()[0], "sts-webpki-invalid");
}

fn tlsa(usage: u8, selector: u8, matching: u8, data: &[u8]) -> Record {
    Record::Tlsa(Tlsa { usage, selector, matching, data: data.to_vec() })
}

fn sha256(data: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, data).as_ref().to_vec()
}

#[tokio::test(start_paused = true)]
async fn dane_wants_a_certificate_that_matches() {
    // The server's certificate is for another name and expired: usage 3 does not look at that (RFC
    // 7672 §3.1.1).
    let identity = Identity::between("elsewhere.example", 2001, 2002);
    let leaf = identity.certificate.to_vec();
    let sha512 = digest::digest(&digest::SHA512, &leaf).as_ref().to_vec();
    for record in [tlsa(3, 0, 0, &leaf), tlsa(3, 0, 1, &sha256(&leaf)), tlsa(3, 0, 2, &sha512)] {
        let world = World::signed(&Server::modern().with_tls(&identity));
        world.zone.add_secure("_25._tcp.mx.d.example", tlsa(3, 0, 1, &[0; 32]));
        world.zone.add_secure("_25._tcp.mx.d.example", record);
        let attempt = world.send().await;
        assert!(is_delivered(&attempt), "{:?}", attempt.recipients);
        assert_eq!(tls_of(&attempt), (TlsMode::Dane, true));
        assert_eq!(world.reports.results(), ["ok"]);
    }
    let server = Server::modern().with_tls(&identity);
    let world = World::signed(&server);
    world.zone.add_secure("_25._tcp.mx.d.example", tlsa(3, 0, 1, &[0; 32]));
    let attempt = world.send().await;
    assert_eq!((reason(&attempt), failure(&attempt).permanent), (Reason::DaneMismatch, false));
    assert!(server.commands().iter().all(|line| !line.starts_with("MAIL")));
    // And no STARTTLS is no way out.
    let world = World::signed(&Server::modern());
    world.zone.add_secure("_25._tcp.mx.d.example", tlsa(3, 0, 1, &sha256(&leaf)));
    assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
}

#[tokio::test(start_paused = true)]
async fn dane_trust_anchors_want_the_right_name_and_time() {
    for (identity, expected) in [
        (Identity::new("mx.d.example"), None),
        // RFC 7672 §3.2.2: the domain will do, as its MX records are secure.
        (Identity::new("d.example"), None),
        (Identity::new("elsewhere.example"), Some(Reason::CertificateInvalid)),
        (Identity::between("mx.d.example", 2001, 2002), Some(Reason::CertificateInvalid)),
    ] {
        for whole in [false, true] {
            let world = World::signed(&Server::modern().with_tls(&identity));
            let anchor = identity.authority.to_vec();
            let record = if whole { tlsa(2, 0, 0, &anchor) } else { tlsa(2, 0, 1, &sha256(&anchor)) };
            world.zone.add_secure("_25._tcp.mx.d.example", record);
            let attempt = world.send().await;
            match expected {
                None => assert!(is_delivered(&attempt), "{:?}", attempt.recipients),
                Some(expected) => assert_eq!(reason(&attempt), expected),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dane_takes_validated_answers_alone() {
    let identity = Identity::new("mx.d.example");
    let wrong = || tlsa(3, 1, 1, &[0; 32]);
    let server = || Server::modern().with_tls(&identity);
    // A domain, a host or a record without a signature: no DANE.
    let world = World::new(&server());
    world.zone.add_secure("_25._tcp.mx.d.example", wrong());
    assert_eq!(tls_of(&world.send().await).0, TlsMode::Opportunistic);
    let world = World::signed(&server());
    world.zone.add("_25._tcp.mx.d.example", wrong());
    assert_eq!(tls_of(&world.send().await).0, TlsMode::Opportunistic);
    // A lookup that fails is no permission to go without.
    for script in [Script::Fail, Script::Bogus] {
        let world = World::signed(&server());
        world.zone.script("_25._tcp.mx.d.example", script);
        let attempt = world.send().await;
        assert!(matches!(reason(&attempt), Reason::DnsFailed | Reason::DnsBogus));
        assert_eq!(world.reports.results(), ["dnssec-invalid"]);
        // Unless the sender says that delivery matters more (RFC 8689 §5).
        let attempt = world.send_with(TlsDemand::Waive, &envelope(&["bob@d.example"])).await;
        assert!(is_delivered(&attempt));
    }
    // Unusable records still demand TLS (RFC 7672 §2.2).
    for record in
        [tlsa(1, 1, 1, &[0; 32]), tlsa(3, 1, 9, &[0; 32]), tlsa(3, 1, 1, &[0; 31]), tlsa(2, 1, 0, &[0; 9])]
    {
        let world = World::signed(&server());
        world.zone.add_secure("_25._tcp.mx.d.example", record.clone());
        assert_eq!(tls_of(&world.send().await), (TlsMode::Dane, false));
        let world = World::signed(&Server::modern());
        world.zone.add_secure("_25._tcp.mx.d.example", record);
        assert_eq!(reason(&world.send().await), Reason::TlsNotOffered);
    }
}

#[tokio::test(start_paused = true)]
async fn many_tlsa_records_are_bounded() {
    let identity = Identity::new("mx.d.example");
    let world = World::signed(&Server::modern().with_tls(&identity));
    for _ in 0..10_000 {
        world.zone.add_secure("_25._tcp.mx.d.example", tlsa(2, 0, 1, &[0; 32]));
    }
    assert_eq!(reason(&world.send().await), Reason::DaneMismatch);
}

#[tokio::test(start_paused = true)]
async fn a_sender_may_require_tls() {
    let identity = Identity::new("mx.d.example");
    let require =
        async |world: &World| world.send_with(TlsDemand::Require, &envelope(&["bob@d.example"])).await;
    let server = Server::modern().with_tls(&identity).offering("REQUIRETLS");
    let mut world = World::signed(&server);
    world.roots = identity.roots();
    let attempt = require(&world).await;
    assert!(is_delivered(&attempt), "{:?}", attempt.recipients);
    assert_eq!(tls_of(&attempt), (TlsMode::Required, true));
    assert!(server.commands().iter().any(|line| line.ends_with(" REQUIRETLS")));
    // A server without it, without a good certificate, or without proof that it is the domain's.
    let mut plain = World::signed(&Server::modern().with_tls(&identity));
    plain.roots = identity.roots();
    let untrusted = World::signed(&Server::modern().with_tls(&identity).offering("REQUIRETLS"));
    let mut unsigned = World::new(&Server::modern().with_tls(&identity).offering("REQUIRETLS"));
    unsigned.roots = identity.roots();
    for (world, expected) in [
        (plain, Reason::RequireTlsLacking),
        (untrusted, Reason::CertificateInvalid),
        (unsigned, Reason::MxNotAuthenticated),
    ] {
        let attempt = require(&world).await;
        let failed = failure(&attempt);
        assert_eq!((failed.reason, failed.permanent, failed.scope), (expected, true, Scope::Message));
        // Other mail is not concerned.
        assert!(is_delivered(&world.send().await));
    }
    // A connection that was made for other mail will not do.
    let world = World::new(&Server::modern().offering("REQUIRETLS"));
    let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
    let mut mail = envelope(&["bob@d.example"]);
    mail.tls = TlsDemand::Require;
    let attempt = connection.send(&mail, &message("x\r\n")).await;
    assert_eq!((reason(&attempt), failure(&attempt).permanent), (Reason::WrongConnection, false));
    assert!(connection.is_reusable());
}

#[tokio::test(start_paused = true)]
async fn roots_may_be_empty() {
    let world = World::new(&Server::modern().with_tls(&Identity::new("mx.d.example")));
    assert!(RootCertStore::is_empty(&world.roots));
    assert!(is_delivered(&world.send().await));
}
