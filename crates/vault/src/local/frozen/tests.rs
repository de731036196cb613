//! Stores of which nothing can be written, in each of the states that a copy of one, or a mount, shows.

use std::collections::BTreeMap;
use std::path::Path;

use sealpost_base::Kind;

use super::*;
use crate::local::tests::{block_on, may_mount, run, sealed, where_it_may_mount};
use crate::local::{INLINE_OBJECT_BYTES, LocalStore};
use crate::{Put, Store};

const LARGE: usize = INLINE_OBJECT_BYTES + 1;

/// Writes a few objects, small and large.
async fn filled(dir: &Path) -> Store {
    let store = Store::local(dir).await.unwrap();
    for n in 0..20 {
        let size = if n % 5 == 0 { LARGE } else { 100 };
        assert_eq!(store.put_new(&format!("a/{n:02}"), sealed(size, n)).await.unwrap(), Put::Created);
    }
    store
}

/// Reads all of it without writing, and fails to write.
async fn read_all(dir: &Path, expected: Frozen) {
    read_all_of(LocalStore::open_frozen, dir, expected).await;
}

async fn read_all_of(open: fn(&Path) -> sealpost_base::Result<LocalStore>, dir: &Path, expected: Frozen) {
    assert_eq!(inspect(&dir.join("objects.sqlite")).unwrap(), expected);
    let before = names(dir);
    let store = Store::over_local(std::sync::Arc::new(open(dir).unwrap()));
    let listed: Vec<_> = futures::TryStreamExt::try_collect(store.list("a", None)).await.unwrap();
    assert_eq!(listed.len(), 20);
    for n in 0..20 {
        let size = if n % 5 == 0 { LARGE } else { 100 };
        let read = store.read(&format!("a/{n:02}")).await.unwrap();
        assert_eq!(read[..], *sealed(size, n).as_ref());
    }
    for size in [10, LARGE] {
        let refused = store.put_new("b", sealed(size, 1)).await.unwrap_err();
        assert!(
            refused.kind() == Kind::Retry && refused.to_string().contains("cannot write to"),
            "{refused}"
        );
    }
    assert!(store.delete("a/01").await.is_err());
    drop(store);
    assert_eq!(names(dir), before, "nothing came, went or grew");
}

fn names(dir: &Path) -> BTreeMap<std::ffi::OsString, u64> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect()
}

/// What a machine that stopped leaves, or a copy of the files: the database and its log as they are now.
fn copied(from: &Path, to: &Path, with_index: bool) {
    assert!(
        std::process::Command::new("cp")
            .arg("-r")
            .arg(from.join("objects"))
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
    for end in ["", "-wal", "-shm"] {
        if end != "-shm" || with_index {
            let name = format!("objects.sqlite{end}");
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

#[test]
fn a_store_is_read_as_its_server_left_it() {
    let dir = tempfile::tempdir().unwrap();
    // A path that means something in a URI.
    let dir = dir.path().join("50% full?#1");
    block_on(async {
        drop(filled(&dir).await);
        settled(&dir).await;
        read_all(&dir, Frozen::Complete).await;
    });
}

/// SQLite removes its log when the last connection of the threads is closed.
async fn settled(dir: &Path) {
    let gone = async {
        while dir.join("objects.sqlite-wal").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), gone).await.unwrap();
}

#[test]
fn a_log_is_read_with_or_without_its_index() {
    let (dir, bare, stopped) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    block_on(async {
        let store = filled(dir.path()).await;
        copied(dir.path(), bare.path(), false);
        copied(dir.path(), stopped.path(), true);
        read_all(bare.path(), Frozen::Log).await;
        read_all(stopped.path(), Frozen::Shared).await;
        // While the server runs.
        read_all(dir.path(), Frozen::Shared).await;
        drop(store);
    });
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let refused = LocalStore::open_frozen(dir.path()).err().unwrap();
    assert!(refused.to_string().contains("objects.sqlite"), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_read_only_mount_is_read() {
    if may_mount() {
        where_it_may_mount("local::frozen::tests::on_a_read_only_mount");
    }
}

#[test]
#[ignore = "started by a_read_only_mount_is_read, where it may mount"]
fn on_a_read_only_mount() {
    let dir = std::env::current_dir().unwrap();
    let mounted = |name: &str| {
        let at = dir.join(format!("{name}-mount"));
        std::fs::create_dir(&at).unwrap();
        let [from, at] = [dir.join(name), at].map(|path| path.into_os_string().into_string().unwrap());
        run("mount", &["--bind", &from, &at]);
        run("mount", &["-o", "remount,bind,ro", &at]);
        std::path::PathBuf::from(at)
    };
    block_on(async {
        let store = filled(&dir.join("live")).await;
        let readers = reader_threads();
        for (name, with_index) in [("bare", false), ("stopped", true)] {
            std::fs::create_dir(dir.join(name)).unwrap();
            copied(&dir.join("live"), &dir.join(name), with_index);
        }
        read_all_of(LocalStore::open_to_read, &mounted("bare"), Frozen::Log).await;
        read_all_of(LocalStore::open_to_read, &mounted("stopped"), Frozen::Shared).await;
        let live = mounted("live");
        read_all_of(LocalStore::open_to_read, &live, Frozen::Shared).await;
        // What the server writes meanwhile is seen.
        let seen = Store::local_to_read(&live).await.unwrap();
        store.put_new("b", sealed(10, 1)).await.unwrap();
        assert_eq!(seen.read("b").await.unwrap().len(), 10);
        // The last one to close the database removes its log, if it may write.
        drop(seen);
        while reader_threads() > readers {
            tokio::task::yield_now().await;
        }
        drop(store);
        settled(&dir.join("live")).await;
        let refused = Store::local(&live).await.err().unwrap();
        assert_eq!(refused.kind(), Kind::Retry, "a server needs to write");
        store_is_as_it_was(&live).await;
    });
}

/// Threads of this process that read stores: they close their connections before they end.
fn reader_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("sealpost-read")).count()
}

async fn store_is_as_it_was(dir: &Path) {
    let store = Store::local_to_read(dir).await.unwrap();
    assert_eq!(store.read("b").await.unwrap().len(), 10);
    assert_eq!(inspect(&dir.join("objects.sqlite")).unwrap(), Frozen::Complete);
}
