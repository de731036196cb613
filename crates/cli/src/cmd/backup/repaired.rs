//! A log at TO that was repaired: it says which entries count, and another one among them, from a backup, would contradict it. So such
//! an entry is not copied; the account could not be opened.

use std::collections::BTreeSet;

use anyhow::Result;
use sealpost_base::{Error, Kind, Position};
use sealpost_journal::log_entry;
use sealpost_vault::entry::{self, Origin};
use sealpost_vault::{Listed, Store};

/// Positions that the log at a store says everything about.
struct Stated {
    from: Position,
    to: Position,
}

/// The paths of those of `log`, as it is at FROM, that a repair of the log at TO went on without.
pub async fn left_out(log: &[Listed], to: &Store, there: &[Listed]) -> Result<BTreeSet<String>> {
    let mut missing = Vec::new();
    let end = there.iter().filter_map(position).max().unwrap_or_default();
    for object in log.iter().filter(|object| position(object).is_some_and(|at| at < end)) {
        let is_there = there.iter().any(|other| other.path == object.path && other.size == object.size);
        if !is_there || !to.has_all(&object.path).await? {
            missing.push(object);
        }
    }
    let Some(first) = missing.iter().filter_map(|object| position(object)).min() else {
        return Ok(BTreeSet::new());
    };
    let stated = stated_behind(first, to, there).await?;
    let is_stated = |at: Position| stated.iter().any(|stated| (stated.from..stated.to).contains(&at));
    let left_out = missing.into_iter().filter(|object| position(object).is_some_and(is_stated));
    Ok(left_out.map(|object| object.path.clone()).collect())
}

/// What the renumberings behind `first` state.
async fn stated_behind(first: Position, to: &Store, there: &[Listed]) -> Result<Vec<Stated>> {
    let mut stated = Vec::new();
    for object in there {
        let Some(at) = position(object).filter(|at| *at > first) else { continue };
        let bytes = match to.read(&object.path).await {
            // What is wrong with it is another matter.
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => continue,
            read => read.map_err(Error::from)?,
        };
        if entry::header(&bytes).is_ok_and(|(origin, _)| origin == Origin::Renumbering)
            && let Ok(renumbering) = entry::renumbering(&bytes)
        {
            stated.push(Stated { from: renumbering.from, to: at });
        }
    }
    Ok(stated)
}

fn position(object: &Listed) -> Option<Position> {
    log_entry(&object.path).map(|(_, position)| position)
}
