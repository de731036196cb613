//! The format against random messages and crashes at every byte; with other programs using the same
//! files, [`others`].

mod others;
mod rewritten;

use std::fs;

use proptest::prelude::*;

use self::others::imap_backup_reads;
use super::*;
use crate::backup::digest::{Digest, Digesting};
use crate::backup::format_tests::*;
use crate::backup::journal::{Again, Journal, Record};
use crate::backup::{Flags, Folder, Resume};

const INBOX: &str = "INBOX";

fn opened(root: &Path, folder: &str, uidvalidity: u32) -> (Box<dyn Backup>, Box<dyn Folder>) {
    let backup = open(root).unwrap();
    let folder = backup.open(&folder_name(folder), &identity(uidvalidity)).unwrap();
    (backup, folder)
}

/// A folder of three messages, closed.
fn three(root: &Path) -> Mails {
    let mails: Mails = [
        (1, mail("A: b\r\n\r\none\r\n")),
        (2, mail("A: b\r\n\r\ntwo\r\n")),
        (9, mail("A: b\r\n\r\nnine\r\n")),
    ]
    .into();
    let (_copy, mut folder) = opened(root, INBOX, 7);
    mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
    folder.commit(&resume(10)).unwrap();
    folder.close().unwrap();
    mails
}

fn text(root: &Path, name: &str) -> String {
    String::from_utf8(fs::read(root.join(name)).unwrap()).unwrap()
}

#[test]
fn files_on_disk_have_the_documented_form() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let (_copy, mut folder) = opened(root, "Wörk/a:b", 1_606_316_666);
    let first = mail("From: A <a@example.org>\r\nDate: Mon, 16 Nov 2020 09:05:07 +0100\r\n\r\nFromage\r\n");
    give(&mut *folder, 1, &first, 3).unwrap();
    give(&mut *folder, 2, &Mail { flags: Flags::default(), ..mail("X: y\r\n\r\nno end") }, 100).unwrap();
    folder.commit(&Resume::default()).unwrap();
    folder.close().unwrap();
    let one = "From a@example.org Mon Nov 16 09:05:07 2020\nFrom: A <a@example.org>\nDate: Mon, 16 Nov 2020 09:05:07 +0100\n\n>Fromage\n\n";
    let two = "From \nX: y\n\nno end\n\n";
    assert_eq!(text(root, "Wörk/a%3a;b.mbox"), format!("{one}{two}"));
    let expected = format!(
        r#"{{"version":3,"uid_validity":1606316666,"messages":[{{"uid":1,"offset":0,"length":{},"flags":["Seen","$Work"]}},{{"uid":2,"offset":{},"length":{},"flags":[]}}]}}"#,
        one.len(),
        one.len(),
        two.len()
    );
    assert_eq!(text(root, "Wörk/a%3a;b.imap"), expected);
}

#[test]
fn messages_of_earlier_versions_are_known_by_their_sha256() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    let path = root.join("INBOX.sealpost");
    let old = Journal::open(&path, |_, _| Ok(())).unwrap();
    let mut again = Again::begin(&path, old.header().clone()).unwrap();
    for record in old.records().unwrap() {
        let mut record = record.unwrap().1;
        if let Record::Message(message) = &mut record {
            let mut digesting = Digesting::like(&Digest::Sha256([0; 32]));
            digesting.push(&mails[&message.uid].bytes);
            message.digest = digesting.finish();
        }
        again.add(record).unwrap();
    }
    again.commit(old.last()).unwrap();
    again.put_in_place(&path).unwrap();
    let (backup, mut folder) = opened(root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
    // New ones follow, and changes are detected in both.
    give(&mut *folder, 10, &mail("A: b\r\n\r\nten\r\n"), 5).unwrap();
    folder.commit(&resume(11)).unwrap();
    folder.close().unwrap();
    drop(backup);
    let changed = text(root, "INBOX.mbox").replace("two", "twX").replace("ten", "teX");
    fs::write(root.join("INBOX.mbox"), changed).unwrap();
    let (_copy, folder) = opened(root, INBOX, 7);
    let reads = |uid| folder.read(uid).unwrap().read_to_end(&mut Vec::new()).is_ok();
    assert_eq!([1, 2, 9, 10].map(reads), [true, false, true, false]);
}

#[test]
fn interrupted_backups_continue() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut mails = three(root);
    let backup = open(root).unwrap();
    assert!(open(root).is_err(), "it is locked");
    let kept = backup.folders().unwrap();
    assert_eq!((kept.len(), kept[0].messages, kept[0].resume), (1, 3, resume(10)));
    let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    assert!(backup.open(&folder_name(INBOX), &identity(7)).is_err(), "it is open");
    assert_eq!(folder.resume(), resume(10));
    // A known UID, an abandoned message, flags, and removed messages.
    give(&mut *folder, 2, &mail("other\r\n"), 9).unwrap();
    folder.begin(9).unwrap();
    folder.write(b"bare\nLF").unwrap();
    folder.abandon().unwrap();
    mails.insert(3, mail("bare\nLF\r\n"));
    give(&mut *folder, 3, &mails[&3], 4).unwrap();
    mails.get_mut(&1).unwrap().flags = Flags::from_names(["\\Flagged"]);
    folder.flags(1, &mails[&1].flags).unwrap();
    folder.flags(99, &mails[&1].flags).unwrap();
    mails.remove(&2);
    folder.remove(2).unwrap();
    folder.mark_deleted_upstream(9).unwrap();
    folder.commit(&resume(11)).unwrap();
    assert_eq!(read_all(&*folder), mails);
    assert!(folder.known().is_deleted_upstream(9));
    drop(folder);
    let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    assert_eq!(read_all(&*folder), mails);
    assert!(
        text(root, "INBOX.imap").contains(r#"{"uid":1,"offset":0,"length":"#),
        "it was brought up to date"
    );
    // The last message is removed: the mbox ends where imap-backup will append.
    folder.remove(3).unwrap();
    mails.remove(&3);
    give(&mut *folder, 4, &mail("four\r\n"), 4).unwrap();
    folder.remove(4).unwrap();
    folder.commit(&resume(12)).unwrap();
    folder.close().unwrap();
    let folder = backup.open_to_read(&folder_name(INBOX)).unwrap();
    assert_eq!(read_all(&*folder), mails);
    assert_eq!(
        imap_backup_reads(root, INBOX),
        [(1, "A: b\r\n\r\none\r\n".into()), (9, "A: b\r\n\r\nnine\r\n".into())]
    );
}

#[test]
fn swapped_names_are_recognized() {
    let directory = tempfile::tempdir().unwrap();
    crate::backup::format_tests::swapped_names_are_recognized(|| open(directory.path()).unwrap());
}

#[test]
fn another_uidvalidity_puts_aside_and_a_mailboxid_renames() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    let before = (fs::read(root.join("INBOX.mbox")).unwrap(), fs::read(root.join("INBOX.imap")).unwrap());
    let backup = open(root).unwrap();
    let server =
        |mailboxid: &str| crate::backup::Identity { uidvalidity: 8, mailboxid: Some(mailboxid.into()) };
    let mut folder = backup.open(&folder_name(INBOX), &server("F1")).unwrap();
    assert!(folder.known().uids().is_empty());
    assert!(
        folder.notices().iter().any(|notice| notice.contains("7 became 8") && notice.contains(" INBOX-7;"))
    );
    assert!(root.join("INBOX.mbox").exists());
    let aside = (fs::read(root.join("INBOX-7.mbox")).unwrap(), fs::read(root.join("INBOX-7.imap")).unwrap());
    assert_eq!(aside, before);
    give(&mut *folder, 1, &mails[&1], 9).unwrap();
    folder.commit(&resume(2)).unwrap();
    drop(folder);
    let folder = backup.open(&folder_name("Old/inbox"), &server("F1")).unwrap();
    assert_eq!(read_all(&*folder).len(), 1);
    drop(folder);
    assert_eq!(
        backup.folders().unwrap().iter().map(|k| k.name.as_str().to_owned()).collect::<Vec<_>>(),
        ["Old/inbox"]
    );
    assert!(root.join("Old/inbox.mbox").exists() && !root.join("INBOX.mbox").exists());
    let folder = backup.open(&folder_name(INBOX), &server("F2")).unwrap();
    assert!(folder.known().uids().is_empty());
    drop((folder, backup));
    assert_eq!(open(root).unwrap().folders().unwrap().len(), 2);
}

#[test]
fn names_never_share_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let names = ["a", "A", "a.mbox/b", "a.mbox", "../x", "..", "a/../b", "b", "ä", "Ä", "x\0y"];
    {
        let backup = open(&root).unwrap();
        for (name, uid) in names.iter().zip(1..) {
            let mut folder = backup.open(&folder_name(name), &identity(7)).unwrap();
            give(&mut *folder, uid, &mail(name), 9).unwrap();
            folder.commit(&resume(uid + 1)).unwrap();
            folder.close().unwrap();
        }
    }
    let backup = open(&root).unwrap();
    for (name, uid) in names.iter().zip(1..) {
        let folder = backup.open(&folder_name(name), &identity(7)).unwrap();
        assert_eq!(read_all(&*folder), [(uid, mail(name))].into(), "{name}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing beside it");
    let mut paths: Vec<String> = Vec::new();
    gather(&root, &mut paths);
    let lower: std::collections::HashSet<_> = paths.iter().map(|p| p.to_lowercase()).collect();
    assert_eq!(lower.len(), paths.len(), "{paths:?}");
}

fn gather(directory: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { gather(&path, paths) } else { paths.push(path.display().to_string()) }
    }
}

/// The last message of the mbox is the one with the unreadable record, and nothing else names it.
#[test]
fn text_whose_record_cannot_be_read_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    three(root);
    let path = root.join("INBOX.sealpost");
    let (backup, mut folder) = opened(root, INBOX, 7);
    give(&mut *folder, 20, &mail("A: b\r\n\r\ntwenty\r\n"), 9).unwrap();
    folder.commit(&resume(21)).unwrap();
    folder.flags(1, &Flags::from_names(["\\Draft"])).unwrap();
    folder.commit(&resume(21)).unwrap();
    folder.close().unwrap();
    drop(backup);
    let contents = crate::backup::contents::Contents::read(&path, |_, _| {}).unwrap();
    let (at, last) = contents.messages().unwrap().last().unwrap().unwrap();
    assert_eq!(last.uid, 20);
    drop(contents);
    let mut journal = fs::read(&path).unwrap();
    // After the record's length.
    journal[at as usize + 4] ^= 0x80;
    fs::write(&path, &journal).unwrap();
    fs::remove_file(root.join("INBOX.imap")).unwrap();
    let (_copy, folder) = opened(root, INBOX, 7);
    assert_eq!(folder.known().uids().to_string(), "1:2,9");
    assert!(text(root, "INBOX.mbox.orphans").contains("\ntwenty\n"));
    assert!(!text(root, "INBOX.mbox").contains("twenty"));
}

#[test]
fn a_full_disk_loses_only_uncommitted_messages() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    let contents = crate::backup::contents::Contents::read(&root.join("INBOX.sealpost"), |_, _| {}).unwrap();
    let length = fs::metadata(root.join("INBOX.mbox")).unwrap().len();
    let mut files =
        files::MboxFiles::open(root.join("INBOX.mbox"), root.join("INBOX.imap"), 7, length, Some(3)).unwrap();
    files.limit(length + 1000);
    let claims = crate::backup::claim::Claims::new(root).unwrap();
    let mut folder: Box<dyn Folder> =
        Box::new(crate::backup::folder::FileFolder::new(files, contents, claims.claim(INBOX).unwrap()));
    give(&mut *folder, 20, &mail("fits"), 9).unwrap();
    folder.commit(&resume(21)).unwrap();
    folder.begin(1).unwrap();
    let error = (0..1000).find_map(|_| folder.write(&[b'x'; 1000]).err()).unwrap();
    assert_eq!(error.kind(), sealpost_base::Kind::Retry);
    folder.abandon().unwrap();
    drop((folder, claims));
    let (_copy, folder) = opened(root, INBOX, 7);
    let mut now = read_all(&*folder);
    assert_eq!(now.remove(&20), Some(mail("fits")));
    assert_eq!(now, mails);
}

#[test]
fn a_crash_leaves_a_commit_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    let mails = three(&before);
    copy_tree(&before, &after);
    let mut more = mails.clone();
    more.insert(10, mail("ten\nbare\r\n"));
    more.insert(11, mail("From x\r\n"));
    {
        let (_copy, mut folder) = opened(&after, INBOX, 7);
        for uid in [10, 11] {
            give(&mut *folder, uid, &more[&uid], 4).unwrap();
        }
        folder.commit(&resume(12)).unwrap();
    }
    let file = |root: &Path, name: &str| fs::read(root.join(name)).unwrap();
    let lengths = |name: &str| (file(&before, name).len(), file(&after, name).len());
    let (mbox, journal) = (lengths("INBOX.mbox"), lengths("INBOX.sealpost"));
    // First the mbox grows, then the journal.
    let steps = (mbox.0..mbox.1).map(|mbox| (mbox, journal.0));
    let steps = steps.chain((journal.0..=journal.1).map(|journal| (mbox.1, journal)));
    for (at, (mbox, journal)) in steps.enumerate() {
        let root = directory.path().join(format!("crash{at}"));
        copy_tree(&after, &root);
        fs::write(root.join("INBOX.mbox"), &file(&after, "INBOX.mbox")[..mbox]).unwrap();
        fs::write(root.join("INBOX.sealpost"), &file(&after, "INBOX.sealpost")[..journal]).unwrap();
        // Other programs see the previous state at this moment.
        let mut seen = 0;
        json::read(fs::File::open(root.join("INBOX.imap")).unwrap(), |e| {
            seen += 1;
            let message = &file(&root, "INBOX.mbox")[e.offset as usize..(e.offset + e.length) as usize];
            assert!(message.starts_with(b"From ") && message.ends_with(b"\n\n"));
        })
        .unwrap();
        assert_eq!(seen, 3);
        let committed = journal == file(&after, "INBOX.sealpost").len();
        let (backup, mut folder) = opened(&root, INBOX, 7);
        assert_eq!(read_all(&*folder), if committed { more.clone() } else { mails.clone() });
        imap_backup_reads(&root, INBOX);
        // And on to the complete backup.
        for uid in [10, 11] {
            give(&mut *folder, uid, &more[&uid], 4).unwrap();
        }
        folder.commit(&resume(12)).unwrap();
        assert_eq!(read_all(&*folder), more);
        drop((backup, folder));
        fs::remove_dir_all(root).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stored_messages_are_read_back(transactions in prop::collection::vec((mails(), any::<bool>()), 1..4)) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mut mails = Mails::new();
        let mut uid = 0;
        for (given, committed) in transactions {
            let (_copy, mut folder) = opened(root, "a/b", 7);
            prop_assert_eq!(&read_all(&*folder), &mails);
            let mut now = mails.clone();
            for (mail, piece) in given {
                uid += 1;
                give(&mut *folder, uid, &mail, piece).unwrap();
                now.insert(uid, mail);
            }
            if let Some(gone) = now.keys().next().copied().filter(|uid| uid % 3 == 0) {
                folder.remove(gone).unwrap();
                now.remove(&gone);
            }
            if committed {
                folder.commit(&resume(uid + 1)).unwrap();
                prop_assert_eq!(&read_all(&*folder), &now);
                mails = now;
                if uid % 2 == 0 {
                    folder.close().unwrap();
                }
            }
        }
        let (_copy, folder) = opened(root, "a/b", 7);
        prop_assert_eq!(&read_all(&*folder), &mails);
        drop((_copy, folder));
        // The same from imap-backup's files alone, except for data that they cannot hold.
        fs::remove_file(root.join("a/b.sealpost")).unwrap();
        if root.join("a/b.imap").exists() {
            let (_copy, folder) = opened(root, "a/b", 7);
            prop_assert!(read_all(&*folder).keys().eq(mails.keys()));
        }
    }
}

#[test]
fn dates_are_kept_whatever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    dates_are_kept(|| open(directory.path()).unwrap());
}

#[test]
fn damaged_messages_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    messages_are_replaced(|| open(directory.path()).unwrap());
}

#[test]
fn messages_get_other_uids() {
    let directory = tempfile::tempdir().unwrap();
    crate::backup::format_tests::messages_get_other_uids(|| open(directory.path()).unwrap());
}

#[test]
fn superseded_folders_are_read() {
    let directory = tempfile::tempdir().unwrap();
    crate::backup::format_tests::superseded_folders_are_read(|| open(directory.path()).unwrap());
}
