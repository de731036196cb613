//! Messages straight into an outbox: signatures, and what is in the queue.

use sealpost_base::{Error, FakeClock, Position, Result, SeededRandom, limits};
use sealpost_directory::{AccountName, AliasName, NewAccount, Secret};
use sealpost_mailauth::dkim::{KeyLookup, Verdict, Verifier};
use sealpost_queue::Opening;
use sealpost_queue::runner::QueuedMessage;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;

use super::*;

struct Fixture {
    outbox: Outbox,
    keys: DomainKeys,
    directory: Directory,
    clock: Arc<FakeClock>,
    random: Arc<dyn Random>,
    account: Arc<AccountRecord>,
}

impl Fixture {
    /// With the account `me@bücher.example`.
    async fn new() -> Self {
        Self::with_budget(Budget::new(64 << 20)).await
    }

    async fn with_budget(budget: Budget) -> Self {
        let (store, random) = (Store::memory(), Arc::new(SeededRandom::new(1)));
        let clock = Arc::new(FakeClock::new(Timestamp::from_seconds(1_800_000_000)));
        let (key, mail_keys) = (ServerKeys::generate(&*random), MailKeys::generate(&*random));
        let opening = Opening {
            store: store.clone(),
            node: sealpost_queue::node_id("a"),
            name: "a".to_owned(),
            log_key: LogKey::of(&key),
            mail_keys: mail_keys.clone(),
            clock: clock.clone(),
            random: random.clone(),
            budget: budget.clone(),
            known: Position::ZERO,
        };
        let queue = Queue::open(opening).await.unwrap();
        let running = queue.clone();
        tokio::spawn(async move { running.run().await });
        let directory = Directory::new(store.clone(), key, clock.clone(), random.clone());
        let name = AccountName::parse("me@bücher.example").unwrap();
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        let (account, _) = directory.create(&name, new).await.unwrap();
        let keys = DomainKeys::new(store, mail_keys.clone());
        let outbox = Outbox::new(OutboxParts {
            queue,
            directory: directory.clone(),
            domain_keys: keys.clone(),
            mail_keys,
            clock: clock.clone(),
            random: random.clone(),
            budget,
            hostname: "mx.example".to_owned(),
            limits: SendingLimits::default(),
        });
        Fixture { outbox, keys, directory, clock, random, account: Arc::new(account) }
    }

    fn order(&self) -> Order {
        Order {
            account: Some(self.account.clone()),
            from: "me@bücher.example".to_owned(),
            recipients: vec![Recipient::new("jane@elsewhere.example")],
            ret: None,
            envid: None,
            release: None,
            tls: TlsDemand::Policy,
            trace: b"Received: by mx.example; now\r\n".to_vec(),
            source: Source::Submission,
        }
    }

    /// Submits a message in pieces of some size; its bytes in the queue.
    async fn submit(&self, message: &str, cut: usize) -> std::result::Result<Vec<u8>, Refusal> {
        let mut submission = self.outbox.begin(self.order());
        for piece in message.as_bytes().chunks(cut) {
            submission.write(piece).await?;
        }
        let accepted = submission.finish().await?;
        let queue = self.outbox.queue().clone();
        let mail = queue.read(accepted.id).await?;
        let (bytes, _) = QueuedMessage { queue, mail: mail.clone() }.beginning(usize::MAX).await?;
        assert_eq!((accepted.size, mail.facts.size), (bytes.len() as u64, bytes.len() as u64));
        assert_eq!(mail.message_id, accepted.message_id);
        Ok(bytes)
    }

    /// The domain of each signature of a message and whether it is right.
    async fn verdicts(&self, message: &[u8]) -> Result<Vec<(String, Verdict)>> {
        let end = message.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let mut verifier = Verifier::new(&message[..end]);
        verifier.push(&message[end..]);
        let message = verifier.finish();
        let published = self.keys.list("bücher.example").await.unwrap_or_default();
        let verdict = |index| {
            let signature = message.signature(index).ok_or_else(|| Error::internal("not a signature"))?;
            let record = published.iter().find(|key| key.selector == signature.selector);
            let record = record.map(|key| key.record.clone()).into_iter().collect::<Vec<_>>();
            let verdict = message.verify(index, KeyLookup::Records(&record), 1_800_000_000);
            Ok((signature.domain.clone(), verdict))
        };
        (0..message.len()).map(verdict).collect()
    }
}

#[tokio::test]
async fn messages_are_signed_for_the_domain_in_from() {
    let fixture = Fixture::new().await;
    let message = |fields: &str, body: &str| {
        format!("From: Me <me@bücher.example>\nSubject: x\nBcc: secret@elsewhere.example\n{fields}\n{body}")
    };
    let plain = message("", "Hello\n.\n");
    // Without keys.
    let sent = fixture.submit(&plain, 100).await.unwrap();
    assert_eq!(fixture.verdicts(&sent).await.unwrap(), []);

    let now = fixture.clock.now();
    fixture.keys.create("bücher.example", now, &fixture.random).await.unwrap();
    // The keys of the domain are cached for a minute.
    tokio::time::pause();
    tokio::time::sleep(crate::domain_keys::KEY_CACHE_TIME).await;
    let body = "0123456789abcdef  \n".repeat(10_000);
    let fields = "X-Long: 0123456789abcdef\n".repeat(3000);
    for (fields, body) in [("", "Hello\n.\n"), ("", &body), (&fields, "Hello\n"), (&fields, &body), ("", "")]
    {
        for cut in [7, 8000] {
            let sent = fixture.submit(&message(fields, body), cut).await.unwrap();
            let verdicts = fixture.verdicts(&sent).await.unwrap();
            let pass = Verdict::Pass { unsigned_body_bytes: 0, is_testing: false };
            let right = ("xn--bcher-kva.example".to_owned(), pass);
            assert_eq!(verdicts, [right.clone(), right]);
            assert!(sent.starts_with(b"DKIM-Signature: "));
            let text = String::from_utf8(sent).unwrap();
            assert!(text.contains("\r\nReceived: by mx.example; now\r\nFrom: ") && !text.contains("Bcc"));
            assert_eq!(text.matches("X-Long").count(), fields.len() / 25);
        }
    }
}

#[tokio::test]
async fn a_foreign_domain_is_not_signed_for() {
    let mut fixture = Fixture::new().await;
    let change = |record: &mut AccountRecord| {
        record.change_sending(|sending| sending.allow(&AliasName::parse("@elsewhere.example")?))
    };
    let name = fixture.account.name.clone();
    fixture.directory.update(&name, change).await.unwrap();
    fixture.account = Arc::new(fixture.directory.get(&name).await.unwrap());
    let now = fixture.clock.now();
    fixture.keys.create("elsewhere.example", now, &fixture.random).await.unwrap();
    let sent = fixture.submit("From: x@elsewhere.example\n\n", 100).await.unwrap();
    assert!(sent.starts_with(b"Received: "));
}

#[tokio::test]
async fn refusals_come_as_soon_as_they_are_known() {
    let fixture = Fixture::new().await;
    let mut submission = fixture.outbox.begin(fixture.order());
    let header = format!("From: you@bücher.example\n{}\n", "X: y\n".repeat(limits::SMTP_HEAD_BYTES / 5));
    assert!(matches!(submission.write(header.as_bytes()).await, Err(Refusal::Sender(_))));
    assert_eq!(fixture.outbox.metrics().wrong_senders.read(), 1);
    drop(submission);
    assert_eq!((fixture.outbox.0.memory.in_use(), fixture.outbox.queue().state().len()), (0, 0));
}

#[tokio::test]
async fn a_large_header_gets_memory_at_once_or_later() {
    let budget = Budget::new(64 << 20);
    let fixture = Fixture::with_budget(budget.clone()).await;
    let message = format!("From: me@bücher.example\n{}\n", "X: 0123456789abcdef\n".repeat(3000));
    let share = &fixture.outbox.0.memory;
    // Others hold all but what a message draws.
    let mut others = Vec::new();
    while share.total() - share.in_use() > 2 * limits::SUBMISSION_MEMORY_BYTES {
        let held = (share.total() - share.in_use() - limits::SUBMISSION_MEMORY_BYTES).min(share.fair_part());
        others.push(share.acquire(held).await);
    }
    assert!(matches!(fixture.submit(&message, 4000).await, Err(Refusal::NoMemory)));
    fixture.submit("From: me@bücher.example\n\nsmall", 4000).await.unwrap();
    drop(others);
    fixture.submit(&message, 4000).await.unwrap();
    assert_eq!((share.in_use(), budget.in_use()), (0, 0));
}

#[tokio::test]
async fn messages_draw_nothing_before_they_are_large_and_then_wait() {
    let budget = Budget::new(64 << 20);
    let fixture = Fixture::with_budget(budget.clone()).await;
    let mut submissions = Vec::new();
    // Many clients that send little and then nothing.
    for _ in 0..1000 {
        let mut submission = fixture.outbox.begin(fixture.order());
        submission.write(&b"From: me@x\n".repeat(limits::SMTP_HEAD_BYTES / 11)).await.unwrap();
        assert!(!submission.holds_budget());
        submissions.push(submission);
    }
    assert_eq!(budget.in_use(), 0);
    let share = fixture.outbox.0.memory.clone();
    let mut others = Vec::new();
    while share.in_use() < share.total() {
        others.push(share.acquire(share.total() - share.in_use()).await);
    }
    let message = format!("From: me@bücher.example\n\n{}", "x".repeat(20_000));
    let large = fixture.submit(&message, 4000);
    tokio::pin!(large);
    assert!(futures::poll!(&mut large).is_pending());
    assert_eq!(fixture.outbox.waiting(), 1);
    drop(others);
    large.await.unwrap();
}

#[tokio::test]
async fn an_overlong_message_id_is_sent_and_not_stored() {
    let fixture = Fixture::new().await;
    for (bytes, is_kept) in [(limits::MESSAGE_ID_BYTES, true), (limits::MESSAGE_ID_BYTES + 1, false)] {
        let id = format!("<{}>", "x".repeat(bytes - 2));
        let message = format!("From: me@bücher.example\nMessage-ID: {id}\n\n");
        let sent = fixture.submit(&message, 100).await.unwrap();
        assert!(String::from_utf8(sent).unwrap().contains(&id));
        let last = sealpost_queue::MailId(fixture.outbox.queue().state().next_id().0 - 1);
        let mail = fixture.outbox.queue().read(last).await.unwrap();
        assert_eq!(mail.message_id, is_kept.then_some(id));
    }
}
