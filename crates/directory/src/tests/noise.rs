//! Objects beside records that this installation did not write.

use super::*;

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
