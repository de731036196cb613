//! Up to where this node has pushed: the file `push.positions` of the data directory. After a crash
//! the node compares it with the logs, and pushes what it owes.
//!
//! One line for each log: its id and the position, both in hexadecimal digits. Lines that are neither
//! are skipped: the log of such a line is taken to be pushed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use sealpost_base::limits::PUSH_POSITIONS_BYTES;
use sealpost_base::{AccountId, Error, Position, Result};
use sealpost_files::owner;

/// The file, in the data directory.
pub(crate) const FILE: &str = "push.positions";

/// Positions by log.
pub(crate) type Positions = BTreeMap<AccountId, Position>;

/// Reads the file; nothing if there is none. Blocks.
pub(crate) fn load(path: &Path) -> Result<Positions> {
    let mut text = String::new();
    match fs::File::open(path).and_then(|file| file.take(PUSH_POSITIONS_BYTES).read_to_string(&mut text)) {
        Ok(_) => Ok(parse(&text)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(Positions::new()),
        Err(e) => Err(Error::retry(path.display().to_string()).with_source(owner::explained(path, e))),
    }
}

pub(crate) fn parse(text: &str) -> Positions {
    let line = |line: &str| {
        let (log, position) = line.split_once(' ')?;
        Some((log.parse().ok()?, Position(u64::from_str_radix(position, 16).ok()?)))
    };
    text.lines().filter_map(line).collect()
}

/// Writes the file whole, under another name first. Blocks.
pub(crate) fn save(path: &Path, positions: &Positions) -> Result<()> {
    let text: String = positions.iter().map(|(log, at)| format!("{log} {:x}\n", at.0)).collect();
    let temporary = path.with_extension("positions.new");
    let written = owner::create_anew(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    });
    written.map_err(|e| Error::retry(path.display().to_string()).with_source(owner::explained(path, e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back_and_damage_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(load(&path).unwrap(), Positions::new());
        let positions =
            Positions::from([(AccountId([1; 16]), Position(0x2f)), (AccountId([2; 16]), Position(0))]);
        save(&path, &positions).unwrap();
        assert_eq!(load(&path).unwrap(), positions.clone());
        let text = format!("x\n{}\n \n01 2\n", fs::read_to_string(&path).unwrap());
        assert_eq!(parse(&text), positions);
        fs::write(&path, [0xff; 40]).unwrap();
        assert_eq!(load(&path).unwrap(), Positions::new());
    }
}
