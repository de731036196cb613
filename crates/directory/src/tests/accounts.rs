//! The life of an account: create, secrets, suspend, remove, purge.

use super::*;

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
