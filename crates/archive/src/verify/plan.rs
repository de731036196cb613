//! What to compare, and the comparison of two lists: computed from the data of both ends only.

use std::collections::{BTreeSet, HashMap, HashSet};

use sealpost_base::{Random, Uid, UidSet};

use super::local::Local;
use super::report::FolderReport;
use crate::backup::{BackupFolder, FolderName};
use crate::client::ListedMailbox;

/// How many connections may be lost at one message.
const ATTEMPTS: u32 = 3;

/// How many messages are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// So many of each folder, at random.
    Some(u32),
    /// Every one.
    All,
}

/// The folders of the server and of the backup.
pub(super) struct Ends<'a> {
    /// Folders of the server that a pull would back up.
    pub(super) folders: &'a [ListedMailbox],
    /// The names of all folders of the server.
    pub(super) all: &'a HashSet<FolderName>,
    pub(super) kept: &'a [BackupFolder],
    /// Superseded folders.
    pub(super) superseded: &'a [BackupFolder],
}

/// The folders to compare.
pub(super) struct Plan<'a> {
    pub(super) with_server: Vec<WithServer<'a>>,
    pub(super) alone: Vec<Alone<'a>>,
}

/// A folder of the server.
pub(super) struct WithServer<'a> {
    pub(super) found: &'a ListedMailbox,
    pub(super) kept: Option<&'a BackupFolder>,
    /// Only these messages are compared byte by byte; otherwise a sample.
    pub(super) chosen: Option<UidSet>,
}

/// A folder of the backup that is compared with itself.
pub(super) struct Alone<'a> {
    pub(super) kept: &'a BackupFolder,
    /// The server may have all of it: under this name, or, if it is superseded, under other UIDs.
    pub(super) is_there: bool,
}

impl<'a> Plan<'a> {
    /// All `wanted` folders; or only the messages `only` of these folders.
    pub(super) fn of(
        ends: &Ends<'a>,
        wanted: impl Fn(&str) -> bool,
        only: Option<&HashMap<String, UidSet>>,
    ) -> Self {
        let Ends { folders, all, kept, superseded } = *ends;
        let compared = |found: &&ListedMailbox| {
            found.selectable && only.is_none_or(|only| only.contains_key(found.name.as_str()))
        };
        let with_server = folders.iter().filter(compared).map(|found| WithServer {
            found,
            kept: kept.iter().find(|kept| kept.name == found.name),
            chosen: only.and_then(|only| only.get(found.name.as_str()).cloned()),
        });
        let is_found =
            |kept: &&BackupFolder| folders.iter().any(|found| found.selectable && found.name == kept.name);
        let alone = kept.iter().filter(|kept| !is_found(kept)).chain(superseded);
        let alone = alone.filter(|kept| only.is_none() && wanted(kept.name.as_str()));
        let alone = alone.map(|kept| Alone { kept, is_there: all.contains(&kept.name) });
        Plan { with_server: with_server.collect(), alone: alone.collect() }
    }
}

/// The server's list of a folder's messages.
#[derive(Debug, Default)]
pub(super) struct ServerListing {
    /// Their UIDs.
    pub(super) there: UidSet,
    /// Those whose size on the server differs from that in the backup.
    pub(super) sizes: UidSet,
}

impl ServerListing {
    /// The server has this message, of that size.
    pub(super) fn add(&mut self, local: &Local, uid: u32, size: u64) {
        let Some(id) = Uid::new(uid) else { return };
        self.there.insert(id);
        if local.messages.get(&uid).is_some_and(|(kept, _)| *kept != size) {
            self.sizes.insert(id);
        }
    }

    /// Compares both lists and adds to the report; returns the messages that both sides have.
    pub(super) fn compare(self, local: &Local, report: &mut FolderReport) -> UidSet {
        let there = &self.there;
        report.missing = there.difference(&local.uids).difference(&local.damaged_uids);
        report.evicted = local.evicted.len() as u64;
        report.lost = local.evicted.difference(there);
        report.reparable = local.damaged_uids.intersection(there);
        report.beyond_repair = local.damaged_uids.difference(there);
        let gone = local.uids.difference(there);
        report.gone = gone.len() as u64;
        report.doubled = local.alike(&gone, there);
        report.sizes = self.sizes;
        local.uids.intersection(&self.there)
    }
}

/// The messages to compare byte by byte, over as many connections as needed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Those to compare; `None` until both sides were looked at.
    pub(super) chosen: Option<UidSet>,
    /// Those that were compared.
    pub(super) done: UidSet,
    /// How many connections were lost at each.
    lost: HashMap<Uid, u32>,
}

impl Progress {
    /// None compared yet; `chosen` if it is known which to compare.
    pub(super) fn new(chosen: Option<UidSet>) -> Self {
        Progress { chosen, ..Progress::default() }
    }

    /// Of the common messages, those still to compare. Messages that went meanwhile are left out,
    /// and so are those at which connections were lost again and again.
    pub(super) fn left(&self, common: &UidSet) -> UidSet {
        let evicted: UidSet =
            self.lost.iter().filter(|(_, times)| **times >= ATTEMPTS).map(|(uid, _)| *uid).collect();
        self.unsent(common).difference(&evicted)
    }

    /// Of the common messages, those that the server did not send.
    pub(super) fn unsent(&self, common: &UidSet) -> UidSet {
        let mut chosen = self.chosen.iter().map(|chosen| chosen.intersection(common).difference(&self.done));
        chosen.next_back().unwrap_or_default()
    }

    /// A connection was lost at this message: the first one that did not come.
    pub(super) fn connection_lost(&mut self) {
        let first = self.chosen.as_ref().and_then(|chosen| chosen.difference(&self.done).first());
        if let Some(first) = first {
            *self.lost.entry(first).or_default() += 1;
        }
    }
}

/// The messages to compare of these.
pub(super) fn choose(uids: &UidSet, sample: Sample, random: &dyn Random) -> UidSet {
    let count = uids.len();
    match sample {
        Sample::All => uids.clone(),
        Sample::Some(n) if n as usize >= count => uids.clone(),
        Sample::Some(n) => {
            // Floyd: each set of n positions is as likely as any other, and n draws make n
            // positions.
            let mut places = BTreeSet::new();
            for last in count - n as usize..count {
                let place = (random.next_u64() % (last as u64 + 1)) as usize;
                if !places.insert(place) {
                    places.insert(last);
                }
            }
            places.into_iter().filter_map(|place| uids.nth(place)).collect()
        }
    }
}

#[cfg(test)]
mod tests;
