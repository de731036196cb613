//! [`Returning`]: messages of the backup that the server no longer had, and that come back under
//! other UIDs.
//!
//! Causes are a restore without a record, because it was killed or because the server reports no
//! UIDs; another program; and users who move a message to and fro. A message that arrives with the
//! bytes and the date of such a message is that message. A mailbox that has a message twice has it
//! twice in the backup too: each that arrives replaces one that is gone.

use std::collections::{HashMap, HashSet};

use sealpost_base::{Result, Uid, UidSet, limits};

use crate::backup::{Arrived, Folder, Stored};
use crate::same::sha256;

/// Messages whose bytes are compared with those of one that arrives, at most.
const COMPARED: usize = 16;

/// Messages that may come back.
#[derive(Debug, Default)]
pub(super) struct Returning {
    /// By size, the oldest ones first: UIDs, and when they were received, in seconds.
    by_size: HashMap<u64, Vec<(u32, Option<i64>)>>,
    /// The record of restores expects these, whatever date the server gives them.
    expected: HashSet<u32>,
}

impl Returning {
    /// Those of a folder that the server no longer has, the newest ones; `expected` from the
    /// record.
    ///
    /// # Errors
    /// The backup's errors.
    pub(super) fn of(folder: &dyn Folder, expected: &UidSet) -> Result<Self> {
        let mut returning = Returning::default();
        let mut gone = folder.known().deleted_upstream();
        if gone == 0 {
            return Ok(returning);
        }
        for stored in folder.messages()? {
            let Ok(Stored { uid, internaldate, size, gone: true, .. }) = stored else { continue };
            gone = gone.saturating_sub(1);
            if gone < limits::ARCHIVE_RETURNING {
                let received = internaldate.map(|date| date.timestamp().seconds());
                returning.by_size.entry(size).or_default().push((uid, received));
                if Uid::new(uid).is_some_and(|uid| expected.contains(uid)) {
                    returning.expected.insert(uid);
                }
            }
        }
        Ok(returning)
    }

    /// Whether a message of this size may be one of them.
    pub(super) fn may_be(&self, size: u64) -> bool {
        self.by_size.contains_key(&size)
    }

    /// Which of them has arrived, by size, date and hash; it is then removed. Of several, one with
    /// the same flags.
    pub(super) fn take(
        &mut self,
        folder: &dyn Folder,
        arrived: &Arrived,
        size: u64,
        hash: [u8; 32],
    ) -> Option<u32> {
        let received = arrived.internaldate.map(|date| date.timestamp().seconds());
        let (known, gone) = (folder.known(), self.by_size.get_mut(&size)?);
        let is_alike = |(uid, date): &(u32, Option<i64>)| {
            let same_date = date.zip(received).is_none_or(|(date, received)| date == received);
            // It may have been removed since.
            (same_date || self.expected.contains(uid)) && known.is_deleted_upstream(*uid)
        };
        let alike = gone.iter().map(|(uid, _)| *uid).zip(gone.iter().map(is_alike));
        let mut alike: Vec<u32> = alike.filter(|(_, alike)| *alike).map(|(uid, _)| uid).collect();
        alike.sort_by_key(|uid| known.flags(*uid) != Some(&arrived.flags));
        let is_it = |uid: &u32| sha256(folder, *uid).is_ok_and(|its| its == hash);
        let it = alike.into_iter().take(COMPARED).find(is_it)?;
        gone.retain(|(uid, _)| *uid != it);
        Some(it)
    }
}
