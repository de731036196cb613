//! The records of each folder in the account's objects.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use sealpost_account::{AccountState, Event};
use sealpost_base::{MailboxId, Uid, UidSet};

use crate::backup::{BackupFolder, FolderName, Identity, Resume, name_superseded};

/// Messages of one log entry.
pub const ENTRY_MESSAGES: usize = 4096;
/// The prefix of our objects' names.
pub(super) const PREFIX: &str = "archive/";
/// The prefix of folder records, also those of superseded folders.
pub(super) const FOLDER: &str = "archive/folder/";
pub(super) const SUPERSEDED: &str = "archive/aside/";

/// The state of a folder besides its messages: the object `archive/folder/{mailbox}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(super) struct FolderRecord {
    #[n(0)]
    pub(super) name: String,
    #[n(1)]
    pub(super) delimiter: Option<char>,
    #[n(2)]
    pub(super) uidvalidity: u32,
    #[n(3)]
    pub(super) mailboxid: Option<String>,
    #[n(4)]
    pub(super) highestmodseq: u64,
    #[n(5)]
    pub(super) uidnext: u32,
    #[n(6)]
    pub(super) whole: bool,
    /// Messages that the server has too.
    #[n(7)]
    pub(super) present: u64,
    /// The server's UIDs of those that it no longer has.
    #[n(8)]
    pub(super) gone: UidSet,
}

impl FolderRecord {
    pub(super) fn new(folder: &FolderName, server: &Identity) -> Self {
        FolderRecord {
            name: folder.as_str().to_owned(),
            delimiter: folder.delimiter(),
            uidvalidity: server.uidvalidity,
            mailboxid: server.mailboxid.clone(),
            ..FolderRecord::default()
        }
    }

    pub(super) fn resume(&self) -> Resume {
        Resume { highestmodseq: self.highestmodseq, uidnext: self.uidnext, whole: self.whole }
    }

    pub(super) fn put(&self, mailbox: MailboxId) -> Event {
        self.put_as(record_name(mailbox))
    }

    pub(super) fn put_as(&self, name: String) -> Event {
        Event::ObjectPut { name, value: minicbor::to_vec(self).unwrap_or_default() }
    }

    pub(super) fn kept(self) -> BackupFolder {
        BackupFolder {
            resume: self.resume(),
            name: FolderName::new(self.name, self.delimiter),
            was: None,
            identity: Identity { uidvalidity: self.uidvalidity, mailboxid: self.mailboxid },
            messages: self.present,
            gone: self.gone.len() as u64,
            as_left: true,
            closed: true,
        }
    }
}

pub(super) fn record_name(mailbox: MailboxId) -> String {
    format!("{FOLDER}{}", mailbox.0)
}

/// As [`record_name`], of a superseded folder.
pub(super) fn superseded_record_name(mailbox: MailboxId) -> String {
    format!("{SUPERSEDED}{}", mailbox.0)
}

/// The folders of the account that are backups.
pub(super) fn records(state: &AccountState) -> BTreeMap<MailboxId, FolderRecord> {
    records_below(state, FOLDER)
}

/// The superseded folders, by name.
pub(super) fn superseded_by_name(state: &AccountState) -> BTreeMap<String, (MailboxId, FolderRecord)> {
    let records = records(state);
    let superseded = records_below(state, SUPERSEDED).into_iter();
    let superseded = superseded.map(|(id, record)| (record.name.clone(), record.uidvalidity, (id, record)));
    name_superseded(superseded, |name| records.values().any(|record| record.name == name))
}

pub(super) fn records_below(state: &AccountState, prefix: &str) -> BTreeMap<MailboxId, FolderRecord> {
    let records = state.objects(prefix).filter_map(|(name, value)| {
        let mailbox = MailboxId(name.strip_prefix(prefix)?.parse().ok()?);
        state.mailbox(mailbox)?;
        Some((mailbox, minicbor::decode(value).ok()?))
    });
    records.collect()
}

/// A UID of a mailbox; 0, which is not a UID, becomes the first.
pub(super) fn uid(n: u32) -> Uid {
    Uid::new(n).unwrap_or(Uid::MIN)
}
