//! Checkpoints: the state up to a position, in chunks; and trimming the log below.
//!
//! A checkpoint is a manifest and a folder of chunks, and refers to nothing outside them. So removing an old
//! checkpoint, however late, cannot damage a newer one that another writer has written meanwhile. The
//! manifest is written last and removed first: a checkpoint with a manifest is complete.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Kind, Position, Result, Timestamp, limits};
use sealpost_vault::{AccountKeys, AppendMode, Hash, Put, Sealed, checkpoint, mark};
use zeroize::Zeroizing;

use crate::manifests::{Marked, Name};
use crate::{EntryName, Journal, Tail};

/// The name under which a manifest is sealed.
const MANIFEST: &str = "manifest";
/// Chunks written at once, so that they share database commits.
const WRITES_AT_ONCE: usize = 8;

/// The manifest of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Checkpoint {
    /// The last entry that it includes.
    #[n(0)]
    pub tail: Tail,
    /// Its chunks, in the order in which they are restored.
    #[n(1)]
    pub chunks: Vec<ChunkRef>,
}

/// A chunk's reference.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChunkRef {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// SHA-256 of its plaintext; only readers with the manifest's key see it.
    #[n(1)]
    pub digest: Hash,
    /// The name of its object, which reveals nothing of its content. `None` in checkpoints of earlier
    /// versions, where the object has the chunk's name.
    #[n(2)]
    pub(crate) object: Option<String>,
}

impl ChunkRef {
    /// The name of its object in the folder of the checkpoint.
    pub fn file_name(&self) -> &str {
        self.object.as_deref().unwrap_or(&self.name)
    }
}

impl Journal {
    /// The positions that have a checkpoint, newest first.
    ///
    /// # Errors
    /// Store errors.
    pub async fn checkpoints(&self) -> Result<Vec<Position>> {
        self.checkpoints_after(None).await
    }

    /// The positions above `after` that have a checkpoint, newest first.
    async fn checkpoints_after(&self, after: Option<Position>) -> Result<Vec<Position>> {
        Ok(self.marked(after).await?.checkpoints)
    }

    /// The positions above `after` that have a checkpoint, and the skipped ones.
    pub(crate) async fn marked_after(&self, after: Position) -> Result<Marked> {
        self.marked(Some(after)).await
    }

    /// When the last checkpoint was written, by the store's clock.
    ///
    /// # Errors
    /// Store errors.
    pub async fn last_checkpoint_written(&self) -> Result<Option<Timestamp>> {
        let listed = self.store.list(&self.manifest_prefix(), None);
        listed.try_fold(None, |last, object| async move { Ok(last.max(Some(object.modified))) }).await
    }

    /// Whether the entry at `position` may have been removed, now or earlier.
    ///
    /// # Errors
    /// Store errors.
    pub async fn is_trimmed(&self, position: Position) -> Result<bool> {
        Ok(self.marked_after(position).await?.is_trimmed(position))
    }

    /// The manifest of the checkpoint at `position`.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `Denied` if it is under a later key than `keys`, or store errors.
    pub async fn checkpoint(&self, keys: &AccountKeys, position: Position) -> Result<Checkpoint> {
        if self.judge.key().has_retired() {
            self.judge.vouched().await?;
        }
        let open = |object: &Bytes| {
            let manifest = self.judge.manifest(position, object)?;
            let plain = checkpoint::open_authentic(keys, self.account, position, MANIFEST, manifest)?;
            minicbor::decode(&plain).map_err(|e| Error::undecodable("a checkpoint manifest", e))
        };
        self.store.read_opened(&self.manifest_path(position), open).await
    }

    /// The plaintext of a chunk of the checkpoint at `position`.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, or store errors.
    pub async fn chunk(
        &self,
        keys: &AccountKeys,
        position: Position,
        chunk: &ChunkRef,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let open = |object: &Bytes| {
            let plain = checkpoint::open(keys, self.account, position, &chunk.name, object)?;
            if Hash::of(&plain) != chunk.digest {
                let why = format!("checkpoint chunk {} is not the one in the manifest", chunk.name);
                return Err(Error::corrupt(why));
            }
            Ok(plain)
        };
        self.store.read_opened(&self.snap_path(position, chunk.file_name()), open).await
    }

    /// Writes a checkpoint of the state at `tail`; durable on return. `chunk` returns the bytes of a chunk;
    /// it is called once for each of `names`. Two writers at the same position write the same bytes, so the
    /// chunks of either are valid. Chunks from an interrupted copy of another store belong to another
    /// history, and the checkpoint fails.
    ///
    /// # Errors
    /// `Conflict` if another object is at one of the paths; store errors. Nothing refers to the written
    /// objects before the manifest exists.
    pub async fn write_checkpoint(
        &self,
        keys: &AccountKeys,
        tail: Tail,
        names: impl IntoIterator<Item = String>,
        chunk: impl Fn(&str) -> Vec<u8>,
    ) -> Result<Checkpoint> {
        let position = tail.position;
        let chunks = stream::iter(names)
            .map(|name| {
                let plain = Zeroizing::new(chunk(&name));
                let digest = Hash::of(&plain);
                let sealed = self.seal_piece(keys, position, &name, &plain);
                let object = checkpoint::object_name(keys, self.account, position, &name);
                let chunk = ChunkRef { name, digest, object: Some(object) };
                async move {
                    let put =
                        self.store.put_new(&self.snap_path(position, chunk.file_name()), sealed).await?;
                    if put == Put::Exists {
                        self.chunk(keys, position, &chunk).await.map_err(|e| taken(position, e))?;
                    }
                    Ok::<_, Error>(chunk)
                }
            })
            .buffered(WRITES_AT_ONCE)
            .try_collect()
            .await?;
        let checkpoint = Checkpoint { tail, chunks };
        let plain = minicbor::to_vec(&checkpoint).map_err(|_| Error::internal("manifest encoding failed"))?;
        let sealed = self.seal_piece(keys, position, MANIFEST, &plain);
        let sealed = mark::checkpoint(self.judge.key(), self.account, position, &sealed);
        if sealed.len() > limits::MANIFEST_BYTES {
            return Err(Error::limit(format!("a manifest holds at most {} bytes", limits::MANIFEST_BYTES)));
        }
        if self.store.put_new(&self.manifest_path(position), sealed).await? == Put::Exists {
            let there = self.checkpoint(keys, position).await.map_err(|e| taken(position, e))?;
            if there != checkpoint {
                return Err(taken(position, Error::corrupt("its manifest is another one")));
            }
        }
        self.judge.knows(Name::Checkpoint(position));
        // The checkpoint is complete without a witness. Until the next one adds it, readers read the
        // manifest.
        let vouched = async {
            self.witness(position).await?;
            self.adopt().await
        };
        if let Err(error) = vouched.await {
            tracing::debug!(account = %self.account, %error, "a checkpoint has no witness yet");
        }
        Ok(checkpoint)
    }

    pub(crate) fn seal_piece(
        &self,
        keys: &AccountKeys,
        position: Position,
        name: &str,
        plain: &[u8],
    ) -> Sealed {
        let seal = if self.raw { checkpoint::seal_raw } else { checkpoint::seal };
        seal(keys, self.account, position, name, plain, &*self.random)
    }

    /// Removes objects that the last two checkpoints make unnecessary: older checkpoints, and log entries
    /// below the last entry of the older of the two.
    ///
    /// # Errors
    /// Store errors. The next trim removes the rest.
    pub async fn trim(&self) -> Result<()> {
        self.trim_below(Position(u64::MAX)).await
    }

    /// As [`Journal::trim`], but removes nothing from `most` on. For a log whose state refers to entries, so
    /// that the checkpoints alone do not decide which entries it still needs. Another writer, or an earlier
    /// run of this one, may have written the checkpoints.
    ///
    /// # Errors
    /// As [`Journal::trim`].
    pub async fn trim_below(&self, most: Position) -> Result<()> {
        let checkpoints = self.newest_two().await?;
        let [_, older] = checkpoints[..] else { return Ok(()) };
        let end = older.min(most);
        if self.store.append_mode() == AppendMode::Siblings {
            // The listing may show a manifest that is still being written or was never acknowledged. Remove
            // nothing before all readers see it.
            for position in &checkpoints {
                let path = self.manifest_path(*position);
                self.store.put_again(&path, &path).await?;
            }
        }
        let entries = self.below(&self.log_prefix(), 0, end).await?;
        let trimmed = entries.len() as u64;
        self.store.delete_in_order(entries).await?;
        self.metrics.trimmed.add(trimmed);
        self.store.delete_in_order(self.below(&self.manifest_prefix(), 0, end).await?).await?;
        self.store.delete_in_order(self.witnesses_below(end).await?).await?;
        if self.store.append_mode() == AppendMode::Conditional {
            self.store.delete_in_order(self.marks_below(end).await?).await?;
        }
        self.store.delete_in_order(self.below(&self.snap_prefix(), 1, end).await?).await
    }

    /// The newest checkpoints, at most two, whose manifests are authentic now.
    pub(crate) async fn newest_two(&self) -> Result<Vec<Position>> {
        let mut newest = Vec::new();
        for position in self.checkpoints().await? {
            if self.judge.is_mark_now(Name::Checkpoint(position)).await? == Some(true) {
                newest.push(position);
            }
            if newest.len() == 2 {
                break;
            }
        }
        Ok(newest)
    }

    /// The paths under `prefix` whose segment `from_end`, counted from the last, is a position before `end`.
    async fn below(&self, prefix: &str, from_end: usize, end: Position) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut listed = self.store.list(prefix, None);
        while let Some(object) = listed.try_next().await? {
            let place = object.path.rsplit('/').nth(from_end).and_then(EntryName::parse);
            match place.map(|place| place.position) {
                Some(position) if position < end => found.push(object.path),
                _ => break,
            }
        }
        Ok(found)
    }
}

/// The error for a path of a checkpoint that holds a different object.
fn taken(position: Position, why: Error) -> Error {
    match why.kind() {
        Kind::Corrupt | Kind::NotFound => {
            Error::conflict(format!("another object is at the path of the checkpoint at {position}"))
                .with_source(why)
        }
        _ => why,
    }
}
