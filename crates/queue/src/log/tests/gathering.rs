//! Clients and marks that share an entry.

use super::*;
use crate::log::gather::{APART, GATHER, RIDE};

#[tokio::test(start_paused = true)]
async fn an_entry_waits_for_those_that_came_before() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let accept = |n: usize| {
        let (queue, mail) = (queue.clone(), fixture.mail(&format!("u{n}@d.example")));
        tokio::spawn(async move { queue.accept(mail).await.unwrap() })
    };
    let together: Vec<_> = (0..3).map(accept).collect();
    join_all(together).await;
    let before = queue.state().position().0;
    let mut one_by_one = Vec::new();
    for n in 3..6 {
        one_by_one.push(accept(n));
        settle().await;
    }
    join_all(one_by_one).await;
    assert_eq!(queue.state().position().0, before + 1, "three clients did not share an entry");
    // One client does not return: the others do not wait for long.
    let begun = tokio::time::Instant::now();
    join_all([accept(6), accept(7)]).await;
    assert!(begun.elapsed() <= 2 * GATHER, "{:?}", begun.elapsed());
    assert_eq!(queue.state().position().0, before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_lone_mail_waits_for_no_other() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    join_all((0..20).map(|n| queue.accept(fixture.mail(&format!("u{n}@d.example"))))).await;
    tokio::time::advance(APART).await;
    let begun = tokio::time::Instant::now();
    let id = queue.accept(fixture.mail("v@d.example")).await.unwrap();
    queue.mark_sending(id).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn marks_go_with_mail_that_is_accepted() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let accept = |n: usize| queue.accept(fixture.mail(&format!("u{n}@d.example")));
    let ids = join_all((0..2).map(accept)).await;
    let before = queue.state().position().0;
    let marks: Vec<_> = ids.into_iter().map(|id| tokio::spawn(queue.mark_sending(id.unwrap()))).collect();
    settle().await;
    assert_eq!(queue.state().position().0, before, "a mark did not wait");
    join_all((2..4).map(accept)).await;
    assert_eq!(queue.state().position().0, before + 1);
    for marked in marks {
        marked.await.unwrap().unwrap();
    }
    // No client comes: the mark does not wait for long.
    let begun = tokio::time::Instant::now();
    queue.mark_sending(MailId(2)).await.unwrap();
    assert!(begun.elapsed() <= 2 * RIDE, "{:?}", begun.elapsed());
    closed(queue).await;
    let again = fixture.open("b").await;
    assert_eq!(again.state().totals().repeated, 3);
}

/// Counted by the local store: mails of one moment share a sync, and outcomes need none of their own.
#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Arc::new(Fixture::on(Store::local(dir.path()).await.unwrap()));
    let queue = fixture.open("a").await;
    let before = fixture.store.stats().fsyncs;
    let clients = (0..10).map(|client| {
        let (queue, fixture) = (queue.clone(), fixture.clone());
        tokio::spawn(async move {
            for n in 0..40 {
                let mut mail = fixture.mail(&format!("u{client}-{n}@d.example"));
                mail.body = Body::Inline(vec![b'x'; 5000]);
                let id = queue.accept(mail).await.unwrap();
                queue.record([Event::Sending(id), delivered(id)]);
            }
        })
    });
    join_all(clients).await.into_iter().for_each(|done| done.unwrap());
    let syncs = fixture.store.stats().fsyncs - before;
    assert!(syncs <= 400 / 4, "{syncs} syncs for 400 mails");
    let mut one = fixture.mail("u@d.example");
    one.body = Body::Inline(vec![b'x'; limits::QUEUE_INLINE_BYTES - one.header.len()]);
    closed(queue).await;
    let queue = fixture.open("a").await;
    let before = fixture.store.stats().fsyncs;
    queue.accept(one).await.unwrap();
    assert_eq!(fixture.store.stats().fsyncs - before, 1, "64 KiB are durable with one sync");
}
