//! Objects in one file: all of them or none, each by itself, and no block longer than it is needed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use proptest::prelude::*;
use sealpost_base::{Clock, Kind, SystemClock, Timestamp};

use super::*;
use crate::local::schema::{self, Access};
use crate::local::tests::{block_on, sealed};
use crate::local::{LocalStore, files};
use crate::{Put, Store};

fn files_of(dir: &FilePath) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in std::fs::read_dir(dir.join("objects")).unwrap() {
        files.extend(std::fs::read_dir(directory.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    files
}

fn version(dir: &FilePath) -> i64 {
    let connection = schema::connect(&dir.join("objects.sqlite"), Access::Read).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Removed objects free their blocks after the replies.
async fn settles(what: impl Fn() -> bool) {
    let settled = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), settled).await.is_ok());
}

const SIZES: [usize; 9] = [0, 1, 4096, 4097, 30_000, 65_536, 65_537, 300_000, 5000];

/// Some objects of each size, in a file but for the small ones.
async fn filled(dir: &FilePath) -> Store {
    let store = Store::local(dir).await.unwrap();
    let batch = store.batch();
    for piece in SIZES.chunks(2) {
        let objects = piece.iter().map(|size| (format!("a/{size}"), sealed(*size, *size as u64)));
        assert_eq!(batch.add(objects.collect()).await.unwrap(), Put::Created);
    }
    assert_eq!(store.list("a", None).count().await, 0, "nothing is there before its end");
    assert_eq!(batch.finish().await.unwrap(), Put::Created);
    store
}

use futures::StreamExt;

#[test]
fn objects_that_come_together_share_a_file() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = filled(dir.path()).await;
        let stats = store.stats();
        let bytes = SIZES.iter().sum::<usize>() as u64;
        assert_eq!((stats.commits, stats.fsyncs, stats.objects, stats.bytes), (1, 3, 9, bytes));
        assert_eq!(files_of(dir.path()).len(), 1);
        for store in [store, Store::local(dir.path()).await.unwrap()] {
            for size in SIZES {
                let (path, expected) = (format!("a/{size}"), sealed(size, size as u64));
                assert_eq!(store.read(&path).await.unwrap(), expected.as_ref(), "{size}");
                assert_eq!(store.size(&path).await.unwrap(), size as u64);
                for range in [0..1, 0..4096, 4096..4097, 4000..5000, 65_000..65_537, 70_000..300_000] {
                    let got = store.read_range(&path, range.clone()).await;
                    if range.end <= size as u64 {
                        assert_eq!(got.unwrap(), expected.as_ref()[range.start as usize..range.end as usize]);
                    } else {
                        assert_eq!(got.unwrap_err().kind(), Kind::Corrupt, "{size} {range:?}");
                    }
                }
            }
        }
        assert_eq!(version(dir.path()), schema::SHARES_FILES);
    });
}

#[test]
fn little_that_comes_together_needs_no_file() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = Store::local(dir.path()).await.unwrap();
        let batch = store.batch();
        for n in 0..4u64 {
            batch.add(vec![(format!("a/{n}"), sealed(60_000, n))]).await.unwrap();
        }
        batch.finish().await.unwrap();
        assert_eq!((files_of(dir.path()).len(), version(dir.path())), (0, schema::SHARES_FILES - 1));
        assert_eq!(store.read("a/3").await.unwrap(), sealed(60_000, 3).as_ref());
        // Nothing at all is nothing to wait for.
        let commits = store.stats().commits;
        assert_eq!(store.batch().finish().await.unwrap(), Put::Created);
        assert_eq!(store.stats().commits, commits);
        drop(store.batch());
    });
}

#[test]
fn an_unfinished_batch_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = Store::local(dir.path()).await.unwrap();
        let batch = store.batch();
        batch.add(vec![("a".to_owned(), sealed(100_000, 1))]).await.unwrap();
        assert_eq!(files_of(dir.path()).len(), 1);
        drop(batch);
        assert_eq!(files_of(dir.path()).len(), 0);
        assert_eq!(store.read("a").await.unwrap_err().kind(), Kind::NotFound);
    });
}

#[test]
fn removed_objects_free_their_blocks_and_at_last_the_file() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = filled(dir.path()).await;
        let file = files_of(dir.path()).remove(0);
        let blocks = || std::fs::metadata(&file).map_or(0, |found| found.blocks());
        let before = blocks();
        store.delete("a/300000").await.unwrap();
        if cfg!(target_os = "linux") {
            settles(|| blocks() * 512 <= before * 512 - 290_000).await;
        }
        assert_eq!(store.read("a/300000").await.unwrap_err().kind(), Kind::NotFound);
        for size in SIZES.into_iter().filter(|size| *size != 300_000) {
            assert_eq!(store.read(&format!("a/{size}")).await.unwrap(), sealed(size, size as u64).as_ref());
        }
        // All that are left, in one transaction.
        let rest = SIZES.iter().map(|size| format!("a/{size}")).collect();
        store.delete_in_order(rest).await.unwrap();
        settles(|| files_of(dir.path()).is_empty()).await;
    });
}

#[test]
fn existing_objects_stay_and_new_ones_are_written() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = Store::local(dir.path()).await.unwrap();
        store.put_new("a/1", sealed(10, 1)).await.unwrap();
        let two = [1, 2].map(|n| (format!("a/{n}"), sealed(200_000, n)));
        assert_eq!(store.put_all_new(&two).await.unwrap(), Put::Exists);
        assert_eq!(store.read("a/1").await.unwrap(), sealed(10, 1).as_ref());
        assert_eq!(store.read("a/2").await.unwrap(), sealed(200_000, 2).as_ref());
        // And of a file that nothing of is needed, nothing stays.
        let one = [("a/1".to_owned(), sealed(100_000, 3))];
        assert_eq!(store.put_all_new(&one).await.unwrap(), Put::Exists);
        settles(|| files_of(dir.path()).len() == 1).await;
    });
}

#[test]
fn a_copy_of_one_is_an_object_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        filled(dir.path()).await;
        let store = LocalStore::open(dir.path()).unwrap();
        store.copy(&Path::from("a/300000"), &Path::from("b")).await.unwrap();
        store.delete(&Path::from("a/300000")).await.unwrap();
        let copy = store.get(&Path::from("b")).await.unwrap().bytes().await.unwrap();
        assert_eq!(copy, sealed(300_000, 300_000).as_ref());
    });
}

#[test]
fn the_sweep_frees_blocks_left_by_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = filled(dir.path()).await;
        let file = files_of(dir.path()).remove(0);
        let database = dir.path().join("objects.sqlite");
        let remove = |rows: &str| {
            let connection = schema::connect(&database, Access::Write).unwrap();
            connection.execute(&format!("DELETE FROM objects WHERE {rows}"), []).unwrap();
        };
        let sweep = |days: i64| {
            let later = Timestamp(SystemClock::new().now().0 + days * 86_400_000);
            files::sweep(&Files::open(dir.path()).unwrap(), &database, later).unwrap()
        };
        remove("path IN ('a/300000', 'a/65536')");
        let before = std::fs::metadata(&file).unwrap().blocks();
        assert_eq!(sweep(2), 0);
        if cfg!(target_os = "linux") {
            assert!(std::fs::metadata(&file).unwrap().blocks() * 512 <= before * 512 - 350_000);
        }
        for size in SIZES.into_iter().filter(|size| ![300_000, 65_536].contains(size)) {
            assert_eq!(store.read(&format!("a/{size}")).await.unwrap(), sealed(size, size as u64).as_ref());
        }
        remove("file IS NOT NULL");
        assert_eq!((sweep(4), files_of(dir.path()).len()), (1, 0));
    });
}

#[test]
fn a_truncated_file_damages_only_its_lost_objects() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = filled(dir.path()).await;
        let file = std::fs::OpenOptions::new().write(true).open(files_of(dir.path()).remove(0)).unwrap();
        file.set_len(100_000).unwrap();
        assert_eq!(store.read("a/300000").await.unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(store.read("a/4097").await.unwrap(), sealed(4097, 4097).as_ref());
        // Zeros that are no hole are content: opening them shows that they are not sealed.
        file.set_len(600_000).unwrap();
        assert!(store.read("a/5000").await.unwrap().iter().all(|byte| *byte == 0));
    });
}

proptest! {
    /// A hole is recognized in any part of it that is read, and when only a part of it was made
    /// yet.
    #[test]
    fn holes_are_recognized(
        start in 0u64..20_000, size in 1usize..30_000, from in 0usize..30_000, length in 1usize..30_000,
    ) {
        let from = from.min(size - 1);
        let to = (from + length).min(size);
        let mut bytes = sealed(size, start).as_ref().to_vec();
        prop_assert!(to - from < ZEROS || !may_be_hole(&bytes[from..to], start + from as u64));
        bytes[..to].fill(0);
        prop_assert!(may_be_hole(&bytes[from..to], start + from as u64));
        // The kernel has come to some page.
        let mut half = sealed(size, start).as_ref().to_vec();
        let page = (start + from as u64).next_multiple_of(PAGE).saturating_sub(start) as usize;
        if page > from && page < to {
            half[..page].fill(0);
            prop_assert!(may_be_hole(&half[from..to], start + from as u64));
            let mut half = sealed(size, start).as_ref().to_vec();
            half[page..].fill(0);
            prop_assert!(may_be_hole(&half[from..to], start + from as u64));
        }
    }
}
