//! The recursive resolver against name servers of our own on loopback: a signed root, an unsigned
//! zone below it, and servers that fail, lie, lead in circles, send too much, or nothing.

mod authority;

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, SystemClock};

use super::*;
use crate::answer::{Mx, Record};
use crate::cache::CachingResolver;
use crate::resolver::ResolverExt;
use authority::{Network, Trick};

/// Time that a lookup in these tests may take.
const LOOKUP_TIME: Duration = Duration::from_secs(8);

fn name(text: &str) -> DnsName {
    DnsName::new(text).unwrap()
}

/// A network with a few names, and a resolver in it.
async fn network() -> (Network, CachingResolver<RecursiveResolver>) {
    let network = Network::start(SystemClock::new().now()).await;
    let settings = RecursionSettings {
        roots: vec![network.root_address()],
        trust_anchor: Some(network.trust_anchor()),
        ipv6: false,
        port: network.port(),
        allow_private: true,
    };
    let resolver = RecursiveResolver::new(&settings).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let resolver = CachingResolver::with_bounds(resolver, clock, 1_000_000, LOOKUP_TIME);
    (network, resolver)
}

#[tokio::test]
async fn signed_answers_are_secure() {
    let (_network, resolver) = network().await;
    let mx = resolver.mx(&name("signed")).await.unwrap();
    assert!(mx.secure);
    assert_eq!(mx.records, [Mx { preference: 10, exchange: name("mx.signed") }]);
    let tlsa = resolver.tlsa(&name("_25._tcp.mx.signed")).await.unwrap();
    assert!(tlsa.secure);
    assert_eq!((tlsa.records[0].usage, tlsa.records[0].data.len()), (3, 32));
    let txt = resolver.txt(&name("signed")).await.unwrap();
    assert_eq!(txt.records, [b"one two".to_vec()], "strings are put together");
    let alias = resolver.ipv4(&name("alias.signed")).await.unwrap();
    assert_eq!((alias.secure, alias.owner), (true, name("mx.signed")));
    let null = resolver.mx(&name("null.signed")).await.unwrap();
    assert!(null.records[0].exchange.is_root());
}

#[tokio::test]
async fn answers_of_unsigned_zones_are_not() {
    let (_network, resolver) = network().await;
    let mx = resolver.mx(&name("d.plain")).await.unwrap();
    assert_eq!((mx.secure, mx.records.len()), (false, 1));
    let answer = resolver.lookup(&name("mx.d.plain"), RecordType::A).await.unwrap();
    assert_eq!(answer.records, [Record::A([192, 0, 2, 7].into())]);
    assert!(answer.ttl <= Duration::from_secs(300));
}

#[tokio::test]
async fn absence_and_failure_are_distinct_errors() {
    let (_network, resolver) = network().await;
    assert!(matches!(resolver.mx(&name("nowhere.plain")).await, Err(LookupError::NoSuchName { .. })));
    assert!(matches!(resolver.tlsa(&name("d.plain")).await, Err(LookupError::NoData { .. })));
    for trick in [Trick::Refuse, Trick::ServFail] {
        let (network, resolver) = self::network().await;
        network.play("d.plain", trick);
        let found = resolver.txt(&name("d.plain")).await;
        assert!(matches!(found, Err(LookupError::Failed(_))), "{trick:?}: {found:?}");
    }
}

#[tokio::test]
async fn forged_and_stripped_answers_are_bogus() {
    for trick in [Trick::Forge, Trick::Strip, Trick::Expire] {
        let (network, resolver) = network().await;
        network.play("mx.signed", trick);
        let found = resolver.ipv4(&name("mx.signed")).await;
        assert_eq!(found, Err(LookupError::Bogus), "{trick:?}");
    }
}

#[tokio::test]
async fn servers_that_lie_stall_or_babble_end_in_time() {
    for trick in
        [Trick::Silence, Trick::Garbage, Trick::OtherQuestion, Trick::EndlessReferral, Trick::AliasLoop]
    {
        let (network, resolver) = network().await;
        network.play("d.plain", trick);
        let begun = tokio::time::Instant::now();
        let found = resolver.mx(&name("d.plain")).await;
        assert!(found.is_err(), "{trick:?}: {found:?}");
        assert!(begun.elapsed() < LOOKUP_TIME + Duration::from_secs(1), "{trick:?}");
        // And the others are still answered.
        assert!(resolver.mx(&name("signed")).await.is_ok(), "{trick:?}");
    }
}

#[tokio::test]
async fn huge_answers_are_refused_and_large_ones_are_not() {
    let (network, resolver) = network().await;
    network.play("d.plain", Trick::Records(100));
    assert_eq!(resolver.txt(&name("d.plain")).await.unwrap().records.len(), 100);
    let (network, resolver) = self::network().await;
    network.play("d.plain", Trick::Records(2000));
    let found = resolver.txt(&name("d.plain")).await;
    assert!(found.is_err(), "{found:?}");
}

#[tokio::test]
async fn the_systems_servers_are_asked_and_not_believed() {
    let (network, _) = network().await;
    let anchor = network.trust_anchor();
    let servers = [network.root_address()];
    let resolver = ForwardingResolver::new(&servers, network.port(), Some(&anchor)).unwrap();
    assert!(resolver.ipv4(&name("mx.signed")).await.unwrap().secure);
    network.play("mx.signed", Trick::Forge);
    let resolver = ForwardingResolver::new(&servers, network.port(), Some(&anchor)).unwrap();
    assert_eq!(resolver.ipv4(&name("mx.signed")).await, Err(LookupError::Bogus));
    assert!(ForwardingResolver::new(&[], 53, None).is_err());
    assert!(
        RecursiveResolver::new(&RecursionSettings { trust_anchor: Some("x".into()), ..Default::default() })
            .is_err()
    );
}

#[test]
fn resolv_conf() {
    let text = "# comment\nnameserver 192.0.2.1\nsearch x\n nameserver\t2001:db8::1 \nnameserver x\n;nameserver 1.1.1.1\n";
    let servers: Vec<String> = ForwardingResolver::servers(text).iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["192.0.2.1", "2001:db8::1"]);
}

#[test]
fn messages_over_tcp_are_watched_however_they_are_cut() {
    let message = |length: u16, records: [u16; 3]| {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend([0; 6]);
        bytes.extend(records.into_iter().flat_map(u16::to_be_bytes));
        bytes.resize(2 + usize::from(length), 7);
        bytes
    };
    let good = [message(12, [0; 3]), message(4000, [100, 1, 1]), message(12, [0; 3])].concat();
    for step in [1, 3, 14, 15, good.len()] {
        let mut watch = provider::MessageWatch::default();
        for piece in good.chunks(step) {
            watch.push(piece).unwrap();
        }
    }
    for bad in
        [message(40_000, [1, 0, 0]), message(4000, [200, 40, 40]), message(12, [65_535; 3]), vec![0; 14]]
    {
        assert!(provider::MessageWatch::default().push(&bad).is_err());
    }
}
