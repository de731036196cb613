//! Reading the log: the places of its entries, their contents, and its end.

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, Stream, StreamExt};
use sealpost_base::{Error, Kind, Position, Result, limits};
use sealpost_vault::entry::{self, Generation, Header, Origin, Renumbering};
use sealpost_vault::store::is_too_large;
use sealpost_vault::{AccountKeys, AppendMode, Epoch, Hash};
use zeroize::Zeroizing;

use crate::disk_paxos::ChainScan;
use crate::disk_paxos::order::{last_of, leading_to};
use crate::noise::{Unfit, too_noisy};
use crate::{Ballot, Cover, EntryName, Journal, Tail};

/// Entries read ahead during replay.
pub(crate) const READ_AHEAD: usize = 16;
/// How often an object is read that is listed and not returned, or is no entry: for about half a second.
pub(crate) const READ_ATTEMPTS: u32 = 6;
/// How often the end is searched for while others trim the log.
const TAIL_ATTEMPTS: usize = 8;

/// One entry for replay, as a process of this installation wrote it.
pub struct Entry {
    /// Its position.
    pub position: Position,
    /// Its hash, which the next entry carries.
    pub hash: Hash,
    /// The hash of the previous entry, which it carries.
    pub prev: Hash,
    /// Its generation of UIDs.
    pub generation: Generation,
    /// The epoch of the account key under which it is sealed.
    pub epoch: Epoch,
    /// The ballot in which it was written, if any.
    pub ballot: Option<Ballot>,
    /// Its contents.
    pub content: Content,
}

/// The contents of an entry.
pub enum Content {
    /// The decrypted plaintext.
    Plain(Origin, Zeroizing<Vec<u8>>),
    /// How the log continues after damage.
    Renumbering(Renumbering),
    /// The account's key does not open it; the reason, for the operator.
    Sealed(String),
}

impl Entry {
    /// The end of a log that ends with this entry.
    pub fn tail(&self) -> Tail {
        let Entry { position, hash, ballot, generation, .. } = *self;
        Tail { position, hash, ballot, generation }
    }
}

impl Entry {
    /// The position from which a renumbering decides what counts; `None` for other entries.
    pub(crate) fn renumbered_from(&self) -> Option<Position> {
        match &self.content {
            Content::Renumbering(renumbering) => Some(renumbering.from),
            Content::Plain(..) | Content::Sealed(_) => None,
        }
    }
}

/// The result of reading the place of an entry.
pub enum Read {
    /// An entry; [`crate::Replay`] decides whether it counts.
    Entry(Entry),
    /// An object that is no entry. It has been reported.
    Noise(Position),
    /// A changed object with the header of that position's entry. It has been reported.
    Damaged(Position),
    /// A listed entry that was not returned: it has been trimmed since, or is lost.
    Gone(Position),
}

/// An object at the place of an entry.
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub(crate) enum Object {
    Entry(Bytes, Origin, Header),
    Unfit(Unfit),
    Gone,
}

impl Journal {
    /// The possible places of the entries after `known`, ascending; an empty list if `known` is the end.
    /// `None` if entries after it may have been removed. Entries read at these places are the appended ones
    /// only if the log [reaches back](Journal::reaches_back) to `known` after the read.
    ///
    /// # Errors
    /// Store errors.
    pub async fn places_after(&self, known: &Tail) -> Result<Option<Vec<EntryName>>> {
        match self.store.append_mode() {
            AppendMode::Siblings => {
                match self.chain.behind(known, Some(&self.marks(known.position))).await? {
                    ChainScan::Entries(places) => Ok(Some(places)),
                    ChainScan::Trimmed => Ok(None),
                }
            }
            // The end of a log is never removed, so the listing shows it if anything after `known` was
            // appended.
            AppendMode::Conditional => {
                let places = self.listed_after(known).await?;
                self.without_far(known.position, places).await.map(Some)
            }
        }
    }

    /// The damaged entry after `tail`, if this or another reader has found one.
    pub fn damaged_end(&self, tail: &Tail) -> Option<Position> {
        self.judge.damaged_after(tail.position)
    }

    /// Makes all paths be read again, also those cached as having no entry.
    pub fn look_again(&self) {
        self.judge.forget();
    }

    /// Whether nothing after `known` was ever removed. Otherwise a stale writer, or a repeated request, may
    /// have left another entry that chains and opens like the one that counts. So entries count only if this
    /// check succeeds after they were read. Without conditional create no name is used for two entries, and
    /// there is nothing to check.
    ///
    /// # Errors
    /// Store errors.
    pub async fn reaches_back(&self, known: &Tail) -> Result<bool> {
        match self.store.append_mode() {
            AppendMode::Siblings => Ok(true),
            AppendMode::Conditional => {
                let (next, asked) = (known.position.next(), self.trim_watermark.now());
                let marked = self.marked_after(next).await?;
                // See [`Journal::counts`].
                if marked.may_be_trimmed(next) && known.position > Position::ZERO {
                    return self.has(known).await;
                }
                Ok(self.holds_by(&marked, next, asked))
            }
        }
    }

    /// The places of the entries after `known` by a listing, for callers that only list. Without conditional
    /// create the last one may not count yet, or never; any object may be no entry.
    ///
    /// # Errors
    /// Store errors.
    pub async fn listed_after(&self, known: &Tail) -> Result<Vec<EntryName>> {
        let places = self.chain.list(known.position).await?;
        let last = last_of(&places, known);
        Ok(last.map_or_else(Vec::new, |last| leading_to(&places, last, known.position)))
    }

    /// Whether all entries exist from the first one on: nothing was trimmed, and none is missing.
    ///
    /// # Errors
    /// Store errors.
    pub async fn is_whole(&self) -> Result<bool> {
        let places = self.listed_after(&Tail::EMPTY).await?;
        Ok(!places.is_empty()
            && (1..).zip(&places).all(|(position, place)| place.position == Position(position)))
    }

    /// The path of an entry.
    pub fn path(&self, place: &EntryName) -> String {
        self.chain.path(place)
    }

    /// The objects at `places`, which follow `known`, and at positions between them that a listing may have
    /// omitted: opened entries, and noise. Ends after the maximum number of skipped positions without an
    /// entry.
    pub fn entries<'a>(
        &'a self,
        keys: &'a AccountKeys,
        known: Tail,
        places: &'a [EntryName],
    ) -> impl Stream<Item = Result<Read>> + 'a {
        let wanted = stream::iter(self.wanted(known.position, places));
        wanted
            .map(move |(place, is_listed)| async move {
                match self.object(&place, is_listed).await? {
                    Object::Entry(object, origin, header) => {
                        let entry = self.opened(Some(keys), &place, &object, origin, header);
                        Ok(Some(Read::Entry(entry)))
                    }
                    Object::Unfit(Unfit::Noise) => Ok(Some(Read::Noise(place.position))),
                    Object::Unfit(Unfit::Damaged) => Ok(Some(Read::Damaged(place.position))),
                    Object::Gone => Ok(is_listed.then_some(Read::Gone(place.position))),
                }
            })
            .buffered(READ_AHEAD)
            .filter_map(|read: Result<Option<Read>>| std::future::ready(read.transpose()))
            .scan((known.position, 0), |(last, others), read| {
                let position = match &read {
                    Ok(Read::Entry(entry)) => {
                        (*last, *others) = (entry.position, 0);
                        entry.position
                    }
                    Ok(Read::Noise(position) | Read::Damaged(position) | Read::Gone(position)) => {
                        *others += 1;
                        *position
                    }
                    Err(_) => *last,
                };
                // A log whose start was trimmed may begin anywhere.
                let is_far = *last > Position::ZERO && position.0 - last.0 > limits::LOG_GAP;
                std::future::ready((!is_far && *others <= limits::LOG_GAP).then_some(read))
            })
    }

    /// The renumbering after `position`, where the log is broken, that decides which entries count there. If
    /// there are several, the last one.
    ///
    /// # Errors
    /// Store errors.
    pub async fn cover_of(&self, position: Position, places: &[EntryName]) -> Result<Option<Cover>> {
        let later: Vec<EntryName> =
            places.iter().filter(|place| place.position > position).copied().collect();
        for some in later.chunks(READ_AHEAD).rev() {
            let found = futures::future::try_join_all(some.iter().map(|place| self.entry_at(*place))).await?;
            let covers = found.into_iter().flatten().filter_map(|(place, object, header)| {
                let renumbering = entry::renumbering(&object).ok()?;
                Some(Cover { position: place.position, generation: header.generation, renumbering })
            });
            if let Some(cover) = covers.filter(|cover| cover.renumbering.from <= position).last() {
                return Ok(Some(cover));
            }
        }
        Ok(None)
    }

    /// The places to read, and whether they are listed.
    fn wanted(&self, known: Position, places: &[EntryName]) -> Vec<(EntryName, bool)> {
        let mut wanted = Vec::with_capacity(places.len());
        let mut before = known;
        for place in places {
            let gap = place.position.0.saturating_sub(before.0 + 1);
            // Without conditional create the names show which entry follows which.
            if gap > 0 && gap < limits::LOG_GAP && self.store.append_mode() == AppendMode::Conditional {
                let unlisted = (before.0 + 1..place.position.0).map(|p| EntryName::plain(Position(p)));
                let unlisted = unlisted.filter(|place| self.judge.may_be_entry(place));
                wanted.extend(unlisted.map(|place| (place, false)));
            }
            wanted.push((*place, true));
            before = place.position;
        }
        wanted
    }

    /// Drops places further away than the next entry can be, if they have no entry. If one has, the log is
    /// broken, and replay detects it.
    pub(crate) async fn without_far(
        &self,
        known: Position,
        places: Vec<EntryName>,
    ) -> Result<Vec<EntryName>> {
        let before = std::iter::once(known).chain(places.iter().map(|place| place.position));
        let far =
            before.zip(&places).position(|(before, place)| place.position.0 - before.0 > limits::LOG_GAP);
        let Some(far) = far else { return Ok(places) };
        let is_noise = self.last_entry(&places[far..]).await?.is_none();
        let end = if is_noise { far } else { places.len() };
        Ok(places.into_iter().take(end).collect())
    }

    /// The last of `places` that has an entry, and its object. Checks at most as many places as the end of a
    /// log may have without entries.
    pub(crate) async fn last_entry(
        &self,
        places: &[EntryName],
    ) -> Result<Option<(EntryName, Bytes, Header)>> {
        let Some((last, others)) = places.split_last() else { return Ok(None) };
        if let Some(found) = self.entry_at(*last).await? {
            return Ok(Some(found));
        }
        let others: Vec<EntryName> = others.iter().rev().take(limits::LOG_GAP as usize).copied().collect();
        for some in others.chunks(READ_AHEAD) {
            let found = futures::future::try_join_all(some.iter().map(|place| self.entry_at(*place))).await?;
            if let Some(found) = found.into_iter().flatten().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn entry_at(&self, place: EntryName) -> BoxFuture<'_, Result<Option<(EntryName, Bytes, Header)>>> {
        let found = async move {
            match self.object(&place, true).await? {
                Object::Entry(object, _, header) => Ok(Some((place, object, header))),
                Object::Unfit(_) | Object::Gone => Ok(None),
            }
        };
        found.boxed()
    }

    pub(crate) fn opened(
        &self,
        keys: Option<&AccountKeys>,
        place: &EntryName,
        object: &Bytes,
        origin: Origin,
        header: Header,
    ) -> Entry {
        self.metrics.replayed.increment();
        let content = match (origin, keys) {
            (Origin::Renumbering, _) => entry::renumbering(object).map(Content::Renumbering),
            (_, None) => Err(Error::denied("there is no key")),
            (_, Some(keys)) => entry::open(keys, self.account, place.position, object)
                .map(|(origin, plaintext)| Content::Plain(origin, plaintext)),
        };
        Entry {
            position: place.position,
            hash: entry::hash(object),
            prev: header.prev,
            generation: header.generation,
            epoch: entry::epoch(object).unwrap_or(Epoch::FIRST),
            ballot: (!place.is_plain()).then_some(place.ballot),
            content: content.unwrap_or_else(|e| Content::Sealed(e.to_string())),
        }
    }

    /// Reads the object at a place. One that is no entry is read several times, over half a second: the store
    /// or a proxy may return wrong data for a while.
    pub(crate) async fn object(&self, place: &EntryName, is_listed: bool) -> Result<Object> {
        let path = self.path(place);
        let read = || self.store.read(&path);
        let first = if is_listed { self.give_out(place, read).await } else { none_if_absent(read().await) };
        if matches!(&first, Err(e) if e.kind() == Kind::NotFound) {
            let why = "the bucket lists it and gives out other objects, and GET returns 404";
            self.judge.note(*place, Unfit::Damaged, why);
            return Ok(Object::Unfit(Unfit::Damaged));
        }
        let mut unfit = match first {
            Ok(None) => return Ok(Object::Gone),
            Ok(Some(object)) => match self.judge.entry(place, &object).await? {
                Ok((origin, header)) => {
                    self.judge.is_entry(place);
                    return Ok(Object::Entry(object, origin, header));
                }
                Err(unfit) => unfit,
            },
            Err(e) if e.kind() == Kind::Corrupt => unread(place, &e),
            Err(e) => return Err(e),
        };
        // An object that was no entry a minute ago hardly ever is one now.
        let is_known = self.judge.was_unfit(place);
        let attempts = if is_known || self.store.directory().is_some() { 1 } else { READ_ATTEMPTS };
        for round in 0..attempts {
            match self.store.read_confirmed(&path).await {
                Ok(object) => match self.judge.entry(place, &object).await? {
                    Ok((origin, header)) => return Ok(Object::Entry(object, origin, header)),
                    Err(said) => unfit = said,
                },
                Err(e) if e.kind() == Kind::NotFound => return Ok(Object::Gone),
                Err(e) if e.kind() == Kind::Corrupt => unfit = unread(place, &e),
                Err(e) => return Err(e),
            }
            if round + 1 < attempts {
                self.chain.wait(round).await;
            }
        }
        self.judge.note(*place, unfit.0, &unfit.1);
        Ok(Object::Unfit(unfit.0))
    }

    /// The result of `read` for a place; `None` if the entry was trimmed or is lost. Some stores list an
    /// object shortly before they return it. A store that keeps listing it contradicts itself, or a proxy
    /// does. Then the entry must not count as missing, which would change the meaning of all later ones. It
    /// is damaged if the store returns others: `NotFound`.
    async fn give_out<F: Future<Output = Result<Bytes>>>(
        &self,
        place: &EntryName,
        read: impl Fn() -> F,
    ) -> Result<Option<Bytes>> {
        for round in 0..READ_ATTEMPTS {
            match none_if_absent(read().await)? {
                Some(object) => return Ok(Some(object)),
                None if self.is_trimmed(place.position).await? => return Ok(None),
                None => self.chain.wait(round).await,
            }
        }
        let path = self.path(place);
        if let Some(object) = none_if_absent(self.store.read_confirmed(&path).await)? {
            return Ok(Some(object));
        }
        if self.store.is_listed(&path).await? {
            return Err(match self.store.serves_reads().await {
                true => Error::not_found(path),
                false => Error::retry(format!("{path} is listed but GET returns 404")),
            });
        }
        Ok(None)
    }

    /// The opened entry at `position`, which is known to count.
    ///
    /// # Errors
    /// `NotFound` if it does not exist any more; `Corrupt` if it was changed; store errors.
    pub async fn entry(&self, keys: &AccountKeys, position: Position) -> Result<Entry> {
        let place = match self.store.append_mode() {
            AppendMode::Conditional => EntryName::plain(position),
            AppendMode::Siblings => {
                let before = Tail { position: Position(position.0.saturating_sub(1)), ..Tail::EMPTY };
                let places = self.listed_after(&before).await?;
                let place = places.into_iter().find(|place| place.position == position);
                place.ok_or_else(|| Error::not_found(format!("log entry {position} is not there")))?
            }
        };
        match self.object(&place, false).await? {
            Object::Entry(object, origin, header) => {
                Ok(self.opened(Some(keys), &place, &object, origin, header))
            }
            Object::Unfit(_) => Err(Error::corrupt(format!("log entry {position} is damaged"))),
            Object::Gone => Err(Error::not_found(format!("log entry {position} is not there"))),
        }
    }

    /// The end of the log for a caller without keys, starting from a known earlier end.
    ///
    /// # Errors
    /// Store errors; `Corrupt` if the listing shows no end.
    pub async fn tail(&self, known: Tail) -> Result<Tail> {
        for _ in 0..TAIL_ATTEMPTS {
            let places = match self.store.append_mode() {
                AppendMode::Conditional => self.listed_after(&known).await?,
                AppendMode::Siblings => match self.places_after(&known).await? {
                    Some(places) => places,
                    None => self.chain.last().await?.map(|(place, _)| place).into_iter().collect(),
                },
            };
            let Some(last) = places.last().copied() else { return Ok(known) };
            let Some((place, object, header)) = self.last_entry(&places).await? else {
                if places.len() >= limits::LOG_GAP as usize {
                    return Err(too_noisy());
                }
                // No listed object is an entry, or all have been trimmed since.
                if self.store.append_mode() == AppendMode::Siblings || self.holds(last.position).await? {
                    return Ok(known);
                }
                continue;
            };
            // Checked after the read: see [`Journal::reaches_back`].
            if self.store.append_mode() == AppendMode::Siblings || self.holds(place.position).await? {
                let ballot = (!place.is_plain()).then_some(place.ballot);
                let (hash, generation) = (entry::hash(&object), header.generation);
                return Ok(Tail { position: place.position, hash, ballot, generation });
            }
        }
        Err(Error::retry("the log grows too fast, or entries after the last one read are missing"))
    }

    /// The position of the last entry; `known` if there is none after it, which takes one listing.
    ///
    /// # Errors
    /// Store errors.
    pub async fn last_after(&self, known: Position) -> Result<Position> {
        let tail = Tail { position: known, ..Tail::EMPTY };
        let places = match self.store.append_mode() {
            AppendMode::Conditional => self.listed_after(&tail).await?,
            // A listed entry may not count, and callers wait for the returned position.
            AppendMode::Siblings => {
                let listed = self.chain.list(known).await?;
                if listed.iter().all(|place| place.position <= known) {
                    return Ok(known);
                }
                match self.chain.behind_as_listed(listed, &tail, None).await? {
                    ChainScan::Entries(places) => {
                        return Ok(places.last().map_or(known, |last| last.position));
                    }
                    ChainScan::Trimmed => return Ok(known),
                }
            }
        };
        let last = self.last_entry(&places).await?;
        Ok(last.map_or(known, |(place, ..)| place.position))
    }

    /// How many entries a listing shows after `position`.
    ///
    /// # Errors
    /// Store errors.
    pub async fn count_after(&self, position: Position) -> Result<usize> {
        Ok(self.chain.list(position).await?.len())
    }
}

/// The fault of an unreadable object. One larger than any entry was never one, unless only its name can tell.
pub(crate) fn unread(place: &EntryName, e: &Error) -> (Unfit, String) {
    let unfit = if place.is_plain() && is_too_large(e) { Unfit::Noise } else { Unfit::Damaged };
    (unfit, e.to_string())
}

fn none_if_absent(read: Result<Bytes>) -> Result<Option<Bytes>> {
    match read {
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
