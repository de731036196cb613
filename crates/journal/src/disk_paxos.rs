//! Agreement on one sequence of objects in a store whose creates overwrite. Of the writers that want one
//! position, exactly one gets it, with any delays, losses and repetitions of requests, any pauses of writers,
//! and without a clock.
//!
//! This is Paxos with the store as its only acceptor, a disk (Gafni and Lamport, "Disk Paxos", 2003), on a
//! growing chain. A writer begins a *ballot*, greater than all that it knows, by writing an object of that
//! name. Then it lists the entries, takes the last entry of the greatest ballot, and writes it again in its
//! own ballot. From then on it appends by writing an entry and listing the ballots: **if none is greater, the
//! entry counts**. A writer that begins a greater ballot later lists the entries after that, finds this
//! entry, and follows it. If a ballot is greater, the entry counts only if that ballot's writer followed it.
//! Every object has a name of its own and never changes, so requests may be repeated and may arrive late.
//!
//! The store must guarantee that every request sees the writes acknowledged before it begins. A write without
//! an acknowledgement may be visible to one reader and invisible to the next. So a process that finds another
//! writer's entry at the end of the chain writes it again, unchanged, before it relies on it.
//!
//! A sole writer needs one write and one list per entry. A change of writers costs five more requests. Two
//! concurrent writers may defeat each other; they back off for random, growing times.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{Error, Kind, Position, Random, Result, limits};
use sealpost_vault::entry::Generation;
use sealpost_vault::store::is_too_large;
use sealpost_vault::{Hash, Sealed, Store};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::ballot::{Ballot, EntryName};
use crate::manifests::{self, Marked, Name};
use crate::noise::{Judge, damaged_end, too_noisy};
use crate::read::unread;
use crate::{Append, Tail};
use leader_backoff::LeaderBackoff;
use order::{last_of, leading_to};

mod leader_backoff;
pub(crate) mod order;
mod outcome;
#[cfg(test)]
mod tests;

/// Attempts at a request with unknown outcome.
const ATTEMPTS: usize = 3;
/// How often this process lists again while another writer decides the end, before it decides itself.
const PATIENT_ROUNDS: u32 = 4;
/// Rounds that other writers may win before the log is reported as too busy.
const ROUNDS: u32 = 24;
/// The longest first wait; each later one may be twice as long, up to `WAIT_DOUBLINGS` times.
const WAIT: Duration = Duration::from_millis(20);
const WAIT_DOUBLINGS: u32 = 6;

/// One chain of objects. Clones share what is known of it.
#[derive(Clone)]
pub struct DiskPaxos {
    store: Store,
    /// The folder of the entries.
    entries: String,
    /// The folder that records the ballots that were begun. It may hold other objects whose names sort before
    /// theirs.
    ballots: String,
    random: Arc<dyn Random>,
    cache: Arc<ChainCache>,
    /// Distinguishes entries from other objects; without it, every object with the name of an entry is one.
    judge: Option<Judge>,
}

/// What this process knows of a chain.
#[derive(Default)]
struct ChainCache {
    /// The ballot in which this process can append at once. Taken out while in use.
    lead: AsyncMutex<Option<Leadership>>,
    /// An entry that all readers see.
    settled: Mutex<Option<EntryName>>,
    leader_backoff: LeaderBackoff,
}

/// A ballot of this process.
#[derive(Clone, Copy)]
struct Leadership {
    ballot: Ballot,
    /// The end of the chain in this ballot.
    tail: Tail,
    /// Whether a checkpoint covers entries after that end, which are missing.
    lacks_end: bool,
}

/// The ballots that were begun, and the other objects in their folder.
pub(crate) struct Begun {
    greatest: Ballot,
    all: Vec<Ballot>,
    /// The marks of positions after `known`.
    marked: Marked,
    /// The requested position.
    known: Position,
}

/// Selects the checkpoint manifests, in the folder of ballots, that matter to a process that knows the log up
/// to some position.
pub(crate) struct Marks {
    /// The path of the manifest at that position; only later ones matter.
    pub after: String,
    /// That position. Two checkpoints above the next position mean that entries there may be trimmed.
    pub known: Position,
}

/// The last entry, as far as it is readable.
enum End {
    /// There is no entry after the known one.
    Known,
    /// This entry, which all readers see.
    Whole(EntryName),
    /// The listing shows an entry that cannot be read.
    Unseen,
}

/// The result of writing an entry again.
enum Again {
    /// The entry was written.
    Written(Bytes, Generation),
    /// The object cannot be read.
    Unseen,
    /// The object is no entry, and was not written.
    Unfit,
}

/// The result of reading the chain.
pub(crate) enum ChainScan {
    /// The entries after the known end, in order; they count.
    Entries(Vec<EntryName>),
    /// Too many checkpoints are above the known end: entries after it may have been removed.
    Trimmed,
}

impl DiskPaxos {
    /// A chain with its entries in one folder and its ballots in another, which may be the same.
    pub fn new(store: Store, entries: String, ballots: String, random: Arc<dyn Random>) -> Self {
        DiskPaxos { store, entries, ballots, random, cache: Arc::default(), judge: None }
    }

    /// Counts only authentic entries.
    pub(crate) fn judged_by(self, judge: Judge) -> Self {
        DiskPaxos { judge: Some(judge), ..self }
    }

    /// The path of an entry.
    pub fn path(&self, place: &EntryName) -> String {
        format!("{}/{}", self.entries, place.file_name())
    }

    /// The end of the chain and its object; `None` if there is no entry.
    ///
    /// # Errors
    /// Store errors; `Retry` if others keep appending.
    pub async fn last(&self) -> Result<Option<(EntryName, Bytes)>> {
        for round in 0..ROUNDS {
            let places = match self.behind(&Tail::EMPTY, None).await? {
                ChainScan::Entries(places) => places,
                ChainScan::Trimmed => {
                    return Err(Error::internal("trimmed although no trimming was requested"));
                }
            };
            let Some(last) = places.last() else { return Ok(None) };
            match self.store.read(&self.path(last)).await {
                Ok(object) => return Ok(Some((*last, object))),
                // Other writers appended and trimmed it.
                Err(e) if e.kind() == Kind::NotFound => self.wait(round).await,
                Err(e) => return Err(e),
            }
        }
        Err(busy())
    }

    /// The end by a listing, for a store that no longer uses ballots but still has entries with ballots.
    ///
    /// # Errors
    /// Store errors.
    pub async fn listed_last(&self) -> Result<Option<EntryName>> {
        Ok(last_of(&self.list(Position::ZERO).await?, &Tail::EMPTY))
    }

    /// All entries by the names in a listing. The last one may not count yet, or never, and any may be noise.
    ///
    /// # Errors
    /// Store errors.
    pub async fn listed(&self) -> Result<Vec<EntryName>> {
        let places = self.list(Position::ZERO).await?;
        let last = last_of(&places, &Tail::EMPTY);
        Ok(last.map_or_else(Vec::new, |last| leading_to(&places, last, Position::ZERO)))
    }

    /// Appends `object` after the entry at `position`, if that is the end of the chain.
    ///
    /// # Errors
    /// `Retry` if the outcome is unknown; store errors.
    pub async fn append_at(&self, position: Position, object: Sealed) -> Result<Append> {
        let mut slot = self.cache.lead.lock().await;
        let Some(lead) = self.begin(&Tail::EMPTY, None).await? else { return Ok(Append::Trimmed) };
        if lead.tail.position != position {
            *slot = Some(lead);
            return Ok(Append::Lost);
        }
        drop(slot);
        self.follow_up(lead, object, None).await
    }

    /// Appends `object` directly after `after`, to which `marks` refers too.
    ///
    /// # Errors
    /// As [`DiskPaxos::append_at`]; `Corrupt` if a checkpoint covers later entries that are missing.
    pub(crate) async fn append(&self, after: &Tail, object: Sealed, marks: &Marks) -> Result<Append> {
        let mut slot = self.cache.lead.lock().await;
        // Taken out while in use: an interrupted append must not leave a ballot in which one position could
        // be written twice.
        let lead = match slot.take() {
            Some(lead) if lead.tail.position > after.position => {
                *slot = Some(lead);
                return Ok(Append::Lost);
            }
            Some(lead) if lead.tail.position == after.position && lead.tail.hash == after.hash => lead,
            _ => match self.begin_after_backoff(after, marks).await? {
                None => return Ok(Append::Trimmed),
                Some(lead) if lead.tail.position > after.position => {
                    *slot = Some(lead);
                    return Ok(Append::Lost);
                }
                Some(lead) => lead,
            },
        };
        drop(slot);
        if lead.lacks_end {
            // A reader that starts from that checkpoint would not read the new entry.
            return Err(lacks_its_end(lead.tail.position.next()));
        }
        self.follow_up(lead, object, Some(marks)).await
    }

    /// Writes the entry after the leadership's end, and determines whether it counts.
    async fn follow_up(&self, lead: Leadership, object: Sealed, marks: Option<&Marks>) -> Result<Append> {
        let generation = self.generation_of(object.as_ref());
        let parent = lead.tail.ballot.unwrap_or(Ballot::NONE);
        let place = EntryName { position: lead.tail.position.next(), ballot: lead.ballot, parent };
        let hash = Hash::of(object.as_ref());
        self.write(&self.path(&place), object).await?;
        let begun = self.begun(marks).await?;
        let tail = Tail { position: place.position, hash, ballot: Some(place.ballot), generation };
        if begun.greatest <= place.ballot {
            self.settle(place);
            self.cache.leader_backoff.appended();
            self.keep(Leadership { ballot: lead.ballot, tail, lacks_end: false }).await;
            return Ok(Append::Done(tail));
        }
        self.resolve_outcome(lead, (place, tail), marks).await
    }

    /// The entries after `known` that count. Ensures that all later readers find the same ones.
    pub(crate) async fn behind(&self, known: &Tail, marks: Option<&Marks>) -> Result<ChainScan> {
        let listed = self.list(known.position).await?;
        self.behind_as_listed(listed, known, marks).await
    }

    /// As `behind`, for a caller that has listed the entries after `known`.
    pub(crate) async fn behind_as_listed(
        &self,
        listed: Vec<EntryName>,
        known: &Tail,
        marks: Option<&Marks>,
    ) -> Result<ChainScan> {
        let mut listed = Some(listed);
        // The first position that the last listing omitted, and how many consecutive listings did.
        let mut missing = (Position::ZERO, 0);
        for round in 0..ROUNDS {
            let mut places = match listed.take() {
                Some(listed) => listed,
                None => self.list(known.position).await?,
            };
            let last = match self.end_of(&mut places, known).await? {
                End::Known => None,
                End::Whole(last) => Some(last),
                End::Unseen => {
                    self.wait(round).await;
                    continue;
                }
            };
            // Read after the listing: a ballot begun later will find the same entries.
            let begun = self.begun(marks).await?;
            if begun.is_trimmed() {
                return Ok(ChainScan::Trimmed);
            }
            let Some(last) = last else { return Ok(ChainScan::Entries(Vec::new())) };
            if last.is_plain() || begun.greatest <= last.ballot {
                let found = leading_to(&places, last, known.position);
                // The pages of a list are of different moments, so an entry may have appeared after its page
                // was read. But a list that begins after a later entry was seen includes it. So an entry that
                // several lists omit is missing.
                if let Some(first) = first_missing(&found, known.position).filter(|_| marks.is_some()) {
                    missing = (first, if missing.0 == first { missing.1 + 1 } else { 1 });
                    if missing.1 <= PATIENT_ROUNDS {
                        self.wait(missing.1 - 1).await;
                        continue;
                    }
                }
                return Ok(ChainScan::Entries(found));
            }
            // A greater ballot has begun; its writer may follow the last entry or not.
            if round < PATIENT_ROUNDS {
                self.wait(round).await;
            } else if let Some(lead) = self.begin(known, marks).await? {
                self.keep(lead).await;
            }
        }
        Err(busy())
    }

    /// Begins a ballot, after a pause if this process has just lost one.
    async fn begin_after_backoff(&self, known: &Tail, marks: &Marks) -> Result<Option<Leadership>> {
        if let Some(pause) = self.cache.leader_backoff.pause(&*self.random) {
            tokio::time::sleep(pause).await;
        }
        let at = Instant::now();
        let begun = self.begin(known, Some(marks)).await;
        self.cache.leader_backoff.began(at.elapsed());
        begun
    }

    /// Begins a ballot. From then on, no entry in a smaller ballot can start to count. `None` if the log was
    /// trimmed.
    async fn begin(&self, known: &Tail, marks: Option<&Marks>) -> Result<Option<Leadership>> {
        let mut least = known.ballot.unwrap_or(Ballot::NONE);
        for round in 0..ROUNDS {
            let begun = self.begun(marks).await?;
            if begun.is_trimmed() {
                return Ok(None);
            }
            self.forget_small(&begun).await;
            least = least.max(begun.greatest);
            let ballot = match &self.judge {
                Some(judge) => judge.ballot_above(least, &*self.random),
                None => least.above(&*self.random),
            };
            let ballot = ballot.ok_or_else(|| Error::corrupt("the ballots of a log have run out"))?;
            self.write(&format!("{}/{}", self.ballots, ballot.file_name()), Sealed::marker()).await?;
            let places = self.list(known.position).await?;
            let last = last_of(&places, known);
            let greatest = last.map_or(Ballot::NONE, |last| last.ballot);
            if greatest > ballot {
                least = greatest;
                self.wait(round).await;
                continue;
            }
            // The end of a log is never removed.
            let end = last.map_or(known.position, |last| last.position);
            let lacks_end = begun.marked.checkpoints.iter().any(|at| *at > end);
            if let Some(damaged) = self.judge.as_ref().and_then(|judge| judge.damaged_after(end)) {
                return Err(damaged_end(damaged));
            }
            let Some(last) = last else { return Ok(Some(Leadership { ballot, tail: *known, lacks_end })) };
            let mine = if last.is_plain() { last } else { EntryName { ballot, ..last } };
            let (object, generation) = match self.write_again(&last, &mine).await? {
                Again::Written(object, generation) => (object, generation),
                Again::Unseen => {
                    self.wait(round).await;
                    continue;
                }
                // The next listing omits it.
                Again::Unfit => continue,
            };
            self.settle(mine);
            let tail_ballot = (!mine.is_plain()).then_some(ballot);
            let hash = Hash::of(&object);
            let tail = Tail { position: last.position, hash, ballot: tail_ballot, generation };
            return Ok(Some(Leadership { ballot, tail, lacks_end }));
        }
        Err(busy())
    }

    /// The end of the chain among `places` by [`last_of`], without objects that are no entries.
    async fn end_of(&self, places: &mut Vec<EntryName>, known: &Tail) -> Result<End> {
        for _ in 0..=limits::LOG_GAP {
            let Some(last) = last_of(places, known) else { return Ok(End::Known) };
            match self.make_whole(&last).await? {
                Again::Written(..) => return Ok(End::Whole(last)),
                Again::Unseen => return Ok(End::Unseen),
                Again::Unfit => places.retain(|place| *place != last),
            }
        }
        Err(too_noisy())
    }

    /// Ensures that all readers see that entry.
    async fn make_whole(&self, place: &EntryName) -> Result<Again> {
        let is_settled = *self.settled() == Some(*place);
        if is_settled || (place.is_plain() && self.judge.is_none()) {
            return Ok(Again::Written(Bytes::new(), Generation::default()));
        }
        let again = self.write_again(place, place).await?;
        if matches!(again, Again::Written(..)) {
            self.settle(*place);
        }
        Ok(again)
    }

    /// Copies the object of one name to another, or to itself, if it is an entry.
    async fn write_again(&self, from: &EntryName, to: &EntryName) -> Result<Again> {
        let mut generation = Generation::default();
        let (from_path, to_path) = (self.path(from), self.path(to));
        if let Some(judge) = self.judge.as_ref().filter(|judge| judge.key().has_retired()) {
            judge.vouched().await?;
        }
        let mut attempt = 1;
        loop {
            let is_sound = |object: &Bytes| {
                let Some(judge) = &self.judge else { return true };
                match judge.entry_now(from, object) {
                    Ok((_, header)) => {
                        generation = header.generation;
                        true
                    }
                    Err((unfit, why)) => {
                        judge.note(*from, unfit, &why);
                        false
                    }
                }
            };
            match self.store.put_again_if(&from_path, &to_path, is_sound).await {
                Ok((object, true)) => return Ok(Again::Written(object, generation)),
                Ok((_, false)) => return Ok(Again::Unfit),
                Err(e) if e.kind() == Kind::NotFound => return Ok(Again::Unseen),
                Err(e) if is_too_large(&e) && self.judge.is_some() => {
                    let (unfit, why) = unread(from, &e);
                    if let Some(judge) = &self.judge {
                        judge.note(*from, unfit, &why);
                    }
                    return Ok(Again::Unfit);
                }
                Err(e) if e.kind() == Kind::Retry && attempt < ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.context(format!("write {to_path}"))),
            }
        }
    }

    fn generation_of(&self, object: &[u8]) -> Generation {
        let header = self.judge.as_ref().and_then(|_| sealpost_vault::entry::header(object).ok());
        header.map_or(Generation::default(), |(_, header)| header.generation)
    }

    /// All entries from `position` on, with all siblings there, without known noise.
    pub(crate) async fn list(&self, position: Position) -> Result<Vec<EntryName>> {
        let after = self.path(&EntryName::plain(position));
        let mut listed = self.store.list(&self.entries, Some(&after));
        let mut places = Vec::new();
        while let Some(object) = listed.try_next().await? {
            let place = object.path.rsplit('/').next().and_then(EntryName::parse);
            let may_count = |place: &EntryName| {
                let is_entry = |judge: &Judge| judge.may_be_entry(place) && judge.may_be_begun(place.ballot);
                self.judge.as_ref().is_none_or(is_entry)
            };
            places.extend(place.filter(may_count));
        }
        places.sort_by_key(|place| place.position);
        Ok(places)
    }

    /// The ballots that were begun, and the other objects in their folder; with `None`, only the ballots.
    pub(crate) async fn begun(&self, marks: Option<&Marks>) -> Result<Begun> {
        for round in manifests::listings() {
            let (all, names) = self.listed_begun(marks).await?;
            let greatest = all.iter().copied().max().unwrap_or(Ballot::NONE);
            let known = marks.map_or(Position::ZERO, |marks| marks.known);
            let marked = match &self.judge {
                Some(judge) => {
                    let withheld = manifests::is_last(round) && self.store.serves_reads().await;
                    manifests::judged(judge, &names, known, withheld).await?
                }
                None => Some(Marked::default()),
            };
            if let Some(marked) = marked {
                return Ok(Begun { greatest, all, marked, known });
            }
            self.wait(round).await;
        }
        Err(manifests::not_given_out(&self.ballots))
    }

    /// The ballots in a listing, and its other names.
    async fn listed_begun(&self, marks: Option<&Marks>) -> Result<(Vec<Ballot>, Vec<Name>)> {
        // After all positions, before all ballots.
        let before_ballots = format!("{}/v", self.ballots);
        let after = marks.map_or(&before_ballots, |marks| &marks.after);
        let mut listed = self.store.list(&self.ballots, Some(after));
        let (mut all, mut names) = (Vec::new(), Vec::new());
        while let Some(object) = listed.try_next().await? {
            let Some(name) = object.path.rsplit('/').next() else { continue };
            match Ballot::of_file(name) {
                Some(ballot) if self.judge.as_ref().is_none_or(|judge| judge.may_be_begun(ballot)) => {
                    all.push(ballot)
                }
                Some(_) => {}
                None => names.extend(Name::parse(name)),
            }
        }
        Ok((all, names))
    }

    /// Removes the names of smaller ballots if there are many: no writer needs them any more.
    async fn forget_small(&self, begun: &Begun) {
        if begun.all.len() < limits::BALLOTS {
            return;
        }
        let small = begun.all.iter().filter(|ballot| **ballot < begun.greatest);
        let paths = small.map(|ballot| format!("{}/{}", self.ballots, ballot.file_name())).collect();
        if let Err(e) = self.store.delete_in_order(paths).await {
            tracing::debug!(folder = self.ballots, error = %e, "old ballots were left");
        }
    }

    /// Writes an object under a unique name.
    async fn write(&self, path: &str, object: Sealed) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.store.put_new(path, object.clone()).await {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == Kind::Retry && attempt < ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.context(format!("write {path}"))),
            }
        }
    }

    async fn keep(&self, lead: Leadership) {
        let mut slot = self.cache.lead.lock().await;
        if slot.is_none_or(|other| other.ballot < lead.ballot || other.tail.position < lead.tail.position) {
            *slot = Some(lead);
        }
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Option<EntryName>> {
        self.cache.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, place: EntryName) {
        *self.settled() = Some(place);
    }

    /// Waits for a random time, longer each round.
    pub(crate) async fn wait(&self, round: u32) {
        let longest = WAIT.as_micros() as u64 * (1 << round.min(WAIT_DOUBLINGS));
        tokio::time::sleep(Duration::from_micros(self.random.next_u64() % longest)).await;
    }
}

/// The first position after `known` that is missing among `places`, the last of which ends a chain.
fn first_missing(places: &[EntryName], known: Position) -> Option<Position> {
    let mut expected = known.next();
    for place in places {
        if place.position != expected {
            return Some(expected);
        }
        expected = expected.next();
    }
    None
}

impl Begun {
    pub(crate) fn is_trimmed(&self) -> bool {
        self.marked.is_trimmed(self.known.next())
    }
}

fn unknown(position: Position) -> Error {
    Error::retry(format!("log entry {position}: concurrent append; outcome unknown, retry"))
}

/// The error of a log that has a checkpoint at or above `position`, and no entry there.
pub(crate) fn lacks_its_end(position: Position) -> Error {
    Error::corrupt(format!(
        "log entry {position} is missing, but a checkpoint at or after it exists: nothing is appended at its \
         position; \"sealpost check\" names the missing objects, a backup may have them"
    ))
}

fn busy() -> Error {
    Error::retry("too many concurrent writers; retry")
}
