//! Changes that withdraw a secret, killed at every step.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use sealpost_base::{FakeClock, Result, SeededRandom, Timestamp};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::record::open_record;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::slot::Slot;
use sealpost_vault::{RootKey, Sealed, Store};

use crate::accounts::slots_of;
use crate::{AccountName, AppPassword, Directory, NewAccount, Secret};

/// More calls than any change takes.
const CALLS: u64 = 200;

/// An account on a store that can die, with a password and an app password.
struct Fixture {
    faulty: Faulty,
    store: Store,
    key: ServerKeys,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    name: AccountName,
    root: RootKey,
    phone: AppPassword,
}

impl Fixture {
    async fn new() -> Self {
        let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let (random, clock) =
            (Arc::new(SeededRandom::new(7)), Arc::new(FakeClock::new(Timestamp(1_000_000))));
        let (key, store) = (ServerKeys::generate(&*random), Store::over(Arc::new(faulty.clone())));
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        let name = AccountName::parse("me@x").unwrap();
        let (_, root) = directory.create(&name, NewAccount::with_password(secret("one"))).await.unwrap();
        let (phone, _) = directory.add_app_password(&name, &root, "phone").await.unwrap();
        Fixture { faulty, store, key, clock, random, name, root, phone }
    }

    /// As another process has it.
    fn directory(&self) -> Directory {
        Directory::new(self.store.clone(), self.key.clone(), self.clock.clone(), self.random.clone())
    }

    /// The slots in each object of the account's record.
    async fn stored(&self) -> Vec<Vec<Slot>> {
        let objects = self.store.list("accounts", None);
        let paths: Vec<String> = objects.map_ok(|listed| listed.path).try_collect().await.unwrap();
        let mut stored = Vec::new();
        for path in paths {
            let object = self.store.read(&path).await.unwrap();
            stored.push(slots_of(&open_record(&self.key, &path, &object).unwrap()).unwrap());
        }
        stored
    }

    /// The slots in force; none of an account that was purged.
    async fn in_force(&self) -> Vec<Slot> {
        let record = self.directory().newest_account(&self.name).await.unwrap().unwrap();
        record.slots
    }

    /// Whether a slot is stored that is not in force.
    async fn has_a_copy(&self) -> bool {
        let in_force = self.in_force().await;
        self.stored().await.iter().flatten().any(|slot| !in_force.contains(slot))
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Password,
    Revoke,
    Recovery,
    Purge,
}

async fn make(change: Change, fixture: &Fixture) -> Result<()> {
    let (directory, name) = (fixture.directory(), &fixture.name);
    match change {
        Change::Password => directory.set_password(name, &fixture.root, secret("two")).await.map(drop),
        Change::Revoke => directory.revoke_app_password(name, fixture.phone.id).await,
        Change::Recovery => directory.set_recovery(name, &fixture.root).await.map(drop),
        Change::Purge => directory.purge(name, Timestamp(i64::MAX)).await.map(drop),
    }
}

/// Kills the change after each call to the store. Every copy of a withdrawn slot is reported, and
/// removed by the next maintenance.
#[tokio::test]
async fn a_killed_withdrawal_is_finished_at_every_step() {
    for change in [Change::Password, Change::Revoke, Change::Recovery, Change::Purge] {
        let mut left_copies = 0;
        for calls in 0..CALLS {
            let fixture = Fixture::new().await;
            let directory = fixture.directory();
            match change {
                Change::Purge => directory.remove(&fixture.name).await.unwrap(),
                Change::Recovery => drop(directory.set_recovery(&fixture.name, &fixture.root).await.unwrap()),
                Change::Password | Change::Revoke => {}
            }
            fixture.clock.advance(Duration::from_secs(1));
            let before = fixture.in_force().await;
            fixture.faulty.die_after(calls);
            let done = make(change, &fixture).await;
            fixture.faulty.die_after(u64::MAX);
            let record = fixture.directory().newest_account(&fixture.name).await.unwrap().unwrap();
            let named = !fixture.directory().withdrawn_copies(&record).await.unwrap().is_empty();
            assert_eq!(named, fixture.has_a_copy().await, "{change:?}, {calls} calls");
            left_copies += u64::from(named);
            assert_eq!(
                fixture.directory().maintain_records(None).await.unwrap().finished,
                usize::from(named)
            );
            assert!(!fixture.has_a_copy().await, "{change:?}, {calls} calls");
            assert_eq!(fixture.in_force().await.len(), record.slots.len(), "what is in force stays");
            assert_eq!(
                fixture.directory().maintain_records(None).await.unwrap().finished,
                0,
                "nothing is left to do"
            );
            assert!(fixture.in_force().await == before || record.slots != before);
            if done.is_ok() {
                assert!(!named && calls > 3, "{change:?}, {calls} calls");
                break;
            }
            assert!(calls + 1 < CALLS, "{change:?} never ends");
        }
        assert!(left_copies > 0, "{change:?}: no kill left a copy, so nothing was tested");
    }
}

/// The local store overwrites a record before it unlinks it; killed in between it leaves a file that is none.
#[tokio::test]
async fn an_earlier_version_that_was_half_erased_goes_too() {
    let fixture = Fixture::new().await;
    let directory = fixture.directory();
    let record = directory.get(&fixture.name).await.unwrap();
    let earlier = format!("{}/{:016x}", directory.path_of(&fixture.name), record.version - 1);
    fixture.store.delete(&earlier).await.unwrap();
    fixture.store.put_new(&earlier, Sealed::marker()).await.unwrap();
    assert_eq!(directory.withdrawn_copies(&record).await.unwrap(), std::slice::from_ref(&earlier));
    assert_eq!(directory.maintain_records(None).await.unwrap().finished, 1);
    assert!(fixture.store.read(&earlier).await.is_err());
    assert!(directory.unlock(&fixture.name, secret("one")).await.is_ok());
    assert!(fixture.store.list("accounts", None).count().await <= 2);
}
