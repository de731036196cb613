//! Checkpoints: the state up to a position, in chunks that are reused when unchanged, and trimming the log below.
//!
//! A checkpoint is its manifest, written last: it names every chunk and the position under which that chunk was
//! stored. What is not in a manifest was never part of a checkpoint.

use std::collections::{BTreeSet, HashMap};

use futures::stream::{self, StreamExt, TryStreamExt};
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Kind, Position, Result};
use sealpost_vault::{AccountKeys, Hash, checkpoint};
use zeroize::Zeroizing;

use crate::{Journal, Tail, position_in};

const MANIFEST: &str = "manifest";
/// Chunks written at once, so that they share commits.
const WRITES_AT_ONCE: usize = 8;

/// A checkpoint's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Checkpoint {
    /// The last entry that it includes.
    #[n(0)]
    pub tail: Tail,
    /// Its chunks, in the order in which they are restored.
    #[n(1)]
    pub chunks: Vec<ChunkRef>,
}

/// Where a chunk is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChunkRef {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// The position of the checkpoint under which it was first stored.
    #[n(1)]
    pub at: Position,
    /// SHA-256 of its plaintext; known only to who can open the manifest.
    #[n(2)]
    pub digest: Hash,
}

impl Journal {
    /// The positions that have a checkpoint, newest first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn checkpoints(&self) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        let mut listed = self.store.list(&self.snap_prefix(), None);
        while let Some(object) = listed.try_next().await? {
            if let Some(folder) = object.path.strip_suffix(&format!("/{MANIFEST}")) {
                positions.extend(folder.rsplit('/').next().and_then(position_in));
            }
        }
        positions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(positions)
    }

    /// The manifest of the checkpoint at `position`.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, or what the store says.
    pub async fn checkpoint(&self, keys: &AccountKeys, position: Position) -> Result<Checkpoint> {
        let object = self.store.read(&self.snap_path(position, MANIFEST)).await?;
        let plain = checkpoint::open(keys, self.account, position, MANIFEST, &object)?;
        minicbor::decode(&plain)
            .map_err(|e| Error::corrupt("a checkpoint manifest cannot be read").with_source(e))
    }

    /// The plaintext of a chunk.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, or what the store says.
    pub async fn chunk(&self, keys: &AccountKeys, chunk: &ChunkRef) -> Result<Zeroizing<Vec<u8>>> {
        let object = self.store.read(&self.snap_path(chunk.at, &chunk.name)).await?;
        let plain = checkpoint::open(keys, self.account, chunk.at, &chunk.name, &object)?;
        if Hash::of(&plain) != chunk.digest {
            return Err(Error::corrupt(format!(
                "checkpoint chunk {} is not the one in the manifest",
                chunk.name
            )));
        }
        Ok(plain)
    }

    /// Writes a checkpoint of the state at `tail`; durable when it returns. `chunk` makes the bytes of a chunk, and is
    /// called once for each of `names`; those that are as in `previous` are not written again.
    ///
    /// # Errors
    /// What the store says. Nothing refers to what was written until then.
    pub async fn write_checkpoint(
        &self,
        keys: &AccountKeys,
        tail: Tail,
        previous: Option<&Checkpoint>,
        names: impl IntoIterator<Item = String>,
        chunk: impl Fn(&str) -> Vec<u8>,
    ) -> Result<Checkpoint> {
        let old: HashMap<&str, &ChunkRef> =
            previous.iter().flat_map(|p| &p.chunks).map(|c| (c.name.as_str(), c)).collect();
        let position = tail.position;
        let chunks = stream::iter(names)
            .map(|name| {
                let plain = Zeroizing::new(chunk(&name));
                let digest = Hash::of(&plain);
                let unchanged = old.get(name.as_str()).filter(|c| c.digest == digest).map(|c| (*c).clone());
                async move {
                    if let Some(unchanged) = unchanged {
                        return Ok(unchanged);
                    }
                    let sealed = checkpoint::seal(keys, self.account, position, &name, &plain, &*self.random);
                    drop(plain);
                    self.store.put_new(&self.snap_path(position, &name), sealed).await?;
                    Ok::<_, Error>(ChunkRef { name, at: position, digest })
                }
            })
            .buffered(WRITES_AT_ONCE)
            .try_collect()
            .await?;
        let checkpoint = Checkpoint { tail, chunks };
        let plain = minicbor::to_vec(&checkpoint).map_err(|_| Error::internal("manifest encoding failed"))?;
        let sealed = checkpoint::seal(keys, self.account, position, MANIFEST, &plain, &*self.random);
        self.store.put_new(&self.snap_path(position, MANIFEST), sealed).await?;
        Ok(checkpoint)
    }

    /// Removes what the last two checkpoints make superfluous: log entries below the older one's last, and chunks and
    /// manifests that neither refers to.
    ///
    /// Entries go lowest first and one at a time: [`Journal::append`] relies on it.
    ///
    /// # Errors
    /// What the store says. What is left is removed the next time.
    pub async fn trim(&self, newer: &Checkpoint, older: &Checkpoint) -> Result<()> {
        let end = older.tail.position;
        let mut superfluous = Vec::new();
        let mut listed = self.store.list(&self.log_prefix(), None);
        while let Some(object) = listed.try_next().await? {
            match object.path.rsplit('/').next().and_then(position_in) {
                Some(position) if position < end => superfluous.push(object.path),
                _ => break,
            }
        }
        drop(listed);
        for path in superfluous {
            self.delete(&path).await?;
        }
        let mut kept: BTreeSet<String> = BTreeSet::new();
        for checkpoint in [newer, older] {
            kept.insert(self.snap_path(checkpoint.tail.position, MANIFEST));
            kept.extend(checkpoint.chunks.iter().map(|c| self.snap_path(c.at, &c.name)));
        }
        let mut listed = self.store.list(&self.snap_prefix(), None);
        let mut superfluous = Vec::new();
        while let Some(object) = listed.try_next().await? {
            // A checkpoint newer than ours is somebody else's work, perhaps under way.
            let folder = object.path.rsplit('/').nth(1).and_then(position_in);
            if folder.is_some_and(|p| p <= newer.tail.position) && !kept.contains(&object.path) {
                superfluous.push(object.path);
            }
        }
        // Manifests first: a chunk is never missing from a checkpoint that has one.
        superfluous.sort_by_key(|path| !path.ends_with(MANIFEST));
        for path in superfluous {
            self.delete(&path).await?;
        }
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        match self.store.delete(path).await {
            Err(e) if e.kind() != Kind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
