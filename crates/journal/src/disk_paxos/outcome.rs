//! The outcome of an entry whose writer lost its ballot while it wrote.

use sealpost_base::{Kind, Result};
use sealpost_vault::Hash;
use sealpost_vault::store::is_too_large;

use super::{Again, ChainScan, DiskPaxos, Leadership, Marks, PATIENT_ROUNDS, ROUNDS, unknown};
use crate::ballot::EntryName;
use crate::{Append, Tail};

impl DiskPaxos {
    /// The outcome of the entry at `place`, which all readers see, after another writer began a greater
    /// ballot.
    pub(super) async fn resolve_outcome(
        &self,
        lead: Leadership,
        (place, tail): (EntryName, Tail),
        marks: Option<&Marks>,
    ) -> Result<Append> {
        for round in 0..ROUNDS {
            let ChainScan::Entries(places) = self.behind(&lead.tail, marks).await? else { break };
            if let Some(there) = places.first() {
                return self.compare(place, tail, there).await;
            }
            // The previous end was written again in a greater ballot. All readers see that copy, and every
            // writer that has not seen it has a smaller ballot. So no writer will follow this entry any more.
            let places = self.list(lead.tail.position).await?;
            let Some(end) = places.into_iter().max_by_key(|end| (end.ballot, end.position)) else { break };
            let before = end.position < place.position && end.ballot > place.ballot;
            if !before || !matches!(self.make_whole(&end).await?, Again::Written(..)) {
                self.wait(round).await;
                continue;
            }
            let begun = self.begun(marks).await?;
            if begun.is_trimmed() {
                break;
            }
            if begun.greatest <= end.ballot {
                return Ok(Append::Lost);
            }
            if round < PATIENT_ROUNDS {
                self.wait(round).await;
            } else if let Some(new) = self.begin(&lead.tail, marks).await?
                && new.tail.position == lead.tail.position
            {
                self.write_again(&end, &EntryName { ballot: new.ballot, ..end }).await?;
            }
        }
        Err(unknown(place.position))
    }

    /// Whether the entry that counts is the one written to `place`.
    async fn compare(&self, place: EntryName, tail: Tail, there: &EntryName) -> Result<Append> {
        let tail = Tail { ballot: Some(there.ballot), ..tail };
        if there.position != place.position {
            return Err(unknown(place.position));
        }
        if *there == place {
            return Ok(Append::Done(tail));
        }
        // Either a copy in another ballot, by a writer that followed this entry, or a different entry.
        match self.store.read_confirmed(&self.path(there)).await {
            Ok(object) if Hash::of(&object) == tail.hash => Ok(Append::Done(tail)),
            Ok(_) => Ok(Append::Lost),
            Err(e) if e.kind() == Kind::NotFound => Err(unknown(place.position)),
            Err(e) if is_too_large(&e) => Ok(Append::Lost),
            Err(e) => Err(e),
        }
    }
}
