//! Which servers are tried, in which order, from which address; smarthosts and their logins.

use std::sync::Arc;

use sealpost_delivery::envelope::TlsDemand;
use sealpost_delivery::outcome::{Reason, Scope, TlsMode};
use sealpost_delivery::routes::{Credentials, Domains, Route, Smarthost, SmarthostTls, Via};
use sealpost_delivery::settings::Family;
use sealpost_delivery::transport::{Choice, Transport};
use sealpost_dns::DnsName;
use sealpost_smtp::types::{Host, ReversePath, Secret};

use crate::net::{World, a, envelope, failure, is_delivered, mailbox, message, mx, reason};
use crate::server::{Act, Identity, Server};

#[tokio::test(start_paused = true)]
async fn the_next_server_is_tried_when_the_best_fails() {
    let world = World::empty();
    let good = Server::modern();
    for (preference, host, address) in
        [(10, "a.example", "192.0.2.1"), (20, "b.example", "192.0.2.2"), (30, "c.example", "192.0.2.3")]
    {
        world.zone.add("d.example", mx(preference, host));
        world.zone.add(host, a(address));
    }
    world.net.put("192.0.2.2:25", &Server::new(&[]).at("greeting", Act::Say("554 5.3.2 no\r\n")));
    world.net.put("192.0.2.3:25", &good);
    let attempt = world.send().await;
    assert!(is_delivered(&attempt));
    assert_eq!(attempt.server.unwrap().host, "c.example");
    assert_eq!(world.net.dialled(), ["192.0.2.1:25", "192.0.2.2:25", "192.0.2.3:25"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_permanent_only_if_all_servers_agree() {
    let no = Server::new(&[]).at("greeting", Act::Say("554 5.7.1 blocked\r\n"));
    let world = World::new(&no);
    let attempt = world.send().await;
    let failed = failure(&attempt);
    assert_eq!((failed.reason, failed.permanent, failed.scope), (Reason::GreetingRefused, true, Scope::Site));
    assert!(failed.concerns_route());
    world.zone.add("d.example", mx(20, "mx2.d.example"));
    world.zone.add("mx2.d.example", a("192.0.2.9"));
    let attempt = world.send().await;
    assert_eq!((reason(&attempt), failure(&attempt).permanent), (Reason::ConnectionRefused, false));
}

#[tokio::test(start_paused = true)]
async fn families_and_sources_are_the_operators() {
    let dial = async |family, own: Option<Family>| {
        let mut world = World::new(&Server::modern());
        world.zone.add("mx.d.example", a("2001:db8::1"));
        world.net.put("[2001:db8::1]:25", &Server::modern());
        world.settings.family = family;
        world.settings.source_ipv4 = Some([198, 51, 100, 1].into());
        if let Some(own) = own {
            world.settings.family_of.insert(DnsName::new("d.example").unwrap(), own);
        }
        let attempt = world.send().await;
        assert!(is_delivered(&attempt));
        (world.net.dialled().join(" "), world.net.sources()[0].map(|source| source.to_string()))
    };
    let (v4, v6) = ("192.0.2.1:25".to_owned(), "[2001:db8::1]:25".to_owned());
    let source = Some("198.51.100.1".to_owned());
    assert_eq!(dial(Family::PreferIpv6, None).await, (v6.clone(), None));
    assert_eq!(dial(Family::PreferIpv4, None).await, (v4.clone(), source.clone()));
    assert_eq!(dial(Family::Ipv4Only, None).await, (v4.clone(), source.clone()));
    assert_eq!(dial(Family::Ipv6Only, None).await, (v6, None));
    assert_eq!(dial(Family::PreferIpv6, Some(Family::Ipv4Only)).await, (v4, source));
}

#[tokio::test(start_paused = true)]
async fn address_literals_need_no_dns() {
    let world = World::new(&Server::modern());
    let destination = world.destination("[192.0.2.1]").await.unwrap();
    assert_eq!(destination.site().as_str(), "[192.0.2.1]");
    let mut connection = destination.connect(TlsDemand::Policy).await.unwrap();
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message("x\r\n")).await;
    assert!(is_delivered(&attempt));
    assert_eq!(world.zone.lookups(), 0);
    let failed = world.destination("[x-other:1]").await.err().unwrap();
    assert_eq!((failed.reason, failed.permanent), (Reason::BadDestination, true));
}

#[tokio::test(start_paused = true)]
async fn dns_cannot_lead_mail_to_this_node_or_behind_it() {
    let mut world = World::new(&Server::modern());
    world.settings.allow_private = false;
    world.zone.add("inside.example", a("127.0.0.1"));
    let failed = world.connect("inside.example", TlsDemand::Policy).await.err().unwrap();
    assert_eq!((failed.reason, failed.permanent), (Reason::PrivateAddress, true));
    assert!(world.net.dialled().is_empty());
    world.settings.allow_private = true;
    world.settings.own_addresses.push([192, 0, 2, 1].into());
    assert_eq!(reason(&world.send().await), Reason::MailLoop);
    // A server that has our name is ourselves, wherever it is.
    let me = Server::new(&[]).at("EHLO", Act::Say("250 ME.example at your service\r\n"));
    let attempt = World::new(&me).send().await;
    assert_eq!((reason(&attempt), failure(&attempt).permanent), (Reason::MailLoop, true));
}

fn with_smarthost(server: &Server, via: fn(Arc<Smarthost>) -> Via, identity: &Identity) -> World {
    let mut world =
        World::new(&Server::new(&[]).at("RCPT", Act::Say("550 5.7.1 your network is blocked\r\n")));
    world.roots = identity.roots();
    world.zone.add("smart.example", a("192.0.2.99"));
    world.net.put("192.0.2.99:465", server);
    let credentials = Credentials { user: "me".into(), password: Secret::new("pässword") };
    let host = Host::domain("smart.example").unwrap();
    let smarthost = Smarthost::new(host, 465, SmarthostTls::Implicit, Some(credentials)).unwrap();
    let via = via(Arc::new(smarthost));
    world.routes.routes = vec![Route { destination: Domains::Any, sender: Domains::Any, via }];
    world
}

#[tokio::test(start_paused = true)]
async fn a_smarthost_gets_credentials_over_verified_tls_alone() {
    let identity = Identity::new("smart.example");
    let server = Server::modern().with_implicit_tls(&identity).offering("AUTH LOGIN PLAIN");
    let world = with_smarthost(&server, Via::Smarthost, &identity);
    assert_eq!(world.destination("d.example").await.unwrap().site().as_str(), "smarthost:smart.example:465");
    let attempt = world.send().await;
    assert!(is_delivered(&attempt));
    assert_eq!((attempt.tls.mode, attempt.tls.verified), (TlsMode::Required, true));
    // "\0me\0pässword"
    assert!(server.commands().contains(&"AUTH PLAIN AG1lAHDDpHNzd29yZA==".to_owned()));
    // A server with another certificate gets nothing.
    let imposter = Identity::new("smart.example");
    let server = Server::modern().with_implicit_tls(&imposter).offering("AUTH PLAIN");
    let world = with_smarthost(&server, Via::Smarthost, &identity);
    assert_eq!(reason(&world.send().await), Reason::CertificateInvalid);
    assert!(server.commands().iter().all(|command| !command.starts_with("AUTH")));
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_return_no_mail_to_its_sender() {
    let identity = Identity::new("smart.example");
    for (server, code) in [
        (Server::modern().offering("AUTH PLAIN").at("AUTH", Act::Say("535 5.7.8 no\r\n")), Some(535)),
        (Server::modern().offering("AUTH CRAM-MD5"), None),
        (Server::modern(), None),
    ] {
        let world = with_smarthost(&server.with_implicit_tls(&identity), Via::Smarthost, &identity);
        let attempt = world.send().await;
        let failure = failure(&attempt);
        assert_eq!((failure.reason, failure.permanent), (Reason::AuthenticationFailed, false));
        assert_eq!(failure.reply.map(|reply| reply.code), code);
        assert_eq!(failure.scope, Scope::Site);
    }
}

#[tokio::test(start_paused = true)]
async fn login_is_used_where_there_is_nothing_else() {
    let identity = Identity::new("smart.example");
    let server = Server::modern()
        .with_implicit_tls(&identity)
        .offering("AUTH LOGIN")
        .at("AUTH", Act::Say("334 VXNlcm5hbWU6\r\n"))
        .at("bWU=", Act::Say("334 UGFzc3dvcmQ6\r\n"))
        .at("cMOkc3N3b3Jk", Act::Say("235 ok\r\n"));
    let world = with_smarthost(&server, Via::Smarthost, &identity);
    assert!(is_delivered(&world.send().await));
}

#[tokio::test(start_paused = true)]
async fn a_second_choice_follows_a_refusal_of_this_node() {
    let identity = Identity::new("smart.example");
    let server = Server::modern().with_implicit_tls(&identity).offering("AUTH PLAIN");
    let world = with_smarthost(&server, Via::DirectThen, &identity);
    let attempt = world.send().await;
    assert!(failure(&attempt).concerns_route());
    let sender = ReversePath::Mailbox(mailbox("alice@me.example"));
    let host = Host::domain("d.example").unwrap();
    let second = world.deliverer().resolve(&sender, &host, Choice::Second).await.unwrap().unwrap();
    let mut connection = second.connect(TlsDemand::Policy).await.unwrap();
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message("x\r\n")).await;
    assert!(is_delivered(&attempt));
    // Without a route there is no second choice.
    let world = World::new(&Server::modern());
    assert!(world.deliverer().resolve(&sender, &host, Choice::Second).await.is_none());
}
