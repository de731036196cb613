//! A log at TO that was repaired: it states which entries count, and another one among them, from a
//! backup, would contradict it. Such an entry is not copied, because the account could not be
//! opened. One that the repair counted, and that was lost later, is.

use std::collections::BTreeSet;

use anyhow::Result;
use sealpost_base::{Kind, Position};
use sealpost_journal::log_entry;
use sealpost_vault::entry::{self, CountedEntries, Origin, Renumbering};
use sealpost_vault::{Hash, ListedObject, Store};

/// Missing entries of which it is tried which of them were counted. Of more, all or none.
const TRIED: usize = 8;

/// An entry at one of the stores.
struct LoggedEntry {
    position: Position,
    hash: Hash,
    renumbering: Option<Renumbering>,
}

/// The paths of those entries of `log`, as it is at FROM, that a repair of the log at TO, whose
/// objects are `there`, left out.
pub async fn left_out(
    from: &Store,
    log: &[ListedObject],
    to: &Store,
    there: &[ListedObject],
) -> Result<BTreeSet<String>> {
    let end = there.iter().filter_map(position).max().unwrap_or_default();
    let mut missing = Vec::new();
    for object in log.iter().filter(|object| position(object).is_some_and(|at| at < end)) {
        let is_there = there.iter().any(|other| other.path == object.path && other.size == object.size);
        if (!is_there || !to.has_all(&object.path).await?)
            && let Some(known) = known(from, object).await?
        {
            missing.push((known, &object.path));
        }
    }
    let Some(first) = missing.iter().map(|(known, _)| known.position).min() else {
        return Ok(BTreeSet::new());
    };
    let mut present = Vec::new();
    for object in there {
        if missing.iter().all(|(_, path)| **path != object.path) {
            present.extend(known(to, object).await?);
        }
    }
    let mut left_out = BTreeSet::new();
    for at in present.iter().filter(|entry| entry.position > first) {
        let Some(renumbering) = &at.renumbering else { continue };
        let is_stated =
            |entry: &LoggedEntry| entry.position >= renumbering.from && entry.position < at.position;
        let stated: Vec<&LoggedEntry> = present.iter().filter(|entry| is_stated(entry)).collect();
        let absent: Vec<_> = missing.iter().filter(|(entry, _)| is_stated(entry)).collect();
        let absentees: Vec<&LoggedEntry> = absent.iter().map(|(entry, _)| entry).collect();
        let counted = counted(&stated, &absentees, renumbering);
        let not_counted = absent.iter().zip(counted).filter(|(_, counted)| !counted);
        left_out.extend(not_counted.map(|((_, path), _)| (*path).clone()));
    }
    Ok(left_out)
}

/// Which of the absent entries a renumbering counts beside those that are present; none, if that
/// cannot be found out.
fn counted(present: &[&LoggedEntry], absent: &[&LoggedEntry], said: &Renumbering) -> Vec<bool> {
    let choices: Vec<Vec<bool>> = match absent.len() {
        few if few <= TRIED => {
            (0..1u32 << few).map(|chosen| (0..few).map(|n| chosen & (1 << n) != 0).collect()).collect()
        }
        many => vec![vec![false; many], vec![true; many]],
    };
    let fits = |chosen: &Vec<bool>| {
        let added = absent.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(entry, _)| *entry);
        let mut all: Vec<&LoggedEntry> = present.iter().copied().chain(added).collect();
        all.sort_by_key(|entry| entry.position);
        let sum = all.iter().fold(CountedEntries::NONE, |sum, entry| sum.with(entry.position, &entry.hash));
        Renumbering::of(said.from, sum) == *said
    };
    choices.into_iter().find(fits).unwrap_or_else(|| vec![false; absent.len()])
}

/// What is at the path of an entry; `None` if it cannot be read, or is none.
async fn known(store: &Store, object: &ListedObject) -> Result<Option<LoggedEntry>> {
    let bytes = match store.read(&object.path).await {
        // What is wrong with it is another matter.
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => return Ok(None),
        read => read?,
    };
    let (Some(position), Ok((origin, header))) = (position(object), entry::header(&bytes)) else {
        return Ok(None);
    };
    let renumbering = (origin == Origin::Renumbering).then(|| entry::renumbering(&bytes).ok()).flatten();
    let is_entry = header.position == position;
    Ok(is_entry.then(|| LoggedEntry { position, hash: entry::hash(&bytes), renumbering }))
}

fn position(object: &ListedObject) -> Option<Position> {
    log_entry(&object.path).map(|(_, position)| position)
}
