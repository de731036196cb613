//! Deleted messages are removed from the mbox too, and nothing else, wherever the run ends.

use super::*;
use crate::backup::contents::Contents;
use crate::backup::imap_backup::adopt::Paths;
use crate::backup::imap_backup::rewrite::{prepare, prepare_renumbered, put_in_place};

fn paths(root: &Path) -> Paths {
    let path = |end: &str| root.join(format!("INBOX.{end}"));
    Paths { mbox: path("mbox"), json: path("imap"), journal: path("sealpost") }
}

/// A folder in which two of five messages are deleted, left by a run that ends before it closed it.
fn with_deleted(root: &Path) -> Mails {
    let texts = ["one\r\n", "two\nbare", "From three\r\n\r\n", "four\n\r\n", "five"];
    let mut mails: Mails = (1..).zip(texts.map(|text| mail(&format!("A: b\r\n\r\n{text}")))).collect();
    let (_copy, mut folder) = opened(root, INBOX, 7);
    mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
    folder.commit(&resume(6)).unwrap();
    for uid in [2, 3] {
        folder.flags(uid, &Flags::from_names(["\\Flagged"])).unwrap();
        folder.remove(uid).unwrap();
        mails.remove(&uid);
    }
    folder.mark_deleted_upstream(4).unwrap();
    folder.commit(&resume(6)).unwrap();
    mails
}

/// The backup has these messages, for every reader, and can be continued.
fn check(root: &Path, mails: &Mails) {
    let (backup, mut folder) = opened(root, INBOX, 7);
    assert_eq!(read_all(&*folder), *mails);
    assert!(folder.known().is_deleted_upstream(4) && !folder.known().contains(2));
    assert!(folder.notices().is_empty());
    let more = mail("more\r\n");
    give(&mut *folder, 20, &more, 3).unwrap();
    folder.commit(&resume(21)).unwrap();
    folder.close().unwrap();
    let seen = imap_backup_reads(root, INBOX);
    assert!(seen.iter().map(|(uid, _)| uid).eq(mails.keys().chain([&20])));
    let kept = backup.folders().unwrap();
    assert!(kept[0].as_left && kept[0].closed, "{kept:?}");
    assert!(!text(root, "INBOX.mbox").contains("two"));
    let left = fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<_> = left.filter(|name| name.starts_with("INBOX")).collect();
    left.sort();
    assert_eq!(left, ["INBOX.imap", "INBOX.mbox", "INBOX.sealpost"]);
}

#[test]
fn deleted_messages_are_removed_wherever_the_run_ends() {
    // The completed steps: files written, the journal in place, the mbox, the JSON, and nothing
    // left to do.
    for steps in 0..=5 {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mails = with_deleted(root);
        let paths = paths(root);
        let read = || Contents::read(&paths.journal, |_, _| {}).unwrap();
        if steps > 0 {
            // During the close.
            let (_copy, folder) = opened(root, INBOX, 7);
            if steps == 5 {
                folder.close().unwrap();
            }
        }
        if (1..5).contains(&steps) {
            let (journal, bytes) = prepare(&paths, &read(), 9).unwrap().unwrap();
            let json = root.join("INBOX.imap.rewritten");
            let kept = fs::read(&json).unwrap();
            if steps == 1 {
                // Incomplete.
                let mbox =
                    fs::OpenOptions::new().write(true).open(root.join("INBOX.mbox.rewritten")).unwrap();
                mbox.set_len(bytes / 2).unwrap();
            } else {
                journal.put_in_place(&paths.journal).unwrap();
            }
            if steps > 2 {
                put_in_place(&paths, bytes).unwrap();
            }
            if steps == 3 {
                // The mbox alone.
                fs::write(json, kept).unwrap();
            }
        }
        check(root, &mails);
    }
}

/// Journal and JSON change UIDs together, wherever the run ends: otherwise it would look like a
/// change by imap-backup.
#[test]
fn messages_have_other_uids_or_not_wherever_the_run_ends() {
    for steps in 0..=3 {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mut mails = three(root);
        let (paths, uids) = (paths(root), [(1, 21), (9, 29)].into());
        let mbox = fs::read(&paths.mbox).unwrap();
        {
            let backup = open(root).unwrap();
            let contents = Contents::read(&paths.journal, |_, _| {}).unwrap();
            let journal = prepare_renumbered(&paths, &contents, &uids).unwrap();
            if steps > 0 {
                journal.put_in_place(&paths.journal).unwrap();
                for (uid, to) in uids {
                    let mail = mails.remove(&uid).unwrap();
                    mails.insert(to, mail);
                }
            }
            if steps > 1 {
                put_in_place(&paths, mbox.len() as u64).unwrap();
            }
            drop(backup);
        }
        let (_copy, mut folder) = opened(root, INBOX, 7);
        assert_eq!(read_all(&*folder), mails, "{steps}");
        assert!(folder.notices().is_empty(), "{steps}");
        give(&mut *folder, 30, &mail("more\r\n"), 3).unwrap();
        folder.commit(&resume(31)).unwrap();
        folder.close().unwrap();
        let seen = imap_backup_reads(root, INBOX).into_iter().map(|(uid, _)| uid);
        assert_eq!(seen.collect::<Vec<_>>(), if steps > 0 { [21, 2, 29, 30] } else { [1, 2, 9, 30] });
        assert!(fs::read(&paths.mbox).unwrap().starts_with(&mbox));
    }
}

#[test]
fn an_mbox_in_too_many_parts_is_not_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    with_deleted(directory.path());
    let paths = paths(directory.path());
    let contents = Contents::read(&paths.journal, |_, _| {}).unwrap();
    assert!(prepare(&paths, &contents, 0).unwrap().is_none());
    assert!(text(directory.path(), "INBOX.mbox").contains("two") && contents.may_have_dead());
    assert!(prepare(&paths, &contents, 1).unwrap().is_some());
}

#[test]
fn a_message_that_another_one_took_the_place_of_goes() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut mails = three(root);
    {
        let (_copy, mut folder) = opened(root, INBOX, 7);
        folder.replace(&[1].into_iter().filter_map(sealpost_base::Uid::new).collect());
        give(&mut *folder, 1, &Mail { bytes: b"new\r\n".to_vec(), ..mails[&1].clone() }, 5).unwrap();
        folder.commit(&resume(10)).unwrap();
        folder.close().unwrap();
    }
    mails.get_mut(&1).unwrap().bytes = b"new\r\n".to_vec();
    let (_copy, folder) = opened(root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
    assert!(!text(root, "INBOX.mbox").contains("one"));
    imap_backup_reads(root, INBOX);
}

/// In the middle of the mbox: unidentified bytes of a killed run of imap-backup.
#[test]
fn bytes_without_a_record_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    let before = text(root, "INBOX.mbox");
    let orphan = "From a@b Mon Nov 16 09:05:07 2020\nNobody: knows\n\n";
    // Two messages, the orphan, and a third one that the metadata lists as if there were no orphan.
    let third = before.rfind("From ").unwrap();
    fs::write(root.join("INBOX.mbox"), format!("{}{orphan}{}", &before[..third], &before[third..])).unwrap();
    fs::remove_file(root.join("INBOX.sealpost")).unwrap();
    let (backup, mut folder) = opened(root, INBOX, 7);
    assert!(read_all(&*folder).keys().eq(mails.keys()));
    folder.remove(2).unwrap();
    folder.commit(&resume(10)).unwrap();
    folder.close().unwrap();
    let after = text(root, "INBOX.mbox");
    assert!(after.contains(orphan) && !after.contains("two") && after.len() < before.len() + orphan.len());
    drop(backup);
    let (_copy, folder) = opened(root, INBOX, 7);
    assert!(read_all(&*folder).keys().eq([1, 9].iter()));
}

#[test]
fn a_large_mbox_is_rewritten_when_worthwhile() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let line = format!("{}\r\n", "x".repeat(998));
    let large = mail(&line.repeat(1100));
    {
        let (_copy, mut folder) = opened(root, INBOX, 7);
        (1..=17).for_each(|uid| give(&mut *folder, uid, &large, 1 << 20).unwrap());
        folder.commit(&resume(18)).unwrap();
        folder.close().unwrap();
    }
    let length = || fs::metadata(root.join("INBOX.mbox")).unwrap().len();
    let all = length();
    for (uid, expected) in [(1, all), (2, all), (3, all / 17 * 14)] {
        let (_copy, mut folder) = opened(root, INBOX, 7);
        folder.remove(uid).unwrap();
        folder.commit(&resume(18)).unwrap();
        folder.close().unwrap();
        assert_eq!(length(), expected, "{uid}");
    }
    let (_copy, folder) = opened(root, INBOX, 7);
    assert_eq!(read_all(&*folder).len(), 14);
}
