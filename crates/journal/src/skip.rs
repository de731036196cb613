//! Continues after an object at the next position that is no entry, where the store creates conditionally.
//!
//! The position is skipped: a renumbering takes the next free one and carries the hash of the last entry. The
//! object may have been an entry once, which others have read, so UIDs get a new generation (decision 50).
//!
//! Writers detect concurrent appends because the next position is taken. A skipped position may become free
//! again when its object is removed. So that no writer takes it then, it is marked first, in the folder that
//! every writer lists after it has written. The mark has a MAC, because the log never uses a marked position.
//! The order decides: the mark, a last check of the position, the renumbering. A writer that creates an entry
//! there too late for that check sees the mark.

use sealpost_base::{Error, Position, Result, limits};
use sealpost_vault::entry::{self, CountedEntries, Renumbering};

use crate::log::Took;
use crate::noise::{Unfit, damaged_end, too_noisy};
use crate::read::Object;
use crate::{Append, EntryName, Journal, Tail};

/// How often to wait for other writers that are about to continue.
const CLAIM_ATTEMPTS: u32 = 6;

impl Journal {
    /// Continues after the object at the position after `after`, which is no entry, or after a position that
    /// is already marked. `Lost` once any writer has done that: there are entries to catch up with.
    pub(crate) async fn pass_over(&self, after: &Tail, is_marked: bool) -> Result<Append> {
        let renumbering = Renumbering::of(after.position.next(), CountedEntries::NONE);
        let mut position = renumbering.from;
        // The renumbering is at most this far after the last entry: readers search no further.
        for _ in 1..limits::LOG_GAP {
            if self.is_free(position).await? && !(is_marked && position == renumbering.from) {
                return Ok(Append::Lost);
            }
            self.mark(position).await?;
            // A writer that took it before it was marked may not have seen the mark.
            match self.object(&EntryName::plain(position), false).await? {
                Object::Entry(..) => return Ok(Append::Lost),
                Object::Unfit(Unfit::Damaged) => return Err(damaged_end(position)),
                Object::Unfit(Unfit::Noise) | Object::Gone => {}
            }
            position = position.next();
            match self.renumber(after, position, &renumbering).await? {
                (Took::Ours | Took::Theirs, _) => return Ok(Append::Lost),
                (Took::Noise, _) => {}
            }
        }
        Err(too_noisy())
    }

    /// Whether `position` is empty, or has an entry.
    async fn is_free(&self, position: Position) -> Result<bool> {
        match self.object(&EntryName::plain(position), false).await? {
            Object::Entry(..) | Object::Gone => Ok(true),
            Object::Unfit(Unfit::Noise) => Ok(false),
            Object::Unfit(Unfit::Damaged) => Err(damaged_end(position)),
        }
    }

    /// Appends a renumbering at `position`, after the entry at `after`. Returns the result, and the new end
    /// of the log if it was written.
    pub(crate) async fn renumber(
        &self,
        after: &Tail,
        position: Position,
        renumbering: &Renumbering,
    ) -> Result<(Took, Tail)> {
        let generation = after.generation.next();
        let header = entry::Header { position, generation, ..self.header(after) };
        let sealed = entry::seal_renumbering(self.judge.key(), &header, renumbering);
        let hash = entry::hash(sealed.as_ref());
        let took = self.put(position, sealed, hash).await?;
        Ok((took, Tail { position, hash, ballot: None, generation }))
    }

    /// Whether the entry at `tail` counts, which this process created at a position that another writer
    /// skips. It does if the next entry follows it. If there is no next entry, this process decides by
    /// appending a renumbering itself.
    pub(crate) async fn claim(&self, after: &Tail, tail: Tail) -> Result<Append> {
        for round in 0..CLAIM_ATTEMPTS {
            self.chain.wait(round).await;
            if let Some(outcome) = self.claimed(after, tail).await? {
                return Ok(outcome);
            }
        }
        let next = tail.position.next();
        let renumbering = Renumbering::of(next, CountedEntries::NONE);
        if let (Took::Ours, _) = self.renumber(&tail, next, &renumbering).await? {
            return Ok(Append::Done(tail));
        }
        let unknown = || {
            Error::retry(format!("log entry {}: skipped by other writers; outcome unknown", tail.position))
        };
        self.claimed(after, tail).await?.ok_or_else(unknown)
    }

    /// As `claim`, if there is a next entry.
    async fn claimed(&self, after: &Tail, tail: Tail) -> Result<Option<Append>> {
        let places = self.listed_after(&tail).await?;
        for place in places.iter().take(limits::LOG_GAP as usize) {
            let Object::Entry(_, _, header) = self.object(place, true).await? else { continue };
            if header.prev == tail.hash {
                return Ok(Some(Append::Done(tail)));
            }
            if header.prev == after.hash {
                // No writer follows it any more, and none may find it: it was never acknowledged.
                self.store.delete(&self.log_path(tail.position)).await?;
                return Ok(Some(Append::Lost));
            }
            return Err(Error::retry("concurrent append; outcome unknown, retry"));
        }
        Ok(None)
    }
}
