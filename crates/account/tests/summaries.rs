//! Summaries of a mailbox's messages: they are those of the stored structures and texts, whatever happened before.

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::{Account, Accounts, Event, Flags, NewMessage, Parts, Summary};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, MailboxId, Random, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_vault::{RootKey, Store, message};

const ID: AccountId = AccountId([9; 16]);

struct World {
    store: Store,
    accounts: Accounts,
    account: Arc<Account>,
}

impl World {
    async fn new() -> Self {
        let random = Arc::new(SeededRandom::new(11));
        let root = RootKey::generate(&*random);
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let random: Arc<dyn Random> = random;
        let store = Store::memory();
        let accounts = Accounts::new(store.clone(), clock, random, Budget::new(64 << 20));
        let account = accounts.open(ID, &root).await.unwrap();
        World { store, accounts, account }
    }

    async fn append(&self, mails: &[String]) {
        let mut new = Vec::new();
        for mail in mails {
            let mut ingest = self.accounts.ingest(ID).await.unwrap();
            ingest.write(mail.as_bytes()).await.unwrap();
            let stored = ingest.finish().await.unwrap();
            new.push(NewMessage { stored, flags: Flags::default(), received: Timestamp(0) });
        }
        self.account.append(self.inbox(), new).await.unwrap();
    }

    fn inbox(&self) -> MailboxId {
        self.account.state().inbox().id()
    }

    async fn summaries(&self, uids: UidSet, parts: Parts) -> Vec<(Uid, sealpost_base::Result<Summary>)> {
        self.account.summaries(self.inbox(), uids, parts).collect().await
    }
}

fn all() -> UidSet {
    UidSet::range(Uid::MIN, Uid::new(u32::MAX).unwrap())
}

fn uid(n: u32) -> Uid {
    Uid::new(n).unwrap()
}

fn mails(n: usize) -> Vec<String> {
    let mail =
        |i| format!("Subject: number {i}\r\nFrom: a{i}@example.org\r\nMessage-ID: <{i}@x>\r\n\r\nBody\r\n");
    (1..=n).map(mail).collect()
}

#[tokio::test]
async fn summaries_come_in_order_and_only_those_that_were_asked_for() {
    let w = World::new().await;
    w.append(&mails(20)).await;
    let gone = UidSet::range(uid(3), uid(5));
    let mailbox = w.inbox();
    w.account.commit(|_| Ok((vec![Event::Expunged { mailbox, uids: gone.clone() }], ()))).await.unwrap();
    let mut uids = UidSet::range(uid(2), uid(6));
    uids.insert(uid(20));
    uids.insert(uid(4_000_000_000));
    let found = w.summaries(uids, Parts::ALL).await;
    let found: Vec<_> =
        found.iter().map(|(uid, s)| (uid.get(), s.as_ref().unwrap().subject().unwrap().to_owned())).collect();
    let expect = [2, 6, 20].map(|n| (n, format!("number {n}")));
    assert_eq!(found, expect);
    assert!(w.account.summaries(MailboxId(999), all(), Parts::ALL).next().await.is_none());
}

#[tokio::test]
async fn a_damaged_message_is_an_error_in_its_place() {
    let w = World::new().await;
    w.append(&mails(3)).await;
    let second = w.account.state().messages().nth(1).unwrap().1.object;
    w.store.delete(&message::path(ID, second)).await.unwrap();
    let found = w.summaries(all(), Parts::DATE).await;
    assert_eq!(found.len(), 3);
    assert_eq!(found[1].1.as_ref().err().unwrap().kind(), Kind::NotFound);
    assert!(found[0].1.is_ok() && found[2].1.is_ok());
}
