//! Appending to the log and reading it.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use sealpost_base::limits::ENTRY_BYTES;
use sealpost_base::{Error, Kind, Position, Result};
use sealpost_vault::entry::{self, Origin};
use sealpost_vault::{AccountKeys, Appends, Hash, PublicKey, Put, Sealed};
use zeroize::Zeroizing;

use crate::chain::order::{last_of, leading_to};
use crate::chain::{Found, lacks_its_end};
use crate::lost::Loss;
use crate::{Ballot, Journal, Place, Tail};

/// How often an append is repeated when it is unknown whether it took effect.
const APPEND_ATTEMPTS: usize = 3;
/// Entries read ahead during replay.
const READ_AHEAD: usize = 16;
/// How often an object is asked for that is told of and not given out: for about half a second.
const READ_ATTEMPTS: u32 = 6;
/// How often the end is looked for while others trim it away.
const TAIL_ATTEMPTS: usize = 8;

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
    /// The ballot that it was written in, if it was in one.
    pub ballot: Option<Ballot>,
    /// Whether it carries the hash of the entry before.
    pub chained: bool,
    /// What it says.
    pub content: Content,
}

/// An entry's object, and what it says.
type Opened = (Bytes, Content);

/// What an entry says.
pub enum Content {
    /// It could be opened.
    Plain(Origin, Zeroizing<Vec<u8>>),
    /// It is not what was sealed, or not there although later ones are; why, for the operator.
    Damaged(String),
}

impl Entry {
    /// The end of a log that ends with this entry.
    pub fn tail(&self) -> Tail {
        Tail { position: self.position, hash: self.hash, ballot: self.ballot }
    }
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
        let appended = match self.store.appends() {
            Appends::Conditional => self.append_conditionally(after.position, sealed).await?,
            Appends::Siblings => self.chain.append(after, sealed, &self.marks(after.position)).await?,
        };
        match appended {
            Append::Done(_) => self.metrics.appended.increment(),
            Append::Lost => {
                self.metrics.lost.increment();
                self.lost_at(position).await?;
            }
            Append::Trimmed => {}
        }
        Ok(appended)
    }

    /// Whoever loses reads on in the log and comes again, unless there is nothing to read on to.
    ///
    /// # Errors
    /// `Corrupt` if what is at `position` was not listed for several rounds; what the store says.
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
                    "{path} is there, and no listing shows it: nothing is appended; \"sealpost check\" says what is wrong with the store"
                )));
            }
        }
        Ok(())
    }

    async fn append_conditionally(&self, after: Position, sealed: Sealed) -> Result<Append> {
        let position = after.next();
        let hash = entry::hash(sealed.as_ref());
        // What spares leaving an entry that nobody reads, and the unknown outcome; what decides is asked below.
        if !self.seen.lately(position) {
            let marked = self.checkpoints_after(Some(after)).await?;
            if !marked.is_empty() {
                return self.passed(position, &marked).await;
            }
        }
        if !self.put(position, sealed, hash).await? {
            return Ok(Append::Lost);
        }
        // If nobody may have removed this position yet, ours is the one entry that was ever there. Else others went on
        // while it was written: on ours, or long before it.
        if !self.holds(position).await? && !self.is_followed(position, hash).await? {
            return Err(trimmed_while_written(position));
        }
        Ok(Append::Done(Tail { position, hash, ballot: None }))
    }

    /// Why nothing is written at `position`, as these are the checkpoints of it or of what came after it: others went on, or
    /// the log has lost its end, and what would be written there nobody would read.
    async fn passed(&self, position: Position, marked: &[Position]) -> Result<Append> {
        if marked.iter().filter(|at| **at > position).count() >= 2 {
            return Ok(Append::Trimmed);
        }
        match self.store.size(&self.log_path(position)).await {
            Ok(_) => Ok(Append::Lost),
            Err(e) if e.kind() != Kind::NotFound => Err(e),
            // Asked once more: it may have been trimmed before it was looked for.
            Err(_) if self.is_trimmed(position).await? => Ok(Append::Trimmed),
            Err(_) => Err(lacks_its_end(position)),
        }
    }

    /// Whether nothing from `position` on was ever removed.
    async fn holds(&self, position: Position) -> Result<bool> {
        let asked = self.seen.now();
        let above = self.checkpoints_above(position).await?;
        // With one above it is to be looked at again before anything is written there.
        if above == 0 {
            self.seen.note(position, asked);
        }
        Ok(above < 2)
    }

    /// Whether the entry after `position` carries `hash`.
    async fn is_followed(&self, position: Position, hash: Hash) -> Result<bool> {
        let next = self.read(&Place::plain(position.next())).await?;
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
                Ok(Put::Exists) => match self.read_whole(&Place::plain(position)).await? {
                    // Trimmed by now, whosever it was.
                    None => return Err(trimmed_while_written(position)),
                    Some(found) => return Ok(entry::hash(&found) == hash),
                },
                Err(e) if e.kind() == Kind::Retry && attempt < APPEND_ATTEMPTS => attempt += 1,
                Err(e) => return Err(e.context(format!("append {position}"))),
            }
        }
    }

    /// Where the entries after `known` are, ascending. `None` if entries after it may have been removed. What is read there
    /// is what was appended only if the log [reaches back](Journal::reaches_back) to `known` when it has been read. None
    /// at all: `known` is the end.
    ///
    /// # Errors
    /// What the store says.
    pub async fn places_after(&self, known: &Tail) -> Result<Option<Vec<Place>>> {
        match self.store.appends() {
            Appends::Siblings => match self.chain.behind(known, Some(&self.marks(known.position))).await? {
                Found::Entries(places) => Ok(Some(places)),
                Found::Trimmed => Ok(None),
            },
            // The end of a log is never removed, so something is listed if anything after `known` was.
            Appends::Conditional => self.listed_after(known).await.map(Some),
        }
    }

    /// Whether nothing after `known` was ever removed. Where it was, a writer that had slept, or a request that came twice,
    /// may have left another entry, which chains and opens like the one that counts; so what was read is believed when this
    /// has been asked after it. Without conditional create no name is used for two entries, and nothing is asked.
    ///
    /// # Errors
    /// What the store says.
    pub async fn reaches_back(&self, known: &Tail) -> Result<bool> {
        match self.store.appends() {
            Appends::Siblings => Ok(true),
            Appends::Conditional => self.holds(known.position.next()).await,
        }
    }

    /// Where the entries after `known` are, as far as a listing tells: on a store without conditional create the last one may
    /// not count yet, or never. For those who only look.
    ///
    /// # Errors
    /// What the store says.
    pub async fn listed_after(&self, known: &Tail) -> Result<Vec<Place>> {
        let places = self.chain.list(known.position).await?;
        let last = last_of(&places, known);
        Ok(last.map_or_else(Vec::new, |last| leading_to(&places, last, known.position)))
    }

    /// Whether all entries are there from the first one on: nothing was trimmed, and none is missing.
    ///
    /// # Errors
    /// What the store says.
    pub async fn is_whole(&self) -> Result<bool> {
        let places = self.listed_after(&Tail::EMPTY).await?;
        Ok(!places.is_empty()
            && (1..).zip(&places).all(|(position, place)| place.position == Position(position)))
    }

    /// The path of an entry.
    pub fn path(&self, place: &Place) -> String {
        self.chain.path(place)
    }

    /// The entries at `places`, which follow `known`, opened and checked against the chain. Positions that are
    /// missing in between, also when they are asked for, come as damaged entries, and so do those that were trimmed since they were listed: whoever
    /// meets one asks [`Journal::is_trimmed`].
    pub fn entries<'a>(
        &'a self,
        keys: &'a AccountKeys,
        known: Tail,
        places: &'a [Place],
    ) -> impl Stream<Item = Result<Entry>> + 'a {
        let start = known.position.0 + 1;
        let end = places.last().map_or(start, |place| place.position.0 + 1);
        let mut present = places.iter().peekable();
        let wanted = (start..end).map(move |p| {
            let here = present.next_if(|place| place.position.0 == p).copied();
            (Position(p), here)
        });
        stream::iter(wanted)
            .map(move |(position, here)| async move {
                let read = match &here {
                    Some(place) => self.read_entry(keys, place).await?,
                    None => self.read_unlisted(keys, position).await?,
                };
                let ballot = here.filter(|place| !place.is_plain()).map(|place| place.ballot);
                Ok((position, ballot, read))
            })
            .buffered(READ_AHEAD)
            .scan(known.hash, move |before, read: Result<(Position, Option<Ballot>, Option<Opened>)>| {
                let entry = read
                    .map(|(position, ballot, read)| Entry { ballot, ..self.follows(position, read, before) });
                futures::future::ready(Some(entry))
            })
    }

    /// What is at a place that is listed, or that somebody was told is taken; `None` if it was trimmed since, or is lost.
    /// For those who do not open it: one wrong answer is not taken for it.
    async fn read_whole(&self, place: &Place) -> Result<Option<Bytes>> {
        let path = self.path(place);
        self.give_out(place, || self.store.read_confirmed(&path)).await
    }

    /// The same, opened.
    async fn read_entry(&self, keys: &AccountKeys, place: &Place) -> Result<Option<Opened>> {
        let path = self.path(place);
        let Some(object) = self.give_out(place, || self.store.read(&path)).await? else { return Ok(None) };
        match entry::open(keys, self.account, place.position, &object) {
            Ok((origin, plaintext)) => Ok(Some((object, Content::Plain(origin, plaintext)))),
            // What the store has may be intact all the same, and a damaged entry changes what everything after it means.
            Err(_) => match self.read(place).await? {
                Some(object) => {
                    let content = match entry::open(keys, self.account, place.position, &object) {
                        Ok((origin, plaintext)) => Content::Plain(origin, plaintext),
                        Err(e) => Content::Damaged(e.to_string()),
                    };
                    Ok(Some((object, content)))
                }
                None => Ok(None),
            },
        }
    }

    /// What is at a position that a listing left out although it has later ones: a listing need not be of one moment. That of a
    /// directory which grows meanwhile is not.
    async fn read_unlisted(&self, keys: &AccountKeys, position: Position) -> Result<Option<Opened>> {
        // Without conditional create it is known what follows what.
        if self.store.appends() == Appends::Siblings {
            return Ok(None);
        }
        let Some(object) = self.read(&Place::plain(position)).await? else { return Ok(None) };
        let content = match entry::open(keys, self.account, position, &object) {
            Ok((origin, plaintext)) => Content::Plain(origin, plaintext),
            Err(e) => Content::Damaged(e.to_string()),
        };
        Ok(Some((object, content)))
    }

    /// What `read` gives of a place. There are stores that tell of an object a moment before they give it out. One that goes on
    /// to tell of it contradicts itself, or something between us and it does: that is no reason to call the entry missing, which would
    /// change what everything after it means.
    async fn give_out<F: Future<Output = Result<Bytes>>>(
        &self,
        place: &Place,
        read: impl Fn() -> F,
    ) -> Result<Option<Bytes>> {
        for round in 0..READ_ATTEMPTS {
            match read().await {
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) if e.kind() == Kind::Corrupt => return Ok(None),
                found => return found.map(Some),
            }
            if self.is_trimmed(place.position).await? {
                return Ok(None);
            }
            self.chain.wait(round).await;
        }
        if let Some(object) = self.read(place).await? {
            return Ok(Some(object));
        }
        if self.chain.list(Position(place.position.0 - 1)).await?.contains(place) {
            let path = self.path(place);
            return Err(Error::retry(format!("the store lists {path}, and does not give it out")));
        }
        Ok(None)
    }

    async fn read(&self, place: &Place) -> Result<Option<Bytes>> {
        match self.store.read_confirmed(&self.path(place)).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The entry at `position`, which follows the one with the hash `before`.
    fn follows(&self, position: Position, read: Option<Opened>, before: &mut Hash) -> Entry {
        let Some((object, content)) = read else {
            let content = Content::Damaged(format!("log entry {position} is missing"));
            return Entry { position, hash: Hash::ZERO, ballot: None, chained: false, content };
        };
        self.metrics.replayed.increment();
        let chained = entry::prev(&object).is_ok_and(|prev| prev == *before);
        let hash = entry::hash(&object);
        *before = hash;
        Entry { position, hash, ballot: None, chained, content }
    }

    /// The end of the log for somebody without keys, from what is known of it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tail(&self, known: Tail) -> Result<Tail> {
        let mut missing = None;
        for _ in 0..TAIL_ATTEMPTS {
            let last = match self.places_after(&known).await? {
                Some(places) => places.last().copied(),
                None => self.last_place().await?,
            };
            let Some(last) = last else { return Ok(known) };
            let object = self.read_whole(&last).await?;
            let holds = match (self.store.appends(), &object) {
                (Appends::Siblings, Some(_)) => true,
                // Asked when it has been read: see [`Journal::reaches_back`].
                _ => self.holds(last.position).await?,
            };
            match object {
                Some(object) if holds => {
                    let ballot = (!last.is_plain()).then_some(last.ballot);
                    return Ok(Tail { position: last.position, hash: entry::hash(&object), ballot });
                }
                None if holds => {
                    return Err(Error::corrupt(format!("log entry {} is missing", last.position)));
                }
                // Others went on, so there is a later one.
                _ => missing = Some(last.position),
            }
        }
        let last = missing.unwrap_or(known.position);
        Err(Error::retry(format!("the log grows too quickly, or what follows entry {last} is missing")))
    }

    /// The position of the last entry; `known` if there is none behind it. One listing if that is so.
    ///
    /// # Errors
    /// What the store says.
    pub async fn last_after(&self, known: Position) -> Result<Position> {
        let listed = self.chain.list(known).await?;
        let last = listed.iter().map(|place| place.position).max().unwrap_or(known);
        if last <= known || self.store.appends() == Appends::Conditional {
            return Ok(last.max(known));
        }
        // What is listed may not count, and whoever is told of a position waits for it.
        let tail = Tail { position: known, ..Tail::EMPTY };
        Ok(match self.chain.behind_as_listed(listed, &tail, None).await? {
            Found::Entries(places) => places.last().map_or(known, |last| last.position),
            Found::Trimmed => known,
        })
    }

    /// How many entries a listing shows after `position`.
    ///
    /// # Errors
    /// What the store says.
    pub async fn count_after(&self, position: Position) -> Result<usize> {
        Ok(self.chain.list(position).await?.len())
    }

    async fn last_place(&self) -> Result<Option<Place>> {
        match self.store.appends() {
            Appends::Conditional => Ok(self.listed_after(&Tail::EMPTY).await?.last().copied()),
            Appends::Siblings => Ok(self.chain.last().await?.map(|(place, _)| place)),
        }
    }
}
