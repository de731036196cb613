//! The directory over a memory store, with two instances where two processes would be.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::{ObjectStore, PutPayload};
use sealpost_base::{AccountId, FakeClock, Kind, SeededRandom, Timestamp, limits};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Sealed;
use sealpost_vault::record::seal_record;
use sealpost_vault::slot::SlotKind;

use super::*;

mod forged;
mod grants;
mod logins;
mod noise_alone;
mod withheld;

struct Fixture {
    store: Store,
    key: ServerKeys,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(7));
        let clock = Arc::new(FakeClock::new(Timestamp(1_000_000)));
        Fixture { store: Store::memory(), key: ServerKeys::generate(&*random), clock, random }
    }

    fn directory(&self) -> Directory {
        Directory::new(self.store.clone(), self.key.clone(), self.clock.clone(), self.random.clone())
            .on_host("host.mail.example", Some("mail.example"), None)
            .unwrap()
    }

    async fn paths(&self, prefix: &str) -> Vec<String> {
        self.store.list(prefix, None).map_ok(|listed| listed.path).try_collect().await.unwrap()
    }
}

fn name(text: &str) -> AccountName {
    AccountName::parse(text).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

fn new(password: &str) -> NewAccount {
    NewAccount::with_password(secret(password))
}

fn addresses(list: &[&str]) -> Vec<Address> {
    list.iter().map(|a| Address::parse(a).unwrap()).collect()
}

async fn alias(directory: &Directory, from: &str, to: &[&str]) {
    // As it may have come about, one target after the other, on several nodes.
    directory.change_alias(&AliasName::parse(from).unwrap(), |_| Ok((&addresses(to)).into())).await.unwrap();
}

async fn names(directory: &Directory, address: &str) -> Vec<String> {
    let resolved = directory.resolve(address).await.unwrap();
    resolved.recipients.iter().map(|r| r.name.to_string()).collect()
}

async fn kind<T>(result: impl Future<Output = Result<T>>) -> Kind {
    result.await.err().expect("this fails").kind()
}

#[tokio::test]
async fn an_account_from_the_cradle_to_the_grave() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    let me = name("Me@Mail.Example");
    let (record, root) = here.create(&me, new("one")).await.unwrap();
    assert_eq!(record.version, 1);
    assert_eq!(kind(there.create(&me, new("two"))).await, Kind::Conflict);

    let (_, again) = there.unlock(&me, secret("one")).await.unwrap();
    assert!(again.same(&root));
    assert_eq!(kind(there.unlock(&me, secret("two"))).await, Kind::Denied);

    there.set_password(&me, &root, secret("two")).await.unwrap();
    assert_eq!(kind(here.unlock(&me, secret("one"))).await, Kind::Denied);
    assert!(
        here.unlock(&me, secret("two")).await.unwrap().1.same(&root),
        "the key is the same, the mail readable"
    );

    here.remove(&me).await.unwrap();
    assert_eq!(kind(there.get(&me)).await, Kind::NotFound);
    assert_eq!(kind(there.remove(&me)).await, Kind::NotFound);
    assert_eq!(kind(there.create(&me, new("x"))).await, Kind::Conflict);
    let listed: Vec<_> = there.list().try_collect().await.unwrap();
    assert!(listed.len() == 1 && listed[0].removed.is_some());

    there.undelete(&me).await.unwrap();
    assert_eq!(kind(there.undelete(&me)).await, Kind::Conflict);
    assert!(here.unlock(&me, secret("two")).await.is_ok());

    here.remove(&me).await.unwrap();
    let removed = world.clock.now();
    assert_eq!(kind(here.purge(&me, removed)).await, Kind::Conflict, "too recent");
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(here.purge(&me, world.clock.now()).await.unwrap(), record.id);
    assert_eq!(kind(here.undelete(&me)).await, Kind::NotFound);
    assert!(here.list().next().await.is_none());
    let (reborn, _) = here.create(&me, new("three")).await.unwrap();
    assert!(reborn.id != record.id && reborn.version > 5, "a new account, and versions never restart");
}

#[tokio::test]
async fn shares_are_deleted_with_their_owners_account() {
    let world = Fixture::new();
    let directory = world.directory();
    let mut shares = Vec::new();
    for (n, account) in [(1, "gone@x"), (2, "kept@x")] {
        let (record, _) = directory.create(&name(account), new("pw")).await.unwrap();
        let share = AccountId([n; 16]);
        directory.record_share(record.id, share, record.public).await.unwrap();
        assert_eq!(kind(directory.record_share(record.id, share, record.public)).await, Kind::Conflict);
        for owner in [record.id, share] {
            let path = format!("acct/{owner}/log/0000000000000001");
            world.store.put_new(&path, seal_record(&world.key, &path, b"x")).await.unwrap();
        }
        assert_eq!(directory.shares_of(record.id).await.unwrap()[0].share, share);
        // A planted object is no version.
        let planted = format!("shares/{}/{share}x/0000000000000001", record.id);
        world.store.put_new(&planted, Sealed::marker()).await.unwrap();
        assert_eq!(directory.shares_of(record.id).await.unwrap().len(), 1);
        shares.push((record.id, share));
    }
    assert_eq!(directory.shares().await.unwrap().len(), 2);
    directory.remove(&name("gone@x")).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(directory.maintain_records(Some(world.clock.now())).await.unwrap().deleted, 1);
    let (kept, share) = shares[1];
    let mut left = [kept, share].map(|id| format!("acct/{id}/log/0000000000000001"));
    left.sort();
    assert_eq!(world.paths("acct").await, left);
    assert_eq!(directory.shares().await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_accounts_removed_long_ago_are_deleted() {
    let world = Fixture::new();
    let directory = world.directory();
    let mut paths = Vec::new();
    for account in ["gone@x", "kept@x", "removed@x"] {
        let (record, _) = directory.create(&name(account), new("pw")).await.unwrap();
        let path = format!("acct/{}/log/0000000000000001", record.id);
        // Any object will do; its content is not read.
        world.store.put_new(&path, seal_record(&world.key, &path, b"x")).await.unwrap();
        paths.push(path);
    }
    directory.remove(&name("gone@x")).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    let removed_before = world.clock.now();
    directory.remove(&name("removed@x")).await.unwrap();

    assert_eq!(directory.maintain_records(Some(removed_before)).await.unwrap().deleted, 1);
    let mut left = paths[1..].to_vec();
    left.sort();
    assert_eq!(world.paths("acct").await, left);
    assert_eq!(kind(directory.undelete(&name("gone@x"))).await, Kind::NotFound);
    directory.undelete(&name("removed@x")).await.unwrap();

    // A run that was interrupted between the record and the objects is finished by the next.
    let leftover = &paths[0];
    world.store.put_new(leftover, seal_record(&world.key, leftover, b"x")).await.unwrap();
    assert_eq!(directory.maintain_records(Some(removed_before)).await.unwrap().deleted, 1);
    assert_eq!(directory.maintain_records(Some(removed_before)).await.unwrap().deleted, 0);
    assert_eq!(world.paths("acct").await, left);
}

#[tokio::test]
async fn tokens_and_the_recovery_code() {
    let world = Fixture::new();
    let directory = world.directory();
    let me = name("me@x");
    let (_, root) = directory.create(&me, new("pw")).await.unwrap();
    let (phone, phone_secret) = directory.add_app_password(&me, &root, "phone").await.unwrap();
    world.clock.advance(Duration::from_secs(1));
    let (desk, _) = directory.add_app_password(&me, &root, "desk").await.unwrap();
    let listed: Vec<_> = directory.get(&me).await.unwrap().app_passwords().collect();
    assert_eq!(listed, [phone.clone(), desk.clone()]);
    assert!(desk.created > phone.created);
    assert!(directory.unlock(&me, secret(&phone_secret)).await.is_ok());

    directory.revoke_app_password(&me, phone.id).await.unwrap();
    assert_eq!(kind(directory.revoke_app_password(&me, phone.id)).await, Kind::NotFound);
    assert_eq!(kind(directory.unlock(&me, secret(&phone_secret))).await, Kind::Denied);

    let old = directory.set_recovery(&me, &root).await.unwrap();
    let code = directory.set_recovery(&me, &root).await.unwrap();
    assert_eq!(kind(directory.unlock(&me, secret(&old))).await, Kind::Denied);
    assert!(directory.unlock(&me, secret(&code)).await.unwrap().1.same(&root));
    assert!(directory.get(&me).await.unwrap().has_recovery());

    for label in [String::new(), "a\nb".to_owned(), "x".repeat(limits::TOKEN_LABEL_BYTES + 1)] {
        assert_eq!(kind(directory.add_app_password(&me, &root, &label)).await, Kind::Invalid);
    }
    let (_, foreign) = directory.create(&name("you@x"), new("pw")).await.unwrap();
    assert_eq!(kind(directory.add_app_password(&me, &foreign, "evil")).await, Kind::Denied);
    assert_eq!(kind(directory.set_password(&me, &foreign, secret("evil"))).await, Kind::Denied);
}

/// Files of the local store that hold `bytes`, under any name and at any offset.
fn files_with(dir: &std::path::Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes) {
            found.push(path);
        }
    }
    found
}

/// The salt and what is sealed, of each slot of the account.
async fn marks(directory: &Directory, me: &AccountName) -> Vec<[Vec<u8>; 2]> {
    let record = directory.get(me).await.unwrap();
    let slots = record.slots.iter().map(|slot| minicbor::to_vec(slot).unwrap());
    slots.map(|slot| [slot[13..45].to_vec(), slot[slot.len() - 40..slot.len() - 16].to_vec()]).collect()
}

/// The attack: the disk, and a secret that was withdrawn. Nothing of its slot is in any file, free
/// page or log.
#[tokio::test]
async fn no_file_holds_a_slot_that_was_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = Fixture::new();
    world.store = Store::local(dir.path()).await.unwrap();
    let (here, me) = (world.directory(), name("me@x"));
    // Other records of many sizes, so that pages are split, merged and used again.
    let crowd = async |round: usize| {
        for n in 0..40 {
            let other = name(&format!("other{n}@x"));
            if round == 0 {
                let (_, root) = here.create(&other, new("pw")).await.unwrap();
                here.add_app_password(&other, &root, "x").await.unwrap();
            }
            let change = |record: &mut AccountRecord| {
                record.quota = Some(round as u64);
                Ok(())
            };
            here.update(&other, change).await.unwrap();
        }
    };
    let (_, root) = here.create(&me, new("one")).await.unwrap();
    let (phone, _) = here.add_app_password(&me, &root, "phone").await.unwrap();
    here.set_recovery(&me, &root).await.unwrap();
    crowd(0).await;
    let all = marks(&here, &me).await;
    assert_eq!(all.len(), 3);
    for mark in all.iter().flatten() {
        assert!(!files_with(dir.path(), mark).is_empty(), "what is in force is there");
    }
    let [password, token, recovery] = &all[..] else { panic!() };
    let gone = |marks: &[Vec<u8>; 2], why: &str| {
        for mark in marks {
            assert_eq!(files_with(dir.path(), mark), [] as [std::path::PathBuf; 0], "{why}");
        }
    };
    here.set_password(&me, &root, secret("two")).await.unwrap();
    gone(password, "the old password");
    crowd(1).await;
    here.revoke_app_password(&me, phone.id).await.unwrap();
    gone(token, "an app password that was revoked");
    here.set_recovery(&me, &root).await.unwrap();
    gone(recovery, "an old recovery code");
    let left = marks(&here, &me).await;
    here.remove(&me).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    here.purge(&me, world.clock.now()).await.unwrap();
    for marks in left.iter().chain(&all) {
        gone(marks, "an account that was purged");
    }
    crowd(2).await;
    assert!(here.unlock(&name("other3@x"), secret("pw")).await.is_ok());
}

/// Where the removal fails, the withdrawal of a secret fails.
#[tokio::test]
async fn a_withdrawn_slot_that_stays_is_an_error() {
    let mut world = Fixture::new();
    let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    world.store = Store::over(Arc::new(faulty.clone()));
    let (here, me) = (world.directory(), name("me@x"));
    let (_, root) = here.create(&me, new("one")).await.unwrap();
    faulty.refuse_deletes(true);
    let failed = here.set_password(&me, &root, secret("two")).await.unwrap_err();
    assert!(failed.kind() == Kind::Retry && failed.to_string().contains("repeat the command"), "{failed}");
    assert!(here.unlock(&me, secret("two")).await.is_ok(), "it is in force");
    faulty.refuse_deletes(false);
    here.set_password(&me, &root, secret("two")).await.unwrap();
    assert_eq!(world.paths("accounts").await.len(), 2);
}

#[tokio::test]
async fn an_account_has_so_many_tokens_and_no_more() {
    let world = Fixture::new();
    let directory = world.directory();
    let (_, root) = directory.create(&name("me@x"), new("pw")).await.unwrap();
    for n in 0..limits::ACCOUNT_APP_PASSWORDS {
        directory.add_app_password(&name("me@x"), &root, &n.to_string()).await.unwrap();
    }
    assert_eq!(kind(directory.add_app_password(&name("me@x"), &root, "more")).await, Kind::Limit);
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let world = Fixture::new();
    let me = name("me@x");
    let (_, root) = world.directory().create(&me, new("pw")).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (directory, me, root) = (world.directory(), me.clone(), root.clone());
            tokio::spawn(async move { directory.add_app_password(&me, &root, &format!("token {n}")).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let record = world.directory().get(&me).await.unwrap();
    assert_eq!((record.app_passwords().count(), record.version), (8, 18));
    assert_eq!(world.paths("accounts").await.len(), 2, "old versions are pruned");
}

#[tokio::test]
async fn a_change_that_lost_the_race_is_decided_again() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    let me = name("me@x");
    here.create(&me, new("pw")).await.unwrap();
    let rival = futures::executor::block_on(async { there.get(&me).await.unwrap() });
    let mut runs = 0;
    let quota = here
        .update(&me, |record| {
            runs += 1;
            if runs == 1 {
                // Another writer's change arrives between our read and our write.
                let mut rival = rival.clone();
                rival.quota = Some(5);
                rival.version += 1;
                let bytes = minicbor::to_vec(&rival).unwrap();
                let path = format!("accounts/me@x/{:016x}", rival.version);
                let sealed = seal_record(&world.key, &path, &bytes);
                futures::executor::block_on(world.store.put_new(&path, sealed)).unwrap();
            }
            record.quota = record.quota.map(|quota| quota * 2);
            Ok(record.quota)
        })
        .await
        .unwrap();
    assert_eq!((quota, runs), (Some(10), 2));
    assert_eq!(here.get(&me).await.unwrap().quota, Some(10));
}

/// A process is suspended between reading a record and writing the next version, and others change
/// it meanwhile, so often that the version it writes was removed again.
#[tokio::test]
async fn a_suspended_writer_never_writes_an_unread_version() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    let me = name("me@x");
    here.create(&me, new("pw")).await.unwrap();
    for others in 1..6 {
        let mut runs = 0;
        let slept = here
            .update(&me, |record| {
                runs += 1;
                for n in (1..=others).take_while(|_| runs == 1) {
                    let change = there.update(&me, |record| {
                        record.quota = Some(n);
                        Ok(())
                    });
                    futures::executor::block_on(change).unwrap();
                }
                record.quota_messages = Some(others);
                Ok(())
            })
            .await;
        let now = here.get(&me).await.unwrap();
        assert_eq!(now.quota, Some(others), "what others changed stays");
        match slept {
            Ok(()) => assert_eq!(now.quota_messages, Some(others), "after {others} changes"),
            Err(e) => assert_eq!(e.kind(), Kind::Retry),
        }
    }
}

#[tokio::test]
async fn a_change_that_always_loses_fails() {
    let world = Fixture::new();
    let directory = world.directory();
    let me = name("me@x");
    directory.create(&me, new("pw")).await.unwrap();
    let mut runs = 0;
    let lost = directory.update(&me, |record| {
        runs += 1;
        let mut rival = record.clone();
        rival.version += 1;
        let path = format!("accounts/me@x/{:016x}", rival.version);
        let sealed = seal_record(&world.key, &path, &minicbor::to_vec(&rival).unwrap());
        futures::executor::block_on(world.store.put_new(&path, sealed)).map(drop)
    });
    assert_eq!(kind(lost).await, Kind::Retry);
    assert_eq!(runs, limits::RECORD_ATTEMPTS);
}

#[tokio::test]
async fn a_lost_reply_is_not_a_lost_change() {
    let plan = Plan { lose_reply: 300, ..Plan::default() };
    let faulty = Faulty::new(Arc::new(InMemory::new()), plan, 11);
    let world = Fixture { store: Store::over(Arc::new(faulty.clone())), ..Fixture::new() };
    let directory = world.directory();
    let me = name("me@x");
    let made = directory.create(&me, new("pw")).await.unwrap();
    let mut changes = 0;
    for n in 0..40 {
        // Refused twice in a row is for the caller to see; a change that is reported as made was made once.
        let changed = directory.update(&me, |record| {
            record.quota = Some(record.quota.unwrap_or(0) + 1);
            Ok(record.quota)
        });
        if let Ok(quota) = changed.await {
            changes += 1;
            assert_eq!(directory.get(&me).await.unwrap().quota, quota, "change {n}");
        }
    }
    assert!(faulty.faults() > 5 && changes > 35, "{changes} of 40 with {} faults", faulty.faults());
    assert_eq!(directory.get(&me).await.unwrap().id, made.0.id);
}

#[tokio::test]
async fn two_makers_of_one_account_get_one_account() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    let me = name("me@x");
    let (a, b) = tokio::join!(here.create(&me, new("a")), there.create(&me, new("b")));
    assert!(a.is_ok() != b.is_ok());
    let (winner, _) = a.or(b).unwrap();
    assert_eq!(here.get(&me).await.unwrap().id, winner.id);
}

#[tokio::test]
async fn a_record_that_is_not_ours_is_not_believed() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    directory.create(&name("you@x"), new("pw")).await.unwrap();
    let mine = world.store.read("accounts/me@x/0000000000000001").await.unwrap();

    // A forged newer version, with another key: it changes nothing.
    let forger = ServerKeys::generate(&SeededRandom::new(99));
    let plaintext =
        sealpost_vault::record::open_record(&world.key, "accounts/me@x/0000000000000001", &mine).unwrap();
    let path = "accounts/you@x/0000000000000003";
    world.store.put_new(path, seal_record(&forger, path, &plaintext)).await.unwrap();
    assert_eq!(directory.get(&name("you@x")).await.unwrap().version, 2);
    assert_eq!(names(&directory, "you@x").await, ["you@x"]);

    // Authentic, but the record of another account.
    let path = "accounts/me@x/0000000000000003";
    let mut other = directory.create(&name("third@x"), new("pw")).await.unwrap().0;
    other.version = 3;
    world
        .store
        .put_new(path, seal_record(&world.key, path, &minicbor::to_vec(&other).unwrap()))
        .await
        .unwrap();
    assert_eq!(kind(directory.get(&name("me@x"))).await, Kind::Corrupt);

    // The others are still listed.
    let listed: Vec<_> = directory.list().collect().await;
    let kinds: Vec<_> =
        listed.iter().map(|r| r.as_ref().map(|r| r.name.to_string()).map_err(|e| e.kind())).collect();
    assert_eq!(kinds, [Err(Kind::Corrupt), Ok("third@x".to_owned()), Ok("you@x".to_owned())]);
}

#[tokio::test]
async fn where_mail_goes() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["me@x", "you@x", "me+work@x", "me@y"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "info@x", &["me@x", "you@x"]).await;
    alias(&directory, "nested@x", &["info@x", "me@y", "gone@x"]).await;
    alias(&directory, "@y", &["you@x"]).await;
    alias(&directory, "tagged@x", &["me+news@x"]).await;

    assert_eq!(names(&directory, "ME@X").await, ["me@x"]);
    assert_eq!(names(&directory, "info@x").await, ["me@x", "you@x"]);
    assert_eq!(names(&directory, "nested@x").await, ["me@y", "me@x", "you@x"]);
    assert_eq!(names(&directory, "anybody@y").await, ["you@x"], "the catch-all");
    assert_eq!(names(&directory, "me@y").await, ["me@y"], "an account comes before the catch-all");
    assert_eq!(names(&directory, "me+work@x").await, ["me+work@x"], "an account comes before the tag");

    let tagged = directory.resolve("Me+List@x").await.unwrap();
    assert_eq!(
        (tagged.recipients[0].name.as_str(), tagged.recipients[0].detail.as_deref()),
        ("me@x", Some("list"))
    );
    let tagged = directory.resolve("tagged@x").await.unwrap();
    assert_eq!(tagged.recipients[0].detail.as_deref(), Some("news"));
    let tagged = directory.resolve("info+fair@x").await.unwrap();
    assert!(
        tagged.recipients.len() == 2 && tagged.recipients.iter().all(|r| r.detail.as_deref() == Some("fair"))
    );

    for nobody in ["no@x", "me@elsewhere", "no+tag@x"] {
        assert_eq!(kind(directory.resolve(nobody)).await, Kind::NotFound, "{nobody}");
    }
    assert_eq!(kind(directory.resolve("not an address")).await, Kind::Invalid);
    directory.remove(&name("you@x")).await.unwrap();
    assert_eq!(names(&directory, "info@x").await, ["me@x"], "a removed account gets nothing");
}

#[tokio::test]
async fn the_postmaster_always_resolves() {
    let world = Fixture::new();
    let directory = world.directory().on_host("Host.Example", Some("Mail.Example"), Some("admin@x")).unwrap();
    directory.create(&name("admin@x"), new("pw")).await.unwrap();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    assert_eq!(names(&directory, "PostMaster").await, ["admin@x"]);
    for ours in ["postmaster@mail.example", "postmaster@host.example"] {
        assert_eq!(names(&directory, ours).await, ["admin@x"]);
    }
    assert_eq!(kind(directory.resolve("postmaster@elsewhere")).await, Kind::NotFound);
    alias(&directory, "postmaster@host.example", &["me@x"]).await;
    assert_eq!(names(&directory, "postmaster").await, ["me@x"], "an alias comes before the setting");
    assert_eq!(directory.account_name("ME").unwrap().as_str(), "me@mail.example");
}

#[tokio::test]
async fn aliases_that_run_in_circles_or_fan_out_end() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    alias(&directory, "a@x", &["b@x"]).await;
    alias(&directory, "b@x", &["a@x", "me@x"]).await;
    alias(&directory, "@circle", &["none@circle"]).await;
    assert_eq!(names(&directory, "a@x").await, ["me@x"]);
    assert_eq!(kind(directory.resolve("any@circle")).await, Kind::NotFound);

    for n in 0..=limits::ALIAS_DEPTH {
        alias(&directory, &format!("deep{n}@x"), &[&format!("deep{}@x", n + 1)]).await;
    }
    assert_eq!(kind(directory.resolve("deep0@x")).await, Kind::Limit);

    for n in 0..4 {
        let wide: Vec<_> = (0..limits::ALIAS_TARGETS).map(|m| format!("t{n}-{m}@x")).collect();
        alias(&directory, &format!("wide{n}@x"), &wide.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    alias(&directory, "wide@x", &["wide0@x", "wide1@x", "wide2@x", "wide3@x"]).await;
    assert_eq!(kind(directory.resolve("wide@x")).await, Kind::Limit);
}

#[tokio::test]
async fn aliases_come_and_go() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    here.create(&name("me@x"), new("pw")).await.unwrap();
    alias(&here, "Info@X", &["me@x"]).await;
    alias(&there, "info@x", &["me@x", "you@x"]).await;
    alias(&here, "@x", &["me@x"]).await;
    let listed: Vec<_> = here.aliases().try_collect().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|a| (a.name.to_string(), a.targets.len())).collect();
    assert_eq!(listed, [("@x".to_owned(), 1), ("info@x".to_owned(), 2)]);

    let info = AliasName::parse("info@x").unwrap();
    there.remove_alias(&info).await.unwrap();
    assert_eq!(kind(here.remove_alias(&info)).await, Kind::NotFound);
    assert!(here.alias(&info).await.unwrap().is_none());
    alias(&here, "info@x", &["me@x"]).await;
    assert!(there.alias(&info).await.unwrap().is_some());

    let me = AliasName::parse("me@x").unwrap();
    assert_eq!(kind(here.set_alias(&me, &addresses(&["info@x"]))).await, Kind::Conflict);
    assert_eq!(kind(here.create(&name("info@x"), new("pw"))).await, Kind::Conflict);
    assert_eq!(kind(here.set_alias(&info, Targets::default())).await, Kind::Invalid);
    let many: Vec<_> =
        (0..=limits::ALIAS_TARGETS).map(|n| Address::parse(&format!("me+{n}@x")).unwrap()).collect();
    assert_eq!(kind(here.set_alias(&info, &many)).await, Kind::Limit);
    assert_eq!(kind(here.add_to_alias(&info, &many[1..])).await, Kind::Limit, "with the one that is there");
}

#[tokio::test]
async fn targets_are_added_replaced_and_taken_away() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["jane@x", "joe@x", "me@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    for alias in ["info@x", "@other"] {
        let alias = AliasName::parse(alias).unwrap();
        let made = directory.add_to_alias(&alias, &addresses(&["me@x", "jane@x"])).await.unwrap();
        assert_eq!((made.added.here, made.removed), (addresses(&["jane@x", "me@x"]), Targets::default()));
        let added = directory.add_to_alias(&alias, &addresses(&["joe@x", "jane@x"])).await.unwrap();
        assert_eq!((added.added.here, added.removed), (addresses(&["joe@x"]), Targets::default()));
        assert_eq!(added.alias.targets.here, addresses(&["jane@x", "joe@x", "me@x"]));
        assert_eq!(directory.alias(&alias).await.unwrap(), Some(added.alias));
        let set = directory.set_alias(&alias, &addresses(&["joe@x"])).await.unwrap();
        assert_eq!((set.added.here, set.removed.here), (Vec::new(), addresses(&["jane@x", "me@x"])));

        directory.add_to_alias(&alias, &addresses(&["me@x"])).await.unwrap();
        let taken = directory.take_from_alias(&alias, &addresses(&["joe@x"])).await.unwrap();
        assert_eq!(
            (taken.alias.targets.here, taken.removed.here),
            (addresses(&["me@x"]), addresses(&["joe@x"]))
        );
        for (target, refused) in [("joe@x", Kind::NotFound), ("me@x", Kind::Invalid)] {
            assert_eq!(kind(directory.take_from_alias(&alias, &addresses(&[target]))).await, refused);
        }
        directory.remove_alias(&alias).await.unwrap();
        assert_eq!(kind(directory.take_from_alias(&alias, &addresses(&["me@x"]))).await, Kind::NotFound);
    }
}

#[tokio::test]
async fn an_alias_leads_to_accounts_and_never_back_to_itself() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    directory.create(&name("gone@x"), new("pw")).await.unwrap();
    directory.remove(&name("gone@x")).await.unwrap();
    let add = async |alias: &str, target: &str| {
        let (alias, targets) = (AliasName::parse(alias).unwrap(), addresses(&[target]));
        let added = directory.add_to_alias(&alias, &targets).await.map(drop);
        let set = directory.set_alias(&alias, &targets).await.map(drop);
        assert_eq!(added.as_ref().map_err(|e| e.kind()), set.as_ref().map_err(|e| e.kind()));
        set
    };
    for (alias, target) in
        [("a@x", "me@x"), ("b@x", "a@x"), ("c@x", "b+tag@x"), ("@y", "c@x"), ("d@x", "any@y")]
    {
        add(alias, target).await.unwrap();
    }
    for (alias, target, expected) in [
        ("e@x", "nobody@x", Kind::NotFound),
        ("e@x", "gone@x", Kind::NotFound),
        ("e@x", "joe@elsewhere.example", Kind::NotFound),
        ("e@x", "e@x", Kind::Invalid),
        ("e@x", "e+tag@x", Kind::Invalid),
        ("a@x", "b@x", Kind::Invalid),
        ("a@x", "c@x", Kind::Invalid),
        ("a@x", "d@x", Kind::Invalid),
        ("@y", "other@y", Kind::Invalid),
        ("@z", "other@z", Kind::Invalid),
        ("@y", "d@x", Kind::Invalid),
    ] {
        assert_eq!(add(alias, target).await.unwrap_err().kind(), expected, "{alias} -> {target}");
    }
    let outside = add("e@x", "joe@elsewhere.example").await.unwrap_err().to_string();
    assert!(outside.contains("not of this server"), "{outside}");
    let unknown = add("e@x", "nobody@y.x").await.unwrap_err().to_string();
    assert!(unknown.contains("not of this server"), "{unknown}");
    let unknown = add("e@x", "nobody@x").await.unwrap_err().to_string();
    assert!(unknown.contains("create it first"), "{unknown}");
    // As deep as deliveries go, and no deeper.
    for n in 0..limits::ALIAS_DEPTH {
        let below = if n == 0 { "me@x".to_owned() } else { format!("deep{}@x", n - 1) };
        add(&format!("deep{n}@x"), &below).await.unwrap();
    }
    let deepest = format!("deep{}@x", limits::ALIAS_DEPTH - 1);
    assert_eq!(names(&directory, &deepest).await, ["me@x"]);
    assert_eq!(add("deeper@x", &deepest).await.unwrap_err().kind(), Kind::Limit);
}

#[tokio::test]
async fn aliases_that_a_removal_leaves_without_accounts_are_known() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["jane@x", "me@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "both@x", &["jane@x", "me@x"]).await;
    alias(&directory, "one@x", &["jane@x"]).await;
    alias(&directory, "other@x", &["me@x"]).await;
    directory.remove(&name("jane@x")).await.unwrap();
    let left = directory.aliases_left_without(name("jane@x").address()).await.unwrap();
    let left: Vec<_> = left.iter().map(|alias| alias.name.to_string()).collect();
    assert_eq!(left, ["one@x"]);
    assert!(
        !directory
            .leads_anywhere(&directory.alias(&AliasName::parse("one@x").unwrap()).await.unwrap().unwrap())
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn aliases_lead_to_other_servers() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    let info = AliasName::parse("info@x").unwrap();
    let texts = ["me@x", "Jane.Doe@Elsewhere.example"].map(str::to_owned);
    let targets = directory.targets(&texts).await.unwrap();
    assert_eq!(
        (targets.here.clone(), targets.outside[0].as_str()),
        (addresses(&["me@x"]), texts[1].as_str())
    );
    let made = directory.add_to_alias(&info, targets).await.unwrap();
    assert_eq!(made.added.texts().collect::<Vec<_>>(), ["me@x", &texts[1]]);
    assert_eq!(directory.alias(&info).await.unwrap(), Some(made.alias));
    // The same one in another case is no other one.
    let again = directory.targets(&["jane.doe@elsewhere.example".to_owned()]).await.unwrap();
    assert!(directory.add_to_alias(&info, again).await.unwrap().added.is_empty());

    let resolved = directory.resolve("info+tag@x").await.unwrap();
    assert_eq!(resolved.recipients.len(), 1);
    let outside: Vec<_> = resolved.outside.iter().map(|to| (to.address.as_str(), &to.alias)).collect();
    assert_eq!(outside, [(texts[1].as_str(), &info)]);
    // Through another alias, and a catch-all that leads outside alone.
    alias(&directory, "both@x", &["info@x", "me@x"]).await;
    assert_eq!(
        directory.resolve("both@x").await.unwrap().outside,
        directory.resolve("info@x").await.unwrap().outside
    );
    let all = AliasName::parse("@y").unwrap();
    directory
        .set_alias(&all, Targets { here: Vec::new(), ..directory.targets(&texts).await.unwrap() })
        .await
        .unwrap();
    assert!(directory.leads_anywhere(&directory.alias(&all).await.unwrap().unwrap()).await.unwrap());
    let resolved = directory.resolve("any@y").await.unwrap();
    assert_eq!((resolved.recipients.len(), &resolved.outside[0].alias), (0, &all));
    directory.add_to_alias(&AliasName::parse("to@x").unwrap(), &addresses(&["any@y"])).await.unwrap();

    let taken = directory.take_from_alias(&info, &addresses(&["jane.doe@elsewhere.example"])).await.unwrap();
    assert_eq!((taken.removed.outside.len(), taken.alias.targets.len()), (1, 1));
}

#[tokio::test]
async fn an_outside_target_is_not_of_a_domain_served_here() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    let outside =
        |text: &str| Targets { outside: vec![OutsideAddress::parse(text).unwrap()], ..Targets::default() };
    let info = AliasName::parse("info@x").unwrap();
    assert_eq!(kind(directory.set_alias(&info, outside("you@x"))).await, Kind::NotFound);
    let new_domain = AliasName::parse("info@new").unwrap();
    assert_eq!(kind(directory.set_alias(&new_domain, outside("you@new"))).await, Kind::NotFound);
    directory.create(&name("me@y"), new("pw")).await.unwrap();
    world.clock.advance(super::served::AGE);
    assert_eq!(kind(directory.set_alias(&info, outside("you@y"))).await, Kind::Invalid);
    // A domain that came here: its mail stays here, and is refused while no account has the
    // address.
    directory.set_alias(&info, outside("you@z")).await.unwrap();
    assert_eq!(directory.resolve("info@x").await.unwrap().outside.len(), 1);
    directory.create(&name("me@z"), new("pw")).await.unwrap();
    world.clock.advance(super::served::AGE);
    assert_eq!(kind(directory.resolve("info@x")).await, Kind::NotFound);
    directory.create(&name("you@z"), new("pw")).await.unwrap();
    let resolved = directory.resolve("info@x").await.unwrap();
    assert_eq!((resolved.recipients.len(), resolved.outside.len()), (1, 0));
    assert!(OutsideAddress::parse("me@[192.0.2.1]").is_err() && OutsideAddress::parse("me").is_err());
}

#[tokio::test]
async fn outside_targets_count_like_others() {
    let world = Fixture::new();
    let directory = world.directory();
    let many = |from: usize, to: usize| {
        let outside = (from..to).map(|n| OutsideAddress::parse(&format!("a{n}@elsewhere.example")).unwrap());
        Targets { outside: outside.collect(), ..Targets::default() }
    };
    let wide = AliasName::parse("wide@x").unwrap();
    assert_eq!(kind(directory.set_alias(&wide, many(0, limits::ALIAS_TARGETS + 1))).await, Kind::Limit);
    let parts = limits::ALIAS_LOOKUPS / limits::ALIAS_TARGETS + 1;
    for n in 0..parts {
        let part = AliasName::parse(&format!("wide{n}@x")).unwrap();
        directory
            .set_alias(&part, many(n * limits::ALIAS_TARGETS, (n + 1) * limits::ALIAS_TARGETS))
            .await
            .unwrap();
        let targets = addresses(&[&format!("wide{n}@x")]);
        let added = directory.add_to_alias(&wide, &targets).await.map(drop).map_err(|e| e.kind());
        assert!(added.is_ok(), "{n}: {added:?}");
    }
    assert_eq!(directory.resolve("wide0@x").await.unwrap().outside.len(), limits::ALIAS_TARGETS);
    assert_eq!(kind(directory.resolve("wide@x")).await, Kind::Limit);
}

#[tokio::test]
async fn a_suspended_account_gets_mail_and_is_known_as_such() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    let me = name("me@x");
    here.create(&me, new("pw")).await.unwrap();
    let since = here.suspend(&me).await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(there.suspend(&me).await.unwrap(), since, "it stays suspended");
    let record = there.get(&me).await.unwrap();
    assert!(record.is_active() && !record.lets_in() && record.suspended == Some(since));
    assert_eq!(names(&there, "me@x").await, ["me@x"]);
    assert_eq!(there.resume(&me).await.unwrap(), Some(since));
    assert_eq!(there.resume(&me).await.unwrap(), None);
    assert!(here.get(&me).await.unwrap().lets_in());
    assert_eq!(kind(here.suspend(&name("nobody@x"))).await, Kind::NotFound);
}

#[tokio::test]
async fn odd_names_have_plain_paths() {
    let world = Fixture::new();
    let directory = world.directory();
    let odd = name("a/b+c'd@grün.example");
    directory.create(&odd, new("pw")).await.unwrap();
    let path = |version: u64| format!("accounts/a=2Fb=2Bc=27d@gr=C3=BCn.example/{version:016x}");
    assert_eq!(world.paths("accounts").await, [path(1), path(2)]);
    let listed: Vec<_> = directory.list().try_collect().await.unwrap();
    assert_eq!(listed[0].name, odd);
}

#[tokio::test]
async fn a_record_keeps_its_bytes() {
    let world = Fixture::new();
    let directory = world.directory();
    let (record, _) = directory.create(&name("me@x"), new("pw")).await.unwrap();
    let bytes = minicbor::to_vec(&record).unwrap();
    let again: AccountRecord = minicbor::decode(&bytes).unwrap();
    assert_eq!(minicbor::to_vec(&again).unwrap(), bytes);
    assert_eq!(again.slots[0].kind(), SlotKind::Password);
    assert!(bytes.len() < 450, "{} bytes", bytes.len());
}

/// On a store behind a network: what it was a few seconds ago is good enough to take a message, and
/// never to refuse one.
#[tokio::test]
async fn deliveries_cache_records_but_never_refuse_by_them() {
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let world = Fixture { store: Store::over(Arc::new(calls.clone())).packing(), ..Fixture::new() };
    let (here, there) = (world.directory(), world.directory());
    assert!(here.resolve("me@mail.example").await.is_err());
    there.create(&name("me@mail.example"), new("secret")).await.unwrap();
    alias(&there, "you@mail.example", &["me@mail.example"]).await;
    // That there was none is not remembered.
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    assert_eq!(names(&here, "you@mail.example").await, ["me@mail.example"]);
    let before = calls.calls();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    assert_eq!(calls.calls(), before);
    // What others change is seen after ten seconds,
    let quota = |bytes| {
        move |record: &mut AccountRecord| {
            record.quota = Some(bytes);
            Ok(())
        }
    };
    there.update(&name("me@mail.example"), quota(5)).await.unwrap();
    let quota_of = async |directory: &Directory| {
        directory.resolve("me@mail.example").await.unwrap().recipients[0].quotas.storage
    };
    assert_eq!(quota_of(&here).await, None);
    assert_eq!(here.get(&name("me@mail.example")).await.unwrap().quota, Some(5), "only deliveries remember");
    world.clock.advance(Duration::from_secs(11));
    assert_eq!(quota_of(&here).await, Some(5));
    // what this process changes at once.
    here.update(&name("me@mail.example"), quota(7)).await.unwrap();
    assert_eq!(quota_of(&here).await, Some(7));
    // A removed account gets mail for as long, and one that exists again refuses none.
    there.remove(&name("me@mail.example")).await.unwrap();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    world.clock.advance(Duration::from_secs(11));
    assert_eq!(here.resolve("me@mail.example").await.unwrap_err().kind(), Kind::NotFound);
    there.undelete(&name("me@mail.example")).await.unwrap();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
}

#[tokio::test]
async fn a_domain_is_served_while_it_has_addresses() {
    let world = Fixture::new();
    let (directory, other) = (world.directory(), world.directory());
    let serves = async |domain: &str| {
        // The memory store does not tell of changes.
        world.clock.advance(super::served::AGE);
        directory.serves(domain).await.unwrap()
    };
    for own in ["mail.example", "MAIL.Example", "mail.example."] {
        assert!(serves(own).await, "{own}");
    }
    for foreign in ["example", "x.mail.example", "one.example", "[192.0.2.1]", "", "a b", "-"] {
        assert!(!serves(foreign).await, "{foreign:?}");
    }
    other.create(&name("me@one.example"), new("a")).await.unwrap();
    other.create(&name("odd+me@b\u{fc}cher.example"), new("a")).await.unwrap();
    alias(&other, "info@two.example", &["me@one.example"]).await;
    alias(&other, "@three.example", &["me@one.example"]).await;
    for served in
        ["one.example", "two.example", "THREE.example", "xn--bcher-kva.example", "b\u{fc}cher.example"]
    {
        assert!(serves(served).await, "{served}");
    }
    assert!(!serves("ne.example").await && !serves("four.example").await);
    // What was removed names no domain any more; another account in it does.
    other.remove(&name("me@one.example")).await.unwrap();
    other.remove_alias(&AliasName::parse("info@two.example").unwrap()).await.unwrap();
    assert!(!serves("one.example").await && !serves("two.example").await);
    other.create(&name("you@one.example"), new("a")).await.unwrap();
    assert!(serves("one.example").await);
}

/// Outsiders may ask as often as they like.
#[tokio::test]
async fn records_are_not_looked_at_for_each_foreign_domain() {
    let world = Fixture::new();
    let directory = world.directory();
    assert!(!directory.serves("one.example").await.unwrap());
    directory.create(&name("me@one.example"), new("a")).await.unwrap();
    assert!(!directory.serves("one.example").await.unwrap(), "it was looked a moment ago");
    world.clock.advance(super::served::AGE);
    assert!(directory.serves("one.example").await.unwrap());
}

#[tokio::test]
async fn the_catch_all_does_not_get_names_of_removed_accounts() {
    let world = Fixture::new();
    let mut directory = world.directory();
    for account in ["me@x", "you@x", "third@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "@x", &["you@x"]).await;
    assert_eq!(names(&directory, "nobody@x").await, ["you@x"]);
    directory.remove(&name("me@x")).await.unwrap();
    for address in ["me@x", "me+tag@x"] {
        assert_eq!(kind(directory.resolve(address)).await, Kind::NotFound);
    }
    directory.purge(&name("me@x"), Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(kind(directory.resolve("me@x")).await, Kind::NotFound);
    alias(&directory, "me@x", &["third@x"]).await;
    assert_eq!(names(&directory, "me@x").await, ["third@x"], "an alias of that name may have it");

    // An attacker with write access to the store removes the record, or its newest version: a node
    // that has read it refuses for now.
    let path = |version: u64| format!("accounts/third@x/{version:016x}");
    world.store.put_again(&path(2), "accounts/aside/0000000000000002").await.unwrap();
    directory.suspend(&name("third@x")).await.unwrap();
    assert_eq!(directory.get(&name("third@x")).await.unwrap().version, 4);
    world.store.delete(&path(4)).await.unwrap();
    world.store.delete(&path(3)).await.unwrap();
    world.store.put_again("accounts/aside/0000000000000002", &path(2)).await.unwrap();
    world.store.delete("accounts/aside/0000000000000002").await.unwrap();
    for version in [2, 0] {
        if version == 0 {
            assert_eq!(directory.get(&name("third@x")).await.unwrap().version, 2);
            world.store.delete(&path(2)).await.unwrap();
        }
        for refuses in [kind(directory.resolve("third@x")).await, kind(directory.get(&name("third@x"))).await]
        {
            assert_eq!(refuses, Kind::Retry, "{version}");
        }
        // Until an operator says that it is right so.
        directory.versions.watermarks = Default::default();
    }
}

#[tokio::test]
async fn a_store_under_another_key_is_refused() {
    let world = Fixture::new();
    let other = Fixture {
        key: ServerKeys::generate(&SeededRandom::new(99)),
        store: world.store.clone(),
        ..Fixture::new()
    };
    let (ours, theirs) = (world.directory(), other.directory());
    ours.check_key(false).await.unwrap();
    theirs.check_key(false).await.unwrap();
    assert!(world.paths("").await.is_empty(), "who only reads writes nothing");
    // Without an account.
    let (a, b) = tokio::join!(ours.check_key(true), theirs.check_key(true));
    assert!(a.is_ok() != b.is_ok());
    let (ours, theirs) = if a.is_ok() { (ours, theirs) } else { (theirs, ours) };
    ours.check_key(true).await.unwrap();
    let refused = theirs.check_key(true).await.unwrap_err();
    assert!(refused.kind() == Kind::Corrupt && refused.to_string().contains("copy server.key"), "{refused}");
    // As versions before this one left a store.
    ours.create(&name("me@x"), new("pw")).await.unwrap();
    let path = "server/key/0000000000000001";
    world.store.delete(path).await.unwrap();
    assert_eq!(kind(theirs.check_key(true)).await, Kind::Corrupt);
    ours.check_key(true).await.unwrap();
    assert_eq!(world.paths("server").await, [path]);
    // A damaged record does not keep the server from starting.
    world.store.delete(path).await.unwrap();
    world.store.put_new(path, seal_record(&world.key, "elsewhere", b"")).await.unwrap();
    ours.check_key(true).await.unwrap();
    assert_eq!(kind(theirs.check_key(true)).await, Kind::Corrupt);
}

#[tokio::test]
async fn records_are_written_again_under_the_next_key() {
    let mut world = Fixture::new();
    let directory = world.directory();
    directory.check_key(true).await.unwrap();
    let (record, _) = directory.create(&name("me@x"), new("pw")).await.unwrap();
    directory.create(&name("you@x"), new("pw")).await.unwrap();
    alias(&directory, "info@x", &["me@x"]).await;
    world.key = world.key.with_next(&*world.random).unwrap().rotated();
    let rotated = world.directory();
    let done = rotated.authenticate_again().await.unwrap();
    assert_eq!((done.records, done.again), (4, 4));
    assert_eq!(rotated.authenticate_again().await.unwrap().again, 0);
    world.key = world.key.settled();
    let settled = world.directory();
    settled.check_key(true).await.unwrap();
    assert_eq!(settled.get(&name("me@x")).await.unwrap().id, record.id);
    settled.unlock(&name("me@x"), secret("pw")).await.unwrap();
    assert_eq!(names(&settled, "info@x").await, ["me@x"]);
    assert_eq!(kind(directory.check_key(true)).await, Kind::Corrupt, "a node that has the old key alone");
}

/// Noise that an attacker with write access to the store can write: random bytes, and imitations of
/// a record.
fn noises(path: &str) -> Vec<Sealed> {
    let other = ServerKeys::generate(&SeededRandom::new(99));
    vec![Sealed::marker(), seal_record(&other, path, b"noise")]
}

#[tokio::test]
async fn noise_beside_a_record_changes_nothing() {
    let world = Fixture::new();
    let directory = world.directory();
    let me = name("me@mail.example");
    let (_, root) = directory.create(&me, new("one")).await.unwrap();
    let record = directory.get(&me).await.unwrap();
    let below = format!("accounts/{me}");
    for version in [record.version + 1, record.version + 2, record.version + 9, u64::MAX] {
        let path = format!("{below}/{version:016x}");
        let noises = noises(&path);
        let noise = &noises[(version % 2) as usize];
        world.store.put_new(&path, noise.clone()).await.unwrap();
    }
    // Reading, changing, and reading on another node.
    directory.unlock(&me, secret("one")).await.unwrap();
    world.directory().set_password(&me, &root, secret("two")).await.unwrap();
    assert_eq!(kind(world.directory().unlock(&me, secret("one"))).await, Kind::Denied);
    world.directory().unlock(&me, secret("two")).await.unwrap();
    world.directory().set_password(&me, &root, secret("three")).await.unwrap();
    directory.unlock(&me, secret("three")).await.unwrap();
    // All records get the new key.
    let rotated = world.key.with_next(&SeededRandom::new(7)).unwrap().rotated();
    let with = |keys| Directory::new(world.store.clone(), keys, world.clock.clone(), world.random.clone());
    with(rotated.clone()).authenticate_again().await.unwrap();
    with(rotated.settled()).unlock(&me, secret("three")).await.unwrap();
}

/// Each version is there twice, and one of the two is cut short on the disk.
#[tokio::test]
async fn a_damaged_twin_on_a_disk_ends_no_repeated_rotation() {
    for damaged in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let mut world = Fixture::new();
        world.store = Store::local(dir.path()).await.unwrap();
        let (directory, me) = (world.directory(), name("me@x"));
        directory.create(&me, new("one")).await.unwrap();
        world.key = world.key.with_next(&*world.random).unwrap().rotated();
        let rotated = world.directory();
        assert_eq!(rotated.authenticate_again().await.unwrap().again, 1);
        let mark = marks(&rotated, &me).await.remove(0).concat();
        let files = files_with(dir.path(), &mark[..32]);
        assert_eq!(files.len(), 2);
        let bytes = std::fs::read(&files[damaged]).unwrap();
        std::fs::write(&files[damaged], &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(world.directory().authenticate_again().await.unwrap().again, 0);
        world.directory().unlock(&me, secret("one")).await.unwrap();
    }
}

/// Any number of them: none is read.
#[tokio::test]
async fn objects_too_large_for_a_record_are_noise_and_unread() {
    let objects = Arc::new(InMemory::new());
    let calls = Faulty::new(objects.clone(), Plan::default(), 1);
    let mut world = Fixture { store: Store::over(Arc::new(calls.clone())), ..Fixture::new() };
    let directory = world.directory();
    directory.check_key(true).await.unwrap();
    let me = name("me@mail.example");
    let (_, root) = directory.create(&me, new("one")).await.unwrap();
    let version = directory.get(&me).await.unwrap().version;
    let large = PutPayload::from(vec![0; limits::RECORD_BYTES + 1]);
    for n in 0..=limits::RECORD_NOISE as u64 {
        for record in ["server/key".to_owned(), format!("accounts/{me}")] {
            let path = format!("{record}/{:016x}", u64::MAX - n);
            objects.put(&path.into(), large.clone()).await.unwrap();
        }
    }
    let next = format!("accounts/{me}/{:016x}", version + 1);
    objects.put(&next.into(), large.clone()).await.unwrap();
    let before = calls.calls();
    world.directory().check_key(false).await.unwrap();
    assert!(calls.calls() - before < 8, "{}", calls.calls() - before);
    directory.unlock(&me, secret("one")).await.unwrap();
    directory.set_password(&me, &root, secret("two")).await.unwrap();
    world.directory().unlock(&me, secret("two")).await.unwrap();
    assert_eq!(kind(world.directory().unlock(&me, secret("one"))).await, Kind::Denied);
    world.directory().maintain_records(None).await.unwrap();
    world.key = world.key.with_next(&*world.random).unwrap().rotated();
    assert_eq!(world.directory().authenticate_again().await.unwrap().again, 2);
    assert_eq!(world.directory().authenticate_again().await.unwrap().again, 0);
    world.key = world.key.settled();
    world.directory().check_key(true).await.unwrap();
    world.directory().unlock(&me, secret("two")).await.unwrap();
}

#[tokio::test]
async fn noise_beside_a_record_is_read_once_a_minute() {
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let world = Fixture { store: Store::over(Arc::new(calls.clone())), ..Fixture::new() };
    let directory = world.directory();
    let me = name("me@mail.example");
    directory.create(&me, new("one")).await.unwrap();
    let version = directory.get(&me).await.unwrap().version;
    for n in 1..=limits::RECORD_NOISE as u64 {
        let path = format!("accounts/{me}/{:016x}", version + n);
        world.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    let requests = async || {
        let before = calls.calls();
        directory.get(&me).await.unwrap();
        calls.calls() - before
    };
    let first = requests().await;
    assert!(first >= limits::RECORD_NOISE as u64, "{first}");
    let again = requests().await;
    assert!(again < 20, "{again}");
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(requests().await, first);
}

#[tokio::test]
async fn a_record_larger_than_any_reader_takes_is_not_written() {
    let world = Fixture::new();
    let versions = &world.directory().versions;
    let bytes = vec![0; limits::RECORD_BYTES];
    assert_eq!(kind(versions.put_after("usage/x", 0, &bytes)).await, Kind::Limit);
    assert!(world.paths("usage").await.is_empty());
}

/// A thief of the key numbers a record so that none comes after it.
#[tokio::test]
async fn authentic_records_beyond_all_versions_stop_neither_rotation_nor_changes() {
    let mut world = Fixture::new();
    let directory = world.directory();
    directory.check_key(true).await.unwrap();
    let (me, last) = (name("me@x"), name("z@x"));
    let (_, root) = directory.create(&me, new("one")).await.unwrap();
    directory.create(&last, new("one")).await.unwrap();
    let newest = directory.versions.newest(&directory.path_of(&me)).await.unwrap().unwrap();
    for record in [format!("accounts/{me}"), "accounts/a@x".to_owned(), "server/key".to_owned()] {
        for version in [u64::MAX, u64::MAX - 1, limits::RECORD_VERSIONS + 1] {
            let path = format!("{record}/{version:016x}");
            let sealed = seal_record(&world.key, &path, &newest.bytes);
            world.store.put_new(&path, sealed).await.unwrap();
        }
    }
    world.directory().check_key(true).await.unwrap();
    directory.set_password(&me, &root, secret("two")).await.unwrap();
    world.directory().unlock(&me, secret("two")).await.unwrap();
    world.key = world.key.with_next(&*world.random).unwrap().rotated();
    let done = world.directory().authenticate_again().await.unwrap();
    assert_eq!((done.records, done.again), (3, 3));
    // The last one that there can be: what is beside it gets the new key.
    let path = format!("accounts/b@x/{:016x}", limits::RECORD_VERSIONS);
    let sealed = seal_record(&world.key, &path, &newest.bytes);
    world.store.put_new(&path, sealed).await.unwrap();
    world.key = world.key.with_next(&*world.random).unwrap().rotated();
    let e = world.directory().authenticate_again().await.unwrap_err();
    assert!(e.kind() == Kind::Corrupt && e.to_string().contains(&path), "{e}");
    world.store.delete(&path).await.unwrap();
    assert_eq!(world.directory().authenticate_again().await.unwrap().again, 0);
    world.key = world.key.settled();
    world.directory().unlock(&me, secret("two")).await.unwrap();
    world.directory().unlock(&last, secret("one")).await.unwrap();
}

#[tokio::test]
async fn noise_beyond_the_limit_blocks_a_record_until_removed() {
    let world = Fixture::new();
    let directory = world.directory();
    let me = name("me@mail.example");
    let (_, root) = directory.create(&me, new("one")).await.unwrap();
    let record = directory.get(&me).await.unwrap();
    let count = limits::RECORD_NOISE as u64 + 1;
    let path = |n: u64| format!("accounts/{me}/{:016x}", record.version + n);
    for n in 1..=count {
        world.store.put_new(&path(n), Sealed::marker()).await.unwrap();
    }
    assert_eq!(kind(directory.get(&me)).await, Kind::Corrupt);
    world.store.delete(&path(count)).await.unwrap();
    directory.set_password(&me, &root, secret("two")).await.unwrap();
    directory.unlock(&me, secret("two")).await.unwrap();
}

/// Each version is there twice, so the account survives the damage of one object; of both, what
/// came before does not take their place.
#[tokio::test]
async fn one_object_of_a_record_may_be_damaged_or_missing() {
    let world = Fixture::new();
    let watermarks = Watermarks::default();
    let directory = world.directory().with_watermarks(watermarks);
    let me = name("me@mail.example");
    let (_, root) = directory.create(&me, new("one")).await.unwrap();
    directory.set_password(&me, &root, secret("two")).await.unwrap();
    let record = directory.get(&me).await.unwrap();
    let path = |version: u64| format!("accounts/{me}/{version:016x}");
    assert_eq!(world.paths("accounts").await, [path(record.version - 1), path(record.version)]);
    world.store.delete(&path(record.version)).await.unwrap();
    assert_eq!(directory.get(&me).await.unwrap().version, record.version);
    world.store.put_new(&path(record.version), Sealed::marker()).await.unwrap();
    // On any node, whatever it has read; and it can be changed.
    for directory in [&directory, &world.directory()] {
        assert_eq!(directory.get(&me).await.unwrap().version, record.version);
        directory.unlock(&me, secret("two")).await.unwrap();
    }
    let before = world.paths("accounts").await;
    world.store.delete(&path(record.version - 1)).await.unwrap();
    world.store.put_new(&path(record.version - 1), Sealed::marker()).await.unwrap();
    assert_eq!(world.paths("accounts").await, before);
    assert_eq!(kind(directory.get(&me)).await, Kind::Corrupt);
    for version in [record.version - 1, record.version] {
        world.store.delete(&path(version)).await.unwrap();
    }
    assert_eq!(kind(directory.get(&me)).await, Kind::Retry, "this node has seen one");
}

#[tokio::test]
async fn planted_records_keep_no_node_from_starting() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.check_key(true).await.unwrap();
    let watermarks = Watermarks::default();
    directory.clone().with_watermarks(watermarks.clone()).create(&name("z@x"), new("pw")).await.unwrap();
    for version in [2, 9, u64::MAX] {
        let path = format!("server/key/{version:016x}");
        world.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    for n in 0..limits::RECORD_NOISE {
        let path = format!("accounts/a{n}@x/0000000000000001");
        world.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    world.directory().check_key(true).await.unwrap();
    // Without the record of the key, too.
    world.store.delete("server/key/0000000000000001").await.unwrap();
    world.directory().check_key(true).await.unwrap();
    world.directory().with_watermarks(watermarks).check_key(true).await.unwrap();
    let random = SeededRandom::new(3);
    let other = ServerKeys::generate(&random);
    let theirs = Directory::new(world.store.clone(), other, world.clock.clone(), world.random.clone());
    assert_eq!(kind(theirs.check_key(true)).await, Kind::Corrupt);
}

/// Planted objects in the folder of one account do not delay a listing of all accounts.
#[tokio::test]
async fn noise_in_one_accounts_folder_costs_listings_little() {
    let objects = Arc::new(InMemory::new());
    let calls = Faulty::new(objects.clone(), Plan::default(), 1);
    let world = Fixture { store: Store::over(Arc::new(calls.clone())), ..Fixture::new() };
    let directory = world.directory();
    for me in ["a@x", "b@x"] {
        directory.create(&name(me), new("pw")).await.unwrap();
    }
    for n in 0..10 * limits::RECORD_NOISE as u64 {
        let path = format!("accounts/a@x/{:016x}", limits::RECORD_VERSIONS + n);
        objects.put(&path.into(), PutPayload::default()).await.unwrap();
    }
    let before = calls.calls();
    directory.maintain_records(None).await.unwrap();
    let requests = calls.calls() - before;
    assert!(requests < 5 * limits::RECORD_NOISE as u64, "{requests}");
}

#[tokio::test]
async fn one_walk_maintains_all_records() {
    const ACCOUNTS: u64 = 20;
    let world = Fixture::new();
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let world = Fixture { store: Store::over(Arc::new(calls.clone())), ..world };
    let directory = world.directory();
    for n in 0..ACCOUNTS {
        directory.create(&name(&format!("a{n}@x")), new("pw")).await.unwrap();
    }
    let before = calls.calls();
    let done = directory.maintain_records(Some(world.clock.now())).await.unwrap();
    let requests = calls.calls() - before;
    assert_eq!((done.deleted, done.finished), (0, 0));
    // One listing of all; of each account the newest version is found and read, and its two
    // versions are listed and read.
    assert!(requests <= 1 + 5 * ACCOUNTS, "{requests}");
}
