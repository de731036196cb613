//! The local store as callers see it: durable, shared between instances, and patient with a failing disk.

use std::path::Path as FilePath;
use std::process::Command;

use futures::future::join_all;
use sealpost_base::{Kind, Random, SeededRandom, Timestamp};

use super::*;
use crate::{Put, Sealed, Store};
use futures::StreamExt;
use object_store::{GetOptions, ObjectStore};

const LARGE: usize = INLINE_OBJECT_BYTES + 1;

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.unwrap().block_on(future)
}

pub(super) fn sealed(size: usize, seed: u64) -> Sealed {
    let mut bytes = vec![0; size];
    SeededRandom::new(seed).fill(&mut bytes);
    Sealed::new(bytes)
}

async fn open(dir: &FilePath) -> Store {
    Store::local(dir).await.unwrap()
}

fn files_below(dir: &FilePath) -> Vec<String> {
    let mut names = Vec::new();
    for directory in std::fs::read_dir(dir.join("objects")).unwrap() {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            names.push(file.unwrap().file_name().into_string().unwrap());
        }
    }
    names
}

/// Files are unlinked after the replies.
async fn settles(dir: &FilePath, count: usize) {
    let settled = async {
        while files_below(dir).len() != count {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(5), settled).await;
    assert!(waited.is_ok(), "{:?} instead of {count} files", files_below(dir));
}

async fn listed(store: &Store, prefix: &str, after: Option<&str>) -> Vec<String> {
    store.list(prefix, after).map(|found| found.unwrap().path).collect().await
}

#[test]
fn the_last_object_below_a_prefix_is_last_by_path() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        for store in [open(dir.path()).await, Store::memory()] {
            assert_eq!(store.last("a/b").await.unwrap(), None);
            for path in ["a/b/2", "a/b/10", "a/b/3", "a/bc/9", "a/b0", "a/a/9"] {
                store.put_new(path, Sealed::new(path.as_bytes().to_vec())).await.unwrap();
            }
            let last = store.last("a/b").await.unwrap();
            assert_eq!(last, Some(("a/b/3".to_owned(), Bytes::from("a/b/3"))));
            store.delete("a/b/3").await.unwrap();
            assert_eq!(store.last("a/b").await.unwrap().unwrap().0, "a/b/2");
        }
    });
}

#[test]
fn a_panicking_reader_harms_no_other() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        store.put_new("a/b", sealed(10, 1)).await.unwrap();
        for _ in 0..20 {
            let wanted = vec![("a/b".to_owned(), 0..5), ("a/none".to_owned(), 0..5)];
            let read = store.begin_ranges(wanted, |found| {
                assert!(found.len() == 3, "which it is not");
            });
            assert_eq!(read.await.unwrap_err().kind(), Kind::Retry);
        }
        let kinds = |found: Vec<Result<Bytes>>| {
            found.into_iter().map(|found| found.map_err(|e| e.kind())).collect::<Vec<_>>()
        };
        let wanted = vec![("a/b".to_owned(), 0..5), ("a/none".to_owned(), 0..5), ("a/b".to_owned(), 8..11)];
        let found = store.begin_ranges(wanted, kinds).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().len(), 5);
        assert_eq!(found[1..], [Err(Kind::NotFound), Err(Kind::Corrupt)]);
    });
}

#[test]
fn objects_come_back_whole_and_in_ranges() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let sizes = [0, 1, 4095, 4096, 4097, 30_000, INLINE_OBJECT_BYTES, LARGE, 300_000];
        let store = open(dir.path()).await;
        for (i, size) in sizes.into_iter().enumerate() {
            let path = format!("a/{i}");
            assert_eq!(store.put_new(&path, sealed(size, i as u64)).await.unwrap(), Put::Created);
            assert_eq!(store.put_new(&path, sealed(5, 99)).await.unwrap(), Put::Exists);
        }
        // Another instance, so that nothing comes from this one's memory.
        let again = open(dir.path()).await;
        for (i, size) in sizes.into_iter().enumerate() {
            let (path, expected) = (format!("a/{i}"), sealed(size, i as u64));
            assert_eq!(again.read(&path).await.unwrap(), expected.as_ref(), "{size}");
            assert_eq!(again.size(&path).await.unwrap(), size as u64);
            for range in [0..1, 0..4096, 1..4097, 4000..5000, 5000..30_000, 65_000..65_536] {
                let got = again.read_range(&path, range.clone()).await;
                if range.end <= size as u64 {
                    assert_eq!(got.unwrap(), expected.as_ref()[range.start as usize..range.end as usize]);
                } else {
                    assert_eq!(got.unwrap_err().kind(), Kind::Corrupt, "{size} {range:?}");
                }
            }
        }
        // What lost against an existing object leaves no file.
        settles(dir.path(), 2).await;
        assert_eq!(again.read("a/none").await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(again.read("a").await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(again.read("../a").await.unwrap_err().kind(), Kind::Invalid);
    });
}

#[test]
fn lists_are_sorted_and_stay_below_their_prefix() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        let puts = (0..1200).rev().map(|i| {
            let store = store.clone();
            async move { store.put_new(&format!("acct/x/log/{i:04}"), sealed(10, i)).await.unwrap() }
        });
        join_all(puts).await;
        for path in ["acct/x/log0", "acct/x/lo", "acct/x/log-1/a", "acct/y/log/0001", "b@ä"] {
            store.put_new(path, sealed(10, 0)).await.unwrap();
        }
        let all = listed(&store, "acct/x/log", None).await;
        assert_eq!(all.len(), 1200);
        assert!(all.is_sorted());
        let tail = listed(&store, "acct/x/log", Some("acct/x/log/1197")).await;
        assert_eq!(tail, ["acct/x/log/1198", "acct/x/log/1199"]);
        assert_eq!(listed(&store, "acct/x/log", Some("acct/x/log/9")).await.len(), 0);
        assert_eq!(listed(&store, "acct/x/log", Some("a")).await.len(), 1200);
        assert_eq!(listed(&store, "", None).await.len(), 1205);
        assert_eq!(listed(&store, "b@ä", None).await.len(), 0);
        assert_eq!(store.read("b@ä").await.unwrap().len(), 10);
        let one = store.list("acct/y", None).next().await.unwrap().unwrap();
        assert_eq!((one.path.as_str(), one.size), ("acct/y/log/0001", 10));
        assert!(one.modified.seconds() > 1_700_000_000);
    });
}

fn holds(dir: &FilePath, bytes: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, bytes),
            false => std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes),
        }
    })
}

/// However a record came, nothing of it is left when it is removed, also where there was a second
/// name for it.
#[test]
fn nothing_stays_of_a_record_that_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        let objects: Vec<_> = (0..4).map(|n| (format!("accounts/me/{n}"), sealed(300, n))).collect();
        store.put_new(&objects[0].0, objects[0].1.clone()).await.unwrap();
        store.put_all_new(&objects[1..3]).await.unwrap();
        let mut upload = store.upload(&objects[3].0).await.unwrap();
        upload.part(objects[3].1.clone()).await.unwrap();
        upload.complete().await.unwrap();
        let path = |s: &str| Path::parse(s).unwrap();
        let local = LocalStore::open(dir.path()).unwrap();
        local.copy(&path("accounts/me/0"), &path("accounts/you/0")).await.unwrap();
        // One that lost against another leaves nothing either.
        let late = sealed(300, 9);
        assert_eq!(store.put_new("accounts/me/0", late.clone()).await.unwrap(), Put::Exists);
        assert!(!holds(dir.path(), late.as_ref()));
        for (path, object) in &objects {
            assert_eq!(store.read(path).await.unwrap(), object.as_ref());
            assert!(holds(dir.path(), object.as_ref()));
            store.delete(path).await.unwrap();
            let copied = path == "accounts/me/0";
            assert_eq!(holds(dir.path(), object.as_ref()), copied, "{path}");
        }
        assert_eq!(store.read("accounts/you/0").await.unwrap(), objects[0].1.as_ref());
        store.delete("accounts/you/0").await.unwrap();
        assert!(!holds(dir.path(), objects[0].1.as_ref()) && files_below(dir.path()).is_empty());
    });
}

/// Rows that were removed are overwritten in the database, as soon as the write-ahead log is copied into it.
#[test]
fn removed_rows_are_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        for n in 0..50 {
            store.put_new(&format!("a/{n:02}"), sealed(n as usize * 1000, n)).await.unwrap();
        }
        store.delete_in_order((0..49).map(|n| format!("a/{n:02}")).collect()).await.unwrap();
        drop(store);
        let connection = rusqlite::Connection::open(schema::path(dir.path())).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        for n in 1..49 {
            let object = sealed(n as usize * 1000, n);
            assert!(!holds(dir.path(), &object.as_ref()[..200]), "{n}");
            assert!(!holds(dir.path(), &object.as_ref()[object.len() - 200..]), "{n}");
        }
    });
}

#[test]
fn the_trait_is_kept_where_the_platform_does_not_look() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = LocalStore::open(dir.path()).unwrap();
        let path = |s: &str| Path::parse(s).unwrap();
        for (name, size) in [("d/small", 100), ("d/large", LARGE)] {
            let bytes = sealed(size, 1).into_bytes();
            store.put(&path(name), bytes.clone().into()).await.unwrap();
            let copy = path("d/sub/copy");
            store.copy(&path(name), &copy).await.unwrap();
            let refused = store.copy_if_not_exists(&path(name), &copy).await;
            assert!(matches!(refused, Err(object_store::Error::AlreadyExists { .. })));
            store.rename(&copy, &path("d/sub/moved")).await.unwrap();
            assert!(matches!(store.head(&copy).await, Err(object_store::Error::NotFound { .. })));
            store.delete(&path(name)).await.unwrap();
            let got = store.get(&path("d/sub/moved")).await.unwrap();
            assert_eq!((got.meta.size, got.range.clone()), (size as u64, 0..size as u64));
            assert_eq!(got.bytes().await.unwrap(), bytes);
            let options = GetOptions { range: Some(GetRange::Suffix(7)), ..GetOptions::default() };
            let got = store.get_opts(&path("d/sub/moved"), options).await.unwrap();
            assert_eq!(got.range, size as u64 - 7..size as u64);
            assert_eq!(got.bytes().await.unwrap(), bytes[size - 7..]);
            store.put(&path(name), bytes.into()).await.unwrap();
        }
        let found = store.list_with_delimiter(Some(&path("d"))).await.unwrap();
        assert_eq!(found.common_prefixes, [path("d/sub")]);
        assert_eq!(found.objects.len(), 2);
        // Overwriting removes the file of the earlier object.
        store.put(&path("d/large"), Bytes::from_static(b"x").into()).await.unwrap();
        settles(dir.path(), 1).await;
    });
}

#[test]
fn deleted_objects_and_aborted_uploads_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        store.put_new("a", sealed(LARGE, 1)).await.unwrap();
        let mut upload = store.upload("b").await.unwrap();
        upload.part(sealed(LARGE, 2)).await.unwrap();
        assert_eq!(files_below(dir.path()).len(), 2);
        drop(upload);
        store.delete("a").await.unwrap();
        store.delete("a").await.unwrap();
        // The abort runs on its own: another upload takes the same way, after it.
        let mut upload = store.upload("c").await.unwrap();
        upload.part(sealed(70_000, 3)).await.unwrap();
        upload.part(sealed(100, 4)).await.unwrap();
        upload.complete().await.unwrap();
        settles(dir.path(), 1).await;
        assert_eq!(listed(&store, "", None).await, ["c"]);
        assert_eq!(store.read("c").await.unwrap()[70_000..], *sealed(100, 4).as_ref());
    });
}

#[test]
fn many_writers_share_commits() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        let clients = (0..32).map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                for i in 0..20 {
                    let path = format!("c/{client}/{i}");
                    assert_eq!(store.put_new(&path, sealed(500, i)).await.unwrap(), Put::Created);
                    assert_eq!(store.read(&path).await.unwrap(), sealed(500, i).as_ref());
                }
            })
        });
        join_all(clients).await.into_iter().for_each(|joined| joined.unwrap());
        let stats = store.stats();
        assert_eq!((stats.objects, stats.bytes), (640, 320_000));
        assert!(stats.commits < 320, "{} commits for 640 objects", stats.commits);
    });
}

#[test]
fn of_two_stores_on_one_directory_one_creates() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let stores = [open(dir.path()).await, open(dir.path()).await];
        let mut rings = stores[0].changes();
        for i in 0..40 {
            let size = if i % 10 == 0 { LARGE } else { 100 };
            let path = format!("race/{i}");
            let [a, b] = [0, 1].map(|n| {
                let (store, path) = (stores[n].clone(), path.clone());
                tokio::spawn(async move { store.put_new(&path, sealed(size, n as u64)).await.unwrap() })
            });
            let (a, b) = (a.await.unwrap(), b.await.unwrap());
            let winner = u64::from(a != Put::Created);
            assert_eq!((a == Put::Created) as u8 + (b == Put::Created) as u8, 1);
            for store in &stores {
                assert_eq!(store.read(&path).await.unwrap(), sealed(size, winner).as_ref());
            }
        }
        stores[1].put_new("race/last", sealed(1, 1)).await.unwrap();
        rings.changed().await.unwrap();
        settles(dir.path(), 4).await;
    });
}

#[test]
fn own_commits_do_not_ring() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        let mut rings = store.changes();
        // The first sweep of a new store may ring once: it has a connection of its own.
        let _ = tokio::time::timeout(Duration::from_millis(300), rings.changed()).await;
        store.put_new("a", sealed(1, 1)).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(500), rings.changed()).await;
        assert!(waited.is_err());
    });
}

#[test]
fn permissions_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    block_on(async {
        let store = open(&dir).await;
        store.put_new("a", sealed(LARGE, 1)).await.unwrap();
        let mode = |path: &FilePath| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join("objects")), 0o700);
        for file in ["objects.sqlite", "objects.sqlite-wal", "objects.sqlite-shm"] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
        for directory in std::fs::read_dir(dir.join("objects")).unwrap() {
            let directory = directory.unwrap().path();
            assert_eq!(mode(&directory), 0o700);
            let file = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
            assert_eq!(mode(&file), 0o600);
        }
    });
}

#[test]
fn old_files_without_a_row_are_swept_once_a_day() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        store.put_new("a", sealed(LARGE, 1)).await.unwrap();
        let stray = dir.path().join("objects/00");
        std::fs::create_dir_all(&stray).unwrap();
        std::fs::write(stray.join("x.tmp"), b"half a message").unwrap();
        std::fs::write(stray.join("y"), b"a message without a row").unwrap();
        let files = Files::open(dir.path()).unwrap();
        let database = dir.path().join("objects.sqlite");
        let now = SystemClock::new().now();
        let hours = |n: i64| Timestamp(now.0 + n * 3_600_000);
        // The sweep of the opening itself may or may not have run: these are days later.
        assert_eq!(files::sweep(&files, &database, hours(-48)).unwrap_or(9), 0, "young files stay");
        assert_eq!(files::sweep(&files, &database, hours(48)).unwrap(), 2);
        assert_eq!(files::sweep(&files, &database, hours(49)).unwrap(), 0);
        assert_eq!(files_below(dir.path()).len(), 1);
        assert_eq!(store.read("a").await.unwrap().len(), LARGE);
    });
}

#[test]
fn a_lost_or_short_file_damages_that_object_alone() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        store.put_new("lost", sealed(LARGE, 1)).await.unwrap();
        let entry = std::fs::read_dir(dir.path().join("objects")).unwrap().next().unwrap().unwrap().path();
        let file = std::fs::read_dir(entry).unwrap().next().unwrap().unwrap().path();
        store.put_new("whole", sealed(LARGE, 2)).await.unwrap();
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(store.read("lost").await.unwrap_err().kind(), Kind::Corrupt);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(store.read("lost").await.unwrap_err().kind(), Kind::Corrupt);
        // Another object in its place: no later read would find the bytes.
        std::fs::create_dir(&file).unwrap();
        assert_eq!(store.read("lost").await.unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(store.read("whole").await.unwrap().len(), LARGE);
    });
}

#[test]
fn a_store_of_another_format_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(LocalStore::open(dir.path()).unwrap());
    for (version, what_to_do) in [(3, "sealpost export"), (4, "sealpost export"), (60, "or a later one")] {
        let connection = schema::connect(&dir.path().join("objects.sqlite"), schema::Access::Write).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        let refused = LocalStore::open(dir.path()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid);
        assert!(refused.to_string().contains(what_to_do), "{refused}");
    }
}

/// Runs the ignored test `name` of this binary, as `sh` sets it up.
fn in_child(setup: &str, name: &str, dir: &FilePath) {
    let binary = std::env::current_exe().unwrap();
    let script = format!("{setup}; exec \"$0\" --exact --ignored --nocapture \"$1\"");
    let status =
        Command::new("sh").arg("-c").arg(script).arg(binary).arg(name).current_dir(dir).output().unwrap();
    let output =
        [status.stdout, status.stderr].map(|out| String::from_utf8_lossy(&out).into_owned()).concat();
    assert!(status.status.success() && output.contains("1 passed"), "{output}");
}

#[test]
fn a_full_disk_fails_all_writes_and_the_store_recovers() {
    let dir = tempfile::tempdir().unwrap();
    // A limit on the size of files stands for a full disk; its signal is ignored, so that writes
    // fail instead.
    in_child("trap '' XFSZ; ulimit -S -f 1200", "local::tests::fills_the_disk", dir.path());
}

#[test]
#[ignore = "started by a_full_disk_fails_all_writes_and_the_store_recovers, under a file size limit"]
fn fills_the_disk() {
    let dir = std::env::current_dir().unwrap();
    block_on(async {
        let store = open(&dir).await;
        let mut created = Vec::new();
        let mut failed = 0;
        for round in 0..20 {
            let puts = (0..8).map(|i| {
                let store = store.clone();
                async move { (i, store.put_new(&format!("d/{round}/{i}"), sealed(30_000, i)).await) }
            });
            for (i, put) in join_all(puts).await {
                match put {
                    Ok(put) => {
                        assert_eq!(put, Put::Created);
                        created.push((format!("d/{round}/{i}"), i));
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), Kind::Retry);
                        failed += 1;
                    }
                }
            }
        }
        assert!(failed > 0 && !created.is_empty());
        let large = store.put_new("large", sealed(2_000_000, 1)).await;
        assert_eq!(large.unwrap_err().kind(), Kind::Retry);
        assert!(files_below(&dir).is_empty());
        for (path, seed) in &created {
            assert_eq!(store.read(path).await.unwrap(), sealed(30_000, *seed).as_ref());
        }
        assert_eq!(listed(&store, "d", None).await.len(), created.len());

        let pid = std::process::id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
        if raised.is_ok_and(|status| status.success()) {
            assert_eq!(store.put_new("after", sealed(30_000, 1)).await.unwrap(), Put::Created);
            assert_eq!(store.put_new("large", sealed(2_000_000, 1)).await.unwrap(), Put::Created);
            assert_eq!(listed(&store, "d", None).await.len(), created.len());
        }
    });
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that cannot run here has to say so")]
fn a_read_only_disk_fails_writes_and_the_store_recovers() {
    if !may_mount() {
        eprintln!("not tested: mounting is not allowed here");
        return;
    }
    where_it_may_mount("local::tests::on_a_read_only_disk");
}

/// Whether a process of this user may mount a private file system.
pub(super) fn may_mount() -> bool {
    Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success())
}

/// Runs a test of its own directory in such a process.
pub(super) fn where_it_may_mount(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let binary = std::env::current_exe().unwrap();
    let binary = binary.to_str().unwrap();
    let setup = format!("trap '' XFSZ; exec unshare -Urm \"{binary}\" --exact --ignored --nocapture \"$1\"");
    in_child(&setup, test, dir.path());
}

pub(super) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "started by a_read_only_disk_fails_writes_and_the_store_recovers, where it may mount"]
fn on_a_read_only_disk() {
    let dir = std::env::current_dir().unwrap();
    let at = dir.to_str().unwrap();
    let limit_files = |limit: &str| {
        let limit = format!("--fsize={limit}:unlimited");
        run("prlimit", &["--pid", &std::process::id().to_string(), &limit]);
    };
    block_on(async {
        let store = open(&dir).await;
        store.put_new("small", sealed(30_000, 1)).await.unwrap();
        store.put_new("large", sealed(LARGE, 2)).await.unwrap();
        // As any store in use, it has been read from: what SQLite shares between connections was
        // not opened read-only.
        assert_eq!(store.read("small").await.unwrap().len(), sealed(30_000, 1).as_ref().len());
        run("mount", &["--bind", at, at]);
        run("mount", &["-o", "remount,bind,ro", at]);
        assert_eq!(store.put_new("large2", sealed(LARGE, 3)).await.unwrap_err().kind(), Kind::Retry);
        // An open file stays writable until it is opened again.
        limit_files("1");
        assert_eq!(store.put_new("small2", sealed(30_000, 4)).await.unwrap_err().kind(), Kind::Retry);
        limit_files("unlimited");
        for _ in 0..3 {
            assert_eq!(store.put_new("small2", sealed(30_000, 4)).await.unwrap_err().kind(), Kind::Retry);
        }
        assert_eq!(store.read("small").await.unwrap(), sealed(30_000, 1).as_ref());
        assert_eq!(store.read("large").await.unwrap().len(), LARGE);
        run("mount", &["-o", "remount,bind,rw", at]);
        assert_eq!(store.put_new("small2", sealed(30_000, 4)).await.unwrap(), Put::Created);
        assert_eq!(store.put_new("large2", sealed(LARGE, 3)).await.unwrap(), Put::Created);
    });
}

#[test]
fn a_lock_held_by_another_process_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        store.put_new("a", sealed(10, 1)).await.unwrap();
        // Another process holds the write lock permanently: the caller bounds the wait here.
        let connection = schema::connect(&dir.path().join("objects.sqlite"), schema::Access::Write).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let put = store.put_new("b", sealed(10, 1));
        assert!(tokio::time::timeout(Duration::from_millis(100), put).await.is_err());
        assert_eq!(store.read("a").await.unwrap().len(), 10, "readers do not wait for writers");
        connection.execute_batch("COMMIT").unwrap();
        assert!(store.put_new("c", sealed(10, 1)).await.is_ok());
    });
}

#[test]
fn one_of_two_processes_creates_and_a_third_notices() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        let mut rings = store.changes();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| in_child(":", "local::tests::puts_a_hundred", dir.path()));
            }
        });
        rings.changed().await.unwrap();
        assert_eq!(listed(&store, "p", None).await.len(), 100);
        let created: usize = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "created"))
            .map(|path| std::fs::read_to_string(path).unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(created, 100);
    });
}

#[test]
#[ignore = "started twice by one_of_two_processes_creates_and_a_third_notices"]
fn puts_a_hundred() {
    let dir = std::env::current_dir().unwrap();
    block_on(async {
        let store = open(&dir).await;
        let mut created = 0;
        for i in 0..100 {
            let size = if i % 25 == 0 { LARGE } else { 100 };
            let put = store.put_new(&format!("p/{i}"), sealed(size, i)).await.unwrap();
            created += usize::from(put == Put::Created);
        }
        std::fs::write(dir.join(format!("{}.created", std::process::id())), created.to_string()).unwrap();
    });
}

#[test]
fn a_row_with_impossible_values_harms_no_other() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(dir.path()).await;
        for (path, size) in [("d/a", 300), ("d/b", 300), ("d/large", LARGE)] {
            store.put_new(path, sealed(size, 1)).await.unwrap();
        }
        let database = rusqlite::Connection::open(schema::path(dir.path())).unwrap();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        for (size, modified) in [(i64::MAX, i64::MAX), (-1, i64::MIN), (i64::MAX / 2, 1 << 60)] {
            let damage = "UPDATE objects SET size = ?1, modified = ?2 WHERE path <> 'd/b'";
            assert_eq!(database.execute(damage, [size, modified]).unwrap(), 2);
            assert_eq!(listed(&store, "d", None).await, ["d/a", "d/b", "d/large"]);
            assert_eq!(store.read("d/b").await.unwrap(), sealed(300, 1).as_ref());
            for path in ["d/a", "d/large"] {
                assert_eq!(
                    store.read(path).await.unwrap_err().kind(),
                    Kind::Corrupt,
                    "{path} of {size} bytes"
                );
            }
        }
    });
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that cannot run here has to say so")]
fn writes_that_free_space_succeed_on_a_full_disk() {
    if !may_mount() {
        eprintln!("not tested: mounting is not allowed here");
        return;
    }
    where_it_may_mount("local::tests::on_a_full_disk");
}

#[test]
#[ignore = "started by writes_that_free_space_succeed_on_a_full_disk, where it may mount"]
fn on_a_full_disk() {
    const RESERVE: u64 = 20 * 1024 * 1024;
    let dir = std::env::current_dir().unwrap().join("disk");
    std::fs::create_dir(&dir).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=64m", "tmpfs", dir.to_str().unwrap()]);
    let reserve = dir.join("reserve");
    let reserved = || std::fs::metadata(&reserve).unwrap().len();
    block_on(async {
        let store = open(&dir).await;
        store.keep_reserve(RESERVE).await.unwrap();
        assert_eq!(reserved(), RESERVE);
        let mut count = 0;
        while let Ok(put) = store.put_new(&format!("d/{count:04}"), sealed(30_000, count)).await {
            assert_eq!(put, Put::Created);
            count += 1;
        }
        // Another process takes the rest, to the last byte.
        let mut other = std::fs::File::create(dir.join("other")).unwrap();
        while std::io::Write::write_all(&mut other, &[1; 4096]).is_ok() {}
        for n in 0..20 {
            assert_eq!(
                store.put_new(&format!("d/x{n}"), sealed(30_000, 1)).await.unwrap_err().kind(),
                Kind::Retry
            );
        }
        assert_eq!(store.put_new("large", sealed(LARGE, 3)).await.unwrap_err().kind(), Kind::Retry);
        assert_eq!((reserved(), store.is_disk_full()), (RESERVE, false), "mail does not touch it");

        while std::io::Write::write_all(&mut other, &[1; 4096]).is_ok() {}

        // Another process removes, as a command line does.
        let (freeing, command) = (store.freeing(), open(&dir).await);
        freeing.put_new("expunged/first", sealed(400, 1)).await.unwrap();
        // The reserve is released, and another process takes half of it and of the space freed by
        // the write-ahead log.
        while rustix::fs::statvfs(&dir).unwrap().f_bavail * 4096 > RESERVE / 4 * 3 {
            std::io::Write::write_all(&mut other, &[1; 4096]).unwrap();
        }
        for n in 0..200 {
            freeing.put_new(&format!("expunged/{n}"), sealed(400, 1)).await.unwrap();
            command.delete(&format!("d/{n:04}")).await.unwrap();
        }
        assert_eq!((reserved(), store.is_disk_full(), command.is_disk_full()), (0, true, true));
        for store in [&store, &command] {
            assert_eq!(store.put_new("d/y", sealed(30_000, 1)).await.unwrap_err().kind(), Kind::Retry);
            assert_eq!(store.put_new("large", sealed(LARGE, 3)).await.unwrap_err().kind(), Kind::Retry);
        }
        for n in 200..count {
            assert_eq!(store.read(&format!("d/{n:04}")).await.unwrap(), sealed(30_000, n).as_ref());
        }
        // Removed objects leave free space inside the database.
        for n in 200..count {
            command.delete(&format!("d/{n:04}")).await.unwrap();
        }
        let again = async {
            while store.put_new("d/y", sealed(30_000, 1)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
        assert!(!store.is_disk_full() && (RESERVE / 4..=RESERVE).contains(&reserved()), "{}", reserved());
        for n in 0..count / 2 {
            assert_eq!(store.put_new(&format!("e/{n:04}"), sealed(30_000, n)).await.unwrap(), Put::Created);
        }
        drop(other);
        std::fs::remove_file(dir.join("other")).unwrap();
    });
    run("umount", &["-l", dir.to_str().unwrap()]);
}
