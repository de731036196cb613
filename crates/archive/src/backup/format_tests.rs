//! Helpers for the tests of every format: usual and unusual messages, and backups filled and read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use proptest::prelude::*;

use super::journal::{Commit, Journal};
use super::*;

/// A message of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub flags: Flags,
    pub date: Option<DateTime>,
    pub bytes: Vec<u8>,
}

/// By UID.
pub type Mails = BTreeMap<u32, Mail>;

pub fn mail(text: &str) -> Mail {
    mail_of(text.as_bytes())
}

pub fn mail_of(bytes: &[u8]) -> Mail {
    let date = sealpost_imap::types::Date::new(2020, 11, 16).and_then(|d| DateTime::new(d, 9, 5, 7, 60));
    Mail { flags: Flags::from_names(["\\Seen", "$Work"]), date, bytes: bytes.to_vec() }
}

pub fn identity(uidvalidity: u32) -> Identity {
    Identity { uidvalidity, mailboxid: None }
}

pub fn folder_name(name: &str) -> FolderName {
    FolderName::new(name, Some('/'))
}

pub fn resume(uidnext: u32) -> Resume {
    Resume { highestmodseq: u64::from(uidnext) * 10, uidnext, whole: true }
}

/// Writes a message to a folder, in pieces.
pub fn give(folder: &mut dyn Folder, uid: u32, mail: &Mail, piece: usize) -> Result<()> {
    folder.begin(mail.bytes.len() as u64)?;
    for piece in mail.bytes.chunks(piece.max(1)) {
        folder.write(piece)?;
    }
    folder.finish(&Arrived { uid, flags: mail.flags.clone(), internaldate: mail.date })
}

/// Leaves a folder as a run does that ends after its last commit, without closing the folder.
pub fn leave_unclosed(journal: &Path) {
    let mut journal = Journal::open(journal, |_, _| Ok(())).unwrap();
    let last = *journal.last();
    assert!(last.resume().whole);
    journal.commit(&Commit { shown: None, ..last }).unwrap();
}

/// Reads everything in a folder.
pub fn read_all(folder: &dyn Folder) -> Mails {
    let mut mails = Mails::new();
    for stored in folder.messages().unwrap() {
        let stored = stored.unwrap();
        let mut bytes = Vec::new();
        folder
            .read(stored.uid)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap_or_else(|e| panic!("{}: {e}", stored.uid));
        assert_eq!(stored.size, bytes.len() as u64);
        let known = folder.known().flags(stored.uid).unwrap();
        assert_eq!(*known, stored.flags);
        let twice = mails.insert(stored.uid, Mail { flags: stored.flags, date: stored.internaldate, bytes });
        assert!(twice.is_none(), "{} twice", stored.uid);
    }
    assert_eq!(folder.known().uids().len(), mails.len());
    mails
}

/// Bytes that are difficult for formats, more often than at random.
pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let tokens: Vec<&[u8]> = vec![
        b"From ",
        b"From a@b Thu Jan  1 00:00:10 1970",
        b">From ",
        b">",
        b"From: Me <me@example.org>\r\n",
        b"Date: Mon, 16 Nov 2020 09:05:07 +0100\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"\xff\xfe",
        b"x",
        b" ",
    ];
    let token = prop::sample::select(tokens);
    prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

pub fn mails() -> impl Strategy<Value = Vec<(Mail, usize)>> {
    let flags = prop::collection::vec(
        prop::sample::select(vec!["\\Seen", "\\Flagged", "\\Draft", "$Junk", "wörk", "\\X", "a\"b"]),
        0..4,
    );
    let date = prop::option::of((-5_000_000_000i64..4_000_000_000, -720i16..720)).prop_map(|date| {
        let (seconds, zone) = date?;
        folder::date_time(seconds, zone)
    });
    let mail = (bytes(), flags, date, 1usize..20).prop_map(|(bytes, flags, date, piece)| {
        (Mail { flags: Flags::from_names(flags), date, bytes }, piece)
    });
    prop::collection::vec(mail, 0..6)
}

/// Copies a directory tree in its present state: what a crash would leave.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            fs::File::options().append(true).open(&to).unwrap().set_modified(modified).unwrap();
        }
    }
}

/// Folders that swap their names are recognized by their MAILBOXIDs, whichever the backup opens
/// first, also if the UIDVALIDITYs are equal, and when another process has opened the backup
/// meanwhile.
pub fn swapped_names_are_recognized(open: impl Fn() -> Box<dyn Backup>) {
    let server = |(uidvalidity, id): (u32, &str)| Identity { uidvalidity, mailboxid: Some(id.into()) };
    for (case, [first, second], turns) in [
        ("e", [(7, "A"), (7, "B")], ["a", "b"]),
        ("f", [(7, "C"), (7, "D")], ["b", "a"]),
        ("g", [(7, "E"), (8, "F")], ["a", "b"]),
        ("h", [(7, "G"), (8, "H")], ["b", "a"]),
    ] {
        let name = |folder: &str| folder_name(&format!("{case}{folder}"));
        let backup = open();
        for (folder, identity) in [("a", first), ("b", second)] {
            let mut open = backup.open(&name(folder), &server(identity)).unwrap();
            give(&mut *open, 1, &mail(folder), 9).unwrap();
            open.commit(&resume(2)).unwrap();
            open.close().unwrap();
        }
        drop(backup);
        for (folder, was) in turns.map(|folder| if folder == "a" { ("a", "b") } else { ("b", "a") }) {
            let backup = open();
            let identity = if folder == "a" { second } else { first };
            let open = backup.open(&name(folder), &server(identity)).unwrap();
            let read: Vec<_> = read_all(&*open).into_values().map(|mail| mail.bytes).collect();
            assert_eq!(read, [mail(was).bytes], "{case}{folder}");
        }
        let kept = open().folders().unwrap();
        let mut kept: Vec<_> =
            kept.iter().map(|kept| kept.name.as_str()).filter(|n| n.starts_with(case)).collect();
        kept.sort_unstable();
        assert_eq!(kept, [name("a").as_str(), name("b").as_str()]);
    }
}

/// The next message of a UID to be replaced replaces the stored one at the commit and not before,
/// with the known flags. Others replace nothing.
pub fn messages_are_replaced(open: impl Fn() -> Box<dyn Backup>) {
    let uid = |uid| Uid::new(uid).unwrap();
    let opened = || {
        let backup = open();
        let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
        folder.replace(&UidSet::range(uid(2), uid(2)));
        (backup, folder)
    };
    let date = sealpost_imap::types::Date::new(2021, 1, 2).and_then(|d| DateTime::new(d, 3, 4, 5, 0));
    let new = |bytes: &str| Mail { flags: Flags::from_names(["\\Draft"]), date, bytes: bytes.into() };
    let old = |nth: u32| Mail { date, ..mail(&format!("A: {nth}\r\n\r\nline\nend\r\n")) };
    {
        let (_copy, mut folder) = opened();
        (1..=3).for_each(|nth| give(&mut *folder, nth, &old(nth), 4).unwrap());
        assert!(!folder.takes(2), "it was not there");
        folder.commit(&resume(4)).unwrap();
        folder.close().unwrap();
    }
    let mut mails: Mails = (1..=3).map(|nth| (nth, old(nth))).collect();
    for commit in [false, true] {
        let (_copy, mut folder) = opened();
        assert!(folder.takes(2) && !folder.takes(1) && folder.takes(4));
        folder.flags(2, &Flags::from_names(["\\Answered"])).unwrap();
        for (nth, text) in [(1, "dropped"), (2, "B: 2\r\n\r\nnew\n"), (2, "dropped")] {
            give(&mut *folder, nth, &new(text), 3).unwrap();
        }
        give(&mut *folder, 4, &new("last\r\n"), 3).unwrap();
        if commit {
            folder.commit(&resume(5)).unwrap();
            mails.insert(2, Mail { flags: Flags::from_names(["\\Answered"]), ..new("B: 2\r\n\r\nnew\n") });
            mails.insert(4, new("last\r\n"));
            assert_eq!(read_all(&*folder), mails);
            folder.close().unwrap();
        }
    }
    let (backup, folder) = opened();
    assert_eq!(read_all(&*folder), mails);
    drop(folder);
    assert_eq!(backup.folders().unwrap()[0].messages, 4);
}

/// Messages of a folder that were put back at the server: bytes, flags and dates stay, UIDs change,
/// and messages whose new UID is taken keep theirs.
pub fn messages_get_other_uids(open: impl Fn() -> Box<dyn Backup>) {
    let opened = || {
        let backup = open();
        let folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
        (backup, folder)
    };
    let utc = |mail: Mail| Mail { date: mail.date.map(|date| DateTime::utc(date.timestamp())), ..mail };
    let texts = ["one\r\n", "two\nbare\r\nmixed\n", "three", "\nfour\r\r\n", "From five\n", "six\n\n"];
    let mut mails: Mails = (1..).zip(texts.map(|text| utc(mail(&format!("A: b\r\n\r\n{text}"))))).collect();
    {
        let (_copy, mut folder) = opened();
        mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 4).unwrap());
        folder.commit(&resume(7)).unwrap();
        let flags = Flags::from_names(["\\Flagged", "later"]);
        folder.flags(2, &flags).unwrap();
        mails.get_mut(&2).unwrap().flags = flags;
        [1, 2, 5].into_iter().for_each(|uid| folder.mark_deleted_upstream(uid).unwrap());
        folder.remove(3).unwrap();
        mails.remove(&3);
        folder.commit(&resume(7)).unwrap();
        folder.close().unwrap();
    }
    let check = |folder: &dyn Folder, mails: &Mails, gone: &[u32]| {
        let read = read_all(folder).into_iter().map(|(uid, mail)| (uid, utc(mail)));
        assert_eq!(read.collect::<Mails>(), *mails);
        let deleted = mails.keys().copied().filter(|uid| folder.known().is_deleted_upstream(*uid));
        assert_eq!(deleted.collect::<Vec<_>>(), gone);
    };
    for again in [false, true] {
        let (_copy, mut folder) = opened();
        // One that is taken, one that does not exist, one that was removed, two of one UID.
        let uids = [(1, 11), (2, 12), (5, 6), (9, 19), (3, 13), (4, 14), (6, 14)].into();
        assert_eq!(folder.renumber(&uids).unwrap(), if again { 0 } else { 3 });
        if !again {
            for (uid, to) in [(1, 11), (2, 12), (4, 14)] {
                let mail = mails.remove(&uid).unwrap();
                mails.insert(to, mail);
            }
        }
        check(&*folder, &mails, &[5]);
        assert_eq!(folder.resume(), resume(7));
    }
    // It is durable without further writes, and allows any.
    let (backup, mut folder) = opened();
    check(&*folder, &mails, &[5]);
    give(&mut *folder, 20, &mail("new\n"), 9).unwrap();
    mails.insert(20, utc(mail("new\n")));
    folder.flags(11, &Flags::default()).unwrap();
    mails.get_mut(&11).unwrap().flags = Flags::default();
    folder.remove(12).unwrap();
    mails.remove(&12);
    folder.mark_deleted_upstream(14).unwrap();
    folder.commit(&resume(21)).unwrap();
    check(&*folder, &mails, &[5, 14]);
    folder.close().unwrap();
    let kept = backup.folders().unwrap();
    assert_eq!((kept[0].messages, kept[0].gone, kept[0].as_left), (3, 2, true));
    drop(backup);
    let (_copy, mut folder) = opened();
    check(&*folder, &mails, &[5, 14]);
    // Back again; a UID without a message is free.
    assert_eq!(folder.renumber(&[(11, 12)].into()).unwrap(), 1);
    let mail = mails.remove(&11).unwrap();
    mails.insert(12, mail);
    check(&*folder, &mails, &[5, 14]);
    assert!(folder.notices().is_empty());
}

/// Every received time of a server is read again, also before 1970 and at its first second; and a
/// missing one.
pub fn dates_are_kept(open: impl Fn() -> Box<dyn Backup>) {
    let day = sealpost_imap::types::Date::new;
    let at = |year, month, of_month, (hour, minute, second), zone| {
        day(year, month, of_month).and_then(|day| DateTime::new(day, hour, minute, second, zone))
    };
    let dates = [
        None,
        at(1960, 6, 15, (12, 0, 0), 0),
        at(1969, 12, 31, (23, 59, 59), 0),
        at(1970, 1, 1, (0, 0, 0), 0),
        at(1970, 1, 1, (0, 0, 0), 60),
        at(1970, 1, 1, (1, 0, 0), 60),
        at(1970, 1, 1, (0, 0, 1), 0),
        at(1583, 1, 2, (3, 4, 5), -720),
        at(2038, 1, 19, (3, 14, 8), 0),
        at(2106, 2, 7, (6, 28, 16), 0),
        at(9999, 12, 30, (23, 59, 59), 720),
    ];
    assert!(dates[1..].iter().all(Option::is_some));
    let backup = open();
    let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
    for (date, uid) in dates.iter().zip(1..) {
        give(&mut *folder, uid, &Mail { date: *date, ..mail("A: b\r\n\r\nx\r\n") }, 9).unwrap();
    }
    folder.commit(&resume(100)).unwrap();
    folder.close().unwrap();
    drop(backup);
    let backup = open();
    let mails = read_all(&*backup.open(&folder_name("INBOX"), &identity(7)).unwrap());
    for (date, mail) in dates.iter().zip(mails.values()) {
        assert_eq!(mail.date.map(DateTime::timestamp), date.map(DateTime::timestamp));
    }
    assert_eq!(mails.len(), dates.len());
}

/// A superseded folder is counted, read by its name, kept over a run that has another folder of
/// that name, and not listed as a folder.
pub fn superseded_folders_are_read(open: impl Fn() -> Box<dyn Backup>) {
    let names =
        |kept: Vec<BackupFolder>| kept.into_iter().map(|kept| kept.name.to_string()).collect::<Vec<_>>();
    for (uidvalidity, text) in [(7, "seven"), (8, "eight"), (9, "nine")] {
        let backup = open();
        let mut folder = backup.open(&folder_name("a/b"), &identity(uidvalidity)).unwrap();
        assert!(folder.known().uids().is_empty());
        for uid in [1, 5, 3, 9] {
            give(&mut *folder, uid, &mail(&format!("{text} {uid}")), 9).unwrap();
        }
        folder.commit(&resume(10)).unwrap();
        folder.remove(5).unwrap();
        folder.mark_deleted_upstream(3).unwrap();
        folder.commit(&resume(10)).unwrap();
        folder.close().unwrap();
    }
    // Empty folders are not reported.
    for uidvalidity in [7, 8] {
        open().open(&folder_name("empty"), &identity(uidvalidity)).unwrap();
    }
    let check = |wanted: [&str; 2]| {
        let backup = open();
        let superseded = backup.superseded().unwrap();
        assert!(superseded.iter().all(|kept| kept.was == Some(folder_name("a/b"))), "{superseded:?}");
        assert!(superseded.iter().all(|kept| (kept.messages, kept.gone) == (2, 1)), "{superseded:?}");
        assert_eq!(names(superseded), wanted);
        for (name, text) in wanted.into_iter().zip(["seven", "eight"]) {
            let folder = backup.open_to_read(&folder_name(name)).unwrap();
            let texts: Vec<_> = read_all(&*folder).into_iter().map(|(uid, mail)| (uid, mail.bytes)).collect();
            assert_eq!(texts, [1, 3, 9].map(|uid| (uid, format!("{text} {uid}").into_bytes())));
            assert!(folder.known().is_deleted_upstream(3) && !folder.known().is_deleted_upstream(9));
        }
    };
    check(["a/b-7", "a/b-8"]);
    assert_eq!(names(open().folders().unwrap()).len(), 2);
    // The server has a folder of that name, too.
    let backup = open();
    let mut folder = backup.open(&folder_name("a/b-7"), &identity(7)).unwrap();
    assert!(folder.known().uids().is_empty());
    give(&mut *folder, 1, &mail("another"), 9).unwrap();
    folder.commit(&resume(2)).unwrap();
    drop((folder, backup));
    check(["a/b-7-1", "a/b-8"]);
    assert_eq!(read_all(&*open().open_to_read(&folder_name("a/b-7")).unwrap())[&1].bytes, b"another");
}
