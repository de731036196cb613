//! A new root key for later mail: earlier mail stays readable, and the old key opens nothing later.

use std::sync::Arc;

use sealpost_account::event::Batch;
use sealpost_account::{Account, Accounts, Delivery, Event};
use sealpost_base::{Budget, FakeClock, Kind, Position, SeededRandom, Timestamp, UidValidity};
use sealpost_directory::{AccountName, AccountRecord, Directory, NewAccount, Secret, UnverifiedSlots};
use sealpost_vault::entry::{self, Generation, Header, LogKey};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{AccountKeys, Epoch, RootKey, Store};

struct Fixture {
    store: Store,
    key: ServerKeys,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    directory: Directory,
    name: AccountName,
}

impl Fixture {
    async fn new() -> (Self, RootKey) {
        let random = Arc::new(SeededRandom::new(5));
        let (store, key) = (Store::memory(), ServerKeys::generate(&*random));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        let name = AccountName::parse("me@x").unwrap();
        let (_, root) = directory.create(&name, NewAccount::with_password(secret("one"))).await.unwrap();
        (Fixture { store, key, clock, random, directory, name }, root)
    }

    /// Those of another process.
    fn accounts(&self) -> Accounts {
        let (log, budget) = (LogKey::of(&self.key), Budget::new(64 << 20));
        Accounts::new(self.store.clone(), log, self.clock.clone(), self.random.clone(), budget)
    }

    async fn record(&self) -> AccountRecord {
        self.directory.get(&self.name).await.unwrap()
    }

    /// Delivers with the public key that the record has now.
    async fn deliver(&self, accounts: &Accounts, subject: &str) {
        let record = self.record().await;
        let mut ingest = accounts.ingest(record.id).await.unwrap();
        ingest.write(format!("Subject: {subject}\r\n\r\ntext of {subject}\r\n").as_bytes()).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        accounts.deliver(record.id, &record.public, stored, Delivery::default()).await.unwrap();
    }

    async fn root(&self, password: &str) -> RootKey {
        self.directory.unlock(&self.name, secret(password)).await.unwrap().1
    }

    async fn rekey(&self, root: &RootKey) -> sealpost_base::Result<RootKey> {
        let rekeyed = self.directory.rekey(&self.name, root, UnverifiedSlots::Refuse).await?;
        Ok(rekeyed.root)
    }

    async fn open(&self, root: &RootKey) -> Arc<Account> {
        self.accounts().open(self.record().await.id, root).await.unwrap()
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

/// UIDVALIDITY of the inbox, and the UIDs and subjects there.
async fn inbox(account: &Account) -> (UidValidity, Vec<(u32, String)>) {
    let (validity, rows): (_, Vec<_>) = {
        let state = account.state();
        let inbox = state.inbox();
        let rows = inbox.all_rows().map(|row| (row.uid.get(), state.message(row.message).unwrap()));
        (inbox.uid_validity(), rows.collect())
    };
    let mut subjects = Vec::new();
    for (uid, message) in rows {
        let structure = account.structure(&message).await.unwrap();
        subjects.push((uid, structure.envelope.subject.clone().unwrap()));
    }
    (validity, subjects)
}

#[tokio::test]
async fn mail_of_every_epoch_stays_readable_under_its_uid() {
    let (f, mut root) = Fixture::new().await;
    let (token, phone) = f.directory.add_app_password(&f.name, &root, "phone").await.unwrap();
    let recovery = f.directory.set_recovery(&f.name, &root).await.unwrap();
    let accounts = f.accounts();
    let mut expected = Vec::new();
    let mut validity = None;
    for epoch in 1..=4u32 {
        let subject = format!("epoch {epoch}");
        f.deliver(&accounts, &subject).await;
        expected.push((epoch, subject));
        let account = f.open(&root).await;
        let found = inbox(&account).await;
        assert_eq!((*validity.get_or_insert(found.0), &expected), (found.0, &found.1));
        if epoch == 2 {
            account.checkpoint().await.unwrap();
        }
        assert_eq!(f.record().await.epoch(), Epoch(epoch));
        root = f.rekey(&root).await.unwrap();
        for secret in ["one", &phone, &recovery] {
            assert!(f.root(secret).await.same(&root), "every slot holds the new key");
        }
    }
    // Read by the newest key alone, from a checkpoint of the second epoch and from one of the last.
    let account = f.open(&f.root("one").await).await;
    assert_eq!(inbox(&account).await.1, expected);
    account.checkpoint().await.unwrap();
    assert_eq!(inbox(&*f.open(&f.root(&phone).await).await).await.1, expected);
    f.directory.revoke_app_password(&f.name, token.id).await.unwrap();
    f.directory.set_password(&f.name, &root, secret("two")).await.unwrap();
    assert!(f.root("two").await.same(&root));
}

/// The attack: a backup of the record and the password of that time, and everything that the store has now.
#[tokio::test]
async fn an_old_backup_and_password_open_no_later_mail() {
    let (f, root) = Fixture::new().await;
    let backup = f.record().await;
    let accounts = f.accounts();
    f.deliver(&accounts, "before").await;
    f.directory.set_password(&f.name, &root, secret("two")).await.unwrap();
    let next = f.rekey(&root).await.unwrap();
    f.deliver(&accounts, "after").await;
    let old = backup.opener()(&backup.slots[0], b"one").expect("the backup opens with its own password");
    let old = old.root;
    assert!(old.same(&root) && next.follows(&old));
    let (id, old_keys) = (backup.id, AccountKeys::derive(&old, backup.id));
    let entry = async |position: u64| {
        let path = format!("acct/{id}/log/{position:016x}");
        f.store.read(&path).await.unwrap()
    };
    let open = |keys: &AccountKeys, at: u64, object: &[u8]| {
        entry::open(keys, id, sealpost_base::Position(at), object)
    };
    let (before, after) = (entry(1).await, entry(2).await);
    assert!(open(&old_keys, 1, &before).is_ok());
    assert_eq!(open(&old_keys, 2, &after).unwrap_err().kind(), Kind::Denied);
    assert!(open(&AccountKeys::derive(&next, id), 2, &after).is_ok());
    assert_eq!(f.accounts().open(id, &old).await.err().unwrap().kind(), Kind::Denied);
    // Nor does what the record says of earlier keys lead forward.
    let record = f.record().await;
    assert!(record.earlier.as_ref().unwrap().before(&old, id).is_err());
    assert!(record.slots.iter().all(|slot| slot.open(id, b"one").is_none()));
}

#[tokio::test]
async fn a_node_with_the_key_before_takes_nothing_for_damage() {
    let (f, root) = Fixture::new().await;
    let (here, there) = (f.accounts(), f.accounts());
    f.deliver(&here, "before").await;
    let id = f.record().await.id;
    let (session, other) = (here.open(id, &root).await.unwrap(), there.open(id, &root).await.unwrap());
    let before = inbox(&session).await;
    let next = f.rekey(&root).await.unwrap();
    f.deliver(&here, "after").await;
    for account in [&session, &other] {
        assert_eq!(account.refresh().await.unwrap_err().kind(), Kind::Denied);
        assert_eq!(inbox(account).await, before, "what was shown stays as it was");
    }
    // A login with the new key gets all of it, beside the session that has not ended yet.
    for accounts in [&here, &there] {
        let found = inbox(&accounts.open(id, &next).await.unwrap()).await;
        assert_eq!((found.0, found.1.len()), (before.0, 2));
        assert_eq!(accounts.open(id, &root).await.err().unwrap().kind(), Kind::Denied);
    }
    // A delivery to the key before that was under way is read.
    let mut ingest = here.ingest(id).await.unwrap();
    ingest.write(b"Subject: late\r\n\r\n").await.unwrap();
    let (stored, public) = (ingest.finish().await.unwrap(), AccountKeys::derive(&root, id).public());
    here.deliver(id, &public, stored, Delivery::default()).await.unwrap();
    let found = inbox(&*f.open(&next).await).await;
    assert_eq!((found.0, found.1.len()), (before.0, 3));
}

#[tokio::test]
async fn another_key_than_the_accounts_rekeys_nothing() {
    let (f, root) = Fixture::new().await;
    let foreign = RootKey::generate(&*f.random);
    assert_eq!(f.rekey(&foreign).await.err().unwrap().kind(), Kind::Denied);
    let next = f.rekey(&root).await.unwrap();
    assert_eq!(f.rekey(&root).await.err().unwrap().kind(), Kind::Denied, "it is the one before");
    assert_eq!(
        f.directory.set_password(&f.name, &root, secret("evil")).await.unwrap_err().kind(),
        Kind::Denied
    );
    f.directory.set_password(&f.name, &next, secret("two")).await.unwrap();
}

/// What a command that changes the record asks first: the record may be another one than the log's.
#[tokio::test]
async fn a_record_that_is_not_of_the_log_is_noticed() {
    let (f, root) = Fixture::new().await;
    let (id, foreign) = (f.record().await.id, RootKey::generate(&*f.random));
    let check = async |root: &RootKey| f.accounts().check_key(id, root).await.map_err(|e| e.kind());
    assert_eq!((check(&root).await, check(&foreign).await), (Ok(()), Ok(())), "a log without entries");
    let accounts = f.accounts();
    f.deliver(&accounts, "one").await;
    f.deliver(&accounts, "two").await;
    assert_eq!((check(&root).await, check(&foreign).await), (Ok(()), Err(Kind::Corrupt)));
    // A record from before the account was given another key, restored by a thief of server.key.
    let next = f.rekey(&root).await.unwrap();
    f.deliver(&accounts, "three").await;
    assert_eq!((check(&next).await, check(&root).await), (Ok(()), Err(Kind::Denied)));
    // From a checkpoint, below which nothing is left.
    f.open(&next).await.checkpoint().await.unwrap();
    let later = foreign.next(&*f.random).unwrap();
    assert_eq!((check(&next).await, check(&later).await), (Ok(()), Err(Kind::Corrupt)));
    // A log whose end is damaged is still the account's: a password can be changed.
    let thief = foreign.delivery_key(id);
    let mut ingest = accounts.ingest(id).await.unwrap();
    ingest.write(b"Subject: gone\r\n\r\n").await.unwrap();
    let stored = ingest.finish().await.unwrap();
    accounts.deliver(id, &thief, stored, Delivery::default()).await.unwrap();
    assert_eq!(check(&next).await, Ok(()));
}

/// A thief with an old backup, its password and `server.key` appends as the owner, under the key of then.
#[tokio::test]
async fn an_earlier_key_seals_no_owner_entry_behind_a_later() {
    let (f, root) = Fixture::new().await;
    let accounts = f.accounts();
    f.deliver(&accounts, "before").await;
    let (id, next) = (f.record().await.id, f.rekey(&root).await.unwrap());
    let forge = async |subject: &str| {
        let log = f.store.names_below(&format!("acct/{id}/log")).await.unwrap();
        let last = log.last().unwrap();
        let prev = entry::hash(&f.store.read(&format!("acct/{id}/log/{last}")).await.unwrap());
        let position = Position(u64::from_str_radix(last, 16).unwrap() + 1);
        let header = Header { account: id, position, prev, generation: Generation::default() };
        let events = vec![Event::ObjectPut { name: format!("forged/{subject}"), value: Vec::new() }];
        let batch = Batch { at: Timestamp(0), events }.encode();
        let keys = AccountKeys::derive(&root, id);
        let sealed = entry::seal_owner(&keys, &LogKey::of(&f.key), &header, &batch, &*f.random);
        f.store.put_new(&format!("acct/{id}/log/{:016x}", position.0), sealed).await.unwrap();
    };
    let forged = |account: &Account| account.state().objects("forged/").count();
    // A session of then may still append: nothing was sealed under the later key yet.
    forge("early").await;
    let account = f.open(&next).await;
    assert_eq!(forged(&account), 1);
    let event = Event::Subscribed { name: "Sent".to_owned(), on: false };
    account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
    forge("late").await;
    for account in [&account, &f.open(&next).await] {
        account.refresh().await.unwrap();
        assert_eq!((forged(account), account.is_damaged()), (1, false));
    }
    // Deliveries to the earlier key that were under way count, and so does what comes behind it all.
    let mut ingest = accounts.ingest(id).await.unwrap();
    ingest.write(b"Subject: late\r\n\r\n").await.unwrap();
    let (stored, public) = (ingest.finish().await.unwrap(), AccountKeys::derive(&root, id).public());
    accounts.deliver(id, &public, stored, Delivery::default()).await.unwrap();
    // From a checkpoint too.
    account.refresh().await.unwrap();
    account.checkpoint().await.unwrap();
    forge("later").await;
    let account = f.open(&next).await;
    assert_eq!((forged(&account), inbox(&account).await.1.len()), (1, 2));
}
