use std::os::unix::fs::FileExt;

use sealpost_base::Kind;

use super::*;
use crate::{Put, Sealed, Store};

const ID: &str = "acct/0123456789abcdef0123456789abcdef";

fn entry(position: usize) -> String {
    format!("{ID}/log/{position:016x}")
}

/// So many log entries, and as many messages that are files.
async fn filled(dir: &Path, count: usize) -> Store {
    let store = Store::local(dir).await.unwrap();
    for position in 1..=count {
        store.put_new(&entry(position), Sealed::new(vec![position as u8; 900])).await.unwrap();
        let message = Sealed::new(vec![position as u8; 70_000]);
        store.put_new(&format!("{ID}/msg/{position:032x}"), message).await.unwrap();
    }
    store
}

/// Everything that a listing shows, and whether it can be read.
async fn listed(store: &Store) -> Vec<String> {
    let objects: Vec<_> = futures::TryStreamExt::try_collect(store.list("acct", None)).await.unwrap();
    let mut paths = Vec::new();
    for object in objects {
        assert_eq!(store.read(&object.path).await.unwrap().len() as u64, object.size, "{}", object.path);
        paths.push(object.path);
    }
    paths
}

/// Closes the store, so that everything is in the database.
async fn closed(store: Store, dir: &Path) {
    drop(store);
    // Its threads end by themselves; this waits until they have released the database.
    let path = schema::path(dir);
    drop(tokio::task::spawn_blocking(move || alone(&path).unwrap()).await.unwrap());
}

/// Where a text is in the index of paths, or in the table: the byte before it says which record it is.
fn offsets(dir: &Path, text: &str, in_index: bool) -> Vec<usize> {
    let bytes = fs::read(schema::path(dir)).unwrap();
    let found = (1..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes()));
    found.filter(|at| (1..10).contains(&bytes[at - 1]) == in_index).collect()
}

fn damage(dir: &Path, at: usize, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(schema::path(dir)).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

#[tokio::test]
async fn a_flipped_index_bit_hides_objects_until_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), 150).await;
    let all = listed(&store).await;
    closed(store, dir.path()).await;
    // Pages keep copies of what was moved away from them, which nothing reads.
    offsets(dir.path(), &entry(20), true).into_iter().for_each(|at| damage(dir.path(), at, b"i"));

    let store = Store::local(dir.path()).await.unwrap();
    assert!(listed(&store).await.len() < all.len(), "a reader sees an end that is none");
    let found = store.inspect(Extent::Newest, Duration::from_secs(60)).await.unwrap();
    assert!(!found.is_sound() && !found.unfinished, "{found:?}");
    store.write_only_if_sound(&found);
    // From now on no write is acknowledged that no reader would find.
    let refused = store.put_new(&entry(151), Sealed::new(vec![1; 900])).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
    assert_eq!(store.delete(&entry(3)).await.unwrap_err().kind(), Kind::Corrupt);
    store.read(&entry(3)).await.unwrap();
    let whole = store.inspect(Extent::Whole, Duration::from_secs(60)).await.unwrap();
    assert!(whole.damage.iter().any(|line| line.contains("index")), "{whole:?}");
    assert_eq!(Store::repair(dir.path()).await.unwrap_err().kind(), Kind::Conflict, "it is open");
    closed(store, dir.path()).await;

    let repaired = Store::repair(dir.path()).await.unwrap();
    assert_eq!((repaired.remedy, repaired.objects), (Remedy::Reindexed, 300), "{repaired:?}");
    let store = Store::local(dir.path()).await.unwrap();
    assert_eq!(listed(&store).await, all);
    assert_eq!(store.put_new(&entry(151), Sealed::new(vec![1; 900])).await.unwrap(), Put::Created);
    closed(store, dir.path()).await;
    assert_eq!(Store::repair(dir.path()).await.unwrap().remedy, Remedy::None);
}

#[tokio::test]
async fn a_repair_copies_readable_rows_and_reports_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), 150).await;
    let all = listed(&store).await;
    closed(store, dir.path()).await;
    // The page of the table that has this row loses its head.
    let page = offsets(dir.path(), &entry(70), false)[0] / 8192;
    damage(dir.path(), page * 8192, &[0xff; 64]);
    fs::write(schema::path(dir.path()).with_extension("sqlite.new"), b"left by a repair that was killed")
        .unwrap();

    let repaired = Store::repair(dir.path()).await.unwrap();
    assert_eq!(repaired.remedy, Remedy::Salvaged);
    let lost = repaired.lost.clone();
    assert!(repaired.lost_count as usize == lost.len() && lost.contains(&entry(70)), "{repaired:?}");
    assert!(
        lost.len() < 20 && lost.iter().all(|path| path.contains("/log/")),
        "files are found again: {lost:?}"
    );
    assert!(repaired.kept.unwrap().exists());
    let store = Store::local(dir.path()).await.unwrap();
    let left: Vec<_> = all.into_iter().filter(|path| !lost.contains(path)).collect();
    assert_eq!(listed(&store).await, left);
    assert!(store.inspect(Extent::Whole, Duration::from_secs(60)).await.unwrap().is_sound());
    assert_eq!(store.put_new("acct/a/msg/new", Sealed::new(vec![1; 900])).await.unwrap(), Put::Created);
}

#[tokio::test]
async fn two_rows_with_one_path_are_both_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), 30).await;
    closed(store, dir.path()).await;
    let path = schema::path(dir.path());
    // As an append that did not find an existing object: the index does not have the first.
    let last = entry(20).len() - 1;
    offsets(dir.path(), &entry(20), true).into_iter().for_each(|at| damage(dir.path(), at + last, b"t"));
    let connection = schema::connect(&path, schema::Access::Write).unwrap();
    let insert = "INSERT INTO objects (path, size, modified, head) VALUES (?1, 3, 0, x'010203')";
    assert_eq!(connection.execute(insert, [entry(20)]).unwrap(), 1);
    drop(connection);

    let repaired = Store::repair(dir.path()).await.unwrap();
    assert_eq!((repaired.remedy, repaired.moved.len(), repaired.lost_count), (Remedy::Salvaged, 1, 0));
    let store = Store::local(dir.path()).await.unwrap();
    assert_eq!(store.read(&entry(20)).await.unwrap().as_ref(), [20; 900]);
    assert_eq!(store.read(&repaired.moved[0].1).await.unwrap().as_ref(), [1, 2, 3]);
}

#[tokio::test]
async fn a_sound_or_missing_store_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Store::repair(dir.path()).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    closed(filled(dir.path(), 3).await, dir.path()).await;
    let repaired = Store::repair(dir.path()).await.unwrap();
    assert_eq!((repaired.remedy, repaired.damage.len(), repaired.kept), (Remedy::None, 0, None));
}
