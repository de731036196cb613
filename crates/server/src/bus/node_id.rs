//! The id of this node on the bus, kept in its data directory: a node that was killed and restarts
//! is the same node, and others no longer miss it.
//!
//! Each id is in a file (`node-1.id`: sixteen hexadecimal digits), and its process holds a lock on
//! the file, which ends with the process in any case. So several servers on one directory are
//! several nodes, none of which hides that another has fallen silent. Mail does not depend on it:
//! without a usable file the id is for this run only.

use std::fs::{File, TryLockError};
use std::io::{Read, Result, Seek, Write};
use std::path::Path;

use sealpost_base::Random;
use sealpost_files::owner;

/// How many servers on one directory keep their ids.
const SERVERS: usize = 16;
/// Digits of an id.
const DIGITS: usize = 16;

/// An id that no other process uses.
#[derive(Debug)]
pub(super) struct NodeId {
    pub id: u64,
    /// Locked for as long as the id is used.
    _file: Option<File>,
}

impl NodeId {
    /// The first id in `directory` that no process uses; a new one, for this run, if there is no
    /// directory.
    pub fn claim(directory: Option<&Path>, random: &dyn Random) -> Self {
        let claimed = directory.map_or(Ok(None), |directory| kept(directory, random));
        let claimed = claimed.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot store this node's id for the bus: after a crash, other nodes wait \
                                    a day for the old id");
            None
        });
        claimed.unwrap_or_else(|| NodeId { id: random.next_u64(), _file: None })
    }
}

fn kept(directory: &Path, random: &dyn Random) -> Result<Option<NodeId>> {
    for nth in 1..=SERVERS {
        let path = directory.join(format!("node-{nth}.id"));
        let mut file = owner::open_or_create(&path).map_err(|e| owner::explained(&path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let id = match read(&mut file)? {
            Some(id) => id,
            None => {
                let id = random.next_u64();
                write(&mut file, id)?;
                File::open(directory)?.sync_all()?;
                id
            }
        };
        return Ok(Some(NodeId { id, _file: Some(file) }));
    }
    Ok(None)
}

/// `None` if it is none: the file is new, or the machine stopped while it was written.
fn read(file: &mut File) -> Result<Option<u64>> {
    let mut text = Vec::with_capacity(DIGITS + 2);
    file.take(DIGITS as u64 + 2).read_to_end(&mut text)?;
    let digits = text.strip_suffix(b"\n").filter(|digits| digits.len() == DIGITS);
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    Ok(digits.and_then(|digits| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()))
}

fn write(file: &mut File, id: u64) -> Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{id:016x}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_base::SeededRandom;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_node_keeps_its_id_and_excludes_a_second() {
        let (directory, random) = (tempfile::tempdir().unwrap(), SeededRandom::new(1));
        let claim = || NodeId::claim(Some(directory.path()), &random);
        let (one, two) = (claim(), claim());
        let ids = [one.id, two.id];
        assert_ne!(ids[0], ids[1], "they run at once");
        drop(one);
        let one = claim();
        assert_eq!(one.id, ids[0], "the other still runs");
        drop((one, two));
        for _ in 0..2 {
            assert_eq!(claim().id, ids[0], "one after the other");
        }
        let mode = std::fs::metadata(directory.path().join("node-1.id")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_invalid_id_file_is_replaced() {
        let (directory, random) = (tempfile::tempdir().unwrap(), SeededRandom::new(1));
        let claim = || NodeId::claim(Some(directory.path()), &random).id;
        for garbled in ["", "1", "+123456789abcdef\n", "0123456789abcdef", "0123456789abcdef0\n", "\u{e9}"] {
            std::fs::write(directory.path().join("node-1.id"), garbled).unwrap();
            let id = claim();
            assert_eq!(claim(), id, "{garbled:?}");
        }
        std::fs::write(directory.path().join("node-1.id"), "0123456789abcdef\n").unwrap();
        assert_eq!(claim(), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn a_node_that_cannot_store_an_id_still_has_one() {
        let (directory, random) = (tempfile::tempdir().unwrap(), SeededRandom::new(1));
        let nowhere = directory.path().join("nowhere");
        for directory in [None, Some(nowhere.as_path())] {
            let claim = || NodeId::claim(directory, &random).id;
            assert_ne!(claim(), claim());
        }
        let all: Vec<_> = (0..=SERVERS).map(|_| NodeId::claim(Some(directory.path()), &random)).collect();
        assert!(all.iter().all(|one| all.iter().filter(|other| other.id == one.id).count() == 1));
    }
}
