//! Traces mail through trimming and restarts.

use std::sync::Arc;

use sealpost_base::{Budget, Clock, FakeClock, Kind, SeededRandom};
use sealpost_vault::entry::LogKey;

use super::*;
use crate::event::{Held, Status};
use crate::state::tests::mail;
use crate::trace::{Trace, Traced};
use crate::{MailId, Opening, Queue, QueueView};

struct Fixture {
    store: Store,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    keys: MailKeys,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(9));
        let clock = Arc::new(FakeClock::new(Timestamp::from_seconds(1_700_000_000)));
        Fixture { store: Store::memory(), clock, keys: MailKeys::generate(&*random), random }
    }

    fn node() -> AccountId {
        crate::node_id("a")
    }

    async fn open(&self) -> Queue {
        let opening = Opening {
            store: self.store.clone(),
            node: Self::node(),
            name: "a".to_owned(),
            log_key: LogKey::for_tests(),
            mail_keys: self.keys.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            budget: Budget::new(64 << 20),
            known: Position::ZERO,
        };
        let queue = Queue::open(opening).await.unwrap();
        let running = queue.clone();
        tokio::spawn(async move { running.run().await });
        queue
    }

    async fn accept(&self, queue: &Queue, to: &str) -> MailId {
        let message_id = Some(format!("<{to}>"));
        queue.accept(Mail { message_id, ..mail(self.clock.now(), 1, &[to]) }).await.unwrap()
    }

    async fn trace(&self, wanted: &str, limit: usize) -> Trace {
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let key = LogKey::for_tests();
        let view = QueueView::open(self.store.clone(), Self::node(), &key, self.keys.clone(), clock, random);
        view.await.unwrap().trace(&Traced::parse(wanted), limit).await.unwrap()
    }

    async fn objects(&self) -> Vec<String> {
        let listed = self.store.list(&folder(Self::node()), None).map_ok(|object| object.path);
        listed.try_collect().await.unwrap()
    }
}

async fn closed(queue: Queue) {
    queue.close();
    while queue.stopped().is_none() {
        tokio::task::yield_now().await;
    }
}

fn attempted(mail: MailId, outcome: Outcome, attempts: u8) -> Event {
    Event::Attempted(Attempted { mail, outcomes: vec![(0, outcome)], attempts, next: Timestamp(0) })
}

fn later() -> Outcome {
    Outcome::Deferred(Failure::at("mx.example", Status::new(4, 7, 1), "450 4.7.1 later", true))
}

/// The steps of a mail, in short.
fn steps(trace: &Trace, id: MailId) -> String {
    let step = |(_, event): &(Timestamp, Event)| match event {
        Event::Attempted(attempted) => match &attempted.outcomes[0].1 {
            Outcome::Deferred(_) => "deferred",
            Outcome::Failed(_) => "failed",
            _ => "delivered",
        },
        Event::Held(_) => "held",
        Event::Released(_) => "released",
        Event::Removed(_) => "removed",
        _ => "other",
    };
    trace.mails[&id].steps.iter().map(step).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_followed_after_its_entries_were_trimmed() {
    let fixture = Fixture::new();
    let mut queue = fixture.open().await;
    let first = fixture.accept(&queue, "First@there.example").await;
    queue.commit(vec![attempted(first, later(), 1)]).await.unwrap();
    for round in 0..4 {
        for n in 0..5 {
            let id = fixture.accept(&queue, &format!("u{round}-{n}@other.example")).await;
            queue.commit(vec![attempted(id, Outcome::Delivered, 1)]).await.unwrap();
        }
        queue.upkeep().await.unwrap();
        closed(queue).await;
        queue = fixture.open().await;
    }
    let held = Held { mail: first, until: Timestamp::from_seconds(1_700_009_000), rule: 0 };
    queue.commit(vec![Event::Held(held)]).await.unwrap();
    queue.commit(vec![Event::Released(first)]).await.unwrap();
    queue.commit(vec![attempted(first, Outcome::Delivered, 2)]).await.unwrap();
    let is_trimmed = fixture.store.read(&format!("queue/{}/log/{:016x}", Fixture::node(), 2)).await;
    assert!(is_trimmed.is_err_and(|e| e.kind() == Kind::NotFound));

    for wanted in ["first@there.example", "<First@there.example>", "@there.example", &first.to_string()] {
        let trace = fixture.trace(wanted, 10).await;
        assert_eq!(trace.mails.len(), 1, "{wanted}");
        assert_eq!(steps(&trace, first), "deferred held released delivered", "{wanted}");
        assert!(trace.mails[&first].mail.header.is_empty() && !trace.has_more && trace.unreadable == 0);
    }
    let all = fixture.trace("@other.example", 100).await;
    assert_eq!(all.mails.len(), 20, "each is there once");
    assert!(all.mails.keys().all(|id| steps(&all, *id) == "delivered"));
    let last = fixture.trace("1@sender.example", 3).await;
    assert!(last.has_more && last.mails.len() == 3 && !last.mails.contains_key(&first));
    assert!(fixture.trace("nobody@there.example", 10).await.mails.is_empty());
    for path in fixture.objects().await {
        let bytes = fixture.store.read(&path).await.unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"sender"), "{path} says who sends");
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded_by_age_and_size() {
    let fixture = Fixture::new();
    let queue = fixture.open().await;
    for n in 0..6 {
        fixture.accept(&queue, &format!("u{n}@d.example")).await;
        queue.upkeep().await.unwrap();
    }
    let before = fixture.objects().await;
    assert!(before.len() >= 4, "{before:?}");
    let size = fixture.store.size(&before[0]).await.unwrap();
    let now = Timestamp::from_seconds(1_700_000_000);
    remove_old(&fixture.store, Fixture::node(), now, size * 3).await.unwrap();
    let after = fixture.objects().await;
    assert!(after.len() <= 3 && after[..] == before[before.len() - after.len()..], "the oldest go first");
    fixture.clock.advance(std::time::Duration::from_secs(40 * 365 * 86_400));
    queue.upkeep().await.unwrap();
    assert_eq!(fixture.objects().await.len(), 1, "the newest says up to where there is history");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_hides_no_other() {
    let fixture = Fixture::new();
    let queue = fixture.open().await;
    for n in 0..4 {
        fixture.accept(&queue, &format!("u{n}@d.example")).await;
        queue.upkeep().await.unwrap();
    }
    let objects = fixture.objects().await;
    fixture.store.delete(&objects[0]).await.unwrap();
    fixture.store.put_again(&objects[1], &objects[0]).await.unwrap();
    let trace = fixture.trace("@d.example", 10).await;
    assert_eq!(trace.unreadable, 1);
    assert_eq!(trace.mails.len(), 3);
}

#[test]
fn an_entry_that_says_too_much_keeps_its_ids() {
    let many: Vec<Recipient> =
        (0..limits::QUEUE_RECIPIENTS).map(|n| Recipient::new(format!("{n:0300}@d.example"))).collect();
    let accepted = |recipients: &[Recipient]| {
        let recipients = recipients.to_vec();
        Event::Accepted(Box::new(Mail { recipients, ..mail(Timestamp(0), 1, &["a@b.example"]) }))
    };
    let few = [Recipient::new("last@b.example")];
    let events = vec![accepted(&many), accepted(&many), accepted(&many), accepted(&few)];
    let (writer, first) = (crate::event::WriterId([1; 16]), MailId(7));
    let plain = encode(&Batch { at: Timestamp(1), writer, nonce: 1, events, first });
    assert!(plain.len() + OBJECT_BYTES / 2 <= limits::MAIL_NOTE_BYTES, "{}", plain.len());
    let batches = decode(&plain).unwrap();
    let recipients = |event: &Event| match event {
        Event::Accepted(mail) => mail.recipients.len(),
        _ => usize::MAX,
    };
    let counts: Vec<usize> = batches[0].events.iter().map(recipients).collect();
    assert_eq!((batches[0].first, counts.len()), (first, 4));
    assert!(counts[0] > 1000 && counts[0] < limits::QUEUE_RECIPIENTS, "{counts:?}");
    assert_eq!(counts[2], 0, "there is no room for a third");
}
