//! Appending to the log.
//!
//! A writer creates its entry at the position after the last one that it knows. The object already there
//! decides. An entry means that others were first. After an object that is no entry, the log continues
//! ([`crate::skip`]). After a damaged entry, nothing is appended. So no append is ever acknowledged behind an
//! object that is no entry, and writers need not check beforehand.

use std::time::Duration;

use sealpost_base::limits::ENTRY_BYTES;
use sealpost_base::{Error, Kind, Position, Result};
use sealpost_vault::entry::{self, Header};
use sealpost_vault::{AccountKeys, AppendMode, Hash, PublicKey, Put, Sealed};

use crate::disk_paxos::lacks_its_end;
use crate::lost::Loss;
use crate::manifests::Marked;
use crate::noise::{Unfit, damaged_end};
use crate::read::Object;
use crate::{EntryName, Journal, Tail};

/// Attempts at an append with unknown outcome.
const APPEND_ATTEMPTS: usize = 3;

/// How an entry is sealed.
#[derive(Clone, Copy)]
pub enum Seal<'a> {
    /// With the owner's keys: any event.
    Owner(&'a AccountKeys),
    /// To the account's public key, without its keys: deliveries only.
    Delivery(&'a PublicKey),
}

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The entry is durable; this is the new end of the log.
    Done(Tail),
    /// Another writer's entry is at that position. Catch up from the known end, and decide again.
    Lost,
    /// The known end is older than the checkpoints and no longer in the log. Nothing was written; load the
    /// account again.
    Trimmed,
}

/// The result of writing to one position.
pub(crate) enum Took {
    /// It holds the written entry.
    Ours,
    /// It holds another writer's entry.
    Theirs,
    /// It holds an object that is no entry.
    Noise,
}

pub(crate) fn trimmed_while_written(position: Position) -> Error {
    Error::retry(format!("log entry {position}: trimmed during the append; outcome unknown, retry"))
}

impl Journal {
    /// Appends one entry directly after `after`; durable when it returns `Done`.
    ///
    /// # Errors
    /// `Limit` if it is too large; `Retry` if the store did not accept it, or if others trimmed the log
    /// meanwhile. After `Retry` it may still count, so the next append must be ready to lose to it.
    pub async fn append(&self, after: &Tail, seal: Seal<'_>, plaintext: &[u8]) -> Result<Append> {
        if plaintext.len() > ENTRY_BYTES {
            return Err(Error::limit(format!("a log entry holds at most {ENTRY_BYTES} bytes")));
        }
        let header = self.header(after);
        let (key, random) = (self.judge.key(), &*self.random);
        let sealed = match seal {
            Seal::Owner(keys) if self.raw => entry::seal_owner_raw(keys, key, &header, plaintext, random),
            Seal::Owner(keys) => entry::seal_owner(keys, key, &header, plaintext, random),
            Seal::Delivery(to) => entry::seal_delivery(to, key, &header, plaintext, random)?,
        };
        let appended = match self.store.append_mode() {
            AppendMode::Conditional => self.append_conditionally(after, sealed).await?,
            AppendMode::Siblings => self.chain.append(after, sealed, &self.marks(after.position)).await?,
        };
        match appended {
            Append::Done(_) => self.metrics.appended.increment(),
            Append::Lost => {
                self.metrics.conflicts.increment();
                self.lost_at(after.position.next()).await?;
            }
            Append::Trimmed => {}
        }
        Ok(appended)
    }

    /// After a loss, the writer catches up and retries, unless there is nothing to catch up with.
    ///
    /// # Errors
    /// `Corrupt` if no listing showed the object at `position` for several rounds; store errors.
    async fn lost_at(&self, position: Position) -> Result<()> {
        let loss = self.lost.at(position);
        if loss == Loss::First {
            return Ok(());
        }
        let listed = self.chain.list(Position(position.0.saturating_sub(1))).await?;
        if listed.iter().any(|place| place.position >= position) {
            self.lost.forget();
            return Ok(());
        }
        match loss {
            Loss::First => {}
            Loss::Doubtful(round) => self.chain.wait(round).await,
            Loss::Last => {
                let path = self.log_path(position);
                return Err(Error::corrupt(format!(
                    "{path} exists but no listing shows it: nothing is appended; \"sealpost check\" names the \
                     damage of the store"
                )));
            }
        }
        Ok(())
    }

    /// The header of an entry after `after`.
    pub(crate) fn header(&self, after: &Tail) -> Header {
        Header {
            account: self.account,
            position: after.position.next(),
            prev: after.hash,
            generation: after.generation,
        }
    }

    async fn append_conditionally(&self, after: &Tail, sealed: Sealed) -> Result<Append> {
        let position = after.position.next();
        let hash = entry::hash(sealed.as_ref());
        // Avoids an unread entry and an unknown outcome. The check that decides follows below.
        if !self.trim_watermark.is_recent(position) {
            let marked = self.marked_after(after.position).await?;
            if !marked.checkpoints.is_empty() {
                return self.passed(position, &marked.checkpoints).await;
            }
            if marked.passed_over.contains(&position) {
                return self.pass_over(after, true).await;
            }
        }
        match self.put(position, sealed, hash).await? {
            Took::Ours => {}
            Took::Theirs => return Ok(Append::Lost),
            Took::Noise => return self.pass_over(after, false).await,
        }
        let tail = Tail { position, hash, ballot: None, generation: after.generation };
        self.counts(after, tail).await
    }

    /// Whether the entry at `tail`, which this process created after `after`, counts.
    pub(crate) async fn counts(&self, after: &Tail, tail: Tail) -> Result<Append> {
        let asked = self.trim_watermark.now();
        let marked = self.marked_after(Position(tail.position.0.saturating_sub(1))).await?;
        if marked.passed_over.contains(&tail.position) {
            return self.claim(after, tail).await;
        }
        // If no process may have removed this position yet, ours is the only entry that was ever there.
        // Otherwise others continued meanwhile: after ours, or long before it existed.
        let is_behind_all = marked.checkpoints.iter().all(|at| *at <= tail.position);
        // A mark above it requires another check before anything is written there.
        if is_behind_all && marked.passed_over.is_empty() {
            self.trim_watermark.note(tail.position, asked);
        }
        let stands = match marked.is_trimmed(tail.position) {
            true => self.is_followed(tail.position, tail.hash).await?,
            // Noise at the paths of checkpoints proves nothing. If manifests were destroyed, the log itself
            // decides.
            false if marked.may_be_trimmed(tail.position) => self.is_of_log(after, &tail).await?,
            false => true,
        };
        if stands { Ok(Append::Done(tail)) } else { Err(trimmed_while_written(tail.position)) }
    }

    /// Whether the entry at `tail` has a follower, or its predecessor still exists. A trim removes the
    /// predecessor first, so in that case the position never held another entry.
    async fn is_of_log(&self, after: &Tail, tail: &Tail) -> Result<bool> {
        if self.is_followed(tail.position, tail.hash).await? || self.has(after).await? {
            return Ok(true);
        }
        let is_first = after.position == Position::ZERO;
        Ok(is_first && self.last_entry(&self.chain.list(tail.position).await?).await?.is_none())
    }

    /// Whether the log has the entry at `tail`.
    pub(crate) async fn has(&self, tail: &Tail) -> Result<bool> {
        let places = match tail.ballot {
            None => vec![EntryName::plain(tail.position)],
            Some(_) => self.chain.list(tail.position).await?,
        };
        for place in places.iter().filter(|place| place.position == tail.position) {
            if let Object::Entry(object, ..) = self.object(place, false).await?
                && entry::hash(&object) == tail.hash
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Why nothing is written at `position`, given these checkpoints at or above it. Either others continued,
    /// or the log has lost its end, and no process would read the new entry.
    async fn passed(&self, position: Position, marked: &[Position]) -> Result<Append> {
        if marked.iter().filter(|at| **at > position).count() >= 2 {
            return Ok(Append::Trimmed);
        }
        match self.store.size(&self.log_path(position)).await {
            Ok(_) => Ok(Append::Lost),
            Err(e) if e.kind() != Kind::NotFound => Err(e),
            // Checked again: it may have been trimmed before the lookup.
            Err(_) if self.is_trimmed(position).await? => Ok(Append::Trimmed),
            Err(_) => Err(lacks_its_end(position)),
        }
    }

    /// Whether nothing from `position` on was ever removed.
    pub(crate) async fn holds(&self, position: Position) -> Result<bool> {
        let asked = self.trim_watermark.now();
        let marked = self.marked_after(position).await?;
        Ok(self.holds_by(&marked, position, asked))
    }

    /// The same check on marks after `position` that were read at the time `asked`.
    pub(crate) fn holds_by(&self, marked: &Marked, position: Position, asked: Option<Duration>) -> bool {
        // A checkpoint above it requires another check before anything is written there.
        if marked.checkpoints.is_empty() {
            self.trim_watermark.note(position, asked);
        }
        !marked.is_trimmed(position)
    }

    /// Whether the entry after `position` carries `hash`.
    async fn is_followed(&self, position: Position, hash: Hash) -> Result<bool> {
        let next = self.object(&EntryName::plain(position.next()), false).await?;
        Ok(matches!(next, Object::Entry(_, _, header) if header.prev == hash))
    }

    /// Takes the position, or finds it taken. After an unknown outcome it puts the same bytes again: the
    /// position then holds them or another writer's. Even the first attempt may find its own bytes, since
    /// proxies repeat requests too.
    pub(crate) async fn put(&self, position: Position, sealed: Sealed, hash: Hash) -> Result<Took> {
        let path = self.log_path(position);
        let mut attempt = 1;
        loop {
            match self.store.put_new(&path, sealed.clone()).await {
                Ok(Put::Created) => return Ok(Took::Ours),
                Ok(Put::Exists) => match self.object(&EntryName::plain(position), true).await? {
                    // It has been trimmed, whichever entry it was.
                    Object::Gone => return Err(trimmed_while_written(position)),
                    Object::Entry(found, ..) if entry::hash(&found) == hash => return Ok(Took::Ours),
                    Object::Entry(..) => return Ok(Took::Theirs),
                    Object::Unfit(Unfit::Noise) => return Ok(Took::Noise),
                    Object::Unfit(Unfit::Damaged) => return Err(damaged_end(position)),
                },
                Err(e) if e.kind() == Kind::Retry && attempt < APPEND_ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.context(format!("append {position}"))),
            }
        }
    }
}
