//! The server's key is made once, replaced whole, and followed by others.

use std::os::unix::fs::PermissionsExt;

use sealpost_base::{Kind, SeededRandom, SystemRandom};

use super::*;
use crate::record::{open_record, seal_record};

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
fn every_flipped_bit_and_every_cut_of_a_key_file_is_noticed() {
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

    let (entry, mac) = (b"entry", old.macs(Purpose::Entry).sign(&[b"entry"]));
    let macs = settled.macs(Purpose::Entry);
    assert!(macs.verify(old.current().id(), &[entry], &mac), "entries are never written again");
    assert_eq!(macs.verify_any(&[entry], &mac), Some(old.current().id()));
    assert!(!macs.verify(settled.current().id(), &[entry], &mac), "under another key");
    assert!(!settled.macs(Purpose::Watermark).verify(old.current().id(), &[entry], &mac));
    assert_ne!(macs.sign(&[entry]), mac);

    let read = parse(&settled.encode()).unwrap();
    assert_eq!(read.current().id(), settled.current().id());
    assert_eq!(read.older().map(|(role, _)| role).collect::<Vec<_>>(), [Role::Retired]);
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
