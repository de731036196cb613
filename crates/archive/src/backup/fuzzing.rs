//! Bodies of fuzz targets that need private items.

use std::fs;
use std::path::Path;

use super::imap_backup;
use super::journal::Journal;

/// See `crate::fuzz`.
pub fn json(data: &[u8]) {
    imap_backup::fuzz_json(data);
}

/// See `crate::fuzz`.
pub fn journal(path: &Path) {
    let before = fs::read(path).ok();
    let peeked = Journal::peek(path).ok();
    let mut records = 0;
    let opened = Journal::open(path, |_, _| {
        records += 1;
        Ok(())
    });
    let Ok(journal) = opened else {
        assert_eq!(fs::read(path).ok(), before, "a damaged file does not change");
        return;
    };
    assert_eq!(journal.records().expect("it was just read").count(), records);
    let last = *journal.last();
    // A damaged journal may have the same length as the one salvaged from it.
    if fs::read(path).ok() == before {
        assert_eq!(peeked.map(|peeked| peeked.last), Some(last));
    }
    drop(journal);
    let again = Journal::peek(path).expect("what is left is valid");
    assert!(again.last == last && again.whole);
}
