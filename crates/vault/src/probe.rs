//! What a store really does, found out by doing it. Nothing is assumed of a store because of its name.
//!
//! Everything is written below `probe/`, under a random name, and removed again, also if something
//! fails on the way: by the names that may have been written, as well as by what the store lists.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use sealpost_base::{Clock, Error, Kind, Random, Result};

use crate::store::AppendMode;
use crate::{Put, Sealed, Store};

/// What becomes of a conditional create of something that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// It is refused, also when several come at once: one wins.
    Kept,
    /// It is accepted, and replaces an existing object.
    Ignored,
    /// It is refused if it comes later, but of several at once more than one was accepted.
    Raced,
    /// The server accepts no conditional writes at all, even if no object is there.
    Refused,
}

impl Conditions {
    /// How to append to such a store.
    pub fn append_mode(self) -> AppendMode {
        match self {
            Conditions::Kept => AppendMode::Conditional,
            Conditions::Ignored | Conditions::Raced | Conditions::Refused => AppendMode::Siblings,
        }
    }
}

/// What a store does, and how long it takes.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// What conditional writes are worth.
    pub conditions: Conditions,
    /// A written object is in the next listing.
    pub lists_what_was_written: bool,
    /// What was removed is not in the next listing.
    pub forgets_what_was_removed: bool,
    /// Versions of removed objects are kept, and readers of the bucket can have them; `false` where
    /// the store does not show it.
    pub keeps_removed: bool,
    /// Ranges of objects are answered with exactly these bytes.
    pub reads_ranges: bool,
    /// Objects can be written in parts.
    pub uploads_in_parts: bool,
    /// How far the store's clock is ahead of this machine's, in milliseconds, to about a second.
    pub clock_ahead_ms: i64,
    /// The middle one of several writes of 1 KiB.
    pub write: Duration,
    /// Of several reads of it.
    pub read: Duration,
    /// Of several listings of it.
    pub list: Duration,
    /// Of several removals.
    pub delete: Duration,
}

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As at every start.
    Quick,
    /// As for an explicit check.
    Thorough,
}

/// How often each thing is measured.
const ROUNDS: usize = 7;
/// Writers of one path at once.
const RACERS: usize = 8;
const OBJECT_BYTES: usize = 1024;

/// Finds out what `store` does.
///
/// # Errors
/// What the store says.
pub async fn probe(store: &Store, clock: &dyn Clock, random: &dyn Random) -> Result<Probe> {
    let conditions = conditions(store, random, Effort::Thorough).await?;
    let plain = (conditions == Conditions::Refused).then(|| store.without_conditions()).flatten();
    let store = plain.as_ref().unwrap_or(store);
    let below = fresh(random);
    let done = look(store, &below, conditions, clock, random).await;
    cleared(store, &below, done).await
}

async fn look(
    store: &Store,
    below: &str,
    conditions: Conditions,
    clock: &dyn Clock,
    random: &dyn Random,
) -> Result<Probe> {
    let paths: Vec<_> = (0..ROUNDS).map(|n| format!("{below}/{n}")).collect();
    let objects: Vec<_> = paths.iter().map(|_| object(random)).collect();
    let mut write = Vec::new();
    for (path, object) in paths.iter().zip(&objects) {
        write.push(timed(clock, store.put_new(path, object.clone())).await?.0);
    }
    let (mut list, mut lists_what_was_written, mut modified) = (Vec::new(), true, None);
    for _ in 0..ROUNDS {
        let (took, listed) = timed(clock, store.list(below, None).try_collect::<Vec<_>>()).await?;
        lists_what_was_written &= listed.len() == ROUNDS;
        modified = listed.last().map(|last| last.modified);
        list.push(took);
    }
    let clock_ahead_ms = modified.map_or(0, |modified| modified.0 - clock.now().0);
    let (mut read, mut reads_ranges) = (Vec::new(), true);
    for (path, object) in paths.iter().zip(&objects) {
        let (took, found) = timed(clock, store.read(path)).await?;
        if found[..] != *object.as_ref() {
            return Err(Error::corrupt(format!("{path} differs from the bytes written to it")));
        }
        let range = 100..200;
        let part = store.read_range(path, range.start as u64..range.end as u64).await?;
        reads_ranges &= part[..] == object.as_ref()[range];
        read.push(took);
    }
    let uploads_in_parts = in_parts(store, &format!("{below}/parts"), random).await?;
    let mut delete = Vec::new();
    for path in &paths {
        delete.push(timed(clock, store.delete(path)).await?.0);
    }
    let left: Vec<_> = store.list(below, None).try_collect().await?;
    let forgets_what_was_removed = left.is_empty();
    let (write, read, list, delete) = (middle(write), middle(read), middle(list), middle(delete));
    Ok(Probe {
        conditions,
        lists_what_was_written,
        forgets_what_was_removed,
        keeps_removed: store.keeps_removed(),
        reads_ranges,
        uploads_in_parts,
        clock_ahead_ms,
        write,
        read,
        list,
        delete,
    })
}

/// Uploads in two parts, reads it back, removes it.
async fn in_parts(store: &Store, path: &str, random: &dyn Random) -> Result<bool> {
    let mut first = vec![0; store.part_bytes()];
    random.fill(&mut first[..OBJECT_BYTES]);
    let (first, second) = (Sealed::new(first), object(random));
    let mut upload = store.upload(path).await?;
    for part in [&first, &second] {
        if let Err(e) = upload.part(part.clone()).await {
            upload.abort().await;
            return Err(e);
        }
    }
    upload.complete().await?;
    let found = store.read(path).await?;
    store.delete(path).await?;
    Ok(found[..] == [first.as_ref(), second.as_ref()].concat())
}

/// What the conditional writes of `store` are worth.
///
/// # Errors
/// What the store says.
pub(crate) async fn conditions(store: &Store, random: &dyn Random, effort: Effort) -> Result<Conditions> {
    let below = fresh(random);
    let done = try_conditions(store, &below, random, effort).await;
    cleared(store, &below, done).await
}

async fn try_conditions(
    store: &Store,
    below: &str,
    random: &dyn Random,
    effort: Effort,
) -> Result<Conditions> {
    let path = format!("{below}/twice");
    let (first, second) = (object(random), object(random));
    match store.put_new(&path, first.clone()).await {
        Ok(Put::Created) => {}
        Ok(Put::Exists) => return Err(Error::conflict(format!("{path} is there already"))),
        Err(e) if e.kind() == Kind::Retry => return without(store, below, e, random).await,
        Err(e) => return Err(e),
    }
    let put = store.put_new(&path, second).await?;
    let kept = store.read(&path).await?[..] == *first.as_ref();
    if put == Put::Created || !kept {
        return Ok(Conditions::Ignored);
    }
    let (rounds, racers) = match effort {
        Effort::Quick => (1, RACERS / 2),
        Effort::Thorough => (ROUNDS, RACERS),
    };
    for round in 0..rounds {
        if !race(store, &format!("{below}/race{round}"), random, racers).await? {
            return Ok(Conditions::Raced);
        }
    }
    Ok(Conditions::Kept)
}

/// Whether exactly one of several writers at once has created the object, and it is the one that is there.
async fn race(store: &Store, path: &str, random: &dyn Random, racers: usize) -> Result<bool> {
    let objects: Vec<_> = (0..racers).map(|_| object(random)).collect();
    let puts = join_all(objects.iter().map(|object| store.put_new(path, object.clone()))).await;
    let found = store.read(path).await?;
    let mut created = 0;
    let mut truthful = true;
    for (put, object) in puts.into_iter().zip(&objects) {
        // A caller that gets the error does not know the outcome.
        if matches!(put, Ok(Put::Created)) {
            created += 1;
            truthful &= found[..] == *object.as_ref();
        }
    }
    Ok(created <= 1 && truthful)
}

/// A conditional write failed: tries one without a condition.
async fn without(store: &Store, below: &str, failed: Error, random: &dyn Random) -> Result<Conditions> {
    let Some(plain) = store.without_conditions() else { return Err(failed) };
    match plain.put_new(&format!("{below}/plain"), object(random)).await {
        Ok(_) => Ok(Conditions::Refused),
        Err(_) => Err(failed),
    }
}

/// The result of a probe, once every object that it may have written is removed. If a removal
/// fails, the error joins an earlier one, or is logged.
async fn cleared<T>(store: &Store, below: &str, done: Result<T>) -> Result<T> {
    let left = clear(store, below, done.is_err()).await;
    match (done, left) {
        (done, Ok(())) => done,
        (Ok(found), Err(e)) => {
            tracing::warn!(below, error = %e, "what a probe wrote could not be removed");
            Ok(found)
        }
        // The cause of both is likely the same, and the first says more.
        (Err(failed), Err(e)) => {
            tracing::debug!(below, error = %e, "what a probe wrote could not be removed");
            Err(failed.context(format!("cannot remove the test objects below {below}/; remove them")))
        }
    }
}

async fn clear(store: &Store, below: &str, has_failed: bool) -> Result<()> {
    let listed = store.list(below, None).try_collect::<Vec<_>>().await;
    // A store that fails may list nothing, or not all.
    let unsure = has_failed || listed.is_err();
    let unlisted = written(below).filter(|_| unsure);
    let listed = listed.into_iter().flatten().map(|object| object.path);
    let paths: BTreeSet<_> = listed.chain(unlisted).collect();
    let deletes = join_all(paths.iter().map(|path| store.delete(path))).await;
    deletes.into_iter().collect()
}

/// All that a probe may have written.
fn written(below: &str) -> impl Iterator<Item = String> {
    let numbered = (0..ROUNDS).flat_map(move |n| [format!("{below}/{n}"), format!("{below}/race{n}")]);
    numbered.chain(["twice", "plain", "parts"].map(|name| format!("{below}/{name}")))
}

fn fresh(random: &dyn Random) -> String {
    format!("probe/{:016x}", random.next_u64())
}

fn object(random: &dyn Random) -> Sealed {
    let mut bytes = vec![0; OBJECT_BYTES];
    random.fill(&mut bytes);
    Sealed::new(bytes)
}

async fn timed<T>(clock: &dyn Clock, work: impl Future<Output = Result<T>>) -> Result<(Duration, T)> {
    let began = clock.monotonic();
    let done = work.await?;
    Ok((clock.monotonic().saturating_sub(began), done))
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
