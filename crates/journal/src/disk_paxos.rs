//! Agreement on one sequence of objects in a store whose creates overwrite: of the writers that
//! want one position, one gets it, whatever is delayed, lost, repeated or paused, and no clock is
//! asked.
//!
//! This is Paxos with the store as its only acceptor, a disk (Gafni and Lamport, "Disk Paxos",
//! 2003), on a growing chain. A writer begins a *ballot*, greater than all it knows of, by writing
//! an object of that name. Then it lists the entries, and what it finds, it follows: the last entry
//! of the greatest ballot, which it writes once more in its own. From then on it appends by writing
//! an entry and listing the ballots: **if none is greater, the entry counts**. For whoever begins a
//! greater one later lists the entries after that, finds this one, and follows it. If one is
//! greater, the entry counts only if that one followed it. Every object is written under a name of
//! its own and never changed, so requests may come twice, and late.
//!
//! What the store must keep: a write that was acknowledged is seen by every request that begins
//! after that. A write that was not acknowledged may be seen by one reader and not by the next; so
//! whoever reads an end of the chain that somebody else wrote writes it once more, unchanged,
//! before it believes it.
//!
//! A writer that stays the only one needs one write and one list for an entry. A change of writers
//! costs five requests more. Two that try at once may defeat each other; they wait for random
//! times, longer each time.

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

/// How often a request is repeated of which it is unknown whether it took effect.
const ATTEMPTS: usize = 3;
/// How often an end that is being decided by somebody else is looked at before this process decides it.
const PATIENT_ROUNDS: u32 = 4;
/// Rounds in which others were quicker, after which it is said to be too busy.
const ROUNDS: u32 = 24;
/// The longest first wait; each further one may be twice as long, up to `WAIT_DOUBLINGS` times.
const WAIT: Duration = Duration::from_millis(20);
const WAIT_DOUBLINGS: u32 = 6;

/// One chain of objects. Cloning shares what is known of it.
#[derive(Clone)]
pub struct DiskPaxos {
    store: Store,
    /// The folder with the entries.
    entries: String,
    /// The folder that says which ballots were begun; it may hold other things with names before theirs.
    ballots: String,
    random: Arc<dyn Random>,
    cache: Arc<ChainCache>,
    /// Tells what is an entry; without it, everything is that has the name of one.
    judge: Option<Judge>,
}

/// What this process knows of a chain.
#[derive(Default)]
struct ChainCache {
    /// The ballot in which this process can append at once, taken out while it does.
    lead: AsyncMutex<Option<Leadership>>,
    /// An entry that everybody sees.
    settled: Mutex<Option<EntryName>>,
    leader_backoff: LeaderBackoff,
}

/// A ballot of this process's own.
#[derive(Clone, Copy)]
struct Leadership {
    ballot: Ballot,
    /// The end of the chain in it.
    tail: Tail,
    /// There is a checkpoint of what came after that end, and is missing.
    lacks_end: bool,
}

/// The ballots that were begun, and what else is in their folder.
pub(crate) struct Begun {
    greatest: Ballot,
    all: Vec<Ballot>,
    /// What is said of positions behind the one that was asked about.
    marked: Marked,
    /// That one.
    known: Position,
}

/// Which manifests of checkpoints, in the folder of ballots, are of interest to whoever knows a log
/// up to some position.
pub(crate) struct Marks {
    /// The path of the one at that position: those behind it are.
    pub after: String,
    /// That position. Two checkpoints behind the one after it say that what is there may be trimmed.
    pub known: Position,
}

/// The last entry, as far as it can be seen.
enum End {
    /// There is none behind the known one.
    Known,
    /// This one, and everybody sees it.
    Whole(EntryName),
    /// It is listed, and cannot be seen.
    Unseen,
}

/// What became of writing an entry once more.
enum Again {
    /// It was written.
    Written(Bytes, Generation),
    /// It cannot be seen.
    Unseen,
    /// It is no entry, and was not written.
    Unfit,
}

/// What is found of the chain.
pub(crate) enum ChainScan {
    /// The entries behind the known end, in order; they count.
    Entries(Vec<EntryName>),
    /// Too many checkpoints are behind the known end: what followed it may be gone.
    Trimmed,
}

impl DiskPaxos {
    /// The chain with its entries in one folder and its ballots in another, which may be the same.
    pub fn new(store: Store, entries: String, ballots: String, random: Arc<dyn Random>) -> Self {
        DiskPaxos { store, entries, ballots, random, cache: Arc::default(), judge: None }
    }

    /// The same, in which only what is authentic counts.
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
    /// What the store says; `Retry` if others never let go.
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
                // Others went on, and removed it.
                Err(e) if e.kind() == Kind::NotFound => self.wait(round).await,
                Err(e) => return Err(e),
            }
        }
        Err(busy())
    }

    /// The end as a listing tells, for a store in which ballots are no longer used: what they left is there.
    ///
    /// # Errors
    /// What the store says.
    pub async fn listed_last(&self) -> Result<Option<EntryName>> {
        Ok(last_of(&self.list(Position::ZERO).await?, &Tail::EMPTY))
    }

    /// All entries, as far as a listing tells by their names: the last one may not count yet, or
    /// never, and any may be none.
    ///
    /// # Errors
    /// What the store says.
    pub async fn listed(&self) -> Result<Vec<EntryName>> {
        let places = self.list(Position::ZERO).await?;
        let last = last_of(&places, &Tail::EMPTY);
        Ok(last.map_or_else(Vec::new, |last| leading_to(&places, last, Position::ZERO)))
    }

    /// AppendMode `object` behind the entry at `position`, if that is the end of the chain.
    ///
    /// # Errors
    /// `Retry` if it is unknown whether it counts; what the store says.
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

    /// AppendMode `object` right after `after`, which `marks` is about too.
    ///
    /// # Errors
    /// As [`DiskPaxos::append_at`]; `Corrupt` if there is a checkpoint of what came after it, and
    /// that is missing.
    pub(crate) async fn append(&self, after: &Tail, object: Sealed, marks: &Marks) -> Result<Append> {
        let mut slot = self.cache.lead.lock().await;
        // Out of the slot while it is used: whoever is interrupted leaves no ballot behind in which
        // one position might be written twice.
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
            // Whoever begins with that checkpoint would not read what is appended here.
            return Err(lacks_its_end(lead.tail.position.next()));
        }
        self.follow_up(lead, object, Some(marks)).await
    }

    /// Writes the entry after the lead's end, and finds out whether it counts.
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

    /// The entries behind `known` that count. Makes sure that everybody else will find the same.
    pub(crate) async fn behind(&self, known: &Tail, marks: Option<&Marks>) -> Result<ChainScan> {
        let listed = self.list(known.position).await?;
        self.behind_as_listed(listed, known, marks).await
    }

    /// The same for whoever has listed what is behind `known`.
    pub(crate) async fn behind_as_listed(
        &self,
        listed: Vec<EntryName>,
        known: &Tail,
        marks: Option<&Marks>,
    ) -> Result<ChainScan> {
        let mut listed = Some(listed);
        // The first position that the last listing left out, and how many listings in a row did.
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
            // Asked after the listing: a ballot that was not begun by now will find what was found.
            let begun = self.begun(marks).await?;
            if begun.is_trimmed() {
                return Ok(ChainScan::Trimmed);
            }
            let Some(last) = last else { return Ok(ChainScan::Entries(Vec::new())) };
            if last.is_plain() || begun.greatest <= last.ballot {
                let found = leading_to(&places, last, known.position);
                // A list has pages, each of its own moment: what led to the last entry may have
                // come behind its page. A list that begins when a later entry was seen has it, so
                // what several leave out is missing.
                if let Some(first) = first_missing(&found, known.position).filter(|_| marks.is_some()) {
                    missing = (first, if missing.0 == first { missing.1 + 1 } else { 1 });
                    if missing.1 <= PATIENT_ROUNDS {
                        self.wait(missing.1 - 1).await;
                        continue;
                    }
                }
                return Ok(ChainScan::Entries(found));
            }
            // Somebody began a greater ballot, and may follow the last entry or not.
            if round < PATIENT_ROUNDS {
                self.wait(round).await;
            } else if let Some(lead) = self.begin(known, marks).await? {
                self.keep(lead).await;
            }
        }
        Err(busy())
    }

    /// Begins a ballot, after the turn of whoever took the last one away.
    async fn begin_after_backoff(&self, known: &Tail, marks: &Marks) -> Result<Option<Leadership>> {
        if let Some(pause) = self.cache.leader_backoff.pause(&*self.random) {
            tokio::time::sleep(pause).await;
        }
        let at = Instant::now();
        let begun = self.begin(known, Some(marks)).await;
        self.cache.leader_backoff.began(at.elapsed());
        begun
    }

    /// Begins a ballot: after this nobody with a smaller one gets an entry that counts. `None` if
    /// the log was trimmed.
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
                // It is not listed any more.
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

    /// The end of the chain among `places`, as [`last_of`] finds it, without what is no entry.
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

    /// Makes sure that everybody sees that entry.
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

    /// Writes the object at one place to another, which may be the same, if it is an entry.
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

    /// All entries from `position` on, its own siblings included, without what is known to be none.
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

    /// The ballots that were begun, and what else is in their folder; nothing of that with `None`.
    pub(crate) async fn begun(&self, marks: Option<&Marks>) -> Result<Begun> {
        for round in manifests::listings() {
            let (all, names) = self.listed_begun(marks).await?;
            let greatest = all.iter().copied().max().unwrap_or(Ballot::NONE);
            let known = marks.map_or(Position::ZERO, |marks| marks.known);
            let marked = match &self.judge {
                Some(judge) => {
                    let withheld = manifests::is_last(round) && self.store.gives_out().await;
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

    /// The ballots that a listing shows, and what else it does.
    async fn listed_begun(&self, marks: Option<&Marks>) -> Result<(Vec<Ballot>, Vec<Name>)> {
        // Behind all positions, before all ballots.
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

    /// Removes the names of ballots below the greatest, if there are many: no one needs them any more.
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

    /// Writes an object under a name that nothing else is ever written under.
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

    /// A random time, longer each round.
    pub(crate) async fn wait(&self, round: u32) {
        let longest = WAIT.as_micros() as u64 * (1 << round.min(WAIT_DOUBLINGS));
        tokio::time::sleep(Duration::from_micros(self.random.next_u64() % longest)).await;
    }
}

/// The first position behind `known` that is not among `places`, the last of which ends a chain.
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

/// What is told of a log with a checkpoint at `position` or behind it, and no entry there.
pub(crate) fn lacks_its_end(position: Position) -> Error {
    Error::corrupt(format!(
        "log entry {position} is missing, but a checkpoint at or after it exists: nothing is appended at its \
         position; \"sealpost check\" names the missing objects, a backup may have them"
    ))
}

fn busy() -> Error {
    Error::retry("too many concurrent writers; retry")
}
