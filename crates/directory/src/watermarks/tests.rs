//! What was seen is remembered, bounded, and only an operator has it forgotten.

use sealpost_base::{Kind, SeededRandom};

use super::*;

fn keys() -> ServerKeys {
    ServerKeys::generate(&SeededRandom::new(1))
}

fn id(n: u32) -> AccountId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.to_be_bytes());
    AccountId(id)
}

#[test]
fn an_older_version_is_refused_until_restored_or_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermarks");
    let marks = Watermarks::load(&path, &keys()).unwrap();
    marks.record("accounts/a", Some(3)).unwrap();
    marks.saw(id(1), Position(9));
    marks.save().unwrap();
    let again = Watermarks::load(&path, &keys()).unwrap();
    for marks in [&marks, &again] {
        for found in [Some(2), None] {
            let e = marks.record("accounts/a", found).unwrap_err();
            assert!(e.kind() == Kind::Retry && e.to_string().contains("confirm-restore"), "{e}");
        }
        marks.may_follow(id(1), Position(9)).unwrap();
        marks.may_follow(id(2), Position(0)).unwrap();
        assert!(marks.may_follow(id(1), Position(8)).is_err());
        assert_eq!(marks.back(), 2);
        marks.record("accounts/never", None).unwrap();
        marks.record("domains/a", Some(3)).unwrap();
        marks.record("domains/a", Some(2)).unwrap();
    }
    again.saw(id(1), Position(10));
    again.record("accounts/a", Some(4)).unwrap();
    assert_eq!(again.back(), 0, "it is there, and later");
    again.save().unwrap();
    // One process has what the other one saw, and both what was confirmed.
    marks.save().unwrap();
    assert!(marks.may_follow(id(1), Position(9)).is_err());
    Watermarks::confirm(&path, &keys()).unwrap();
    marks.save().unwrap();
    again.save().unwrap();
    for marks in [&marks, &again, &Watermarks::load(&path, &keys()).unwrap()] {
        marks.record("accounts/a", Some(1)).unwrap();
        marks.may_follow(id(1), Position(0)).unwrap();
        assert_eq!(marks.back(), 0);
    }
}

#[test]
fn versions_seen_during_a_read_are_no_contradiction() {
    let marks = Watermarks::default();
    marks.record("accounts/a", Some(3)).unwrap();
    let before = marks.version_of("accounts/a");
    // Another task writes the next version while this one reads.
    marks.record("accounts/a", Some(4)).unwrap();
    marks.record_since("accounts/a", before, Some(3)).unwrap();
    assert_eq!((marks.version_of("accounts/a"), marks.back()), (Some(4), 0));
    assert!(marks.record_since("accounts/a", before, Some(2)).is_err());
    marks.saw_record("accounts/a", 2);
    assert_eq!((marks.version_of("accounts/a"), marks.back()), (Some(4), 1));
}

#[test]
fn records_that_end_are_remembered_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermarks");
    let marks = Watermarks::load(&path, &keys()).unwrap();
    let n = limits::WATERMARKS as u32;
    for record in ["shares/a/b", "push/accounts/a", "accounts/a"] {
        marks.saw_record(record, 5);
    }
    // A user can make these as often as they like.
    for login in 0..n + 1 {
        marks.saw_record(&format!("logins/a/{login}"), 5);
    }
    marks.save().unwrap();
    for marks in [&marks, &Watermarks::load(&path, &keys()).unwrap()] {
        assert_eq!((marks.records().len(), marks.records_that_end().len()), (1, n as usize + 2));
        assert_eq!(marks.version_of("logins/a/0"), None);
        assert_eq!(marks.version_of("shares/a/b"), Some(5));
        assert!(marks.record("push/accounts/a", Some(4)).is_err());
    }
    assert!(fs::metadata(&path).unwrap().len() < FILE_BYTES as u64);
}

#[test]
fn a_file_that_was_changed_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermarks");
    let marks = Watermarks::load(&path, &keys()).unwrap();
    marks.record("aliases/a", Some(3)).unwrap();
    marks.saw(id(1), Position(9));
    marks.save().unwrap();
    let bytes = fs::read(&path).unwrap();
    let macs = keys().macs(Purpose::Watermark);
    assert!(decode(&macs, &bytes).is_some());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&macs, &changed).is_none(), "{bit}");
    }
    assert!((0..bytes.len()).all(|length| decode(&macs, &bytes[..length]).is_none()));
    let others = ServerKeys::generate(&SeededRandom::new(2));
    assert!(Watermarks::load(&path, &others).unwrap().logs().is_empty());
    let rotated = keys().with_next(&SeededRandom::new(3)).unwrap().rotated();
    assert_eq!(Watermarks::load(&path, &rotated).unwrap().logs(), [(id(1), Position(9))]);
}

#[test]
fn only_the_latest_watermarks_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermarks");
    let marks = Watermarks::load(&path, &keys()).unwrap();
    let n = limits::WATERMARKS as u32;
    for account in 0..n + 2 {
        marks.saw(id(account), Position(5));
        marks.record(&format!("accounts/{account}"), Some(5)).unwrap();
    }
    // Lists of slots have a limit of their own.
    marks.record("slots/first", Some(7)).unwrap();
    marks.record("accounts/last", Some(5)).unwrap();
    marks.save().unwrap();
    for marks in [&marks, &Watermarks::load(&path, &keys()).unwrap()] {
        assert_eq!((marks.logs().len(), marks.records().len()), (n as usize, n as usize));
        assert!(
            marks.may_follow(id(1), Position(0)).is_ok() && marks.may_follow(id(2), Position(0)).is_err()
        );
        assert!(marks.record("accounts/2", None).is_ok() && marks.record("accounts/3", None).is_err());
        assert!(marks.is_behind("slots/first", Some(6)) && marks.is_behind("slots/first", None));
        assert!(!marks.is_behind("slots/first", Some(7)) && marks.record("slots/first", Some(6)).is_err());
        assert!(marks.record("others/first", None).is_ok());
    }
    assert!(fs::metadata(&path).unwrap().len() < FILE_BYTES as u64);
}
