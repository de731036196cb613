//! The server's key is made once, replaced whole, and followed by others.

use std::os::unix::fs::PermissionsExt;

use sealpost_base::{AccountId, Kind, Position, SeededRandom, SystemRandom};

use super::*;
use crate::Hash;
use crate::entry::{
    CountedEntries, Generation, Header, LogKey, Renumbering, Verdict, judge, seal_renumbering,
};
use crate::record::{Records, open_record, seal_record};

#[test]
fn the_key_file_is_made_once_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.key");
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ServerKeys::load_or_create(&path, &SystemRandom).unwrap()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let record = seal_record(&keys[0], "p", b"x");
    assert!(keys.iter().all(|key| open_record(key, "p", record.as_ref()).is_ok()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");

    std::fs::write(&path, b"too short").unwrap();
    assert_eq!(ServerKeys::load_or_create(&path, &SystemRandom).err().unwrap().kind(), Kind::Corrupt);
}

#[test]
fn a_key_file_of_one_bare_key_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.key");
    std::fs::write(&path, [7; 32]).unwrap();
    let keys = ServerKeys::load(&path).unwrap();
    assert_eq!(keys.older().count(), 0);
    keys.replace(&path, &SystemRandom).unwrap();
    assert_eq!(ServerKeys::load(&path).unwrap().current().id(), keys.current().id());
}

#[test]
fn every_flipped_bit_and_truncation_of_keys_is_detected() {
    let random = SeededRandom::new(1);
    let keys = ServerKeys::generate(&random).with_next(&random).unwrap();
    let file = keys.encode();
    assert!(parse(&file).is_some());
    for bit in 0..file.len() * 8 {
        let mut damaged = file.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&damaged).is_none(), "bit {bit}");
    }
    assert!((0..file.len()).all(|length| parse(&file[..length]).is_none()));
}

#[test]
fn an_older_key_verifies_records_until_all_were_written_again() {
    let random = SeededRandom::new(1);
    let old = ServerKeys::generate(&random);
    let prepared = old.with_next(&random).unwrap();
    let rotated = prepared.rotated();
    let settled = rotated.settled();
    let (before, after) = (seal_record(&old, "p", b"x"), seal_record(&rotated, "p", b"x"));
    let opens = |keys: &ServerKeys, record: &crate::Sealed| open_record(keys, "p", record.as_ref()).is_ok();
    assert!(opens(&prepared, &before) && opens(&prepared, &after), "nodes may change one after the other");
    assert!(opens(&rotated, &before) && rotated.is_rotating());
    assert!(!opens(&settled, &before) && opens(&settled, &after) && !settled.is_rotating());
    assert!(!opens(&old, &after));

    let (watermark, mac) = (b"watermark", old.macs(Purpose::Watermark).sign(&[b"watermark"]));
    let macs = rotated.macs(Purpose::Watermark);
    assert!(macs.verify(old.current().id(), &[watermark], &mac));
    assert_eq!(macs.verify_any(&[watermark], &mac), Some(old.current().id()));
    assert!(!macs.verify(rotated.current().id(), &[watermark], &mac), "under another key");
    assert!(!settled.macs(Purpose::Watermark).verify(old.current().id(), &[watermark], &mac));
    assert_ne!(macs.sign(&[watermark]), mac);

    let read = parse(&settled.encode()).unwrap();
    assert_eq!(read.current().id(), settled.current().id());
    assert_eq!(read.older().map(|(role, _)| role).collect::<Vec<_>>(), [Role::Retired]);
}

/// Entries, sizes and what hidden records say are not written again when a key is replaced.
#[test]
fn objects_sealed_before_a_key_rotation_stay_readable() {
    let random = SeededRandom::new(1);
    let old = ServerKeys::generate(&random);
    let settled = old.with_next(&random).unwrap().rotated().settled();
    let renumbering = Renumbering::of(Position(1), CountedEntries::NONE);
    let header = Header {
        generation: Generation(1),
        account: AccountId([7; 16]),
        position: Position(1),
        prev: Hash::ZERO,
    };
    let sealed = |keys: &ServerKeys| seal_renumbering(&LogKey::of(keys), &header, &renumbering);
    let is_authentic = |keys: &ServerKeys, entry: &crate::Sealed| {
        let verdict = judge(&LogKey::of(keys), header.account, header.position, entry.as_ref());
        matches!(verdict, Verdict::Authentic(..))
    };
    let verdict = judge(&LogKey::of(&settled), header.account, header.position, sealed(&old).as_ref());
    assert!(matches!(verdict, Verdict::Retired(..)), "{verdict:?}");
    assert!(is_authentic(&old, &sealed(&old)) && is_authentic(&settled, &sealed(&settled)));
    assert!(!is_authentic(&old, &sealed(&settled)));

    let hidden = Records::new(&old).hide("usage/a", b"5", &random);
    assert_eq!(Records::new(&settled).reveal("usage/a", &hidden).unwrap(), b"5");
    let hidden = Records::new(&settled).hide("usage/a", b"5", &random);
    assert!(Records::new(&old).reveal("usage/a", &hidden).is_err());

    let sizes =
        |keys: &ServerKeys| keys.derived(b"message sizes").iter().map(|key| *key.bytes()).collect::<Vec<_>>();
    assert_eq!(sizes(&settled)[1..], sizes(&old));
}

#[test]
fn there_are_only_so_many_keys() {
    let random = SeededRandom::new(1);
    let mut keys = ServerKeys::generate(&random);
    for _ in 1..limits::SERVER_KEYS {
        keys = keys.with_next(&random).unwrap().rotated().settled();
    }
    assert_eq!(keys.older().count() + 1, limits::SERVER_KEYS);
    assert!(parse(&keys.encode()).is_some());
    assert_eq!(keys.with_next(&random).err().unwrap().kind(), Kind::Limit);
}
