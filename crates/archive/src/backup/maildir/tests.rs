//! The format against random messages, and crashes at every step.

use std::fs;

use proptest::prelude::*;
use sealpost_imap::types::DateTime;

use super::files::{BACKGROUND_MESSAGES, OTHER};
use super::names::Names;
use super::*;
use crate::backup::format_tests::*;
use crate::backup::{Flags, Folder, Resume};

const INBOX: &str = "INBOX";

fn opened(root: &Path, folder: &str, uidvalidity: u32) -> (Box<dyn Backup>, Box<dyn Folder>) {
    let backup = open(root).unwrap();
    let folder = backup.open(&folder_name(folder), &identity(uidvalidity)).unwrap();
    (backup, folder)
}

/// The received time of the tests' messages, as stored in a file.
fn date_in_utc() -> Option<DateTime> {
    let date = sealpost_imap::types::Date::new(2020, 11, 16)?;
    DateTime::new(date, 8, 5, 7, 0)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_on_disk_have_the_documented_form() {
    let directory = tempfile::tempdir().unwrap();
    let root = &directory.path().join("mail");
    for folder in [INBOX, "Work/2026"] {
        let (_copy, mut folder) = opened(root, folder, 1_606_316_666);
        give(&mut *folder, 3, &mail("A: b\r\n\r\nbare\nFrom x\r\n"), 3).unwrap();
        give(&mut *folder, 12, &Mail { flags: Flags::default(), ..mail("x") }, 3).unwrap();
        folder.begin(3).unwrap();
        folder.write(b"abandoned").unwrap();
        folder.abandon().unwrap();
        folder.commit(&resume(13)).unwrap();
        folder.close().unwrap();
    }
    let files = ["V1606316666U12.sealpost,U=12:2,", "V1606316666U3.sealpost,U=3:2,S"];
    for directory in [root.to_owned(), root.join(".Work.2026")] {
        assert_eq!(names(&directory.join("cur")), files);
        assert!(names(&directory.join("tmp")).is_empty() && names(&directory.join("new")).is_empty());
        assert_eq!(fs::read_to_string(directory.join(".uidvalidity")).unwrap(), "1606316666\n12\n");
        let file = directory.join("cur").join(files[1]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "A: b\n\nbare\nFrom x\n");
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        let seconds = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(seconds, 1_605_513_907);
    }
    assert!(open(&root.join("..").join("x")).is_ok());
    assert!(directory.path().join("x").is_dir());
}

#[test]
fn a_maildir_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("cur")).unwrap();
    assert_eq!(open(directory.path()).err().unwrap().kind(), sealpost_base::Kind::Invalid);
    assert_eq!(names(directory.path()), ["cur"]);
}

#[test]
fn flags_change_names_and_others_may_too() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let cur = root.join("cur");
    let mut mails: Mails = (1..=20).map(|uid| (uid, mail("A: b\r\n\r\nx\r\n"))).collect();
    let (backup, mut folder) = opened(root, INBOX, 7);
    mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
    folder.flags(4, &Flags::from_names(["\\Draft"])).unwrap();
    folder.commit(&resume(21)).unwrap();
    // Another program marks a message.
    fs::rename(cur.join("V7U1.sealpost,U=1:2,S"), cur.join("V7U1.sealpost,U=1:2,FS")).unwrap();
    fs::rename(cur.join("V7U2.sealpost,U=2:2,S"), root.join("new/V7U2.sealpost,U=2")).unwrap();
    mails.get_mut(&4).unwrap().flags = Flags::from_names(["\\Draft"]);
    assert_eq!(read_all(&*folder), mails);
    for uid in [1, 3] {
        mails.get_mut(&uid).unwrap().flags = Flags::from_names(["\\Answered", "$Forwarded"]);
        folder.flags(uid, &mails[&uid].flags).unwrap();
    }
    folder.remove(2).unwrap();
    mails.remove(&2);
    folder.commit(&resume(21)).unwrap();
    assert_eq!(read_all(&*folder), mails);
    assert_eq!(names(&cur).len(), 19);
    assert!(cur.join("V7U1.sealpost,U=1:2,PR").exists() && cur.join("V7U3.sealpost,U=3:2,PR").exists());
    // And one loses a file.
    fs::remove_file(cur.join("V7U9.sealpost,U=9:2,S")).unwrap();
    drop((backup, folder));
    let (_copy, mut folder) = opened(root, INBOX, 7);
    mails.remove(&9);
    assert_eq!((folder.known().contains(9), folder.resume()), (false, Resume::default()));
    assert_eq!(folder.notices().len(), 1);
    give(&mut *folder, 9, &mail("again"), 5).unwrap();
    folder.commit(&resume(21)).unwrap();
    mails.insert(9, mail("again"));
    assert_eq!(read_all(&*folder), mails);
}

/// Whatever byte of the journal changes, what follows is neither forgotten nor taken for something
/// else.
#[test]
fn a_damaged_journal_loses_only_unreadable_records() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let mails: Mails = (1..=12).map(|uid| (uid, mail(&format!("A: b\r\n\nnumber {uid}\n")))).collect();
    let (backup, mut folder) = opened(&root, INBOX, 7);
    for uid in 1..=12 {
        give(&mut *folder, uid, &mails[&uid], 5).unwrap();
        if uid % 4 == 0 {
            folder.commit(&resume(uid + 1)).unwrap();
        }
    }
    folder.close().unwrap();
    drop(backup);
    let journal = fs::read(root.join("sealpost.journal")).unwrap();
    let mut whole = 0;
    for at in (0..journal.len() * 3 / 4).step_by(5) {
        let changed = directory.path().join(format!("{at}"));
        copy_tree(&root, &changed);
        let mut bytes = journal.clone();
        bytes[at] ^= 0x10;
        fs::write(changed.join("sealpost.journal"), bytes).unwrap();
        let backup = open(&changed).unwrap();
        let mut folder = match backup.open_to_read(&folder_name(INBOX)) {
            Ok(folder) => folder,
            // Only the beginning names the mailbox.
            Err(e) => {
                assert!(at < 80, "{at}: {e}");
                continue;
            }
        };
        let known = folder.known().uids();
        let good = known.iter().map(sealpost_base::Uid::get).filter(|uid| {
            let mut content = Vec::new();
            let read = folder.read(*uid).is_ok_and(|mut reader| reader.read_to_end(&mut content).is_ok());
            assert!(!read || content == mails[uid].bytes, "{at}: UID {uid}");
            read
        });
        let good = good.count();
        assert!(good >= 8, "{at}: {good} of 12");
        whole += usize::from(good == 12);
        assert_eq!((folder.resume(), folder.notices().len()), (Resume::default(), 0), "{at}");
        let told = backup.unreported();
        assert!(told.iter().any(|told| told.contains("sealpost.journal.damaged-1")), "{at}: {told:?}");
        assert!(changed.join("sealpost.journal.damaged-1").exists());
        // Later readers get the same count of unnamed messages.
        let unread = (1..=12).filter(|uid| !folder.known().contains(*uid)).count() as u64;
        assert_eq!(folder.unread(), unread, "{at}");
        drop((folder, backup));
        let look = open(&changed).unwrap().open_to_read(&folder_name(INBOX)).map(|folder| folder.unread());
        assert_eq!(look.unwrap(), unread, "{at}");
        let (_copy, mut folder) = opened(&changed, INBOX, 7);
        // Files are taken over; a changed UID has none.
        assert_eq!((folder.known().uids().len(), folder.unread()), (12, 0), "{at}");
        let told = folder.notices();
        let expected = |told: &String| told.contains("adopted") || told.contains("missing");
        assert!(told.iter().all(expected), "{at}: {told:?}");
    }
    assert!(whole > 20, "{whole}");
}

/// Without its journal, a folder is rebuilt from the names and contents of its files.
#[test]
fn a_missing_journal_is_rebuilt_from_the_files() {
    for name in [INBOX, "Work/a.b ü", "INBOX/x"] {
        for damage in [None, Some(0), Some(20)] {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            let mails: Mails = (1..=9).map(|uid| (uid, mail(&format!("A: {uid}\r\n\r\nx\r\n")))).collect();
            let place = root.join(name::directory(&folder_name(name)));
            {
                let (_copy, mut folder) = opened(root, name, 7);
                mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 99).unwrap());
                folder.commit(&resume(10)).unwrap();
                folder.close().unwrap();
            }
            let journal = place.join("sealpost.journal");
            match damage {
                None => fs::remove_file(&journal).unwrap(),
                Some(length) => fs::write(&journal, vec![0; length]).unwrap(),
            }
            let backup = open(root).unwrap();
            let foreign_size = backup.foreign_size(&folder_name(name)).unwrap();
            assert_eq!(foreign_size.map(|(messages, _)| messages), Some(9), "{name} {damage:?}");
            let folder = backup.open_to_read(&folder_name(name)).unwrap();
            let read = read_all(&*folder);
            assert!(read.iter().all(|(uid, read)| read.bytes == mails[uid].bytes));
            assert_eq!((read.len(), folder.unread(), folder.resume()), (9, 0, Resume::default()));
            assert!(backup.unreported().iter().any(|told| told.contains("adopted 9 messages")), "{name}");
            drop((folder, backup));
            let (backup, folder) = opened(root, name, 7);
            assert_eq!((folder.known().uids().len(), backup.folders().unwrap().len()), (9, 1));
        }
    }
}

/// An interrupted run has not fetched everything.
#[test]
fn unnamed_messages_count_as_unread_until_a_complete_pull() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let (backup, mut folder) = opened(root, INBOX, 7);
    for uid in 1..=4 {
        give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 99).unwrap();
        folder.commit(&resume(uid + 1)).unwrap();
    }
    folder.close().unwrap();
    drop(backup);
    let journal = root.join("sealpost.journal");
    let bytes = fs::read(&journal).unwrap();
    fs::remove_file(root.join("cur/V7U2.sealpost,U=2:2,S")).unwrap();
    let misses = |backup: &dyn Backup| backup.open_to_read(&folder_name(INBOX)).unwrap().unread() == 1;
    let is_named =
        |backup: &dyn Backup| backup.open_to_read(&folder_name(INBOX)).unwrap().known().contains(2);
    let found = (bytes.len() / 4..bytes.len()).any(|at| {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&journal, changed).unwrap();
        let backup = open(root).unwrap();
        misses(&*backup) && !is_named(&*backup)
    });
    assert!(found);
    for (uid, whole) in [(5, false), (6, true)] {
        let (backup, mut folder) = opened(root, INBOX, 7);
        give(&mut *folder, uid, &mail("new"), 99).unwrap();
        folder.commit(&Resume { whole, ..resume(uid + 1) }).unwrap();
        drop((backup, folder));
        assert_eq!(misses(&*open(root).unwrap()), !whole);
    }
}

/// A message was fetched again, and its record is unreadable: the earlier removal does not remove
/// the file.
#[test]
fn a_file_without_a_record_is_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let (backup, mut folder) = opened(directory.path(), INBOX, 7);
    let path = directory.path().join("sealpost.journal");
    give(&mut *folder, 1, &mail("first"), 5).unwrap();
    folder.commit(&resume(2)).unwrap();
    folder.remove(1).unwrap();
    folder.commit(&resume(2)).unwrap();
    let at = fs::metadata(&path).unwrap().len() as usize;
    for (uid, text) in [(1, "again"), (2, "other")] {
        give(&mut *folder, uid, &mail(text), 5).unwrap();
        folder.commit(&resume(3)).unwrap();
    }
    folder.close().unwrap();
    drop(backup);
    let mut journal = fs::read(&path).unwrap();
    // After its recorded length.
    journal[at + 4] ^= 0x80;
    fs::write(&path, &journal).unwrap();
    let (_copy, folder) = opened(directory.path(), INBOX, 7);
    let all = read_all(&*folder);
    assert_eq!((&all[&1].bytes[..], &all[&2].bytes[..]), (&b"again"[..], &b"other"[..]));
    assert_eq!((&all[&1].flags, all[&1].date), (&Flags::from_names(["\\Seen"]), date_in_utc()));
    assert_eq!((folder.unread(), folder.resume()), (0, Resume::default()));
}

#[test]
fn findings_of_a_look_are_reported_by_the_backup() {
    let directory = tempfile::tempdir().unwrap();
    let (backup, mut folder) = opened(directory.path(), INBOX, 7);
    give(&mut *folder, 1, &mail("A: b\r\n\r\nx\r\n"), 5).unwrap();
    folder.commit(&resume(2)).unwrap();
    drop(folder);
    assert!(backup.open_to_read(&folder_name(INBOX)).is_ok() && backup.unreported().is_empty());
    fs::remove_file(directory.path().join("cur/V7U1.sealpost,U=1:2,S")).unwrap();
    assert!(backup.open_to_read(&folder_name(INBOX)).is_ok());
    let told = backup.unreported();
    assert!(told.len() == 1 && told[0].contains("1 file is missing"), "{told:?}");
    assert!(backup.unreported().is_empty());
}

#[test]
fn bytes_appended_to_a_message_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (_copy, mut folder) = opened(directory.path(), INBOX, 7);
    for uid in [1, 2] {
        give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 5).unwrap();
    }
    folder.commit(&resume(3)).unwrap();
    let file = directory.path().join("cur/V7U2.sealpost,U=2:2,S");
    let text = fs::read(&file).unwrap();
    fs::write(&file, [&text, &b"GARBAGE\n"[..]].concat()).unwrap();
    assert_eq!(folder.read(2).err().unwrap().kind(), sealpost_base::Kind::Corrupt);
    assert!(folder.read(1).is_ok());
    fs::write(&file, &text).unwrap();
    assert!(folder.read(2).is_ok());
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
    let backup = open(root).unwrap();
    let server = |uidvalidity, id: &str| crate::backup::Identity { uidvalidity, mailboxid: Some(id.into()) };
    for (name, id) in [(INBOX, "F1"), ("a", "F2")] {
        let mut folder = backup.open(&folder_name(name), &server(7, id)).unwrap();
        give(&mut *folder, 1, &mail(name), 9).unwrap();
        folder.commit(&resume(2)).unwrap();
    }
    let folder = backup.open(&folder_name(INBOX), &server(8, "F3")).unwrap();
    assert!(folder.known().uids().is_empty());
    drop(folder);
    assert_eq!(names(&root.join(".INBOX-7/cur")).len(), 1);
    let folder = backup.open(&folder_name("b/c"), &server(7, "F2")).unwrap();
    assert_eq!(read_all(&*folder), [(1, mail("a"))].into());
    drop((folder, backup));
    assert_eq!(open(root).unwrap().folders().unwrap().len(), 2);
    assert!(!root.join(".a").exists() && root.join(".b.c/cur").exists());
}

/// What a crash leaves between the journal and the names: all files still in `tmp`, or some of
/// them.
#[test]
fn names_are_given_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let mut mails: Mails = (1..=10).map(|uid| (uid, mail("A: b\r\n\r\nx\r\n"))).collect();
    {
        let (_copy, mut folder) = opened(&root, INBOX, 7);
        mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
        folder.commit(&resume(11)).unwrap();
        // Not committed: a complete message, and a part of one.
        give(&mut *folder, 11, &mail("lost"), 5).unwrap();
        folder.begin(5).unwrap();
        folder.write(b"x").unwrap();
    }
    for uid in [2, 5] {
        let stem = format!("V7U{uid}.sealpost,U={uid}");
        fs::rename(root.join(format!("cur/{stem}:2,S")), root.join(format!("tmp/{stem}"))).unwrap();
    }
    let (backup, mut folder) = opened(&root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
    assert!(names(&root.join("tmp")).is_empty());
    // Flags and removals of the last transaction are redone.
    let flags = Flags::from_names(["\\Flagged"]);
    folder.flags(3, &flags).unwrap();
    folder.remove(4).unwrap();
    folder.commit(&resume(11)).unwrap();
    drop((backup, folder));
    fs::rename(root.join("cur/V7U3.sealpost,U=3:2,F"), root.join("cur/V7U3.sealpost,U=3:2,S")).unwrap();
    fs::write(root.join("cur/V7U4.sealpost,U=4:2,S"), "x").unwrap();
    mails.get_mut(&3).unwrap().flags = flags;
    mails.remove(&4);
    let (_copy, folder) = opened(&root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
    assert!(root.join("cur/V7U3.sealpost,U=3:2,F").exists());
    assert_eq!(names(&root.join("cur")).len(), 9);
}

/// Another program renames files all the time, as if every message were marked at once: none of
/// them counts as gone.
#[test]
fn files_that_are_being_renamed_are_not_gone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let (backup, mut folder) = opened(&root, INBOX, 7);
    (1..=3000).for_each(|uid| give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 99).unwrap());
    folder.commit(&resume(3001)).unwrap();
    folder.close().unwrap();
    drop(backup);
    for round in 0..4 {
        let (from, to) = if round % 2 == 0 { ("S", "FS") } else { ("FS", "S") };
        let cur = root.join("cur");
        let marking = std::thread::spawn(move || {
            for uid in 1..=3000 {
                let name = |letters| cur.join(format!("V7U{uid}.sealpost,U={uid}:2,{letters}"));
                fs::rename(name(from), name(to)).unwrap();
            }
        });
        let (_copy, mut folder) = opened(&root, INBOX, 7);
        marking.join().unwrap();
        assert_eq!((folder.known().uids().len(), folder.notices()), (3000, Vec::new()), "{round}");
    }
}

/// One look finds all files that another program renamed; a missing one is looked for again once
/// names changed.
#[test]
fn files_that_were_renamed_are_found_by_one_look() {
    let directory = tempfile::tempdir().unwrap();
    let (cur, new) = (directory.path().join("cur"), directory.path().join("new"));
    for part in [&cur, &new] {
        fs::create_dir(part).unwrap();
    }
    let seen = Flags::from_names(["\\Seen"]);
    for uid in 1..=50 {
        fs::write(cur.join(format!("V7U{uid}.sealpost,U={uid}:2,FR")), "x").unwrap();
    }
    fs::write(new.join("V7U51.sealpost,U=51"), "x").unwrap();
    let names = Names::new(directory.path().to_owned(), 7);
    assert_eq!(names.find(1, &seen).unwrap(), Some(cur.join("V7U1.sealpost,U=1:2,FR")));
    // The directory can no longer be read.
    let away = directory.path().join("away");
    fs::rename(&cur, &away).unwrap();
    fs::create_dir(&cur).unwrap();
    for uid in 2..=50 {
        let path = format!("V7U{uid}.sealpost,U={uid}:2,FR");
        fs::rename(away.join(&path), cur.join(&path)).unwrap();
    }
    fs::rename(&new, directory.path().join("gone")).unwrap();
    for uid in 2..=50 {
        assert!(names.find(uid, &seen).unwrap().is_some(), "{uid}");
    }
    assert!(names.find(51, &seen).is_err(), "its directory is not there");
    fs::create_dir(&new).unwrap();
    assert_eq!([51, 52].map(|uid| names.find(uid, &seen).unwrap()), [None, None]);
    fs::write(new.join("V7U52.sealpost,U=52"), "x").unwrap();
    assert_eq!([51, 52].map(|uid| names.find(uid, &seen).unwrap().is_some()), [false, true]);
}

/// Also where the server has nothing new.
#[test]
fn a_file_removed_during_a_pull_is_noticed_later() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (removed, is_as_left) in [(None, true), (Some(3), false)] {
        let (backup, mut folder) = opened(root, INBOX, 7);
        (1..=5).for_each(|uid| give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 99).unwrap());
        folder.flags(1, &Flags::from_names(if is_as_left { ["\\Draft"] } else { ["\\Flagged"] })).unwrap();
        folder.commit(&resume(6)).unwrap();
        if let Some(uid) = removed {
            fs::remove_file(root.join(format!("cur/V7U{uid}.sealpost,U={uid}:2,S"))).unwrap();
        }
        folder.close().unwrap();
        assert_eq!(backup.folders().unwrap()[0].as_left, is_as_left);
    }
    let (_copy, folder) = opened(root, INBOX, 7);
    assert!(!folder.known().contains(3));
}

/// After a crash, the letters of the last transaction's messages follow the journal, also if there
/// are none.
#[test]
fn letters_that_a_crash_left_go() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let (backup, mut folder) = opened(&root, INBOX, 7);
    (1..=3).for_each(|uid| give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 99).unwrap());
    folder.commit(&resume(4)).unwrap();
    (1..=3).for_each(|uid| folder.flags(uid, &Flags::default()).unwrap());
    folder.commit(&resume(4)).unwrap();
    drop((backup, folder));
    let cur = root.join("cur");
    let name = |letters: &str| cur.join(format!("V7U2.sealpost,U=2:2,{letters}"));
    fs::rename(name(""), name("S")).unwrap();
    let (backup, folder) = opened(&root, INBOX, 7);
    assert!(name("").exists());
    // After a complete run, other letters are another program's.
    folder.close().unwrap();
    drop(backup);
    fs::rename(name(""), name("F")).unwrap();
    let _folder = opened(&root, INBOX, 7);
    assert!(name("F").exists());
}

/// Names are given while the next messages arrive, in another directory: committed messages can be
/// read at once, and survive a crash at any point.
#[test]
fn names_of_many_are_given_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let other = root.join("tmp").join(OTHER);
    let mails: Mails = (1..=3 * BACKGROUND_MESSAGES as u32)
        .map(|uid| (uid, mail(&format!("A: {uid}\r\n\r\nx\r\n"))))
        .collect();
    let (backup, mut folder) = opened(&root, INBOX, 7);
    let mut given = Mails::new();
    for (uid, mail) in &mails {
        give(&mut *folder, *uid, mail, 5).unwrap();
        given.insert(*uid, mail.clone());
        if *uid % BACKGROUND_MESSAGES as u32 == 0 {
            folder.commit(&resume(uid + 1)).unwrap();
            assert_eq!(read_all(&*folder), given);
        }
    }
    assert!(other.exists());
    // Not committed, in the second directory.
    give(&mut *folder, 1000, &mail("lost"), 5).unwrap();
    assert_eq!(names(&other).len(), 1);
    drop((backup, folder));
    for (uid, from) in [(2, root.join("tmp")), (BACKGROUND_MESSAGES as u32 + 1, other.clone())] {
        let stem = format!("V7U{uid}.sealpost,U={uid}");
        fs::rename(root.join(format!("cur/{stem}:2,S")), from.join(stem)).unwrap();
    }
    let (_copy, mut folder) = opened(&root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
    assert!(names(&root.join("tmp")).is_empty());
    // A complete run leaves none either.
    (1001..=1000 + BACKGROUND_MESSAGES as u32)
        .for_each(|uid| give(&mut *folder, uid, &mail("new"), 5).unwrap());
    folder.commit(&resume(2000)).unwrap();
    folder.close().unwrap();
    assert!(names(&root.join("tmp")).is_empty());
    assert_eq!(names(&root.join("cur")).len(), 4 * BACKGROUND_MESSAGES);
}

#[test]
fn a_failed_rename_is_completed_at_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let (backup, mut folder) = opened(&root, INBOX, 7);
    // An obstacle.
    let obstacle = root.join("cur/V7U9.sealpost,U=9:2,S");
    fs::create_dir_all(obstacle.join("x")).unwrap();
    let mails: Mails = (1..=BACKGROUND_MESSAGES as u32).map(|uid| (uid, mail("A: b\r\n\r\nx\r\n"))).collect();
    mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
    folder.commit(&resume(65)).unwrap();
    give(&mut *folder, 100, &mail("more"), 5).unwrap();
    let failed = folder.commit(&resume(101)).unwrap_err();
    assert!(failed.to_string().contains("V7U9"), "{failed}");
    assert!(folder.commit(&resume(101)).is_err() && folder.read(1).is_err());
    drop((backup, folder));
    fs::remove_dir_all(obstacle).unwrap();
    let (_copy, folder) = opened(&root, INBOX, 7);
    assert_eq!(read_all(&*folder), mails);
}

#[test]
fn names_never_share_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let all = ["a", "A", "a.b", "a/b", "/", "..", ".", "INBOX/x", "inbox", "x\0y", "x~y", ""];
    let backup = open(&root).unwrap();
    for (name, uid) in all.iter().zip(1..) {
        let opened = backup.open(&folder_name(name), &identity(7));
        if name.is_empty() {
            assert!(opened.is_err());
            continue;
        }
        let mut folder = opened.unwrap();
        give(&mut *folder, uid, &mail(name), 9).unwrap();
        folder.commit(&resume(uid + 1)).unwrap();
    }
    for (name, uid) in all.iter().zip(1..).filter(|(name, _)| !name.is_empty()) {
        let folder = backup.open_to_read(&folder_name(name)).unwrap();
        assert_eq!(read_all(&*folder), [(uid, mail(name))].into(), "{name}");
    }
    let lower: std::collections::HashSet<_> = names(&root).iter().map(|n| n.to_lowercase()).collect();
    assert_eq!(lower.len(), names(&root).len());
    assert_eq!(names(directory.path()), ["copy"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn stored_messages_are_read_back(transactions in prop::collection::vec((mails(), any::<bool>()), 1..4)) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (mut mails, mut uid) = (Mails::new(), 0);
        for (given, committed) in transactions {
            let (_copy, mut folder) = opened(root, INBOX, 7);
            prop_assert_eq!(&read_all(&*folder), &mails);
            let mut now = mails.clone();
            for (mail, piece) in given {
                uid += 1;
                give(&mut *folder, uid, &mail, piece).unwrap();
                now.insert(uid, mail);
            }
            if committed {
                folder.commit(&resume(uid + 1)).unwrap();
                prop_assert_eq!(&read_all(&*folder), &now);
                mails = now;
            }
        }
        let (_copy, folder) = opened(root, INBOX, 7);
        prop_assert_eq!(&read_all(&*folder), &mails);
    }
}

#[test]
fn dates_are_kept_whatever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    dates_are_kept(|| open(directory.path()).unwrap());
    let file = directory.path().join("cur/V7U2.sealpost,U=2:2,S");
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    assert_eq!(std::time::UNIX_EPOCH.duration_since(modified).unwrap().as_secs(), 301_233_600);
}

#[test]
fn damaged_messages_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    messages_are_replaced(|| open(directory.path()).unwrap());
}

#[test]
fn a_crash_leaves_one_file_of_a_replaced_message() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let file = "cur/V7U2.sealpost,U=2:2,S";
    let replace = || {
        let (backup, mut folder) = opened(root, INBOX, 7);
        folder.replace(&[sealpost_base::Uid::new(2).unwrap()].into_iter().collect());
        (backup, folder)
    };
    {
        let (_copy, mut folder) = replace();
        give(&mut *folder, 2, &mail("old\n"), 9).unwrap();
        folder.commit(&resume(3)).unwrap();
        folder.close().unwrap();
    }
    // An uncommitted file beside the present one is removed.
    {
        let (_copy, mut folder) = replace();
        give(&mut *folder, 2, &mail("new\n"), 9).unwrap();
    }
    assert_eq!(names(&root.join("tmp")).len(), 1);
    drop(opened(root, INBOX, 7));
    assert_eq!(
        (names(&root.join("tmp")).len(), fs::read_to_string(root.join(file)).unwrap()),
        (0, "old\n".into())
    );
    // A committed file without its name yet replaces a file that another program renamed.
    {
        let (_copy, mut folder) = replace();
        give(&mut *folder, 2, &mail("new\n"), 9).unwrap();
        folder.commit(&resume(3)).unwrap();
        folder.close().unwrap();
    }
    fs::rename(root.join(file), root.join("tmp/V7U2.sealpost,U=2")).unwrap();
    fs::write(root.join("cur/V7U2.sealpost,U=2:2,FS"), "old\n").unwrap();
    drop(opened(root, INBOX, 7));
    assert_eq!(names(&root.join("cur")).len(), 1);
    assert_eq!(fs::read_to_string(root.join(file)).unwrap(), "new\n");
}

#[test]
fn messages_get_other_uids() {
    let directory = tempfile::tempdir().unwrap();
    crate::backup::format_tests::messages_get_other_uids(|| open(directory.path()).unwrap());
}

/// Whatever renames a crash leaves undone: each message is there once, under the journal's UID.
#[test]
fn messages_with_other_uids_get_their_names_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("copy");
    let mails: Mails = (1..=4).map(|uid| (uid, mail(&format!("A: b\r\n\nnumber {uid}\r\n")))).collect();
    {
        let (_copy, mut folder) = opened(&root, INBOX, 7);
        mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 5).unwrap());
        folder.commit(&resume(5)).unwrap();
        folder.close().unwrap();
    }
    let before = directory.path().join("before");
    copy_tree(&root, &before);
    {
        let (_copy, mut folder) = opened(&root, INBOX, 7);
        assert_eq!(folder.renumber(&[(1, 11), (2, 12)].into()).unwrap(), 2);
    }
    let (old, new) =
        (|uid| format!("V7U{uid}.sealpost,U={uid}:2,S"), |uid| format!("V7U{uid}.sealpost,U={uid}"));
    let both: Mails = [(11, 1), (12, 2), (3, 3), (4, 4)].map(|(uid, was)| (uid, mails[&was].clone())).into();
    for step in 0..=4 {
        let crashed = directory.path().join(format!("{step}"));
        copy_tree(if step == 0 { &before } else { &root }, &crashed);
        let (cur, tmp) = (crashed.join("cur"), crashed.join("tmp"));
        let link =
            |uid: u32, was: u32| fs::copy(before.join("cur").join(old(was)), tmp.join(new(uid))).unwrap();
        match step {
            // Linked, and not committed.
            0 => drop((link(11, 1), link(12, 2))),
            // Committed, and no name given.
            1 => {
                for (uid, was) in [(11, 1), (12, 2)] {
                    fs::remove_file(cur.join(old(uid))).unwrap();
                    link(uid, was);
                    fs::copy(before.join("cur").join(old(was)), cur.join(old(was))).unwrap();
                }
            }
            // One name given, and no old one removed.
            2 => {
                fs::remove_file(cur.join(old(12))).unwrap();
                link(12, 2);
                for was in [1, 2] {
                    fs::copy(before.join("cur").join(old(was)), cur.join(old(was))).unwrap();
                }
            }
            // One old name removed.
            3 => drop(fs::copy(before.join("cur").join(old(2)), cur.join(old(2))).unwrap()),
            _ => {}
        }
        let (_copy, folder) = opened(&crashed, INBOX, 7);
        assert_eq!(read_all(&*folder), if step == 0 { mails.clone() } else { both.clone() }, "{step}");
        assert_eq!((names(&cur).len(), names(&tmp).len()), (4, 0), "{step}");
    }
}

#[test]
fn superseded_folders_are_read() {
    let directory = tempfile::tempdir().unwrap();
    crate::backup::format_tests::superseded_folders_are_read(|| open(directory.path()).unwrap());
}
