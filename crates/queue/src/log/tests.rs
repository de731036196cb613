//! One queue on one store: durability, taking over, unknown outcomes.

mod gathering;
mod upkeep;

use std::sync::Arc;

use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use sealpost_base::{FakeClock, SeededRandom, Timestamp, limits};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::{AppendMode, Backend};

use super::*;
use crate::envelope::{Body, Mail};
use crate::event::{Attempted, Failure, Outcome, Status};
use crate::state::tests::mail;

/// With conditional create, and without: there writers agree by siblings (decision 28).
const APPEND_MODES: [AppendMode; 2] = [AppendMode::Conditional, AppendMode::Siblings];

fn store(objects: Arc<dyn ObjectStore>, append_mode: AppendMode) -> Store {
    Store::with(objects, Backend { append_mode })
}

fn memory(append_mode: AppendMode) -> Store {
    store(Arc::new(InMemory::new()), append_mode)
}

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
async fn accepted_mails_survive_reopening() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
        let queue = fixture.open("a").await;
        let ids = join_all((0..50).map(|n| queue.accept(fixture.mail(&format!("u{n}@d.example"))))).await;
        let ids: Vec<MailId> = ids.into_iter().map(|id| id.unwrap()).collect();
        assert_eq!(ids.len(), 50);
        // The adoption, an entry for the first mail, and one for all that arrived meanwhile.
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
}

/// Lets the writer run until it waits.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_durable_soon_without_traffic() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
        let queue = fixture.open("a").await;
        let id = queue.accept(fixture.mail("u@d.example")).await.unwrap();
        let before = queue.state().position();
        queue.record([delivered(id)]);
        let mut changes = queue.changes();
        let wait = changes.wait_for(|position| *position > before);
        tokio::time::timeout(OUTCOME_DELAY * 2, wait).await.unwrap().unwrap();
        assert!(queue.state().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_former_owner_stops_at_its_next_append() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
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
}

#[tokio::test(start_paused = true)]
async fn copies_and_logs_that_went_back_start_on_hold() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
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
    // Mails of the largest size: several entries, none above its limit.
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

/// With any errors of the store, acknowledged mails are there under their ids, and no outcome is lost.
#[tokio::test(start_paused = true)]
async fn lost_replies_lose_and_double_nothing_acknowledged() {
    for append_mode in APPEND_MODES {
        for seed in 0..12 {
            let plan = Plan { fail: 80, lose_reply: 120, ..Plan::default() };
            let faulty = Faulty::new(Arc::new(InMemory::new()), plan, seed);
            let fixture = Fixture::on(store(Arc::new(faulty.clone()), append_mode));
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
}
