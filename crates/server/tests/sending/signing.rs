//! Signatures of mail that is converted for a server that takes 7 bits only.

use std::sync::Arc;

use sealpost_base::{Clock, Random, SeededRandom};
use sealpost_directory::{AccountName, NewAccount, Secret};
use sealpost_mailauth::dkim::{KeyLookup, Verdict, Verifier};
use sealpost_queue::envelope::{Recipient, Source, TlsDemand};
use sealpost_submission::domain_keys::{DomainKeys, KeyInfo};
use sealpost_submission::outbox::Order;

use crate::world::{Answer, Node, World};

const DOMAIN: &str = "signed.example";

/// Submits a message; with an account, so that the domain is served here.
async fn submit(node: &Node, message: &str) {
    let order = Order {
        account: None,
        from: format!("me@{DOMAIN}"),
        recipients: vec![Recipient::new("jane@there.example")],
        ret: None,
        envid: None,
        release: None,
        tls: TlsDemand::Policy,
        trace: b"Received: by localhost; now\r\n".to_vec(),
        source: Source::Submission,
    };
    let mut submission = node.sending.outbox().begin(order);
    submission.write(message.as_bytes()).await.unwrap();
    submission.finish().await.unwrap();
}

/// What a receiving server finds.
fn verdicts(message: &[u8], keys: &[KeyInfo], now: u64) -> Vec<Verdict> {
    let end = message.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let mut verifier = Verifier::new(&message[..end]);
    verifier.push(&message[end..]);
    let message = verifier.finish();
    let verdict = |index| {
        let Some(signature) = message.signature(index) else {
            return message.verify(index, KeyLookup::Records(&[]), now);
        };
        let key = keys.iter().find(|key| key.selector == signature.selector).expect("a key of this server");
        message.verify(index, KeyLookup::Records(std::slice::from_ref(&key.record)), now)
    };
    (0..message.len()).map(verdict).collect()
}

#[tokio::test]
async fn mail_made_seven_bit_is_signed_again_and_verifies() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    // It does not offer 8BITMIME.
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = world.start().await;
    let name = AccountName::parse(&format!("me@{DOMAIN}")).unwrap();
    let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
    node.ctx.directory.create(&name, new).await.unwrap();
    let (now, random): (_, Arc<dyn Random>) = (world.clock.now(), Arc::new(SeededRandom::new(5)));
    let keys = DomainKeys::new(world.store.clone(), node.sending.mail_keys().clone());
    keys.create(DOMAIN, now, &random).await.unwrap();
    let message = format!(
        "From: Me <me@{DOMAIN}>\r\nTo: jane@there.example\r\nSubject: x\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
         Gr\u{fc}\u{df}e  \r\n.\r\n{}\r\n",
        "caf\u{e9} ".repeat(2000)
    );
    submit(&node, &message).await;
    node.drained().await;
    peer.got(1).await;
    let got = peer.messages().remove(0);
    assert!(got.is_ascii() && !got.contains("BODY=8BITMIME"), "nothing of 8 bits is left");
    let start = got.find("DKIM-Signature: ").expect("it is signed");
    let sent = got[start..].strip_suffix(".\r\n").unwrap().replace("\r\n..", "\r\n.");
    assert!(
        sent.contains("Content-Transfer-Encoding: quoted-printable\r\n") && sent.contains("Gr=C3=BC=C3=9Fe")
    );
    let keys = keys.list(DOMAIN).await.unwrap();
    let at = u64::try_from(now.seconds()).unwrap();
    let pass = Verdict::Pass { unsigned_body_bytes: 0, is_testing: false };
    let found = verdicts(sent.as_bytes(), &keys, at);
    assert_eq!(found, [pass, pass], "one signature of each key, and none of before");
    // A byte of what was signed.
    for change in ["Subject: x", "Gr=C3=BC=C3=9Fe", "From: Me"] {
        let other = sent.replacen(change, &change.replace(['x', 'G', 'M'], "y"), 1);
        assert_ne!(other, sent);
        assert!(!verdicts(other.as_bytes(), &keys, at).contains(&pass), "{change}");
    }
    node.stop().await;
}
