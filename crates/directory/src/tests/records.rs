//! What a record is: its bytes, its key, its size, damage.

use super::*;

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

#[tokio::test]
async fn a_record_larger_than_any_reader_takes_is_not_written() {
    let world = Fixture::new();
    let versions = &world.directory().versions;
    let bytes = vec![0; limits::RECORD_BYTES];
    assert_eq!(kind(versions.put_after("usage/x", 0, &bytes)).await, Kind::Limit);
    assert!(world.paths("usage").await.is_empty());
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
