//! Records are bound to their path and their server.

use sealpost_base::{Kind, SeededRandom};

use super::*;

#[test]
fn a_record_opens_at_its_path_only() {
    let key = ServerKeys::generate(&SeededRandom::new(1));
    let record = seal_record(&key, "accounts/a/1", b"plain");
    assert_eq!(open_record(&key, "accounts/a/1", record.as_ref()).unwrap(), b"plain");
    let other = ServerKeys::generate(&SeededRandom::new(2));
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
