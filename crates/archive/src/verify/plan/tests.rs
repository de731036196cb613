//! Plans and lists, without a server.

use super::*;
use crate::backup::format_tests::{folder_name, identity, resume};

fn set(uids: &[u32]) -> UidSet {
    uids.iter().filter_map(|uid| Uid::new(*uid)).collect()
}

fn found(name: &str, selectable: bool) -> ListedMailbox {
    let wire = name.as_bytes().into();
    ListedMailbox { name: folder_name(name), wire, selectable, attributes: Vec::new(), numbers: None }
}

fn kept(name: &str, was: Option<&str>) -> BackupFolder {
    BackupFolder {
        name: folder_name(name),
        was: was.map(folder_name),
        identity: identity(7),
        messages: 1,
        gone: 0,
        resume: resume(2),
        as_left: true,
        closed: true,
    }
}

/// Names of folders, each with a property from a plan.
type Names = Vec<(String, bool)>;

/// The folders of a plan: compared with the server (and whether the backup has them), and alone
/// (and whether the server has them).
fn names(plan: &Plan<'_>) -> (Names, Names) {
    let with_server = plan.with_server.iter().map(|one| (one.found.name.to_string(), one.kept.is_some()));
    let alone = plan.alone.iter().map(|one| (one.kept.name.to_string(), one.is_there));
    (with_server.collect(), alone.collect())
}

#[test]
fn every_folder_of_either_side_is_compared_once() {
    let folders = [found("INBOX", true), found("New", true), found("Parent", false)];
    let all = ["INBOX", "New", "Other"].map(folder_name).into();
    let kept = [kept("INBOX", None), kept("Parent", None), kept("Other", None), kept("Gone", None)];
    let superseded = [super::tests::kept("INBOX-6", Some("INBOX"))];
    let ends = Ends { folders: &folders, all: &all, kept: &kept, superseded: &superseded };
    let named = |names: &[(&str, bool)]| names.iter().map(|(n, b)| ((*n).to_owned(), *b)).collect::<Vec<_>>();
    let (with_server, alone) = names(&Plan::of(&ends, |_| true, None));
    assert_eq!(with_server, named(&[("INBOX", true), ("New", false)]));
    assert_eq!(alone, named(&[("Parent", false), ("Other", true), ("Gone", false), ("INBOX-6", false)]));
    let (_, alone) = names(&Plan::of(&ends, |name| name == "Gone", None));
    assert_eq!(alone, named(&[("Gone", false)]));
}

#[test]
fn after_a_repair_only_damaged_messages_are_compared() {
    let folders = [found("INBOX", true), found("New", true)];
    let all = ["INBOX", "New"].map(folder_name).into();
    let kept = [kept("INBOX", None), kept("Gone", None)];
    let ends = Ends { folders: &folders, all: &all, kept: &kept, superseded: &[] };
    let only = HashMap::from([("INBOX".to_owned(), set(&[3]))]);
    let plan = Plan::of(&ends, |_| true, Some(&only));
    assert_eq!((plan.with_server.len(), plan.alone.len()), (1, 0));
    assert_eq!(plan.with_server[0].chosen, Some(set(&[3])));
}

/// A backup with these messages, each of the given size and hash.
fn local(messages: &[(u32, u64, u8)], evicted: &[u32], damaged: &[u32]) -> Local {
    Local {
        messages: messages.iter().map(|(uid, size, hash)| (*uid, (*size, [*hash; 32]))).collect(),
        uids: messages.iter().filter_map(|(uid, ..)| Uid::new(*uid)).collect(),
        evicted: set(evicted),
        damaged: Vec::new(),
        damaged_uids: set(damaged),
    }
}

#[test]
fn comparing_lists_finds_missing_deleted_duplicate_and_lost_messages() {
    // 1 and 2 are the same message; 2 and 3 are gone from the server, 3 of them without a body; 4
    // and 5 are damaged.
    let local = local(&[(1, 10, 1), (2, 10, 1), (3, 30, 3), (6, 60, 6)], &[3, 6], &[4, 5]);
    let mut listed = ServerListing::default();
    for (uid, size) in [(1, 10), (4, 40), (6, 61), (7, 70), (0, 5)] {
        listed.add(&local, uid, size);
    }
    let mut report = FolderReport::default();
    let common = listed.compare(&local, &mut report);
    assert_eq!((common, report.evicted), (set(&[1, 6]), 2));
    assert_eq!((report.missing.to_string(), report.sizes.to_string()), ("7".into(), "6".into()));
    assert_eq!(
        (report.gone, report.doubled.to_string(), report.lost.to_string()),
        (2, "2".into(), "3".into())
    );
    assert_eq!((report.reparable.to_string(), report.beyond_repair.to_string()), ("4".into(), "5".into()));
}

#[test]
fn a_message_that_ends_every_connection_is_skipped() {
    let common = set(&[1, 2, 3]);
    let mut progress = Progress::new(Some(set(&[1, 2, 3, 9])));
    assert_eq!(progress.left(&common), common, "expunged messages cannot be compared");
    progress.done = set(&[1]);
    for _ in 0..ATTEMPTS {
        assert_eq!(progress.left(&common), set(&[2, 3]));
        progress.connection_lost();
    }
    assert_eq!((progress.left(&common), progress.unsent(&common)), (set(&[3]), set(&[2, 3])));
}
