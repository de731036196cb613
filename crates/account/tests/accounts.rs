//! Accounts over a store: deliveries and sessions at once, several processes on one store,
//! checkpoints and trimming, the grace period, damage.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use sealpost_account::cpu_gate::LONG_ROWS;
use sealpost_account::{
    Account, Accounts, Delivery, Event, FlagAction, Flags, NewMessage, Stored, SystemFlags, ops,
};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, Position, Random, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_directory::Watermarks;
use sealpost_journal::Journal;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, PublicKey, RootKey, Store, checkpoint};

const ID: AccountId = AccountId([3; 16]);

struct Fixture {
    store: Store,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    root: RootKey,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let root = RootKey::generate(&*random);
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        Fixture { store: Store::memory(), clock, random, root }
    }

    /// Where the head of the checkpoint at that position is.
    fn head(&self, position: u64) -> String {
        let keys = AccountKeys::derive(&self.root, ID);
        let name = checkpoint::object_name(&keys, ID, Position(position), "head");
        format!("acct/{ID}/snap/{position:016x}/{name}")
    }

    /// As another process would see it.
    fn accounts(&self) -> Accounts {
        let random: Arc<dyn Random> = self.random.clone();
        Accounts::new(
            self.store.clone(),
            LogKey::for_tests(),
            self.clock.clone(),
            random,
            Budget::new(64 << 20),
        )
    }

    fn public(&self) -> PublicKey {
        AccountKeys::derive(&self.root, ID).public()
    }

    async fn open(&self, accounts: &Accounts) -> Arc<Account> {
        accounts.open(ID, &self.root).await.unwrap()
    }

    async fn deliver(&self, accounts: &Accounts, subject: &str) {
        let stored = store(accounts, subject).await;
        accounts.deliver(ID, &self.public(), stored, Delivery::default()).await.unwrap();
    }
}

fn mail(subject: &str) -> Vec<u8> {
    format!("Subject: {subject}\r\nFrom: a@example.org\r\n\r\nBody of {subject}.\r\n").into_bytes()
}

async fn store(accounts: &Accounts, subject: &str) -> Stored {
    let mut ingest = accounts.ingest(ID).await.unwrap();
    ingest.write(&mail(subject)).await.unwrap();
    ingest.finish().await.unwrap()
}

async fn append(account: &Account, accounts: &Accounts, mailbox: &str, subject: &str) -> Uid {
    let stored = store(accounts, subject).await;
    let mailbox = account.state().mailbox_named(mailbox).unwrap().id();
    let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    account.append(mailbox, vec![new]).await.unwrap().1[0]
}

/// The subjects in the inbox, in order, as the stored structures have them.
async fn subjects(account: &Account) -> Vec<String> {
    let messages: Vec<_> = {
        let state = account.state();
        state.inbox().all_rows().map(|row| state.message(row.message).unwrap()).collect()
    };
    let mut out = Vec::new();
    for message in messages {
        let structure = account.structure(&message).await.unwrap();
        out.push(structure.envelope.subject.clone().unwrap());
    }
    out
}

async fn log_entries(store: &Store) -> usize {
    store.list(&format!("acct/{ID}/log"), None).count().await
}

#[tokio::test]
async fn delivered_messages_are_read_back_exactly() {
    let w = Fixture::new();
    let accounts = w.accounts();
    w.deliver(&accounts, "hello").await;
    let account = w.open(&accounts).await;
    assert_eq!(subjects(&account).await, ["hello"]);
    let message = account.state().messages().next().unwrap().1;
    let pieces: Vec<_> = account.reader(&message).raw(0..message.size()).collect().await;
    let raw: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect();
    assert_eq!(raw, mail("hello"));
    assert!(account.text(&message).await.unwrap().body.contains("body of hello."));
}

#[tokio::test]
async fn another_key_opens_nothing() {
    let w = Fixture::new();
    let accounts = w.accounts();
    w.deliver(&accounts, "secret").await;
    let account = w.open(&accounts).await;
    let other = RootKey::generate(&SeededRandom::new(99));
    assert_eq!(accounts.open(ID, &other).await.err().unwrap().kind(), Kind::Denied);
    drop(account);
    let elsewhere = w.accounts();
    let unreadable = elsewhere.open(ID, &other).await.unwrap();
    assert!(unreadable.is_damaged());
    assert!(unreadable.state().inbox().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_come_at_once_share_entries_and_all_arrive() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    let mut tasks = Vec::new();
    for i in 0..200 {
        let (accounts, public) = (accounts.clone(), w.public());
        tasks.push(tokio::spawn(async move {
            let stored = store(&accounts, &format!("m{i}")).await;
            accounts.deliver(ID, &public, stored, Delivery::default()).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    account.catch_up().await.unwrap();
    assert_eq!(account.state().inbox().len(), 200);
    let mut seen = subjects(&account).await;
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_deliveries_of_two_processes_lose_nothing_and_agree() {
    let w = Fixture::new();
    let (here, there) = (w.accounts(), w.accounts());
    let (a, b) = (w.open(&here).await, w.open(&there).await);
    let mut tasks = Vec::new();
    for i in 0..120 {
        let (accounts, account) =
            if i % 2 == 0 { (here.clone(), a.clone()) } else { (there.clone(), b.clone()) };
        let public = w.public();
        tasks.push(tokio::spawn(async move {
            match i % 3 {
                0 => {
                    let stored = store(&accounts, &format!("m{i}")).await;
                    accounts.deliver(ID, &public, stored, Delivery::default()).await.unwrap();
                }
                1 => {
                    append(&account, &accounts, "INBOX", &format!("m{i}")).await;
                }
                _ => {
                    let decide = |state: &sealpost_account::AccountState| {
                        let name = format!("box{i}");
                        Ok((ops::create_mailbox(state, &name, Default::default())?, ()))
                    };
                    account.commit(decide).await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for account in [&a, &b] {
        account.refresh().await.unwrap();
        assert_eq!(account.state().inbox().len(), 80);
        assert_eq!(account.state().mailbox_count(), 6 + 40);
    }
    assert_eq!(a.state().inbox().uids(), b.state().inbox().uids());
    assert_eq!(subjects(&a).await, subjects(&b).await);
}

#[tokio::test]
async fn one_command_is_one_entry_however_many_messages_it_touches() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    for i in 0..50 {
        append(&account, &accounts, "INBOX", &format!("m{i}")).await;
    }
    let before = log_entries(&w.store).await;
    let decide = |state: &sealpost_account::AccountState| {
        let inbox = state.inbox();
        let (mailbox, uids) = (inbox.id(), inbox.uids());
        let flags = Flags::system(SystemFlags::SEEN);
        let action = FlagAction::Add;
        Ok((vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }], ()))
    };
    account.commit(decide).await.unwrap();
    assert_eq!(account.state().inbox().unseen(), 0);
    assert_eq!(log_entries(&w.store).await, before + 1);
}

#[tokio::test]
async fn a_checkpoint_is_loaded_and_the_log_below_is_gone() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    for round in 0..3 {
        for i in 0..5 {
            append(&account, &accounts, "INBOX", &format!("m{round}.{i}")).await;
        }
        account.checkpoint().await.unwrap();
    }
    assert_eq!(
        log_entries(&w.store).await,
        6,
        "from the last that the older has on: the older of the last two checkpoints"
    );
    let other = w.accounts();
    let again = w.open(&other).await;
    assert!(!again.is_damaged());
    assert_eq!(subjects(&again).await, subjects(&account).await);
    assert_eq!(again.state().position(), account.state().position());
}

/// Two processes, the second of which knows only an end of the log that is gone.
async fn one_slept(w: &Fixture) -> ((Arc<Account>, Accounts), (Arc<Account>, Accounts)) {
    let (here, there) = (w.accounts(), w.accounts());
    let (a, b) = (w.open(&here).await, w.open(&there).await);
    append(&b, &there, "INBOX", "first").await;
    for _ in 0..3 {
        append(&a, &here, "INBOX", "more").await;
        a.checkpoint().await.unwrap();
    }
    ((a, here), (b, there))
}

#[tokio::test]
async fn a_process_suspended_through_a_trim_reloads_without_loss() {
    let w = Fixture::new();
    let ((a, _here), (b, there)) = one_slept(&w).await;
    // One delivers without keys, the other changes something: both know only an end of the log that is gone.
    w.clock.advance(Duration::from_secs(3600));
    w.deliver(&there, "late").await;
    let uid = append(&b, &there, "INBOX", "later").await;
    assert_eq!(uid.get(), 6);
    a.refresh().await.unwrap();
    assert_eq!(subjects(&a).await, ["first", "more", "more", "more", "late", "later"]);
    assert_eq!(subjects(&b).await, subjects(&a).await);
}

/// A process that does not know of its suspension gets the error that the outcome is unknown, and
/// repeats the change.
#[tokio::test]
async fn a_suspended_process_acknowledges_only_durable_entries() {
    let w = Fixture::new();
    let ((a, _here), (b, there)) = one_slept(&w).await;
    let stored = store(&there, "late").await;
    let refused = there.deliver(ID, &w.public(), stored.clone(), Delivery::default()).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Retry);
    there.deliver(ID, &w.public(), stored, Delivery::default()).await.unwrap();
    assert_eq!(append(&b, &there, "INBOX", "later").await.get(), 6);
    a.refresh().await.unwrap();
    assert_eq!(subjects(&a).await, ["first", "more", "more", "more", "late", "later"]);
    assert_eq!(subjects(&b).await, subjects(&a).await);
}

#[tokio::test]
async fn expunged_messages_can_be_restored_within_their_grace_period() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    for i in 0..3 {
        append(&account, &accounts, "INBOX", &format!("m{i}")).await;
    }
    store(&accounts, "never delivered").await;
    let inbox = account.state().inbox().id();
    let expunge = |n: u32| {
        let uid = Uid::new(n).unwrap();
        vec![Event::Expunged { mailbox: inbox, uids: UidSet::range(uid, uid) }]
    };
    account.commit(|_| Ok((expunge(1), ()))).await.unwrap();
    w.clock.advance(Duration::from_secs(4 * 24 * 3600));
    account.commit(|_| Ok((expunge(2), ()))).await.unwrap();
    let since = sealpost_base::Clock::now(&*w.clock);
    let restore = Event::Restored { to: inbox, since };
    account.commit(|_| Ok((vec![restore.clone()], ()))).await.unwrap();
    assert_eq!(subjects(&account).await, ["m2", "m1"]);
    assert_eq!(account.state().inbox().uids().to_string(), "3:4", "restored under a new UID");

    // The memory store dates objects with the machine's clock, so only what the fake clock dates is
    // purged here.
    w.clock.advance(Duration::from_secs(4 * 24 * 3600));
    let done = account.collect_garbage().await.unwrap();
    assert_eq!(done.purged, 1);
    assert_eq!(account.state().message_count(), 2);
    assert_eq!(subjects(&account).await, ["m2", "m1"]);
}

#[tokio::test]
async fn a_clock_that_is_wrong_does_not_make_objects_old() {
    let w = Fixture::new();
    let long_after = Timestamp(4_000_000_000_000);
    let clock = Arc::new(FakeClock::new(long_after));
    let random: Arc<dyn Random> = w.random.clone();
    let accounts = Accounts::new(w.store.clone(), LogKey::for_tests(), clock, random, Budget::new(64 << 20));
    let account = w.open(&accounts).await;
    append(&account, &accounts, "INBOX", "kept").await;
    store(&accounts, "about to be delivered by somebody").await;
    let done = account.collect_garbage().await.unwrap();
    assert_eq!((done.purged, done.orphans), (0, 0));
    let left: Vec<_> = w.store.list(&format!("acct/{ID}/msg"), None).collect().await;
    assert_eq!(left.len(), 2);
}

#[tokio::test]
async fn a_damaged_message_is_reported_and_others_are_read() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    append(&account, &accounts, "INBOX", "lost").await;
    append(&account, &accounts, "INBOX", "kept").await;
    let lost = account.state().messages().next().unwrap().1;
    w.store.delete(&format!("acct/{ID}/msg/{}", lost.object)).await.unwrap();
    assert_eq!(account.structure(&lost).await.unwrap_err().kind(), Kind::NotFound);
    let kept = account.state().messages().nth(1).unwrap().1;
    assert!(account.structure(&kept).await.is_ok());
}

#[tokio::test]
async fn a_damaged_checkpoint_is_passed_over() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    for subject in ["one", "two", "three"] {
        append(&account, &accounts, "INBOX", subject).await;
        account.checkpoint().await.unwrap();
    }
    w.store.delete(&format!("acct/{ID}/manifest/{:016x}", 3)).await.unwrap();
    let again = w.open(&w.accounts()).await;
    assert!(!again.is_damaged(), "the older one and the log after it have everything");
    assert_eq!(subjects(&again).await, ["one", "two", "three"]);

    w.store.delete(&w.head(2)).await.unwrap();
    // The object may only be unreadable for a while, so no writer continues without it before that
    // is decided.
    let refused = w.accounts().open(ID, &w.root).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
    let journal = Journal::new(w.store.clone(), ID, &LogKey::for_tests(), w.random.clone());
    assert_eq!(journal.repair(false).await.unwrap(), None, "the log itself is not broken");
    journal.repair(true).await.unwrap().unwrap();
    let beyond = w.open(&w.accounts()).await;
    assert!(beyond.is_damaged());
    assert_eq!(subjects(&beyond).await, ["two", "three"], "what the log still has");
}

#[tokio::test]
async fn a_damaged_checkpoint_costs_nothing_beside_a_whole_log() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    let before = account.state().inbox().uid_validity();
    for subject in ["one", "two", "three"] {
        append(&account, &accounts, "INBOX", subject).await;
    }
    account.checkpoint().await.unwrap();
    w.store.delete(&w.head(3)).await.unwrap();
    for subject in ["four", "five"] {
        let other = w.accounts();
        let again = w.open(&other).await;
        assert!(again.is_damaged(), "no objects are removed");
        append(&again, &other, "INBOX", subject).await;
        assert_eq!(again.state().inbox().uid_validity(), before);
    }
    let all = ["one", "two", "three", "four", "five"];
    assert_eq!(subjects(&*w.open(&w.accounts()).await).await, all);
}

#[tokio::test]
async fn recent_messages_are_recent_for_one_session_only() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let account = w.open(&accounts).await;
    append(&account, &accounts, "INBOX", "one").await;
    let inbox = account.state().inbox().id();
    let below = |n| Uid::new(n).unwrap();
    assert_eq!(account.claim_recent(inbox, below(2)).get(), 1);
    assert_eq!(account.claim_recent(inbox, below(2)).get(), 2);
    while account.state().inbox().recent_from().get() != 2 {
        tokio::task::yield_now().await;
    }
    append(&account, &accounts, "INBOX", "two").await;
    append(&account, &accounts, "INBOX", "three").await;
    // A session that knows of the first two only does not take the third from a session that
    // reports it.
    assert_eq!(account.claim_recent(inbox, below(3)).get(), 2);
    assert_eq!(account.claim_recent(inbox, below(2)).get(), 3, "and nobody gives back");
    assert_eq!(account.claim_recent(inbox, below(4)).get(), 3);
}

#[tokio::test]
async fn accounts_are_shared_while_used_and_unloaded_after() {
    let w = Fixture::new();
    let accounts = w.accounts();
    let (one, two) = (w.open(&accounts).await, w.open(&accounts).await);
    assert!(Arc::ptr_eq(&one, &two));
    drop((one, two));
    assert_eq!(accounts.loaded(), 1);
    w.clock.advance(Duration::from_secs(120));
    // Loading started a round of maintenance, which holds the account until it is done.
    while accounts.loaded() > 0 {
        accounts.evict_idle();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn messages_that_are_stored_together_are_read_back_exactly() {
    let world = Fixture::new();
    let accounts = world.accounts();
    let account = world.open(&accounts).await;
    let noise = |size: usize| {
        let mut bytes = b"Subject: noise\r\n\r\n".to_vec();
        let start = bytes.len();
        bytes.resize(start + size, 0);
        SeededRandom::new(size as u64).fill(&mut bytes[start..]);
        bytes
    };
    let mut mails: Vec<Vec<u8>> = (0..50).map(|n| mail(&format!("m{n}"))).collect();
    mails.extend([Vec::new(), noise(60_000), noise(70_000), noise(65_500), mail("last"), noise(200_000)]);
    let large = sealpost_account::IngestBatch::MESSAGE_BYTES;
    mails.extend([noise(large - 18), noise(large - 17), mail("the very last")]);
    let batch = account.ingest_batch();
    let mut stored = batch.add(mails[..30].to_vec()).await.unwrap();
    stored.extend(batch.add(mails[30..].to_vec()).await.unwrap());
    batch.finish().await.unwrap();
    assert_eq!(stored.len(), mails.len());
    assert_eq!(accounts.memory().in_use(), 0);
    let mailbox = account.state().inbox().id();
    let new = |stored: &Stored| NewMessage {
        stored: stored.clone(),
        flags: Default::default(),
        received: Timestamp(1),
    };
    let (_, uids) = account.append(mailbox, stored.iter().map(new).collect()).await.unwrap();
    for (uid, mail) in uids.iter().zip(&mails) {
        let message = {
            let state = account.state();
            state.message(state.inbox().row(*uid).unwrap().message).unwrap().clone()
        };
        let raw: Vec<_> = account.reader(&message).raw(0..message.size()).try_collect().await.unwrap();
        assert_eq!(raw.concat(), *mail);
        assert_eq!(account.structure(&message).await.unwrap().size, mail.len() as u64);
    }
    let objects: Vec<_> = stored.iter().map(Stored::object).collect();
    assert!(objects.windows(2).take(29).all(|two| two[0] < two[1]), "neighbours have neighbouring names");
}

#[tokio::test]
async fn a_log_that_went_back_is_read_only() {
    let w = Fixture::new();
    let marks = Watermarks::default();
    let begin = || {
        let accounts = w.accounts();
        accounts.set_watermarks(marks.clone());
        accounts
    };
    let accounts = begin();
    for subject in ["one", "two", "three"] {
        w.deliver(&accounts, subject).await;
    }
    assert_eq!(subjects(&*w.open(&accounts).await).await, ["one", "two", "three"]);
    drop(accounts);
    // An attacker removes the newest entry from the store.
    let last = format!("acct/{ID}/log/{:016x}", 3);
    w.store.delete(&last).await.unwrap();
    let accounts = begin();
    let account = w.open(&accounts).await;
    assert_eq!(subjects(&account).await, ["one", "two"], "what is left can be read");
    let stored = store(&accounts, "four").await;
    let refused = accounts.deliver(ID, &w.public(), stored, Delivery::default()).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Retry, "the sender tries again");
    let change =
        account.commit(|state| Ok((ops::create_mailbox(state, "new", Default::default())?, ()))).await;
    assert_eq!(change.err().unwrap().kind(), Kind::Retry);
    assert_eq!((log_entries(&w.store).await, marks.back()), (2, 1));
    // A node that has not read it cannot know, and continues; so can one after a confirmation.
    drop((account, accounts));
    let accounts = w.accounts();
    w.deliver(&accounts, "four").await;
    assert_eq!(subjects(&*w.open(&accounts).await).await, ["one", "two", "four"]);
}

/// A client may disconnect at any moment: also while a long step of its session waits for others.
#[tokio::test]
async fn a_cancelled_reader_skips_no_entry() {
    let f = Fixture::new();
    let (here, there) = (f.accounts(), f.accounts());
    f.deliver(&here, "one").await;
    let account = f.open(&here).await;
    let reader = f.open(&there).await;
    // Long steps of other sessions take all turns.
    let (stop, held) = (tokio::sync::watch::Sender::new(false), Arc::new(std::sync::Barrier::new(2)));
    let turns = std::thread::available_parallelism().map_or(1, |cpus| (cpus.get() / 2).max(1));
    let threads: Vec<_> = (0..turns)
        .map(|_| {
            let (there, is_held, stopped) = (there.clone(), held.clone(), stop.subscribe());
            let thread = std::thread::spawn(move || {
                futures::executor::block_on(there.cpu_gate().run(LONG_ROWS, || {
                    is_held.wait();
                    while !*stopped.borrow() {
                        std::thread::yield_now();
                    }
                }));
            });
            held.wait();
            thread
        })
        .collect();
    let mailbox = account.state().inbox().id();
    let store = |_: &_| {
        let (uids, action) = (UidSet::range(Uid::MIN, Uid::new(LONG_ROWS as u32).unwrap()), FlagAction::Add);
        let flags = Flags::system(SystemFlags::SEEN);
        Ok((vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }], ()))
    };
    account.commit(store).await.unwrap();
    let mut cancelled = Box::pin(reader.refresh());
    for _ in 0..1000 {
        assert!(futures::poll!(&mut cancelled).is_pending(), "it waits for its turn");
        tokio::task::yield_now().await;
    }
    drop(cancelled);
    stop.send_replace(true);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    reader.refresh().await.unwrap();
    for account in [&account, &reader] {
        assert_eq!(account.state().inbox().unseen(), 0);
    }
}
