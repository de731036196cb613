//! Appending to the log and reading it.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use sealpost_base::limits::ENTRY_BYTES;
use sealpost_base::{Error, Kind, Position, Result};
use sealpost_vault::entry::{self, Origin};
use sealpost_vault::{AccountKeys, Hash, PublicKey, Put, Sealed};
use zeroize::Zeroizing;

use crate::{Journal, Tail, position_in};

/// How often an append is repeated when it is unknown whether it took effect.
const APPEND_ATTEMPTS: usize = 3;
/// Entries read ahead during replay.
const READ_AHEAD: usize = 16;

/// Whose seal an entry gets.
#[derive(Clone, Copy)]
pub enum Seal<'a> {
    /// The owner's: any event.
    Owner(&'a AccountKeys),
    /// Anybody's, to the account's public key: deliveries only.
    Delivery(&'a PublicKey),
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The entry is there, durably; this is the end of the log now.
    Done(Tail),
    /// Somebody else's entry is at that position. Read on from the known end, and decide anew.
    Lost,
    /// The log no longer has the known end: it is older than the checkpoints. Nothing was written; load the account anew.
    Trimmed,
}

/// One entry as replay sees it.
pub struct Entry {
    /// Where.
    pub position: Position,
    /// Its hash, which the next entry carries.
    pub hash: Hash,
    /// Whether it carries the hash of the entry before.
    pub chained: bool,
    /// What it says.
    pub content: Content,
}

/// What an entry says.
pub enum Content {
    /// It could be opened.
    Plain(Origin, Zeroizing<Vec<u8>>),
    /// It is not what was sealed, or not there although later ones are; why, for the operator.
    Damaged(String),
}

fn trimmed_while_written(position: Position) -> Error {
    Error::retry(format!("log entry {position}: trimmed while written; it may count or not"))
}

impl Journal {
    /// Appends one entry right after `after`; durable when it returns `Done`.
    ///
    /// # Errors
    /// `Limit` if it is too large; `Retry` when the store did not take it, or when others trimmed the log meanwhile. It may
    /// then count all the same: whoever appends next must be ready to lose to it.
    pub async fn append(&self, after: &Tail, seal: Seal<'_>, plaintext: &[u8]) -> Result<Append> {
        if plaintext.len() > ENTRY_BYTES {
            return Err(Error::limit(format!("a log entry holds at most {ENTRY_BYTES} bytes")));
        }
        let position = after.position.next();
        let random = &*self.random;
        let sealed = match seal {
            Seal::Owner(keys) => {
                entry::seal_owner(keys, self.account, position, &after.hash, plaintext, random)
            }
            Seal::Delivery(to) => {
                entry::seal_delivery(to, self.account, position, &after.hash, plaintext, random)?
            }
        };
        let hash = entry::hash(sealed.as_ref());
        if self.is_trimmed(position).await? {
            return Ok(Append::Trimmed);
        }
        if !self.put(position, sealed, hash).await? {
            self.metrics.lost.increment();
            return Ok(Append::Lost);
        }
        // If nobody may have removed this position yet, ours is the one entry that was ever there. Else others went on
        // while it was written: on ours, or long before it.
        if self.is_trimmed(position).await? && !self.is_followed(position, hash).await? {
            return Err(trimmed_while_written(position));
        }
        self.metrics.appended.increment();
        Ok(Append::Done(Tail { position, hash }))
    }

    /// Whether the entry after `position` carries `hash`.
    async fn is_followed(&self, position: Position, hash: Hash) -> Result<bool> {
        let next = self.read(position.next()).await?;
        Ok(next.is_some_and(|next| entry::prev(&next).is_ok_and(|prev| prev == hash)))
    }

    /// Takes the position, or finds that it is taken. When the outcome is unknown the same bytes are put again: the
    /// position holds either them or somebody else's. Even the first attempt may find its own bytes there, because what is
    /// between here and the store repeats requests too.
    async fn put(&self, position: Position, sealed: Sealed, hash: Hash) -> Result<bool> {
        let path = self.log_path(position);
        let mut attempt = 1;
        loop {
            match self.store.put_new(&path, sealed.clone()).await {
                Ok(Put::Created) => return Ok(true),
                Ok(Put::Exists) => match self.store.read(&path).await {
                    // Trimmed by now, whosever it was.
                    Err(e) if e.kind() == Kind::NotFound => return Err(trimmed_while_written(position)),
                    found => return Ok(entry::hash(&found?) == hash),
                },
                Err(e) if e.kind() == Kind::Retry && attempt < APPEND_ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.context(format!("append {position}"))),
            }
        }
    }

    /// The positions after `known`, ascending. `None` if entries after it may have been removed.
    ///
    /// # Errors
    /// What the store says.
    pub async fn positions_after(&self, known: Position) -> Result<Option<Vec<Position>>> {
        let after = self.log_path(known);
        let mut listed = self.store.list(&self.log_prefix(), Some(&after));
        let mut positions = Vec::new();
        while let Some(object) = listed.try_next().await? {
            positions.extend(object.path.rsplit('/').next().and_then(position_in));
        }
        // Asked after the listing: what may not be removed now was not removed then.
        Ok(if self.is_trimmed(known.next()).await? { None } else { Some(positions) })
    }

    /// The entries at `positions`, which follow `known`, opened and checked against the chain. Positions that are
    /// missing in between come as damaged entries, and so do those that were trimmed since they were listed: whoever
    /// meets one asks [`Journal::is_trimmed`].
    pub fn entries<'a>(
        &'a self,
        keys: &'a AccountKeys,
        known: Tail,
        positions: &'a [Position],
    ) -> impl Stream<Item = Result<Entry>> + 'a {
        let start = known.position.0 + 1;
        let end = positions.last().map_or(start, |p| p.0 + 1);
        let mut present = positions.iter().peekable();
        let wanted = (start..end).map(move |p| {
            let here = present.next_if(|q| q.0 == p).is_some();
            (Position(p), here)
        });
        stream::iter(wanted)
            .map(move |(position, here)| async move {
                let object = if here { self.read(position).await? } else { None };
                Ok((position, object))
            })
            .buffered(READ_AHEAD)
            .scan(known.hash, move |before, read: Result<(Position, Option<Bytes>)>| {
                let entry = read.map(|(position, object)| self.open(keys, position, object, before));
                futures::future::ready(Some(entry))
            })
    }

    async fn read(&self, position: Position) -> Result<Option<Bytes>> {
        match self.store.read(&self.log_path(position)).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn open(
        &self,
        keys: &AccountKeys,
        position: Position,
        object: Option<Bytes>,
        before: &mut Hash,
    ) -> Entry {
        let Some(object) = object else {
            let content = Content::Damaged(format!("log entry {position} is missing"));
            return Entry { position, hash: Hash::ZERO, chained: false, content };
        };
        self.metrics.replayed.increment();
        let chained = entry::prev(&object).is_ok_and(|prev| prev == *before);
        let hash = entry::hash(&object);
        *before = hash;
        let content = match entry::open(keys, self.account, position, &object) {
            Ok((origin, plaintext)) => Content::Plain(origin, plaintext),
            Err(e) => Content::Damaged(e.to_string()),
        };
        Entry { position, hash, chained, content }
    }

    /// The end of the log for somebody without keys, from what is known of it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tail(&self, known: Tail) -> Result<Tail> {
        loop {
            let last = match self.positions_after(known.position).await? {
                Some(positions) => match positions.last() {
                    Some(last) => *last,
                    None => return Ok(known),
                },
                None => match self.last_position().await? {
                    Some(last) => last,
                    None => return Ok(Tail::EMPTY),
                },
            };
            // Not there any more: others went on, so there is a later one.
            if let Some(object) = self.read(last).await? {
                return Ok(Tail { position: last, hash: entry::hash(&object) });
            }
            if !self.is_trimmed(last).await? {
                return Err(Error::corrupt(format!("log entry {last} is missing")));
            }
        }
    }

    /// The position of the last entry; `known` if there is none behind it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn last_after(&self, known: Position) -> Result<Position> {
        let last = match self.positions_after(known).await? {
            Some(positions) => positions.last().copied(),
            None => self.last_position().await?,
        };
        Ok(last.map_or(known, |last| last.max(known)))
    }

    async fn last_position(&self) -> Result<Option<Position>> {
        let mut listed = self.store.list(&self.log_prefix(), None);
        let mut last = None;
        while let Some(object) = listed.try_next().await? {
            last = object.path.rsplit('/').next().and_then(position_in).max(last);
        }
        Ok(last)
    }
}
