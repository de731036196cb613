//! Stored inputs of the fuzz targets, and random ones, on any toolchain.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sealpost_archive::fuzz::{fuzz_archive_folder, fuzz_archive_journal, fuzz_archive_json};
use sealpost_testkit::corpus::replay_variants;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn json() {
    replay_variants(CRATE, "archive_json", fuzz_archive_json);
}

#[test]
fn journals() {
    let directory = tempfile::tempdir().unwrap();
    replay_variants(CRATE, "archive_journal", |data| fuzz_archive_journal(data, directory.path()));
}

/// Data of version 1 stays readable, with the same meaning: with one header, and with one in every
/// transaction.
#[test]
fn journals_of_version_1() {
    for name in ["version-1", "headers-repeated"] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/archive_journal").join(name);
        fs::write(root.join("INBOX.sealpost"), fs::read(path).unwrap()).unwrap();
        let copy = sealpost_archive::backup::imap_backup::open(root).unwrap();
        let kept = &copy.folders().unwrap()[0];
        let (id, identity) = (kept.identity.mailboxid.as_deref(), &kept.identity);
        assert_eq!((kept.name.as_str(), identity.uidvalidity, id), ("INBOX", 1_606_316_666, Some("F1")));
        assert_eq!((kept.messages, kept.gone, kept.resume.highestmodseq), (1, 1, 10), "{name}");
    }
}

#[test]
fn folders() {
    let directory = tempfile::tempdir().unwrap();
    replay_variants(CRATE, "archive_folder", |data| fuzz_archive_folder(data, directory.path()));
}

fn folder() -> impl Strategy<Value = Vec<u8>> {
    let texts = vec!["From a@b\n", "A: b\n\n", "x\n\n", "\n", ">From \n", "From", "\0", "\r\n"];
    let mbox = prop::collection::vec(prop::sample::select(texts), 0..12).prop_map(|texts| texts.concat());
    let entries = prop::collection::vec((0u32..5, 0u64..60, 0u64..40), 0..5);
    (mbox, entries, any::<bool>()).prop_map(|(mbox, entries, two)| {
        let json = if two {
            let uids: Vec<_> = entries.iter().map(|(uid, ..)| uid.to_string()).collect();
            format!(r#"{{"version":2,"uid_validity":7,"uids":[{}]}}"#, uids.join(","))
        } else {
            let entry = |(uid, offset, length): &(u32, u64, u64)| {
                format!(r#"{{"uid":{uid},"offset":{offset},"length":{length},"flags":["Seen"]}}"#)
            };
            let entries: Vec<_> = entries.iter().map(entry).collect();
            format!(r#"{{"version":3,"uid_validity":7,"messages":[{}]}}"#, entries.join(","))
        };
        let length = u16::try_from(json.len()).unwrap().to_be_bytes();
        [&length[..], json.as_bytes(), mbox.as_bytes()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_folder_is_adopted_or_superseded(data in folder()) {
        let directory = tempfile::tempdir().unwrap();
        fuzz_archive_folder(&data, directory.path());
    }
}
