//! Vacation responses over a store and a queue in memory.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Budget, FakeClock, Position, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, Address, AliasName, Directory, NewAccount, Secret, VacationMark};
use sealpost_queue::envelope::{Mail, Source};
use sealpost_queue::runner::QueuedMessage;
use sealpost_queue::{MailId, Opening, Queue};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

use super::responder::Away;
use super::*;
use crate::domain_keys::DomainKeys;
use crate::outbox::{Outbox, OutboxParts, SendingLimits};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const ME: &str = "me@here.example";
const JOE: &str = "joe@elsewhere.example";

struct Fixture {
    store: Store,
    key: ServerKeys,
    mail_keys: MailKeys,
    clock: Arc<FakeClock>,
    outbox: Outbox,
    directory: Directory,
    vacations: Vacations,
}

impl Fixture {
    /// With the account `me@here.example`.
    async fn new() -> Self {
        let (store, random) = (Store::memory(), SeededRandom::new(1));
        let keys = (ServerKeys::generate(&random), MailKeys::generate(&random));
        let clock = Arc::new(FakeClock::new(NOW));
        let fixture = Self::node("a", store, keys, clock).await;
        fixture.add(ME).await;
        fixture
    }

    /// Another node on the same store.
    async fn other_node(&self) -> Self {
        let keys = (self.key.clone(), self.mail_keys.clone());
        Self::node("b", self.store.clone(), keys, self.clock.clone()).await
    }

    async fn node(name: &str, store: Store, keys: (ServerKeys, MailKeys), clock: Arc<FakeClock>) -> Self {
        let (key, mail_keys) = keys;
        let random = Arc::new(SeededRandom::new(u64::from(name.as_bytes()[0])));
        let opening = Opening {
            store: store.clone(),
            node: sealpost_queue::node_id(name),
            name: name.to_owned(),
            log_key: LogKey::of(&key),
            mail_keys: mail_keys.clone(),
            clock: clock.clone(),
            random: random.clone(),
            budget: Budget::new(64 << 20),
            known: Position::ZERO,
        };
        let queue = Queue::open(opening).await.unwrap();
        let running = queue.clone();
        tokio::spawn(async move { running.run().await });
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        let outbox = Outbox::new(OutboxParts {
            queue,
            directory: directory.clone(),
            domain_keys: DomainKeys::new(store.clone(), mail_keys.clone()),
            mail_keys: mail_keys.clone(),
            clock: clock.clone(),
            random: random.clone(),
            budget: Budget::new(1 << 30),
            hostname: "mx.example".to_owned(),
            limits: SendingLimits { hour: 0, day: 0, ..SendingLimits::default() },
        });
        let vacations = Vacations::new(directory.clone(), mail_keys.clone(), random);
        Fixture { store, key, mail_keys, clock, outbox, directory, vacations }
    }

    async fn add(&self, name: &str) {
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        self.directory.create(&AccountName::parse(name).unwrap(), new).await.unwrap();
    }

    async fn alias(&self, name: &str, targets: &[&str]) {
        let targets: Vec<_> = targets.iter().map(|target| Address::parse(target).unwrap()).collect();
        self.directory.set_alias(&AliasName::parse(name).unwrap(), &targets[..]).await.unwrap();
    }

    /// Sets the response of `me`.
    async fn set(&self, change: impl Fn(&mut VacationSettings) + Send + Sync) -> VacationChanged {
        let change = |before: &Vacation| {
            let mut settings = before.settings.clone();
            change(&mut settings);
            Ok(settings)
        };
        self.vacations.change(&name(), change).await.unwrap()
    }

    async fn enable(&self) {
        self.set(|settings| (settings.is_enabled, settings.text) = (true, Some("Away.".to_owned()))).await;
    }

    async fn mark(&self) -> Option<VacationMark> {
        self.directory.get(&name()).await.unwrap().vacation
    }

    /// A message arrives in the account.
    async fn arrive(&self, sender: &str, message: &str) {
        let Some(mut scanning) = self.outbox.vacation().begin(sender) else { return };
        scanning.push(message.as_bytes());
        let record = self.directory.get(&name()).await.unwrap();
        let Some(mark) = record.vacation else { return };
        let away = Away { id: record.id, name: record.name, mark };
        self.outbox.vacation().delivered(scanning, sender, [away]);
        // All that waits is decided on: the channel is empty and nothing is under way.
        self.outbox.vacation().settle(&self.outbox).await;
    }

    /// What is queued.
    async fn mails(&self) -> Vec<Arc<Mail>> {
        let queue = self.outbox.queue();
        let ids: Vec<MailId> = queue.state().rows().from(MailId(0)).map(|(id, _)| id).collect();
        let mut mails = Vec::new();
        for id in ids {
            mails.push(queue.read(id).await.unwrap());
        }
        mails
    }

    async fn replies(&self) -> usize {
        self.mails().await.len()
    }

    /// The bytes of a queued mail.
    async fn text(&self, mail: Arc<Mail>) -> String {
        let queue = self.outbox.queue().clone();
        let (bytes, _) = QueuedMessage { queue, mail }.beginning(usize::MAX).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    async fn objects(&self, prefix: &str) -> Vec<String> {
        self.store.list(prefix, None).map_ok(|object| object.path).try_collect().await.unwrap()
    }
}

fn name() -> AccountName {
    AccountName::parse(ME).unwrap()
}

fn to(address: &str) -> String {
    format!("To: \"Me, myself\" <{address}>\r\nSubject: Hello\r\nMessage-ID: <1@x>\r\n\r\ntext\r\n")
}

#[tokio::test]
async fn replies_go_to_the_reverse_path_from_the_null_sender() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    fixture.arrive(JOE, &to(ME)).await;
    let mail = fixture.mails().await.pop().unwrap();
    assert_eq!((mail.from.as_str(), mail.source), ("", Source::Vacation));
    assert_eq!(mail.recipients.iter().map(|to| to.address.as_str()).collect::<Vec<_>>(), [JOE]);
    let text = fixture.text(mail).await;
    for part in [
        "From: \"Me, myself\" <me@here.example>\r\n",
        "To: <joe@elsewhere.example>\r\n",
        "Subject: Auto: Hello\r\n",
        "In-Reply-To: <1@x>\r\n",
        "References: <1@x>\r\n",
        "Auto-Submitted: auto-replied\r\n",
        "Date: ",
        "Message-ID: ",
        "\r\n\r\nAway.\r\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let metrics = fixture.outbox.vacation().metrics();
    assert_eq!((metrics.sent.read(), metrics.limited.read(), metrics.dropped.read()), (1, 0, 0));
    // The account may send nothing itself here, and has sent nothing.
    assert_eq!(fixture.outbox.metrics().accepted.read(), 0);
}

#[tokio::test]
async fn only_mail_to_own_addresses_is_answered() {
    let fixture = Fixture::new().await;
    fixture.add("other@here.example").await;
    fixture.alias("info@here.example", &[ME]).await;
    fixture.alias("team@here.example", &[ME, "other@here.example"]).await;
    fixture.enable().await;
    for (n, (to, is_answered)) in [
        ("To: me@here.example", true),
        ("Cc: ME@HERE.EXAMPLE", true),
        ("Resent-To: me+tag@here.example", true),
        ("To: info@here.example", true),
        ("To: someone@elsewhere.example, Me <me@here.example>", true),
        ("To: team@here.example", false),
        ("To: other@here.example", false),
        ("To: nobody@here.example", false),
        ("To: undisclosed-recipients:;", false),
        ("X-To: me@here.example", false),
        ("To: me@elsewhere.example", false),
    ]
    .into_iter()
    .enumerate()
    {
        let before = fixture.replies().await;
        fixture.arrive(&format!("joe{n}@elsewhere.example"), &format!("{to}\r\n\r\n")).await;
        assert_eq!(fixture.replies().await - before, usize::from(is_answered), "{to}");
    }
}

#[tokio::test]
async fn senders_that_must_get_no_reply() {
    let fixture = Fixture::new().await;
    fixture.alias("i@here.example", &[ME]).await;
    fixture.enable().await;
    let lists = fixture.objects("vacations").await;
    for sender in
        ["", "noreply@x.example", "list-request@x.example", ME, "me+tag@here.example", "i@here.example"]
    {
        fixture.arrive(sender, &to(ME)).await;
    }
    for field in ["Auto-Submitted: auto-generated", "Precedence: bulk", "List-Id: <a.b>", "X-Spam-Flag: YES"]
    {
        fixture.arrive(JOE, &format!("{field}\r\n{}", to(ME))).await;
    }
    assert_eq!(fixture.replies().await, 0);
    assert_eq!(fixture.objects("vacations").await, lists);
}

#[tokio::test]
async fn replies_are_sent_between_the_dates_only() {
    let fixture = Fixture::new().await;
    let day = Duration::from_secs(86_400);
    fixture.enable().await;
    fixture
        .set(|settings| (settings.from, settings.to) = (Some(NOW.after(day)), Some(NOW.after(2 * day))))
        .await;
    for replies in [0, 1, 1] {
        fixture.arrive(&format!("joe{replies}@x.example"), &to(ME)).await;
        assert_eq!(fixture.replies().await, replies);
        fixture.clock.advance(day);
    }
}

#[tokio::test]
async fn a_suspended_account_sends_no_reply() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    fixture.directory.suspend(&name()).await.unwrap();
    fixture.arrive(JOE, &to(ME)).await;
    assert_eq!(fixture.replies().await, 0);
}

#[tokio::test]
async fn a_sender_gets_one_reply_on_all_nodes_together() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    let other = fixture.other_node().await;
    for _ in 0..3 {
        fixture.arrive(JOE, &to(ME)).await;
        other.arrive(&JOE.to_uppercase(), &to(ME)).await;
    }
    assert_eq!((fixture.replies().await, other.replies().await), (1, 0));
    // A corrected text is no new vacation; another one is.
    fixture.set(|settings| settings.text = Some("Still away.".to_owned())).await;
    other.arrive(JOE, &to(ME)).await;
    assert_eq!(other.replies().await, 0);
    fixture.set(|settings| settings.is_enabled = false).await;
    other.arrive(JOE, &to(ME)).await;
    fixture.set(|settings| settings.is_enabled = true).await;
    other.arrive(JOE, &to(ME)).await;
    assert_eq!(other.replies().await, 1);
    fixture.clock.advance(super::sent_replies::PERIOD);
    fixture.arrive(JOE, &to(ME)).await;
    assert_eq!(fixture.replies().await, 2);
}

#[tokio::test]
async fn ten_thousand_senders_get_a_bounded_number_of_replies() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    for n in 0..10_000 {
        fixture.arrive(&format!("joe{n}@x.example"), &to(ME)).await;
        fixture.clock.advance(Duration::from_secs(10));
    }
    let hours = 10_000 * 10 / 3600 + 1;
    let most = (hours * limits::VACATION_REPLIES_PER_HOUR).min(limits::VACATION_SENDERS);
    let replies = fixture.replies().await;
    assert!(replies <= most && replies >= limits::VACATION_SENDERS / 2, "{replies} of {most}");
    let metrics = fixture.outbox.vacation().metrics();
    assert_eq!(metrics.limited.read() + metrics.sent.read(), 10_000);
    // One list, and the one before it.
    assert_eq!(fixture.objects("vacations").await.len(), 2);
}

#[tokio::test]
async fn ten_thousand_mails_of_one_sender_get_one_reply() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    fixture.arrive(JOE, &to(ME)).await;
    let objects = fixture.objects("vacations").await;
    let record = fixture.directory.get(&name()).await.unwrap();
    let away = Away { id: record.id, mark: record.vacation.unwrap(), name: record.name };
    for _ in 0..10_000 {
        let mut scanning = fixture.outbox.vacation().begin(JOE).unwrap();
        scanning.push(to(ME).as_bytes());
        fixture.outbox.vacation().delivered(scanning, JOE, [away.clone()]);
        fixture.outbox.vacation().settle(&fixture.outbox).await;
    }
    assert_eq!(fixture.replies().await, 1);
    assert_eq!(fixture.objects("vacations").await, objects);
}

#[tokio::test]
async fn messages_waiting_for_a_decision_are_bounded() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    let record = fixture.directory.get(&name()).await.unwrap();
    let away = Away { id: record.id, mark: record.vacation.unwrap(), name: record.name };
    let responder = fixture.outbox.vacation();
    // Nothing runs: each is taken or dropped at once.
    for n in 0..2 * limits::VACATION_WAITING {
        let Some(scanning) = responder.begin(JOE) else { continue };
        responder.delivered(scanning, &format!("joe{n}@x.example"), [away.clone()]);
    }
    assert_eq!(responder.metrics().dropped.read(), limits::VACATION_WAITING as u64);
}

#[tokio::test]
async fn changes_are_seen_whole_and_leave_one_object() {
    let fixture = Fixture::new().await;
    assert_eq!(
        (fixture.mark().await, fixture.vacations.get(&name()).await.unwrap()),
        (None, Vacation::default())
    );
    fixture.enable().await;
    let first = fixture.mark().await.unwrap();
    let same = fixture.set(|_| ()).await;
    assert_eq!((same.before.number, fixture.mark().await), (1, Some(first)));
    let other = fixture.other_node().await;
    let (a, b) = tokio::join!(
        fixture.set(|settings| settings.subject = Some("a".to_owned())),
        other.set(|settings| settings.html = Some("<p>b".to_owned())),
    );
    let mut numbers = [a.now.number, b.now.number];
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    let now = other.vacations.get(&name()).await.unwrap();
    assert_eq!(now.number, 3);
    assert_eq!((now.settings.subject.as_deref(), now.settings.html.as_deref()), (Some("a"), Some("<p>b")));
    let id = fixture.directory.get(&name()).await.unwrap().id;
    assert_eq!(fixture.objects(&folder(id)).await, [path(id, fixture.mark().await.unwrap())]);
}

#[tokio::test]
async fn a_writer_to_the_store_can_make_no_response() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    let (id, mark) = (fixture.directory.get(&name()).await.unwrap().id, fixture.mark().await.unwrap());
    let sealed = fixture.store.read(&path(id, mark)).await.unwrap();
    assert!(!sealed.windows(5).any(|text| text == b"Away."));
    // Under another key, under the path of another change.
    let other = MailKeys::generate(&SeededRandom::new(9));
    let planted = other.seal_note(
        LABEL,
        &path(id, mark),
        &VacationSettings::default().encode().unwrap(),
        &SeededRandom::new(9),
    );
    fixture.store.delete(&path(id, mark)).await.unwrap();
    fixture.store.put_new(&path(id, mark), planted).await.unwrap();
    assert_eq!(fixture.vacations.get(&name()).await.unwrap_err().kind(), Kind::Corrupt);
    fixture.arrive(JOE, &to(ME)).await;
    assert_eq!(fixture.replies().await, 0);
    fixture.store.delete(&path(id, mark)).await.unwrap();
    assert_eq!(fixture.vacations.get(&name()).await.unwrap_err().kind(), Kind::Corrupt);
    // The owner writes another one.
    fixture.enable().await;
    assert_eq!(fixture.vacations.get(&name()).await.unwrap().number, mark.number + 1);
    fixture.arrive(JOE, &to(ME)).await;
    assert_eq!(fixture.replies().await, 1);
}

#[tokio::test]
async fn a_lost_mail_key_costs_one_text() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    fixture.arrive(JOE, &to(ME)).await;
    let keys = (fixture.key.clone(), MailKeys::generate(&SeededRandom::new(9)));
    let other = Fixture::node("b", fixture.store.clone(), keys, fixture.clock.clone()).await;
    assert_eq!(other.vacations.get(&name()).await.unwrap_err().kind(), Kind::Corrupt);
    other.enable().await;
    other.arrive(JOE, &to(ME)).await;
    assert_eq!(other.replies().await, 1);
}

#[tokio::test]
async fn a_purged_account_leaves_nothing() {
    let fixture = Fixture::new().await;
    fixture.enable().await;
    fixture.arrive(JOE, &to(ME)).await;
    let id = fixture.directory.get(&name()).await.unwrap().id;
    fixture.directory.remove(&name()).await.unwrap();
    fixture.directory.purge_now(&name()).await.unwrap();
    assert!(fixture.objects(&format!("acct/{id}")).await.is_empty());
    assert!(fixture.objects("vacations").await.is_empty());
    fixture.add(ME).await;
    assert_eq!(fixture.mark().await, None);
}

#[tokio::test]
async fn planted_objects_stop_no_vacation_response() {
    let fixture = Fixture::new().await;
    let id = fixture.directory.get(&name()).await.unwrap().id;
    let texts =
        ["0000000000000001", "ffffffffffffffff"].map(|number| format!("acct/{id}/vacation/{number}{number}"));
    let replies = ["0000000000000001", "ffffffffffffffff"].map(|version| format!("vacations/{id}/{version}"));
    for path in texts.iter().chain(&replies) {
        fixture.store.put_new(path, Sealed::marker()).await.unwrap();
    }
    fixture.enable().await;
    fixture.arrive(JOE, &to(ME)).await;
    fixture.arrive(JOE, &to(ME)).await;
    assert_eq!(fixture.replies().await, 1);
    assert!(fixture.other_node().await.vacations.get(&name()).await.unwrap().settings.is_enabled);
}
