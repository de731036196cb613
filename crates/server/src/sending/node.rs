//! What this node calls itself among those of a store, and how far it knows its queue: the file
//! `queue.node` of the data directory.
//!
//! The name is made once, from the host name and a random number, and stays whatever the host name
//! becomes: the queue is found by it. The position is written now and then. It is not among the
//! watermarks because confirming that a store was restored must not make its old mail go out.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sealpost_base::{AccountId, Error, Position, Random, Result};
use sealpost_files::owner;

use crate::blocking::blocking;

/// The file, in the data directory.
const FILE: &str = "queue.node";
/// More than it ever has.
const FILE_BYTES: u64 = 1024;

/// A node with a queue.
pub(super) struct QueueNode {
    pub(super) name: String,
    path: PathBuf,
    known: AtomicU64,
}

/// The name of the node whose data directory it is; `None` if it never had a queue.
///
/// # Errors
/// `Retry` if the file cannot be read, `Corrupt` if it is not one.
pub fn node_name(data: &Path) -> Result<Option<String>> {
    Ok(read(&data.join(FILE))?.map(|(name, _)| name))
}

impl QueueNode {
    /// As the file in `data` says; at the first time it is made.
    pub(super) async fn load_or_create(data: &Path, hostname: &str, random: &dyn Random) -> Result<Self> {
        let path = data.join(FILE);
        let name = format!("{hostname}-{:08x}", random.next_u64() >> 32);
        let unique = random.next_u64();
        blocking(move || {
            if read(&path)?.is_none() {
                create(&path, &name, unique).map_err(|e| failed(&path, e))?;
            }
            let made = read(&path)?;
            let (name, known) = made.ok_or_else(|| Error::retry(format!("{} is gone", path.display())))?;
            Ok(QueueNode { name, path, known: AtomicU64::new(known.0) })
        })
        .await
    }

    /// What its queue is stored under.
    pub(super) fn id(&self) -> AccountId {
        sealpost_queue::node_id(&self.name)
    }

    /// Up to where it knows its log.
    pub(super) fn known(&self) -> Position {
        Position(self.known.load(Ordering::Relaxed))
    }

    /// Writes that it knows its log up to `position`, if that is news. Blocks.
    pub(super) fn save(&self, position: Position) -> Result<()> {
        if position <= self.known() {
            return Ok(());
        }
        let temporary = self.path.with_extension("new");
        let written = owner::create_anew(&temporary).and_then(|mut file| {
            file.write_all(text(&self.name, position).as_bytes())?;
            file.sync_data()?;
            fs::rename(&temporary, &self.path)
        });
        written.map_err(|e| failed(&self.path, e))?;
        self.known.store(position.0, Ordering::Relaxed);
        Ok(())
    }
}

fn text(name: &str, known: Position) -> String {
    format!("{name}\n{}\n", known.0)
}

/// Written whole under another name first. Of several processes that start at once, one is first.
fn create(path: &Path, name: &str, unique: u64) -> io::Result<()> {
    let temporary = path.with_extension(format!("{unique:016x}.tmp"));
    let mut file = owner::create(&temporary)?;
    let written = file.write_all(text(name, Position::ZERO).as_bytes()).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&temporary)?;
    placed?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Option<(String, Position)>> {
    let mut found = String::new();
    match File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut found)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() != ErrorKind::InvalidData => return Err(failed(path, e)),
        _ => {}
    }
    let mut lines = found.lines();
    let name = lines.next().filter(|name| !name.is_empty());
    let known = lines.next().and_then(|known| known.parse().ok());
    match (name, known) {
        (Some(name), Some(known)) => Ok(Some((name.to_owned(), Position(known)))),
        _ => Err(Error::corrupt(format!(
            "{} does not name a node: restore it from the backup, for the queue is found by it",
            path.display()
        ))),
    }
}

fn failed(path: &Path, e: io::Error) -> Error {
    Error::retry(path.display().to_string()).with_source(owner::explained(path, e))
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Kind, SeededRandom};

    use super::*;

    #[tokio::test]
    async fn a_node_keeps_its_name_and_position() {
        let (data, random) = (tempfile::tempdir().unwrap(), SeededRandom::new(1));
        assert_eq!(node_name(data.path()).unwrap(), None);
        let node = QueueNode::load_or_create(data.path(), "mx.example", &random).await.unwrap();
        assert!(node.name.starts_with("mx.example-") && node.known() == Position::ZERO, "{}", node.name);
        node.save(Position(7)).unwrap();
        node.save(Position(5)).unwrap();
        let again = QueueNode::load_or_create(data.path(), "other.example", &random).await.unwrap();
        assert_eq!((&again.name, again.known()), (&node.name, Position(7)));
        assert_eq!(node_name(data.path()).unwrap().unwrap(), node.name);
        fs::write(data.path().join(FILE), "\n").unwrap();
        assert!(node_name(data.path()).is_err_and(|e| e.kind() == Kind::Corrupt));
    }
}
