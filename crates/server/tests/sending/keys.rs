//! The mail key, and queues that this node must not send.

use std::time::Duration;

use sealpost_base::{Kind, SeededRandom};
use sealpost_queue::event::Event;
use sealpost_vault::Sealed;
use sealpost_vault::mail_key::MailKeys;

use crate::world::{Answer, World};

#[tokio::test]
async fn a_node_without_a_queues_mail_key_names_the_file() {
    let world = World::new().await;
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@nowhere.example"])).await.unwrap();
    node.stop().await;
    let path = world.data.path().join("mail.key");
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The same node, and another one.
    for data in [world.data.path().to_owned(), tempfile::tempdir().unwrap().keep()] {
        let error = world.try_start(&data).await.err().expect("it must not start");
        assert_eq!(error.kind(), Kind::Corrupt);
        let text = error.to_string();
        assert!(text.contains("mail.key is missing") && text.contains("copy it from another node"), "{text}");
        assert!(!data.join("mail.key").exists(), "no second key is made");
        let random = SeededRandom::new(9);
        MailKeys::load_or_create(&data.join("mail.key"), &random).unwrap();
        let text = world.try_start(&data).await.err().expect("nor with another key").to_string();
        assert!(text.contains("does not open the queued mail: copy mail.key"), "{text}");
        std::fs::remove_file(data.join("mail.key")).unwrap();
    }
    std::fs::write(&path, kept).unwrap();
    let node = world.start().await;
    assert!(node.sending.problem().is_none());
    node.stop().await;
}

#[tokio::test]
async fn noise_stops_no_node_that_makes_its_mail_key() {
    let world = World::new().await;
    let id = sealpost_queue::node_id("planted");
    let noise = [
        "push/key".to_owned(),
        "push/keys/01".to_owned(),
        format!("push/accounts/{id}/0000000000000001"),
        "push/elsewhere".to_owned(),
        "domains/example.org/dkim/rsa-20261127-abcd".to_owned(),
        format!("vacations/{id}/0000000000000001"),
        format!("queue/{id}/log/0000000000000001"),
        format!("queue/{id}/log/ffffffffffffffff"),
        "queue/strange".to_owned(),
    ];
    for path in &noise {
        world.store.put_new(path, Sealed::marker()).await.unwrap();
    }
    world.start().await.stop().await;
    assert!(world.data.path().join("mail.key").exists());
}

#[tokio::test]
async fn objects_that_look_sealed_let_no_key_be_made() {
    for path in ["push/key", "push/keys/2a", "domains/example.org/active/rsa-20261127-abcd"] {
        let world = World::new().await;
        let (random, label) = (SeededRandom::new(9), "some label");
        let foreign = MailKeys::generate(&random);
        world.store.put_new(path, foreign.seal_note(label, path, b"text", &random)).await.unwrap();
        let error = world.try_start(world.data.path()).await.err().expect("it must not start");
        assert_eq!(error.kind(), Kind::Corrupt);
        let text = error.to_string();
        assert!(text.contains("mail.key is missing") && text.contains(path), "{text}");
        assert!(text.contains("never had a mail key") && text.contains("remove it"), "{text}");
        assert!(!world.data.path().join("mail.key").exists(), "no second key is made");
        world.store.delete(path).await.unwrap();
        world.start().await.stop().await;
    }
}

/// Objects behind the end of another node's log hide nothing.
#[tokio::test]
async fn noise_behind_a_queue_lets_no_wrong_key_in() {
    let world = World::new().await;
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@nowhere.example"])).await.unwrap();
    node.stop().await;
    let queues = world.store.names_below("queue").await.unwrap();
    for position in ["0000000000000100", "ffffffffffffffff"] {
        let path = format!("queue/{}/log/{position}", queues[0]);
        world.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    let other = tempfile::tempdir().unwrap();
    MailKeys::load_or_create(&other.path().join("mail.key"), &SeededRandom::new(9)).unwrap();
    let text = world.try_start(other.path()).await.err().expect("it must not start").to_string();
    assert!(text.contains("does not open the queued mail"), "{text}");
    let node = world.start().await;
    assert!(node.sending.problem().is_none());
    node.stop().await;
}

#[tokio::test]
async fn a_restored_queue_is_on_hold() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@there.example"])).await.unwrap();
    node.deferred(1).await;
    node.stop().await;
    // What this node has seen of its queue is in the data directory, and outlives the store's state.
    let file = world.data.path().join("queue.node");
    let text = std::fs::read_to_string(&file).unwrap();
    let (name, known) = text.trim_end().split_once('\n').unwrap();
    assert!(known.parse::<u64>().unwrap() > 2, "{text}");
    std::fs::write(&file, format!("{name}\n1000\n")).unwrap();
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    world.clock.advance(Duration::from_secs(3600));
    let node = world.start().await;
    assert!(node.sending.queue().state().all_held().is_some());
    node.sending.queue().accept(world.mail(&["jane@there.example"])).await.unwrap();
    assert!(peer.messages().is_empty());
    node.sending.queue().commit(vec![Event::AllReleased]).await.unwrap();
    node.drained().await;
    assert_eq!(peer.messages().len(), 2);
    node.stop().await;
}
