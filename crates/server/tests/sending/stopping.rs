//! Stopping, restarting, and queues that have stopped.

use std::time::Duration;

use crate::world::{Answer, World};

#[tokio::test]
async fn queued_mail_is_sent_after_a_restart() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@there.example"])).await.unwrap();
    node.deferred(1).await;
    node.stop().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    world.clock.advance(Duration::from_secs(3600));
    let node = world.start().await;
    node.drained().await;
    assert_eq!(peer.messages().len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn mail_on_its_way_at_a_stop_is_sent_once() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let peer = world.peers.put_waiting("192.0.2.1");
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@there.example"])).await.unwrap();
    peer.got(1).await;
    let sending = node.sending.clone();
    sending.begin_stop();
    node.sending.queue().accept(world.mail(&["late@there.example"])).await.unwrap();
    let stopping = tokio::spawn(node.stop());
    peer.answer_one();
    stopping.await.unwrap();
    assert_eq!(peer.messages().len(), 1);
    // What was accepted while it stopped is there, and what was sent is not.
    peer.answer_one();
    let node = world.start().await;
    assert_eq!(node.sending.queue().state().totals().repeated, 0);
    node.drained().await;
    let messages = peer.messages();
    assert_eq!(messages.len(), 2);
    assert!(messages[1].contains("late@there.example"), "{}", messages[1]);
    node.stop().await;
}

#[tokio::test]
async fn a_queue_adopted_by_another_process_stops_and_reports() {
    let world = World::new().await;
    let node = world.start().await;
    assert!(node.sending.problem().is_none());
    let other = world.start().await;
    other.sending.queue().accept(world.mail(&["you@localhost"])).await.unwrap();
    let refused = node.sending.queue().accept(world.mail(&["you@localhost"])).await;
    assert!(refused.is_err_and(|e| e.kind() == sealpost_base::Kind::Retry));
    let problem = node.sending.problem().unwrap();
    assert!(problem.contains("has taken the queue over"), "{problem}");
    other.drained().await;
    assert_eq!(other.inbox(&world, "you").await.len(), 1);
    other.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_queue_whose_memory_is_full_takes_no_mail() {
    let world = World::new().await;
    let node = world.start().await;
    node.sending.queue().set_full(true);
    let refused = node.sending.queue().accept(world.mail(&["you@localhost"])).await;
    assert!(refused.is_err_and(|e| e.kind() == sealpost_base::Kind::Limit), "a client gets 452");
    node.stop().await;
}
