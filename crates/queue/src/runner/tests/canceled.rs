//! Senders cancel mail: exactly one of sending and canceling happens, whatever the moment.

use sealpost_base::{Random, SubmissionId};

use super::*;
use crate::envelope::MailSubmission;
use crate::state::{Arrival, News};

fn submission(n: u8) -> SubmissionId {
    SubmissionId([n; 16])
}

impl Fixture {
    /// A mail whose account has a record of it.
    async fn submit(&self, n: u8, to: &[&str], held: Duration) -> MailId {
        let mut mail = self.mail(1, to);
        mail.release = Some(self.clock.now().after(held));
        mail.submission = Some(MailSubmission { id: submission(n), account: "a@here.example".to_owned() });
        self.queue.accept(mail).await.unwrap()
    }

    fn news(&self, id: MailId) -> Vec<News> {
        let state = self.queue.state();
        let queued = state.submission(id).map(|queued| queued.news.iter().map(|(_, news)| news.clone()));
        queued.map(Iterator::collect).unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_mail_that_is_canceled_is_not_sent() {
    let fixture = Fixture::new().await;
    let id = fixture.submit(1, &["u@there.example"], Duration::from_secs(600)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.queue.cancel(submission(1)).await.unwrap());
    assert!(!fixture.queue.cancel(submission(1)).await.unwrap(), "it is canceled already");
    assert!(fixture.queue.state().is_empty());
    tokio::time::sleep(DAY).await;
    assert!(fixture.servers.deliveries().is_empty());
    assert_eq!(fixture.news(id), [News::Queued, News::Canceled]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_either_sent_or_canceled() {
    let random = SeededRandom::new(23);
    let (mut sent, mut canceled) = (0, 0);
    for n in 0..150 {
        let clock = Arc::new(TokioClock::new());
        let servers = Servers::new(clock.clone());
        servers.take(Duration::from_millis(random.next_u64() % 40));
        let fixture = Fixture::with(&Store::memory(), &servers, &clock, 10, n).await;
        let release = Duration::from_millis(1000 + random.next_u64() % 40);
        fixture.submit(1, &["u@there.example"], release).await;
        tokio::time::sleep(Duration::from_millis(980 + random.next_u64() % 100)).await;
        let was_canceled = fixture.queue.cancel(submission(1)).await.unwrap();
        fixture.drain(DAY).await;
        assert!(fixture.queue.state().is_empty());
        assert_eq!(servers.deliveries().len(), usize::from(!was_canceled), "run {n}");
        if was_canceled { canceled += 1 } else { sent += 1 }
    }
    assert!(sent > 20 && canceled > 20, "{sent} sent, {canceled} canceled");
}

#[tokio::test(start_paused = true)]
async fn a_deferred_mail_is_canceled_unless_it_has_several_recipients() {
    let fixture = Fixture::new().await;
    fixture.servers.set("slow.example", refused(450, (4, 7, 1), Reason::RecipientRefused));
    let one = fixture.submit(1, &["u@slow.example"], Duration::ZERO).await;
    fixture.submit(2, &["u@slow.example", "v@there.example"], Duration::ZERO).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let [News::Queued, News::Recipient { place: 0, arrival: Arrival::Waiting, reply }] =
        &fixture.news(one)[..]
    else {
        panic!("{:?}", fixture.news(one));
    };
    assert_eq!(reply, "450 4.7.1 as the test says");
    assert!(fixture.queue.cancel(submission(1)).await.unwrap());
    assert!(!fixture.queue.cancel(submission(2)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn news_stay_until_they_are_reported_through_a_restart() {
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    let fixture = Fixture::on(&store, &servers, &clock).await;
    let id = fixture.submit(1, &["u@there.example"], Duration::ZERO).await;
    fixture.drain(DAY).await;
    fixture.queue.close();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let fixture = Fixture::with(&store, &servers, &clock, 10, 2).await;
    let [News::Queued, News::Recipient { place: 0, arrival: Arrival::Elsewhere, .. }] = &fixture.news(id)[..]
    else {
        panic!("{:?}", fixture.news(id));
    };
    let upto = fixture.queue.state().position();
    fixture.queue.commit(vec![Event::Told(crate::event::Told { mails: vec![id], upto })]).await.unwrap();
    assert!(fixture.queue.state().submission(id).is_none());
    assert_eq!(servers.deliveries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_process_cancels_by_a_request() {
    let clock = Arc::new(TokioClock::new());
    let (servers, store) = (Servers::new(clock.clone()), Store::memory());
    let fixture = Fixture::on(&store, &servers, &clock).await;
    let id = fixture.submit(1, &["u@there.example"], Duration::from_secs(600)).await;
    let opening = Opening {
        store: store.clone(),
        node: crate::node_id("b"),
        name: "b".to_owned(),
        log_key: LogKey::for_tests(),
        mail_keys: MailKeys::generate(&SeededRandom::new(77)),
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(9)),
        budget: Budget::new(64 << 20),
        known: Position::ZERO,
    };
    let other = Queue::open(opening).await.unwrap();
    let node = fixture.queue.node();
    assert!(other.other_has(node, submission(1)).await.unwrap());
    assert!(!other.other_has(node, submission(2)).await.unwrap());
    other.request_cancel(node, submission(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.news(id), [News::Queued, News::Canceled]);
    tokio::time::sleep(DAY).await;
    assert!(servers.deliveries().is_empty());
}

#[tokio::test(start_paused = true)]
async fn recipients_of_a_removed_mail_are_reported_as_failed() {
    let fixture = Fixture::new().await;
    let id = fixture.submit(1, &["u@there.example", "v@there.example"], Duration::from_secs(600)).await;
    fixture.queue.commit(vec![Event::Removed(id)]).await.unwrap();
    let is_failed = |news: &News| matches!(news, News::Recipient { arrival: Arrival::Failed, .. });
    assert_eq!(fixture.news(id).iter().filter(|news| is_failed(news)).count(), 2);
}
