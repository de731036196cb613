use std::sync::Arc;

use sealpost_base::{Random, SeededRandom};
use sealpost_mailauth::dkim::{KeyLookup, Signer, SigningOptions, Verdict, Verifier};
use sealpost_vault::Sealed;

use super::*;

const DOMAIN: &str = "example.org";
const DAY: Duration = Duration::from_secs(86_400);

struct Fixture {
    store: Store,
    keys: DomainKeys,
    random: Arc<dyn Random>,
    now: Timestamp,
}

impl Fixture {
    fn new() -> Self {
        let (store, random) = (Store::memory(), Arc::new(SeededRandom::new(1)));
        let keys = DomainKeys::new(store.clone(), MailKeys::generate(&*random));
        Fixture { store, keys, random, now: Timestamp::from_seconds(1_800_000_000) }
    }

    async fn selectors(&self) -> Vec<String> {
        let keys = self.keys.signing(DOMAIN).await.unwrap();
        keys.iter().map(|key| key.selector.clone()).collect()
    }

    async fn paths(&self) -> Vec<String> {
        self.store.list("", None).map_ok(|object| object.path).try_collect().await.unwrap()
    }
}

/// The verdicts on `message`, which `keys` sign, with the records that `published` has.
fn verdicts(keys: &[DomainKey], published: &[KeyInfo]) -> Vec<Verdict> {
    let (header, body) = (b"From: a@example.org\r\nSubject: x\r\n\r\n", b"Hello.\r\n");
    let options = SigningOptions { domain: keys[0].domain.as_str(), timestamp: 1_800_000_000, expiry: None };
    let mut signer = Signer::new(header, options).unwrap();
    signer.push(body);
    let signers: Vec<_> = keys.iter().map(|key| (key.selector.as_str(), key.signer())).collect();
    let signed = [signer.finish(&signers).unwrap(), header.to_vec()].concat();
    let mut verifier = Verifier::new(&signed);
    verifier.push(body);
    let message = verifier.finish();
    let verdict = |index| {
        let signature = message.signature(index).unwrap();
        let record = published.iter().find(|key| key.selector == signature.selector);
        let texts: Vec<String> = record.iter().map(|key| key.record.clone()).collect();
        let found = if texts.is_empty() { KeyLookup::NotFound } else { KeyLookup::Records(&texts) };
        message.verify(index, found, 1_800_000_000)
    };
    (0..message.len()).map(verdict).collect()
}

#[tokio::test]
async fn a_domain_signs_with_both_algorithms() {
    let fixture = Fixture::new();
    let made = fixture.keys.create("Example.ORG.", fixture.now, &fixture.random).await.unwrap();
    assert_eq!(made.len(), 2);
    let signing = fixture.keys.signing("EXAMPLE.org").await.unwrap();
    let algorithms: Vec<_> = signing.iter().map(|key| key.algorithm).collect();
    assert!(ALGORITHMS.iter().all(|algorithm| algorithms.contains(algorithm)));
    assert!(verdicts(&signing, &made).iter().all(|verdict| matches!(verdict, Verdict::Pass { .. })));
    let again = fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await;
    assert!(again.is_err_and(|e| e.kind() == Kind::Conflict));
    assert_eq!(fixture.keys.domains().await.unwrap(), [DnsName::new(DOMAIN).unwrap()]);
    for none in ["other.example", "not a domain", ""] {
        assert!(fixture.keys.signing(none).await.unwrap().is_empty(), "{none:?}");
    }
    for odd in ["not a domain", "a/b.example", "..", "x@example.org"] {
        let refused = fixture.keys.create(odd, fixture.now, &fixture.random).await;
        assert!(refused.is_err_and(|e| e.kind() == Kind::Invalid), "{odd:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotation_overlaps() {
    let mut fixture = Fixture::new();
    fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    let first = fixture.selectors().await;
    fixture.now = fixture.now.after(DAY);
    let keys = fixture.keys.rotate(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    assert_eq!(keys.iter().filter(|key| key.stage == Stage::Waiting(fixture.now)).count(), 2);
    let again = fixture.keys.rotate(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    assert_eq!(again, keys, "a second rotation waits for the first one");
    tokio::time::advance(KEY_CACHE_TIME).await;
    assert_eq!(fixture.selectors().await, first, "new keys sign only when they are activated");

    let old = fixture.keys.signing(DOMAIN).await.unwrap();
    let keys = fixture.keys.activate(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    let second = fixture.selectors().await;
    assert!(second.len() == 2 && first.iter().all(|selector| !second.contains(selector)));
    let published: Vec<_> = keys.iter().filter(|key| key.stage.is_published(fixture.now)).cloned().collect();
    assert_eq!(published.len(), 4);
    let earlier = verdicts(&old, &published);
    assert!(
        earlier.iter().all(|verdict| matches!(verdict, Verdict::Pass { .. })),
        "mail on its way verifies"
    );
    let has_private = |path: &String| first.iter().any(|s| path.ends_with(s)) && path.contains("/dkim/");
    assert!(!fixture.paths().await.iter().any(has_private), "the private halves are gone");
    let none_waits = fixture.keys.activate(DOMAIN, fixture.now, &fixture.random).await;
    assert!(none_waits.is_err_and(|e| e.kind() == Kind::NotFound));

    let later = fixture.now.after(KEY_OVERLAP);
    assert_eq!(keys.iter().filter(|key| key.stage.is_published(later)).count(), 2);
    let keys = fixture.keys.rotate(DOMAIN, later, &fixture.random).await.unwrap();
    assert!(!keys.iter().any(|key| matches!(key.stage, Stage::Retired(_))));
}

#[tokio::test(start_paused = true)]
async fn other_processes_are_seen_within_a_minute() {
    let fixture = Fixture::new();
    let server = DomainKeys::new(fixture.store.clone(), fixture.keys.0.mail_keys.clone());
    assert!(server.signing(DOMAIN).await.unwrap().is_empty());
    fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    tokio::time::advance(KEY_CACHE_TIME / 2).await;
    assert!(server.signing(DOMAIN).await.unwrap().is_empty(), "the store is asked once a minute");
    tokio::time::advance(KEY_CACHE_TIME / 2).await;
    assert_eq!(server.signing(DOMAIN).await.unwrap().len(), 2);
    fixture.keys.remove(DOMAIN).await.unwrap();
    assert!(fixture.paths().await.is_empty());
    assert!(fixture.keys.signing(DOMAIN).await.unwrap().is_empty());
    tokio::time::advance(KEY_CACHE_TIME).await;
    assert!(server.signing(DOMAIN).await.unwrap().is_empty());
    assert!(fixture.keys.remove(DOMAIN).await.is_err_and(|e| e.kind() == Kind::NotFound));
}

#[tokio::test]
async fn an_interrupted_creation_continues() {
    let fixture = Fixture::new();
    let made = fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    let ed25519 = made.iter().find(|key| key.algorithm == Algorithm::Ed25519Sha256).unwrap();
    let folder = note::folder(&DnsName::new(DOMAIN).unwrap());
    fixture.store.delete(&format!("{folder}/active/{}", ed25519.selector)).await.unwrap();
    let again = fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    assert_eq!(again, made, "the key that was made is used");
    fixture.store.delete(&format!("{folder}/dkim/{}", ed25519.selector)).await.unwrap();
    let again = fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    assert!(again.len() == 2 && again != made);
}

#[tokio::test]
async fn keys_that_cannot_be_opened_sign_nothing() {
    let fixture = Fixture::new();
    let made = fixture.keys.create(DOMAIN, fixture.now, &fixture.random).await.unwrap();
    let domain = DnsName::new(DOMAIN).unwrap();
    let (one, other) = (&made[0].selector, &made[1].selector);
    // What is sealed for another key of the domain, as a writer to the store could put it there.
    let planted = note::path(&domain, note::KEY, one);
    fixture.store.delete(&planted).await.unwrap();
    fixture.store.put_again(&note::path(&domain, note::KEY, other), &planted).await.unwrap();
    let server = DomainKeys::new(fixture.store.clone(), fixture.keys.0.mail_keys.clone());
    let signing = server.signing(DOMAIN).await.unwrap();
    assert_eq!(signing.iter().map(|key| key.selector.as_str()).collect::<Vec<_>>(), [other.as_str()]);
    let listed = server.list(DOMAIN).await;
    assert!(listed.is_err_and(|e| e.kind() == Kind::Corrupt && e.to_string().contains(one)));
    let others = DomainKeys::new(fixture.store.clone(), MailKeys::generate(&SeededRandom::new(9)));
    assert!(others.signing(DOMAIN).await.unwrap().is_empty(), "another mail key opens none");
}

#[tokio::test]
async fn objects_of_a_domain_are_bounded() {
    let fixture = Fixture::new();
    for i in 0..limits::DKIM_DOMAIN_OBJECTS + 2 {
        let path = format!("domains/{DOMAIN}/dkim/rsa-{i}");
        fixture.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    assert!(fixture.keys.signing(DOMAIN).await.is_err_and(|e| e.kind() == Kind::Limit));
    let keys = DomainKeys::new(Store::memory(), fixture.keys.0.mail_keys.clone());
    for i in 0..limits::DKIM_DOMAINS_REMEMBERED + 10 {
        keys.signing(&format!("d{i}.example")).await.unwrap();
    }
    assert_eq!(keys.lock().len(), limits::DKIM_DOMAINS_REMEMBERED);
}
