use std::fs;

use super::*;

/// Pseudorandom numbers, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        let first = self.below(251);
        (0..count).map(|n| ((first + n) % 251) as u8).collect()
    }
}

/// A file system with direct writes, where there is one, and one without.
fn both(mut with: impl FnMut(&Path, bool)) {
    for cached in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        with(&directory.path().join("file"), cached);
    }
}

fn open(path: &Path, length: u64, cached: bool) -> Appending {
    let mut file = Appending::open(path, length).unwrap();
    if cached {
        file.disk = Disk::Idle(None);
    }
    file
}

#[test]
fn a_file_holds_all_appended_bytes_minus_truncation() {
    both(|path, cached| {
        let mut chance = Chance(7);
        let mut file = open(path, 0, cached);
        let (mut all, mut synced) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            match chance.below(20) {
                0..12 => {
                    let bytes = chance.bytes(200);
                    file.write_all(&bytes).unwrap();
                    all.extend(bytes);
                }
                12..15 => {
                    let count = chance.below(3 * PIECE as u64);
                    let bytes = chance.bytes(count);
                    file.write_all(&bytes).unwrap();
                    all.extend(bytes);
                }
                15 | 16 => {
                    // Often a little, sometimes more than one piece.
                    let most = if chance.below(2) == 0 { 1000 } else { 2 * PIECE as u64 };
                    let length = (all.len() as u64).saturating_sub(chance.below(most));
                    file.cut(length).unwrap();
                    all.truncate(length as usize);
                }
                17 | 18 => {
                    file.sync().unwrap();
                    assert_eq!(fs::read(path).unwrap(), all);
                    synced.clone_from(&all);
                }
                _ => {
                    // As after a crash: arbitrary bytes follow the known ones.
                    drop(file);
                    synced.truncate(all.len().min(synced.len()));
                    let same = synced.iter().zip(&all).take_while(|(a, b)| a == b).count();
                    all.truncate(same);
                    file = open(path, all.len() as u64, cached);
                    synced.clone_from(&all);
                }
            }
            assert_eq!(file.length(), all.len() as u64);
        }
        file.sync().unwrap();
        assert_eq!(fs::read(path).unwrap(), all);
    });
}

#[test]
fn a_write_that_is_refused_goes_through_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let cached = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    let mut writing = Writing { cached, direct: direct(&path), waiting: 0 };
    // Neither the length nor, usually, the address is aligned.
    writing.write(&[b'x'; 1001], 0).unwrap();
    assert!(writing.direct.is_none());
    writing.write(&[b'y'; 1001], 1001).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [[b'x'; 1001], [b'y'; 1001]].concat());
}

#[test]
fn no_write_succeeds_after_a_failure_until_reopened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut file = Appending::open(&path, 0).unwrap();
    file.write_all(b"before").unwrap();
    file.sync().unwrap();
    file.full_at = Some(1000);
    assert_eq!(file.write_all(&vec![b'x'; 2 * PIECE]).unwrap_err().kind(), ErrorKind::StorageFull);
    file.cut(6).unwrap();
    file.full_at = None;
    assert!(file.write_all(b"after").is_err());
    assert!(file.sync().is_err());
    drop(file);
    let mut file = Appending::open(&path, 6).unwrap();
    file.write_all(b", after").unwrap();
    file.sync().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before, after");
}

#[test]
fn a_file_that_lost_its_end_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, [b'x'; 5000]).unwrap();
    assert_eq!(Appending::open(&path, 5001).err().unwrap().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(Appending::open(&path, 5000).unwrap().length(), 5000);
}
