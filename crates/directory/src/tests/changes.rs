//! Concurrent changes of one record, and lost replies.

use super::*;

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
