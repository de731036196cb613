//! Records are bound to their path and their server, and the server's key is made once.

use std::os::unix::fs::PermissionsExt;

use sealpost_base::{Kind, SeededRandom, SystemRandom};

use super::*;

#[test]
fn a_record_opens_at_its_path_only() {
    let key = ServerKey::generate(&SeededRandom::new(1));
    let record = seal_record(&key, "accounts/a/1", b"plain");
    assert_eq!(open_record(&key, "accounts/a/1", record.as_ref()).unwrap(), b"plain");
    let other = ServerKey::generate(&SeededRandom::new(2));
    assert_eq!(open_record(&key, "accounts/b/1", record.as_ref()).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(open_record(&other, "accounts/a/1", record.as_ref()).unwrap_err().kind(), Kind::Corrupt);
    for bit in 0..record.len() * 8 {
        let mut damaged = record.as_ref().to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(open_record(&key, "accounts/a/1", &damaged).is_err(), "bit {bit}");
    }
    for length in 0..record.len() {
        assert!(open_record(&key, "accounts/a/1", &record.as_ref()[..length]).is_err());
    }
}

#[test]
fn the_key_file_is_made_once_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.key");
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ServerKey::load_or_create(&path, &SystemRandom).unwrap()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let record = seal_record(&keys[0], "p", b"x");
    assert!(keys.iter().all(|key| open_record(key, "p", record.as_ref()).is_ok()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");

    std::fs::write(&path, b"too short").unwrap();
    assert_eq!(ServerKey::load_or_create(&path, &SystemRandom).err().unwrap().kind(), Kind::Corrupt);
}
