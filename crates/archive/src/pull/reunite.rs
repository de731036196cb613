//! What a restore put back is what the copy has already: a folder's messages get the UIDs that the record of restores says, before it
//! is compared with the server.
//!
//! Nothing is fetched for that. In the folder that they were in, messages get other UIDs. Those that were put into a folder that was
//! made anew (another UIDVALIDITY), or that the server calls otherwise, are in the copy in what was put aside, or in a folder that the
//! server does not have: they move from there. What was put below a folder that the restore was told is there besides.

use std::collections::{BTreeMap, HashSet};

use sealpost_base::{Result, UidSet};
use tokio::sync::watch;

use crate::keep::transfer::hand_over;
use crate::keep::{Arrived, Copy, Folder, FolderName, Identity, Kept, Resume, Stored};
use crate::restored::{Restored, Way};
use crate::same::is_same;

/// Messages that move in one transaction.
const TOGETHER: usize = 1024;
/// Octets that do.
const TOGETHER_BYTES: u64 = 64 * 1024 * 1024;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Reunited {
    /// Messages that have other UIDs now, or are in this folder now.
    pub(super) recognized: u64,
    /// UIDs of messages and of what the record says they are, too: both are in the folder.
    pub(super) twins: Vec<(u32, u32)>,
    /// Messages that may come under UIDs that nobody knows.
    pub(super) expected: UidSet,
}

/// The copy and what is known of it and of its server.
pub(super) struct Reuniting<'a> {
    pub(super) copy: &'a dyn Copy,
    pub(super) restored: &'a Restored,
    /// Folders that the server has.
    pub(super) listed: &'a HashSet<String>,
    pub(super) stop: &'a watch::Receiver<bool>,
}

impl Reuniting<'_> {
    /// Gives the messages of `folder`, which was just opened, the UIDs that they have since they were put back.
    ///
    /// # Errors
    /// What the copy says.
    pub(super) fn run(
        &self,
        folder: &mut dyn Folder,
        name: &FolderName,
        server: &Identity,
    ) -> Result<Reunited> {
        let mut reunited = Reunited::default();
        if let Some(way) = self.restored.back(name.as_str(), server.uidvalidity) {
            let latest = way.latest();
            let is_free = |uid: &u32| !folder.known().contains(*uid);
            let last = |uid: u32| {
                let mut there = latest.get(&uid)?;
                // It may have been put back again and again since. UIDs grow, so this ends.
                while let Some(next) = latest.get(there).filter(|_| is_free(there)) {
                    there = next;
                }
                Some((uid, *there))
            };
            let uids: BTreeMap<u32, u32> = latest.keys().filter_map(|uid| last(*uid)).collect();
            reunited.recognized += folder.renumber(&uids)?;
            let now = |uid: u32| if is_in(folder, uid) { Some(uid) } else { uids.get(&uid).copied() };
            let twins = way.pairs().iter().filter_map(|(uid, there)| Some((now(*uid)?, now(*there)?)));
            let are =
                |(uid, there): &(u32, u32)| uid != there && is_in(folder, *uid) && is_in(folder, *there);
            reunited.twins = twins.filter(are).collect();
            reunited.expected = way.unanswered().intersection(&folder.known().uids());
        }
        let others = self.restored.ways(name.as_str(), server.uidvalidity).iter();
        for way in others.filter(|way| way.folder != name.as_str() || way.uidvalidity != server.uidvalidity) {
            let source = self.source(way)?;
            if let Some(kept) = source.filter(|kept| kept.name != *name) {
                reunited.recognized += self.take_over(&kept, way, folder)?;
            }
        }
        Ok(reunited)
    }

    /// What the copy has that its messages can be taken from: the server has it no more.
    fn source(&self, way: &Way) -> Result<Option<Kept>> {
        let is_it =
            |kept: &Kept| kept.place().as_str() == way.folder && kept.identity.uidvalidity == way.uidvalidity;
        if let Some(kept) = self.copy.put_aside()?.into_iter().find(is_it) {
            return Ok(Some(kept));
        }
        if way.below != Some(false) || self.listed.contains(&way.folder) {
            return Ok(None);
        }
        Ok(self.copy.folders()?.into_iter().find(is_it))
    }

    /// Moves messages from another folder of the copy; how many. A run that is killed leaves some in both, and the next one goes on.
    fn take_over(&self, kept: &Kept, way: &Way, folder: &mut dyn Folder) -> Result<u64> {
        let opened = match kept.was {
            Some(_) => self.copy.open_aside(&kept.name),
            None => self.copy.open(&kept.name, &kept.identity),
        };
        // What cannot be read comes from the server.
        let Ok(mut from) = opened else { return Ok(0) };
        let latest = way.latest();
        let wanted = |uid: u32| latest.get(&uid).copied();
        let Ok(stored) = from.messages() else { return Ok(0) };
        let stored = stored.filter_map(|stored| stored.ok().filter(|stored| wanted(stored.uid).is_some()));
        let stored: Vec<Stored> = stored.collect();
        let (mut moved, mut octets, mut taken) = (Vec::new(), 0, 0);
        for stored in stored {
            if *self.stop.borrow() {
                break;
            }
            let Some(there) = wanted(stored.uid) else { continue };
            if self.is_moved(&*from, folder, &stored, there)? {
                octets += stored.size;
                moved.push(stored.uid);
            }
            if moved.len() >= TOGETHER || octets >= TOGETHER_BYTES {
                taken += leave(&mut *from, folder, std::mem::take(&mut moved))?;
                octets = 0;
            }
        }
        taken += leave(&mut *from, folder, moved)?;
        from.close()?;
        Ok(taken)
    }

    /// Whether the message is in the folder under that UID now. One that cannot be read, or whose body is not here, comes from the server.
    fn is_moved(
        &self,
        from: &dyn Folder,
        folder: &mut dyn Folder,
        stored: &Stored,
        there: u32,
    ) -> Result<bool> {
        if from.given_up(stored.uid).is_ok_and(|given_up| given_up.is_some()) {
            return Ok(false);
        }
        if folder.known().contains(there) {
            return Ok(is_same(from, stored.uid, folder, there));
        }
        let (flags, internaldate) = (stored.flags.clone(), stored.internaldate);
        let arrived = Arrived { uid: there, flags, internaldate };
        Ok(hand_over(from, stored.uid, folder, &arrived, stored.size, &mut |_| true)?.is_ok())
    }
}

fn is_in(folder: &dyn Folder, uid: u32) -> bool {
    folder.known().contains(uid)
}

/// Commits what was put into `folder`, and removes it from where it was; how many these are.
fn leave(from: &mut dyn Folder, folder: &mut dyn Folder, moved: Vec<u32>) -> Result<u64> {
    if moved.is_empty() {
        return Ok(0);
    }
    // All is compared with the server then.
    folder.commit(&Resume { highestmodseq: 0, ..folder.resume() })?;
    for uid in &moved {
        from.vanished(*uid)?;
    }
    let resume = from.resume();
    from.commit(&resume)?;
    Ok(moved.len() as u64)
}
