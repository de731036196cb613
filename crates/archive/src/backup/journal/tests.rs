//! Exactly the committed records are read, wherever the file is cut or changed.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::backup::digest::Digest;

fn header(name: &str) -> Header {
    Header {
        folder: name.to_owned(),
        delimiter: Some('/'),
        uidvalidity: 7,
        mailboxid: Some("F1".to_owned()),
        moving_to: None,
        rewritten: None,
        superseded: false,
    }
}

fn message(uid: u32) -> Record {
    long_message(uid, 5)
}

/// With a keyword of this size.
fn long_message(uid: u32, bytes: usize) -> Record {
    Record::Message(Message {
        uid,
        flags: FlagsRecord { system: 1, keywords: Some(vec!["w".repeat(bytes).into()]), labels: None },
        received: Some(1_600_000_000),
        zone: -90,
        bytes: 52,
        digest: Digest::Blake3([uid as u8; 32]),
        foreign: false,
        offset: u64::from(uid) * 80,
        length: 80,
        line_ends: 0,
    })
}

fn uids(records: &[Record]) -> Vec<u32> {
    let uid = |record: &Record| match record {
        Record::Message(message) => Some(message.uid),
        _ => None,
    };
    records.iter().filter_map(uid).collect()
}

fn read(path: &Path) -> (Journal, Vec<Record>) {
    let mut records = Vec::new();
    let journal = Journal::open(path, |_, record| {
        records.push(record);
        Ok(())
    });
    (journal.unwrap(), records)
}

fn read_records(journal: &Journal) -> Vec<Record> {
    journal.records().unwrap().map(|record| record.unwrap().1).collect()
}

/// Three transactions, and the end of each.
fn written(path: &Path) -> Vec<u64> {
    written_long(path, 5)
}

/// The same, of messages with a keyword of this size.
fn written_long(path: &Path, bytes: usize) -> Vec<u64> {
    let mut journal = Journal::create(path, header("INBOX")).unwrap();
    let mut ends = vec![journal.committed];
    for transaction in 0..3 {
        for uid in 1..=4 {
            journal.push(&long_message(transaction * 4 + uid, bytes)).unwrap();
        }
        let commit = Commit { present: u64::from(transaction + 1) * 4, ..Commit::default() };
        journal.commit(&commit).unwrap();
        ends.push(journal.committed);
    }
    ends
}

#[test]
fn a_truncated_journal_keeps_its_complete_commits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let ends = written(&path);
    let whole = fs::read(&path).unwrap();
    assert_eq!(*ends.last().unwrap(), whole.len() as u64);
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let complete = ends.iter().filter(|end| **end <= cut as u64).count();
        if complete == 0 {
            assert_eq!(Journal::peek(&path).err().unwrap().kind(), sealpost_base::Kind::Corrupt);
            assert!(Journal::open(&path, |_, _| Ok(())).is_err());
            assert_eq!(fs::read(&path).unwrap(), &whole[..cut], "a damaged file does not change");
            continue;
        }
        let peeked = Journal::peek(&path).unwrap();
        assert_eq!((peeked.header, peeked.last.present), (header("INBOX"), (complete as u64 - 1) * 4));
        assert_eq!(peeked.whole, ends.contains(&(cut as u64)));
        let (mut journal, records) = read(&path);
        assert_eq!(uids(&records), (1..=(complete as u32 - 1) * 4).collect::<Vec<_>>(), "{cut}");
        assert_eq!(fs::metadata(&path).unwrap().len(), ends[complete - 1]);
        // And it can be continued.
        journal.push(&message(99)).unwrap();
        journal.commit(&Commit { present: 99, ..*journal.last() }).unwrap();
        assert_eq!(Journal::peek(&path).unwrap().last.present, 99);
        assert_eq!(uids(&read(&path).1).last(), Some(&99));
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let ends = written(&path);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        fs::write(&path, &changed).unwrap();
        let complete = ends.iter().filter(|end| **end <= at as u64).count();
        let is_last = complete == ends.len() - 1;
        let mut records = Vec::new();
        // Nor does the folder seem to be another one.
        assert!(Journal::peek(&path).is_ok_and(|peeked| peeked.header == header("INBOX")) || complete == 0);
        let opened = Journal::open(&path, |_, record| {
            records.push(record);
            Ok(())
        });
        let mut journal = match opened {
            Ok(journal) => journal,
            // Only the beginning names the mailbox.
            Err(_) => {
                assert_eq!(complete, 0, "{at}");
                assert_eq!(fs::read(&path).unwrap(), changed, "a damaged file does not change");
                continue;
            }
        };
        let salvaged = journal.take_salvaged();
        assert_eq!(salvaged.is_none(), is_last, "{at}");
        let Some(salvaged) = salvaged else {
            assert_eq!(journal.committed, ends[complete - 1], "{at}");
            continue;
        };
        // The changed transaction is read as far as possible, and the others completely.
        assert_eq!(fs::read(&salvaged.damaged_copy).unwrap(), changed, "{at}");
        let known = uids(&records);
        let of_changed = (complete as u32 * 4).saturating_sub(3)..=complete as u32 * 4;
        let others = (1..=12).filter(|uid| !of_changed.contains(uid));
        assert!(others.into_iter().all(|uid| known.contains(&uid)), "{at}: {known:?}");
        let peeked = Journal::peek(&path).unwrap();
        assert_eq!((&peeked.header, journal.header()), (&header("INBOX"), &header("INBOX")), "{at}");
        assert_eq!((peeked.last.present, peeked.last.uidnext), (12, Commit::default().uidnext), "{at}");
        drop(journal);
        assert_eq!(read(&path).1, records, "{at}: once is enough");
        fs::remove_file(salvaged.damaged_copy).unwrap();
    }
}

/// Older versions wrote a header once. Whatever is changed in it or before it, the folder stays the
/// same one, and later messages are read.
#[test]
fn a_changed_header_of_an_earlier_version_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let mut journal = Journal::create(&path, header("old")).unwrap();
    let first = journal.committed as usize;
    for name in ["moving", "INBOX"] {
        journal.push(&message(1)).unwrap();
        journal.push(&Record::Header(header(name))).unwrap();
        journal.end_transaction(&Commit::default()).unwrap();
    }
    let settled = journal.committed as usize;
    for uid in 2..=4 {
        journal.push(&message(uid)).unwrap();
        journal.end_transaction(&Commit { present: uid.into(), ..Commit::default() }).unwrap();
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    assert_eq!(Journal::peek(&path).unwrap().header, header("INBOX"));
    for at in 0..settled {
        let mut changed = whole.clone();
        changed[at] ^= 0x01;
        fs::write(&path, &changed).unwrap();
        let peeked = Journal::peek(&path).ok();
        let known = [header("INBOX"), header("moving"), header("old")];
        let is_known = |name: &Header| known.contains(name);
        assert!(peeked.is_none_or(|p| is_known(&p.header) && p.last.present == 4), "{at}");
        match Journal::open(&path, |_, _| Ok(())) {
            Ok(mut journal) => {
                let again = Journal::peek(&path).unwrap();
                assert!(is_known(&again.header) && again.header == *journal.header(), "{at}");
                assert!(uids(&read_records(&journal)).ends_with(&[2, 3, 4]), "{at}");
                fs::remove_file(journal.take_salvaged().unwrap().damaged_copy).unwrap();
            }
            Err(_) => assert_eq!(fs::read(&path).unwrap(), changed, "{at}: it is left as it is"),
        }
    }
    // An earlier change does not hide the present header.
    for at in 0..first {
        let mut changed = whole.clone();
        changed[at] ^= 0x01;
        fs::write(&path, &changed).unwrap();
        assert_eq!(Journal::peek(&path).unwrap().header, header("INBOX"), "{at}");
    }
}

/// Also if a killed run left the end, or a second place after the first one is damaged.
#[test]
fn salvage_reads_records_between_two_damaged_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    // Shorter and longer than one read.
    for (bytes, second) in [(5, 2), (5, 4), (30_000, 2), (30_000, 4)] {
        let ends = written_long(&path, bytes);
        let whole = fs::read(&path).unwrap();
        let second = if second == 2 { ends[2] as usize - 3 } else { whole.len() + 2 };
        let mut changed = whole.clone();
        changed[ends[0] as usize + 40] ^= 0x10;
        changed.extend(&whole[ends[2] as usize..ends[2] as usize + 60]);
        changed[second] ^= 0x10;
        fs::write(&path, &changed).unwrap();
        let (mut journal, records) = read(&path);
        let known = uids(&records);
        assert!((5..=12).all(|uid| known.contains(&uid)), "{second}: {known:?}");
        // The rest of a killed run does not count.
        assert!(known.len() <= 12, "{second}: {known:?}");
        assert!(journal.take_salvaged().is_some_and(|salvaged| salvaged.unread <= 2), "{second}");
        drop(journal);
        fs::remove_file(&path).unwrap();
    }
}

/// Until the new one is in its place, the damaged one stays unchanged.
#[test]
fn a_journal_that_cannot_be_salvaged_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    written(&path);
    let mut changed = fs::read(&path).unwrap();
    changed[MAGIC.len() + 200] ^= 1;
    fs::write(&path, &changed).unwrap();
    fs::create_dir(directory.path().join("a.new")).unwrap();
    assert!(Journal::open(&path, |_, _| Ok(())).is_err());
    assert_eq!(fs::read(&path).unwrap(), changed);
    fs::remove_dir(directory.path().join("a.new")).unwrap();
    assert!(uids(&read(&path).1).len() >= 11);
}

#[test]
fn uncommitted_records_are_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let mut journal = Journal::create(&path, header("a")).unwrap();
    assert_eq!(Journal::create(&path, header("b")).err().unwrap().kind(), sealpost_base::Kind::Conflict);
    let at = journal.push(&message(3)).unwrap();
    journal.commit(&Commit::default()).unwrap();
    assert_eq!(uids(&read(&path).1), [3]);
    assert_eq!(journal.record_at(at).unwrap(), message(3));
    assert_eq!(journal.records().unwrap().count(), 5);
    // Records that are not committed when the process ends, some of them written.
    for uid in 4..5000 {
        journal.push(&message(uid)).unwrap();
    }
    assert!(journal.is_dirty());
    drop(journal);
    assert_eq!(uids(&read(&path).1), [3]);
}

#[test]
fn a_header_may_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let mut journal = Journal::create(&path, header("old")).unwrap();
    journal.push(&Record::Header(header("new"))).unwrap();
    assert_eq!(Journal::peek(&path).unwrap().header.folder, "old");
    journal.commit(&Commit::default()).unwrap();
    journal.push(&message(1)).unwrap();
    journal.commit(&Commit::default()).unwrap();
    assert_eq!(Journal::peek(&path).unwrap().header.folder, "new");
    assert_eq!(read(&path).0.header().folder, "new");
}

#[test]
fn a_record_that_is_too_large_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(&directory.path().join("a"), header("a")).unwrap();
    let runs = vec![1; limits::ARCHIVE_RECORD_BYTES];
    let error = journal.push(&Record::LineEnds { runs }).unwrap_err();
    assert_eq!(error.kind(), sealpost_base::Kind::Limit);
    journal.push(&message(1)).unwrap();
    journal.commit(&Commit::default()).unwrap();
    assert_eq!(uids(&read(&journal.path).1), [1]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), after in any::<bool>()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut file = Vec::new();
        if after {
            written(&path);
            file = fs::read(&path).unwrap();
        }
        let valid = file.len();
        file.extend_from_slice(&bytes);
        fs::write(&path, &file).unwrap();
        let _ = Journal::peek(&path);
        let opened = Journal::open(&path, |_, _| Ok(()));
        prop_assert_eq!(opened.ok().map(|journal| journal.committed), after.then_some(valid as u64));
    }
}
