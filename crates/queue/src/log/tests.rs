//! One queue on one store: durability, taking over, upkeep, unknown outcomes.

use std::sync::Arc;

use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use sealpost_base::{FakeClock, SeededRandom, Timestamp, limits};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Backend;

use super::gather::{APART, GATHER, RIDE};
use super::*;
use crate::envelope::{Body, Mail};
use crate::event::{Attempted, Failure, Outcome, Status};
use crate::state::tests::mail;

struct Fixture {
    store: Store,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    keys: MailKeys,
}

impl Fixture {
    fn on(store: Store) -> Self {
        let random = Arc::new(SeededRandom::new(9));
        let keys = MailKeys::generate(&*random);
        Fixture {
            store,
            clock: Arc::new(FakeClock::new(Timestamp::from_seconds(1_700_000_000))),
            random,
            keys,
        }
    }

    async fn open_known(&self, name: &str, known: Position) -> Result<Queue> {
        let opening = Opening {
            store: self.store.clone(),
            node: crate::node_id("a"),
            name: name.to_owned(),
            log_key: LogKey::for_tests(),
            mail_keys: self.keys.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            budget: Budget::new(64 << 20),
            known,
        };
        let queue = Queue::open(opening).await?;
        let running = queue.clone();
        tokio::spawn(async move { running.run().await });
        Ok(queue)
    }

    async fn open(&self, name: &str) -> Queue {
        self.open_known(name, Position::ZERO).await.unwrap()
    }

    fn mail(&self, to: &str) -> Mail {
        mail(self.clock.now(), 1, &[to])
    }
}

fn delivered(mail: MailId) -> Event {
    let outcomes = vec![(0, Outcome::Delivered)];
    Event::Attempted(Attempted { mail, outcomes, attempts: 1, next: Timestamp(0) })
}

fn deferred(mail: MailId, next: Timestamp) -> Event {
    let failure = Failure::at("mx.example", Status::new(4, 4, 1), "450 later", true);
    let outcomes = vec![(0, Outcome::Deferred(failure))];
    Event::Attempted(Attempted { mail, outcomes, attempts: 1, next })
}

async fn closed(queue: Queue) {
    queue.close();
    while queue.stopped().is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_there_after_reopening() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let ids = join_all((0..50).map(|n| queue.accept(fixture.mail(&format!("u{n}@d.example"))))).await;
    let ids: Vec<MailId> = ids.into_iter().map(|id| id.unwrap()).collect();
    assert_eq!(ids.len(), 50);
    // Together: an entry for the first, and one for all that came meanwhile; and the adoption.
    assert!(queue.state().position().0 <= 4, "{}", queue.state().position());
    queue.record([delivered(ids[0]), deferred(ids[1], Timestamp::from_seconds(1_700_000_300))]);
    closed(queue).await;
    let again = fixture.open("a").await;
    assert_eq!(again.state().len(), 49);
    assert_eq!(again.read(ids[49]).await.unwrap().recipients[0].address, "u49@d.example");
    assert!(again.read(ids[0]).await.is_err_and(|e| e.kind() == Kind::NotFound));
    assert_eq!(again.state().left(ids[1], 0).unwrap().unwrap().text, "450 later");
    let stored = fixture.store.list("queue", None);
    let stored: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(stored).await.unwrap();
    for object in stored {
        let bytes = fixture.store.read(&object.path).await.unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"sender"), "{} says who sends", object.path);
    }
}

/// Lets the writer do what it can.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

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
    // One of them does not come again: the others do not wait for long.
    let begun = tokio::time::Instant::now();
    join_all([accept(6), accept(7)]).await;
    assert!(begun.elapsed() <= 2 * GATHER, "{:?}", begun.elapsed());
    assert_eq!(queue.state().position().0, before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_lone_mail_does_not_wait() {
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
    // Nobody comes: not for long.
    let begun = tokio::time::Instant::now();
    queue.mark_sending(MailId(2)).await.unwrap();
    assert!(begun.elapsed() <= 2 * RIDE, "{:?}", begun.elapsed());
    closed(queue).await;
    let again = fixture.open("b").await;
    assert_eq!(again.state().totals().repeated, 3);
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_durable_soon_without_traffic() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let id = queue.accept(fixture.mail("u@d.example")).await.unwrap();
    let before = queue.state().position();
    queue.record([delivered(id)]);
    let mut changes = queue.changes();
    let wait = changes.wait_for(|position| *position > before);
    tokio::time::timeout(OUTCOME_DELAY * 2, wait).await.unwrap().unwrap();
    assert!(queue.state().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_former_owner_stops_at_its_next_append() {
    let fixture = Fixture::on(Store::memory());
    let first = fixture.open("a").await;
    let id = first.accept(fixture.mail("u@d.example")).await.unwrap();
    let second = fixture.open("b").await;
    assert!(first.accept(fixture.mail("v@d.example")).await.is_err());
    assert_eq!(first.stopped(), Some(Stopped::Adopted("b".to_owned())));
    assert!(first.accept(fixture.mail("v@d.example")).await.is_err());
    assert_eq!(second.state().len(), 1);
    second.commit(vec![Event::Sending(id)]).await.unwrap();
    let third = fixture.open("a").await;
    assert_eq!(third.state().totals().repeated, 1);
}

#[tokio::test(start_paused = true)]
async fn upkeep_keeps_what_is_queued_and_trims_the_rest() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let mut staying = Vec::new();
    for round in 0..6 {
        for n in 0..20 {
            let id = queue.accept(fixture.mail(&format!("u{round}-{n}@d.example"))).await.unwrap();
            if n == 0 {
                staying.push((id, format!("u{round}-{n}@d.example")));
            } else {
                queue.commit(vec![delivered(id)]).await.unwrap();
            }
        }
        queue.upkeep().await.unwrap();
    }
    // Most of what the first segments have is delivered, and they are carried on.
    for (id, _) in staying.drain(..4) {
        queue.commit(vec![delivered(id)]).await.unwrap();
    }
    queue.upkeep().await.unwrap();
    queue.upkeep().await.unwrap();
    let count = async |folder: &str| {
        let folder = format!("queue/{}/{folder}", crate::node_id("a"));
        futures::StreamExt::count(fixture.store.list(&folder, None)).await
    };
    assert!(count("log").await < 60, "{} entries", count("log").await);
    assert!(count("segment").await <= 3);
    // Two checkpoints, and a witness of each.
    assert_eq!(count("manifest").await, 4);
    closed(queue).await;
    let again = fixture.open("a").await;
    assert_eq!(again.state().len(), staying.len());
    for (id, address) in staying {
        assert_eq!(again.read(id).await.unwrap().recipients[0].address, address);
    }
}

/// Accepts a mail for `address`, and another one behind it.
async fn accept_two(fixture: &Fixture, queue: &Queue, address: &str) -> MailId {
    let id = queue.accept(fixture.mail(address)).await.unwrap();
    queue.accept(fixture.mail("behind@d.example")).await.unwrap();
    id
}

/// The address of the first recipient, as a process reads it that has nothing of it in memory.
async fn address_of(fixture: &Fixture, id: MailId) -> String {
    let queue = fixture.open("reader").await;
    let mail = queue.read(id).await.unwrap();
    mail.recipients[0].address.clone()
}

/// The node was suspended between its checkpoint and the removal of segments.
#[tokio::test(start_paused = true)]
async fn late_upkeep_of_a_former_owner_removes_no_segment() {
    let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let fixture = Fixture::on(Store::with(Arc::new(faulty.clone()), Backend::default()));
    let former = fixture.open("a").await;
    let id = accept_two(&fixture, &former, "u@d.example").await;
    let mut held = faulty.hold_listing("/segment", 0);
    let upkeep = {
        let former = former.clone();
        tokio::spawn(async move { former.upkeep().await })
    };
    held.reached().await;
    let owner = fixture.open("b").await;
    owner.upkeep().await.unwrap();
    let segments = fixture.store.list(&format!("queue/{}/segment", crate::node_id("a")), None);
    assert_eq!(futures::StreamExt::count(segments).await, 1, "the mail was not carried");
    drop(held);
    let done = upkeep.await.unwrap();
    assert_eq!(address_of(&fixture, id).await, "u@d.example");
    assert!(done.is_err(), "it does not run the queue any more");
    assert_eq!(former.stopped(), Some(Stopped::Adopted("b".to_owned())));
}

/// What it deletes after it was still the owner was superfluous then, and stays so.
#[tokio::test(start_paused = true)]
async fn upkeep_between_two_reigns_removes_no_segment() {
    let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let fixture = Fixture::on(Store::with(Arc::new(faulty.clone()), Backend::default()));
    let node = fixture.open("a").await;
    let id = accept_two(&fixture, &node, "u@d.example").await;
    let mut held = faulty.hold_listing("/segment", 0);
    let upkeep = {
        let node = node.clone();
        tokio::spawn(async move { node.upkeep().await })
    };
    held.reached().await;
    let other = fixture.open("b").await;
    other.upkeep().await.unwrap();
    assert!(node.accept(fixture.mail("v@d.example")).await.is_err());
    settle().await;
    assert!(node.take_back("a").await.is_err_and(|e| e.kind() == Kind::Retry));
    drop(held);
    // It has read what the other one recorded: nothing is superfluous, or it refuses.
    let _ = upkeep.await.unwrap();
    node.take_back("a").await.unwrap();
    let running = node.clone();
    tokio::spawn(async move { running.run().await });
    node.upkeep().await.unwrap();
    node.upkeep().await.unwrap();
    assert_eq!(address_of(&fixture, id).await, "u@d.example");
}

/// It wrote its checkpoint after the owner had loaded the log: mail before it is not carried.
#[tokio::test(start_paused = true)]
async fn a_former_owners_checkpoint_lets_no_mail_be_trimmed() {
    for former_goes_on in [false, true] {
        let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let fixture = Fixture::on(Store::with(Arc::new(faulty.clone()), Backend::default()));
        let former = fixture.open("a").await;
        former.upkeep().await.unwrap();
        let id = accept_two(&fixture, &former, "u@d.example").await;
        let owner = fixture.open("b").await;
        if former_goes_on {
            // It trims after the owner's checkpoint.
            let mut held = faulty.hold_listing("/history", 0);
            let upkeep = {
                let former = former.clone();
                tokio::spawn(async move { former.upkeep().await })
            };
            held.reached().await;
            owner.upkeep().await.unwrap();
            drop(held);
            let _ = upkeep.await.unwrap();
        } else {
            let _ = former.upkeep().await;
            owner.upkeep().await.unwrap();
        }
        assert_eq!(address_of(&fixture, id).await, "u@d.example", "{former_goes_on}");
        owner.close();
        // Carried the next time, and trimmed then.
        let again = fixture.open("c").await;
        again.upkeep().await.unwrap();
        again.upkeep().await.unwrap();
        assert_eq!(address_of(&fixture, id).await, "u@d.example");
        assert!(matches!(again.state().rows().get(id).unwrap().place, Place::Segment(..)));
    }
}

/// The log was loaded from the checkpoint before it, so that mail between the two is not carried.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_cannot_be_read_trims_no_mail() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    queue.upkeep().await.unwrap();
    let id = accept_two(&fixture, &queue, "u@d.example").await;
    queue.upkeep().await.unwrap();
    let newest = queue.inner().work.lock().await.checkpoint;
    closed(queue).await;
    let chunks = fixture.store.list(&format!("queue/{}/snap/{:016x}", crate::node_id("a"), newest.0), None);
    let chunks: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(chunks).await.unwrap();
    assert!(!chunks.is_empty());
    for chunk in chunks {
        fixture.store.delete(&chunk.path).await.unwrap();
    }
    let queue = fixture.open("a").await;
    queue.upkeep().await.unwrap();
    closed(queue).await;
    assert_eq!(address_of(&fixture, id).await, "u@d.example");
}

/// The store answers wrongly just when the mail is to be carried.
#[tokio::test(start_paused = true)]
async fn a_mail_that_cannot_be_read_keeps_its_entry() {
    let objects = Arc::new(InMemory::new());
    let fixture = Fixture::on(Store::with(objects.clone(), Backend::default()));
    let queue = fixture.open("a").await;
    queue.upkeep().await.unwrap();
    let id = accept_two(&fixture, &queue, "u@d.example").await;
    let Place::Entry(at, _) = queue.state().rows().get(id).unwrap().place else { panic!("not an entry") };
    queue.upkeep().await.unwrap();
    closed(queue).await;
    // Nothing of the mail is in memory.
    let queue = fixture.open("a").await;
    let path = format!("queue/{}/log/{:016x}", crate::node_id("a"), at.0).into();
    let right = objects.get(&path).await.unwrap().bytes().await.unwrap();
    objects.put(&path, vec![b'?'; right.len()].into()).await.unwrap();
    assert_eq!(queue.read(id).await.err().unwrap().kind(), sealpost_base::Kind::Corrupt);
    queue.upkeep().await.unwrap();
    objects.get(&path).await.expect("the entry is there");
    objects.put(&path, right.into()).await.unwrap();
    queue.upkeep().await.unwrap();
    closed(queue).await;
    assert_eq!(address_of(&fixture, id).await, "u@d.example");
}

#[tokio::test(start_paused = true)]
async fn an_old_body_without_a_mail_is_removed() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let body = async || {
        let mut writer = queue.begin_body(100);
        for _ in 0..100 {
            writer.write(&[b'x'; 1000]).await.unwrap();
        }
        writer.finish().await.unwrap()
    };
    let (kept, _orphan) = (body().await, body().await);
    let mut small = queue.begin_body(100);
    small.write(b"small").await.unwrap();
    assert!(matches!(small.finish().await.unwrap(), Body::Inline(bytes) if bytes == b"small"));
    let mut large = fixture.mail("u@d.example");
    large.facts.size = 100_000;
    large.body = kept;
    queue.accept(large).await.unwrap();
    // More was expected of its header than came, so that its body is an object although it is small.
    let mut writer = queue.begin_body(8192);
    writer.write(&[b'x'; 58_000]).await.unwrap();
    let mut small = fixture.mail("v@d.example");
    (small.facts.size, small.body) = (58_000, writer.finish().await.unwrap());
    assert!(matches!(small.body, Body::Object(_)));
    queue.accept(small).await.unwrap();
    let bodies = async || {
        futures::StreamExt::count(fixture.store.list(&format!("queue/{}/body", crate::node_id("a")), None))
            .await
    };
    queue.upkeep().await.unwrap();
    assert_eq!(bodies().await, 3, "they are new");
    closed(queue).await;
    fixture.clock.advance(std::time::Duration::from_secs(40 * 365 * 86_400));
    let again = fixture.open("a").await;
    again.upkeep().await.unwrap();
    assert_eq!(bodies().await, 3, "by the store's clock they are new");
    again.remove_bodies(Duration::ZERO).await.unwrap();
    assert_eq!(bodies().await, 2);
}

#[tokio::test(start_paused = true)]
async fn copies_and_logs_that_went_back_start_on_hold() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    queue.accept(fixture.mail("u@d.example")).await.unwrap();
    let end = queue.state().position();
    closed(queue).await;
    let queue = fixture.open_known("a", end).await.unwrap();
    assert_eq!(queue.state().all_held(), None);
    closed(queue).await;
    let queue = fixture.open_known("a", Position(end.0 + 100)).await.unwrap();
    assert!(queue.state().all_held().is_some_and(|why| why.contains("went") || why.contains("restored")));
    queue.commit(vec![Event::AllReleased]).await.unwrap();
    closed(queue).await;
    mark_copy(&fixture.store).await.unwrap();
    let queue = fixture.open("a").await;
    assert!(queue.state().all_held().is_some());
    queue.commit(vec![Event::AllReleased]).await.unwrap();
    closed(queue).await;
    assert_eq!(fixture.open("a").await.state().all_held(), None);
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_mail_are_checked() {
    let fixture = Fixture::on(Store::memory());
    let queue = fixture.open("a").await;
    let mut large = fixture.mail("u@d.example");
    large.body = Body::Inline(vec![b'x'; limits::QUEUE_INLINE_BYTES]);
    assert!(queue.accept(large).await.is_err_and(|e| e.kind() == Kind::Limit));
    let mut many = fixture.mail("u@d.example");
    many.recipients = vec![many.recipients[0].clone(); limits::QUEUE_RECIPIENTS + 1];
    assert!(queue.accept(many).await.is_err_and(|e| e.kind() == Kind::Limit));
    let mut long = fixture.mail("u@d.example");
    long.recipients[0].address = format!("{}@d.example", "x".repeat(500));
    long.recipients = vec![long.recipients[0].clone(); limits::QUEUE_RECIPIENTS];
    assert!(queue.accept(long).await.is_err_and(|e| e.kind() == Kind::Limit));
    // As large as they may be: several entries, none above its limit.
    let largest = || {
        let mut mail = fixture.mail("u@d.example");
        mail.body = Body::Inline(vec![b'x'; limits::QUEUE_INLINE_BYTES - mail.header.len()]);
        mail
    };
    let accepted = join_all((0..40).map(|_| queue.accept(largest()))).await;
    assert!(accepted.iter().all(Result::is_ok));
    let listed = fixture.store.list(&format!("queue/{}/log", crate::node_id("a")), None);
    let listed: Vec<_> = futures::TryStreamExt::try_collect(listed).await.unwrap();
    let listed: Vec<sealpost_vault::ListedObject> = listed;
    assert!(listed.iter().all(|entry| entry.size <= (limits::QUEUE_ENTRY_BYTES + 128 * 1024) as u64));
    assert!(listed.len() >= 4);
}

/// Whatever the store answers: what was acknowledged is there, in the order of ids, and no outcome is lost.
#[tokio::test(start_paused = true)]
async fn lost_replies_lose_and_double_nothing_acknowledged() {
    for seed in 0..12 {
        let plan = Plan { fail: 80, lose_reply: 120, ..Plan::default() };
        let faulty = Faulty::new(Arc::new(InMemory::new()), plan, seed);
        let fixture = Fixture::on(Store::with(Arc::new(faulty.clone()), Backend::default()));
        faulty.calm(true);
        let queue = fixture.open("a").await;
        faulty.calm(false);
        let (mut acknowledged, mut gone) = (Vec::new(), Vec::new());
        for round in 0..20 {
            let accepted =
                join_all((0..5).map(|n| queue.accept(fixture.mail(&format!("u{round}-{n}@d.example")))))
                    .await;
            for (n, id) in accepted.into_iter().enumerate() {
                let Ok(id) = id else { continue };
                if n == 0 {
                    queue.record([delivered(id)]);
                    gone.push(id);
                } else {
                    acknowledged.push((id, format!("u{round}-{n}@d.example")));
                }
            }
        }
        faulty.calm(true);
        closed(queue).await;
        let again = fixture.open("a").await;
        assert!(acknowledged.len() > 40, "seed {seed}: {}", acknowledged.len());
        for (id, address) in &acknowledged {
            assert_eq!(&again.read(*id).await.unwrap().recipients[0].address, address, "seed {seed}");
        }
        for id in gone {
            assert!(again.state().rows().get(id).is_none(), "seed {seed}: {id} is not delivered");
        }
    }
}

/// The same as the local store counts it: acceptances of a moment share a sync, and outcomes have
/// none of their own.
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
