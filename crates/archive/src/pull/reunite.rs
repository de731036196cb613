//! Recognizes what a restore put back: before a folder is compared with the server, its messages
//! get the UIDs of the record of restores, also if the server's folder was renamed since.
//!
//! Only a few header fields are fetched: the server may be another one than that of the record, set
//! up again with the same UIDVALIDITY, so the message behind a UID is checked. In their original
//! folder, messages get other UIDs. If they were put into a folder that was created again (another
//! UIDVALIDITY), or that the server lists under another name, the backup has them in a superseded
//! folder, or in one that the server does not have: they move from there. Messages that were put
//! below a folder that the restore named stay additional ones.

use std::collections::{BTreeMap, HashSet};

use sealpost_base::{Kind, Result, Uid, UidSet};
use sealpost_imap::client::{Event, FetchData};
use tokio::sync::watch;

use crate::backup::convert::hand_over;
use crate::backup::{Arrived, Backup, BackupFolder, Folder, FolderName, Identity, Resume, Stored};
use crate::client::{Connection, commands};
use crate::push::{MARK_FIELDS, Mark, header};
use crate::restored::{Restoration, Restored};
use crate::same::is_same;

/// Messages moved in one transaction.
const TOGETHER: usize = 1024;
/// Bytes moved in one transaction.
const TOGETHER_BYTES: u64 = 64 * 1024 * 1024;

/// What the record lists for a folder.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// New UIDs of messages of the folder, by their present ones.
    here: BTreeMap<u32, u32>,
    /// The same of messages elsewhere in the backup.
    elsewhere: Vec<(BackupFolder, BTreeMap<u32, u32>)>,
    /// What was put back, and as what.
    pairs: Vec<(u32, u32)>,
    /// Messages that may come under unknown UIDs.
    expected: UidSet,
    /// Header data of the messages, by their new UIDs.
    marks: BTreeMap<u32, Mark>,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Reunited {
    /// Messages that got other UIDs, or moved into this folder.
    pub(super) recognized: u64,
    /// UIDs of messages and of the same messages according to the record: both are in the folder.
    pub(super) twins: Vec<(u32, u32)>,
    /// Messages that may come under unknown UIDs.
    pub(super) expected: UidSet,
}

/// The backup, and what is known of it and of its server.
pub(super) struct Reuniting<'a> {
    pub(super) backup: &'a dyn Backup,
    pub(super) restored: &'a Restored,
    /// Folders that the server has.
    pub(super) listed: &'a HashSet<String>,
    pub(super) stop: &'a watch::Receiver<bool>,
}

impl Recorded {
    /// Those of the UIDs under which the server has the message that the record lists.
    ///
    /// # Errors
    /// `Retry` if the connection is lost.
    pub(super) async fn confirmed(&self, connection: &mut Connection) -> Result<HashSet<u32>> {
        let mut confirmed = HashSet::new();
        let uids: UidSet = self.marks.keys().filter_map(|uid| Uid::new(*uid)).collect();
        for part in commands(&uids) {
            let command = format!("UID FETCH {part} (UID BODY.PEEK[HEADER.FIELDS ({MARK_FIELDS})])");
            let (mut uid, mut fields) = (0, None);
            let on = |event| {
                match event {
                    Event::FetchBegin(_) => (uid, fields) = (0, None),
                    Event::UidFetchBegin(its) => (uid, fields) = (its, None),
                    Event::Fetch(FetchData::Uid(its)) => uid = its,
                    Event::Fetch(FetchData::Body(_, bytes)) => fields = bytes,
                    Event::FetchEnd => {
                        let is_it = |fields: Vec<u8>| {
                            self.marks.get(&uid).is_some_and(|mark| mark.is_like(&Mark::of(&fields)))
                        };
                        confirmed.extend(fields.take().is_some_and(is_it).then_some(uid));
                    }
                    _ => {}
                }
                Ok(())
            };
            match connection.run(|w| w.raw(&command), on).await?.ok("FETCH") {
                Err(e) if e.kind() == Kind::Retry => return Err(e),
                // What it leaves out is fetched like any other message.
                _ => {}
            }
        }
        Ok(confirmed)
    }
}

impl Reuniting<'_> {
    /// What the record lists for `folder`, which was just opened.
    ///
    /// # Errors
    /// The backup's errors.
    pub(super) fn recorded(
        &self,
        folder: &dyn Folder,
        name: &FolderName,
        server: &Identity,
    ) -> Result<Recorded> {
        let mut recorded = Recorded::default();
        if let Some(restoration) = self.restored.back(name.as_str(), server.uidvalidity) {
            recorded.here = last_uids(restoration, folder);
            recorded.pairs = restoration.pairs().to_vec();
            recorded.expected = restoration.unanswered().intersection(&folder.known().uids());
            let marks = recorded.here.iter().map(|(uid, there)| (*there, Mark::of(&header(folder, *uid))));
            recorded.marks.extend(marks);
        }
        let others = self.restored.restorations(name.as_str(), server.uidvalidity).iter();
        // The messages under these UIDs are checked below.
        let renamed = self.restored.restorations_of_renamed(name.as_str(), server.uidvalidity, self.listed);
        for restoration in others.chain(renamed).filter(|restoration| {
            restoration.folder != name.as_str() || restoration.uidvalidity != server.uidvalidity
        }) {
            let Some(kept) = self.source(restoration)?.filter(|kept| kept.name != *name) else { continue };
            // Unreadable messages are fetched from the server.
            let Ok(source) = self.backup.open_to_read(&kept.name) else { continue };
            let mut uids = restoration.latest();
            uids.retain(|uid, _| source.known().contains(*uid));
            let marks = uids.iter().map(|(uid, there)| (*there, Mark::of(&header(&*source, *uid))));
            recorded.marks.extend(marks);
            recorded.elsewhere.push((kept, uids));
        }
        Ok(recorded)
    }

    /// Gives messages the UIDs of the record, as far as the server has them under these.
    ///
    /// # Errors
    /// The backup's errors.
    pub(super) fn reunite(
        &self,
        folder: &mut dyn Folder,
        recorded: Recorded,
        confirmed: &HashSet<u32>,
    ) -> Result<Reunited> {
        let Recorded { mut here, elsewhere, pairs, expected, .. } = recorded;
        here.retain(|_, there| confirmed.contains(there));
        let mut recognized = folder.renumber(&here)?;
        for (kept, mut uids) in elsewhere {
            uids.retain(|_, there| confirmed.contains(there));
            recognized += self.take_over(&kept, &uids, folder)?;
        }
        let is_in = |uid: u32| folder.known().contains(uid);
        let now = |uid: u32| if is_in(uid) { Some(uid) } else { here.get(&uid).copied() };
        let twins = pairs.iter().filter_map(|(uid, there)| Some((now(*uid)?, now(*there)?)));
        let twins = twins.filter(|(uid, there)| uid != there && is_in(*uid) && is_in(*there)).collect();
        Ok(Reunited { recognized, twins, expected })
    }

    /// A folder of the backup that the messages can be taken from: the server no longer has it.
    fn source(&self, restoration: &Restoration) -> Result<Option<BackupFolder>> {
        let is_it = |kept: &BackupFolder| {
            kept.place().as_str() == restoration.folder
                && kept.identity.uidvalidity == restoration.uidvalidity
        };
        if let Some(kept) = self.backup.superseded()?.into_iter().find(is_it) {
            return Ok(Some(kept));
        }
        if restoration.below != Some(false) || self.listed.contains(&restoration.folder) {
            return Ok(None);
        }
        Ok(self.backup.folders()?.into_iter().find(is_it))
    }

    /// Moves messages from another folder of the backup; returns how many. A killed run leaves some
    /// in both, and the next one continues.
    fn take_over(
        &self,
        kept: &BackupFolder,
        uids: &BTreeMap<u32, u32>,
        folder: &mut dyn Folder,
    ) -> Result<u64> {
        if uids.is_empty() {
            return Ok(0);
        }
        let opened = match kept.was {
            Some(_) => self.backup.open_superseded(&kept.name),
            None => self.backup.open(&kept.name, &kept.identity),
        };
        let Ok(mut from) = opened else { return Ok(0) };
        let Ok(stored) = from.messages() else { return Ok(0) };
        let stored = stored.filter_map(|stored| stored.ok().filter(|stored| uids.contains_key(&stored.uid)));
        let stored: Vec<Stored> = stored.collect();
        let (mut moved, mut bytes, mut taken) = (Vec::new(), 0, 0);
        for stored in stored {
            if *self.stop.borrow() {
                break;
            }
            let Some(there) = uids.get(&stored.uid) else { continue };
            if is_moved(&*from, folder, &stored, *there)? {
                bytes += stored.size;
                moved.push(stored.uid);
            }
            if moved.len() >= TOGETHER || bytes >= TOGETHER_BYTES {
                taken += leave(&mut *from, folder, std::mem::take(&mut moved))?;
                bytes = 0;
            }
        }
        taken += leave(&mut *from, folder, moved)?;
        from.close()?;
        Ok(taken)
    }
}

/// The UIDs that messages of the folder have on the server since they were put back there.
fn last_uids(restoration: &Restoration, folder: &dyn Folder) -> BTreeMap<u32, u32> {
    let latest = restoration.latest();
    let is_free = |uid: &u32| !folder.known().contains(*uid);
    let last = |uid: u32| {
        let mut there = *latest.get(&uid)?;
        // It may have been put back several times since. UIDs grow, so this ends.
        while let Some(next) = latest.get(&there).filter(|_| is_free(&there)) {
            there = *next;
        }
        Some((uid, there))
    };
    let known = latest.keys().filter(|uid| !is_free(uid));
    known.filter_map(|uid| last(*uid)).filter(|(_, there)| is_free(there)).collect()
}

/// Whether the message is in the folder under that UID now. One that cannot be read, or whose body
/// is evicted, is fetched from the server.
fn is_moved(from: &dyn Folder, folder: &mut dyn Folder, stored: &Stored, there: u32) -> Result<bool> {
    if from.evicted(stored.uid).is_ok_and(|evicted| evicted.is_some()) {
        return Ok(false);
    }
    if folder.known().contains(there) {
        return Ok(is_same(from, stored.uid, folder, there));
    }
    let (flags, internaldate) = (stored.flags.clone(), stored.internaldate);
    let arrived = Arrived { uid: there, flags, internaldate };
    Ok(hand_over(from, stored.uid, folder, &arrived, stored.size, &mut |_| true)?.is_ok())
}

/// Commits what was put into `folder`, and removes it from where it was; returns how many.
fn leave(from: &mut dyn Folder, folder: &mut dyn Folder, moved: Vec<u32>) -> Result<u64> {
    if moved.is_empty() {
        return Ok(0);
    }
    // The next pull compares everything then.
    folder.commit(&Resume { highestmodseq: 0, ..folder.resume() })?;
    for uid in &moved {
        from.remove(*uid)?;
    }
    let resume = from.resume();
    from.commit(&resume)?;
    Ok(moved.len() as u64)
}
