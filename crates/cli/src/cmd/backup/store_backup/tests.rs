//! What a server does while its store is copied, at the moments that matter.

mod logs;

use std::time::Duration;

use futures::FutureExt;
use futures::future::Either;
use object_store::memory::InMemory;
use sealpost_account::{Account, Accounts, Event, NewMessage, Options};
use sealpost_base::{FakeClock, Random, SeededRandom, Timestamp, Uid, UidSet};
use sealpost_directory::Directory;
use sealpost_testkit::faulty::{Faulty, Held, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, ShareKeys};

use super::*;

const ID: AccountId = AccountId([7; 16]);

/// A server that removes expunged messages at once, and the destination of the copy of its store.
struct Fixture {
    faulty: Faulty,
    from: Store,
    to: Store,
    accounts: Accounts,
    account: Arc<Account>,
    root: RootKey,
}

impl Fixture {
    async fn new() -> Self {
        let objects = Arc::new(InMemory::new());
        let (faulty, to) = (Faulty::new(objects.clone(), Plan::default(), 1), Store::memory());
        let random = Arc::new(SeededRandom::new(1));
        let root = RootKey::generate(&*random);
        let accounts = accounts(&Store::over(objects), random);
        let account = accounts.open(ID, &root).await.unwrap();
        Fixture { from: Store::over(Arc::new(faulty.clone())), faulty, to, accounts, account, root }
    }

    async fn append(&self) {
        let mut ingest = self.accounts.ingest(ID).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let inbox = self.account.state().inbox().id();
        let new = NewMessage { stored, flags: Default::default(), received: Timestamp(0) };
        self.account.append(inbox, vec![new]).await.unwrap();
    }

    /// Expunges a message and gives it up.
    async fn evict_bodies(&self, uid: u32) {
        let (inbox, uid) = (self.account.state().inbox().id(), Uid::new(uid).unwrap());
        let event = Event::Expunged { mailbox: inbox, uids: UidSet::range(uid, uid) };
        self.account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
        assert_eq!(self.account.collect_garbage().await.unwrap().purged, 1);
    }

    /// Copies, with `meanwhile` at the moment of `held`; whether that came.
    async fn copy_while(&self, mut held: Held, meanwhile: impl Future<Output = ()>) -> (bool, Summary) {
        let mut copy = StoreBackup::new(self.from.clone(), self.to.clone());
        let meanwhile = std::pin::pin!(async {
            held.reached().await;
            meanwhile.await;
            drop(held);
        });
        let came = match futures::future::select(copy.copy_all().boxed(), meanwhile).await {
            Either::Left((copied, _)) => copied.map(|()| false),
            Either::Right(((), copied)) => copied.await.map(|()| true),
        };
        (came.unwrap(), copy.summary)
    }

    /// Whether the account in the copy is as it is here, with all of its messages.
    async fn copy_is_whole(&self) {
        let copied = accounts(&self.to, Arc::new(SeededRandom::new(2))).open(ID, &self.root).await.unwrap();
        let uids = |account: &Account| account.state().inbox().uids().to_string();
        assert_eq!(uids(&copied), uids(&self.account));
        let messages: Vec<_> = copied.state().messages().map(|(_, message)| message).collect();
        for message in messages {
            self.to.read(&sealpost_vault::message::path(ID, message.object)).await.unwrap();
        }
    }
}

fn accounts(store: &Store, random: Arc<dyn Random>) -> Accounts {
    let options = Options { grace: Duration::ZERO, ..Options::default() };
    let clock = Arc::new(Advancing(FakeClock::new(Timestamp(0))));
    Accounts::with(store.clone(), LogKey::for_tests(), clock, random, options)
}

/// A clock of which every look is a moment later.
struct Advancing(FakeClock);

impl sealpost_base::Clock for Advancing {
    fn now(&self) -> Timestamp {
        self.0.advance(Duration::from_millis(1));
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

#[tokio::test]
async fn messages_removed_during_a_backup_are_not_in_the_copy() {
    let w = Fixture::new().await;
    for _ in 0..3 {
        w.append().await;
    }
    let held = w.faulty.hold_listing("/msg", 0);
    let (came, summary) = w
        .copy_while(held, async {
            w.evict_bodies(2).await;
            w.append().await;
        })
        .await;
    assert!(came && summary.is_complete());
    w.copy_is_whole().await;
}

#[tokio::test]
async fn no_copied_checkpoint_lies_behind_the_end_of_the_log() {
    let w = Fixture::new().await;
    w.append().await;
    // Before any listing of either.
    for kind in ["/manifest", "/log"] {
        for passes in 0usize.. {
            let held = w.faulty.hold_listing(kind, passes);
            let (came, _) = w
                .copy_while(held, async {
                    w.append().await;
                    w.account.checkpoint().await.unwrap();
                })
                .await;
            let mut manifests = w.to.names_below(&format!("acct/{ID}/manifest")).await.unwrap();
            // Of checkpoints, not of their witnesses.
            manifests.retain(|name| name.len() == POSITION_DIGITS);
            let log = w.to.names_below(&format!("acct/{ID}/log")).await.unwrap();
            assert!(manifests.iter().max() <= log.iter().max(), "{kind} {passes}: {manifests:?} {log:?}");
            if !came {
                assert!(passes >= 2, "{kind}: {passes} listings");
                break;
            }
        }
    }
}

/// A shared mailbox gets another key: what the copy has of its log may be sealed under that.
#[tokio::test]
async fn records_in_the_copy_are_no_older_than_its_logs() {
    let w = Fixture::new().await;
    w.append().await;
    let random = Arc::new(SeededRandom::new(3));
    let key = ServerKeys::generate(&*random);
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let directory = Directory::new(w.from.clone(), key, clock, random.clone());
    let (owner, public) = (AccountId([1; 16]), w.root.delivery_key(ID));
    let record = directory.record_share(owner, ID, public).await.unwrap();
    let held = w.faulty.hold_listing("/log", 0);
    let (came, summary) = w
        .copy_while(held, async {
            let next = w.root.next(&*random).unwrap();
            let keys = ShareKeys::seal(ID, &next, &[(owner, public)], &*random).unwrap();
            assert!(directory.set_share_keys(&record, next.delivery_key(ID), keys).await.unwrap());
            w.append().await;
        })
        .await;
    assert!(came && summary.is_complete());
    let versions = format!("shares/{owner}/{ID}");
    assert_eq!(w.to.names_below(&versions).await.unwrap(), w.from.names_below(&versions).await.unwrap());
    // A record that is made meanwhile is not in the copy, as the log that it is about.
    let held = w.faulty.hold_listing("/log", 0);
    w.copy_while(held, async {
        directory.record_share(owner, AccountId([9; 16]), public).await.unwrap();
    })
    .await;
    assert_eq!(w.to.names_below(&format!("shares/{owner}")).await.unwrap().len(), 1);
}
