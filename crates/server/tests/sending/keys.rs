//! The mail key, and queues that this node must not send.

use std::time::Duration;

use sealpost_base::{Kind, SeededRandom};
use sealpost_queue::event::Event;
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
