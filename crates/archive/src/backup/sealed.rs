//! The default format: a Sealpost account. Every folder is a mailbox, sealed, searchable and
//! readable like all mail here.
//!
//! A commit is one log entry: the messages, changed flags, removals, the messages' UIDs on the
//! server, and up to where the folder is in step with it. So a backup never has half of a
//! transaction and no message twice, whenever the process ends. (More than [`ENTRY_MESSAGES`]
//! messages take several entries, each complete in itself.)
//!
//! The server's UIDs are not the mailbox's, which replay assigns. Small objects of the account map
//! them: runs of UIDs that are consecutive on both sides (`uids`), a few bytes for a whole mailbox
//! that was pulled in order.
//!
//! The owner's changes to the mail here stay: a flag that is set here is overwritten only when it
//! changes on the server. A message that is deleted here, and that the server still has, is fetched
//! again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sealpost_account::{Account, AccountState, Event, Mailbox, ops, share};
use sealpost_base::{Error, MailboxId, ObjectId, Result};
use sealpost_mailformat::mark;
use tokio::runtime::Handle;

use self::folder::SealedFolder;
use super::claim::{Claim, Claims};
use super::{
    Backup, BackupFolder, BodyCounts, EvictBodies, Folder, FolderName, Identity, Source, check_identity,
    is_another, superseded_notice,
};
use crate::refetch::Refetch;
pub(crate) use at_server::{AtServer, at_server};
use body_eviction::BodyEviction;
pub use body_eviction::BodyLimit;
pub use records::ENTRY_MESSAGES;
use records::{
    FolderRecord, SUPERSEDED, record_name, records, records_below, superseded_by_name, superseded_record_name,
};

mod at_server;
mod body_eviction;
mod flags;
mod folder;
mod read;
mod records;
#[cfg(test)]
mod tests;
mod uids;

/// The object that names the account whose mail it is.
const SOURCE: &str = "archive/source";

/// A backup in an account.
struct SealedBackup {
    runtime: Handle,
    account: Arc<Account>,
    claims: Claims,
    /// Lock for creating folders, one after the other.
    making: Mutex<()>,
    body_eviction: Arc<BodyEviction>,
    refetch: Option<Arc<Refetch>>,
}

/// Options of a backup with a body limit.
#[derive(Default)]
pub struct BodyOptions {
    /// Evict bodies beyond this limit.
    pub keep: Option<BodyLimit>,
    /// Fetches evicted bodies.
    pub refetch: Option<Arc<Refetch>>,
}

/// The backup in `account`, which is open. `runtime` drives the store; these calls block on it, so
/// its tasks must not make them. `lock`: a directory for the lock that keeps a second run from the
/// same account.
///
/// # Errors
/// `Conflict` if another process has it; `Retry` if the lock cannot be made.
pub fn open(runtime: Handle, account: Arc<Account>, lock: &Path) -> Result<Box<dyn Backup>> {
    open_with(runtime, account, lock, BodyOptions::default())
}

/// As [`open`], with evicted bodies: with a limit, or fetched again.
///
/// # Errors
/// As [`open`].
pub fn open_with(
    runtime: Handle,
    account: Arc<Account>,
    lock: &Path,
    bodies: BodyOptions,
) -> Result<Box<dyn Backup>> {
    let claims = Claims::named(lock, &format!("archive-{}.lock", account.id()))?;
    let body_eviction = Arc::new(BodyEviction::new(bodies.keep));
    let making = Mutex::new(());
    Ok(Box::new(SealedBackup { runtime, account, claims, making, body_eviction, refetch: bodies.refetch }))
}

impl SealedBackup {
    fn commit(&self, decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, ())> + Send) -> Result<()> {
        self.runtime.block_on(self.account.commit(decide)).map(|_| ())
    }

    fn folder(&self, mailbox: MailboxId, claim: Claim, lost: u64) -> Result<SealedFolder> {
        let (runtime, account) = (self.runtime.clone(), self.account.clone());
        let bodies = (self.body_eviction.clone(), self.refetch.clone());
        SealedFolder::new(runtime, account, mailbox, claim, bodies, lost)
    }

    /// Messages of the folder whose bodies are lost if the server has another UIDVALIDITY now.
    fn bodies_lost_by(&self, folder: &FolderName, server: &Identity) -> Result<u64> {
        let objects: Vec<ObjectId> = {
            let state = self.account.state();
            let records = records(&state);
            let found = records.iter().find(|(_, record)| record.name == folder.as_str());
            // With another MAILBOXID it may have another name now, under which it can be fetched.
            let lost = |record: &FolderRecord| {
                let renamed = record.mailboxid.is_some() && record.mailboxid != server.mailboxid;
                record.uidvalidity != server.uidvalidity && !renamed
            };
            let Some((id, _)) = found.filter(|(_, record)| lost(record)) else { return Ok(0) };
            let Some(mailbox) = state.mailbox(*id) else { return Ok(0) };
            mailbox.all_rows().filter_map(|row| Some(state.message(row.message)?.object)).collect()
        };
        let mut lost = 0;
        for object in objects {
            lost += u64::from(self.body_eviction.is_evicted(&self.runtime, &self.account, object)?);
        }
        Ok(lost)
    }

    /// The notice if [`identify`] will put aside the folder of this name.
    fn notice_if_superseded(&self, folder: &FolderName, server: &Identity) -> Option<String> {
        let state = self.account.state();
        let records = records(&state);
        let (id, record) = records.iter().find(|(_, record)| record.name == folder.as_str())?;
        let mailbox = state.mailbox(*id)?;
        is_another(record.uidvalidity, record.mailboxid.as_deref(), server).then(|| {
            let place = free(&state, &superseded(mailbox, record));
            superseded_notice(folder, record.uidvalidity, server.uidvalidity, &place)
        })
    }

    fn folder_of(&self, name: &str) -> Option<MailboxId> {
        let state = self.account.state();
        records(&state).into_iter().find(|(_, record)| record.name == name).map(|(mailbox, _)| mailbox)
    }
}

impl Backup for SealedBackup {
    fn source(&self) -> Result<Option<Source>> {
        let state = self.account.state();
        // A value that cannot be decoded counts as absent.
        Ok(state.object(SOURCE).and_then(|value| minicbor::decode(value).ok()))
    }

    fn set_source(&self, source: &Source) -> Result<()> {
        let value = minicbor::to_vec(source).unwrap_or_default();
        self.commit(|_| Ok((vec![Event::ObjectPut { name: SOURCE.to_owned(), value: value.clone() }], ())))
    }

    fn folders(&self) -> Result<Vec<BackupFolder>> {
        let state = self.account.state();
        Ok(records(&state).into_values().map(FolderRecord::kept).collect())
    }

    fn superseded(&self) -> Result<Vec<BackupFolder>> {
        let state = self.account.state();
        let kept = superseded_by_name(&state).into_iter().map(|(name, (_, record))| {
            let kept = record.kept();
            let name = FolderName::new(name, kept.name.delimiter());
            BackupFolder { name, was: Some(kept.name), ..kept }
        });
        Ok(kept.filter(|kept| kept.messages + kept.gone > 0).collect())
    }

    fn open(&self, folder: &FolderName, server: &Identity) -> Result<Box<dyn Folder>> {
        check_identity(folder, server)?;
        let claim = self.claims.claim(folder.as_str())?;
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = self.bodies_lost_by(folder, server)?;
        let notice = self.notice_if_superseded(folder, server);
        // First the folder of this name is put aside, then the one with the MAILBOXID gets the
        // name.
        for _ in 0..2 {
            self.commit(|state| Ok((identify(state, folder, server)?, ())))?;
        }
        self.commit(|state| Ok((make(state, folder, server)?, ())))?;
        let missing = || Error::retry(format!("the mailbox of {folder} was removed just now"));
        let mailbox = self.folder_of(folder.as_str()).ok_or_else(missing)?;
        let mut folder = self.folder(mailbox, claim, lost)?;
        folder.notice(notice);
        Ok(Box::new(folder))
    }

    fn open_to_read(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        let claim = self.claims.claim(folder.as_str())?;
        let missing = || Error::not_found(format!("the backup has no folder {folder}"));
        let superseded =
            || superseded_by_name(&self.account.state()).remove(folder.as_str()).map(|(mailbox, _)| mailbox);
        let mailbox = self.folder_of(folder.as_str()).or_else(superseded).ok_or_else(missing)?;
        Ok(Box::new(self.folder(mailbox, claim, 0)?))
    }

    fn evict_bodies(&self, request: &EvictBodies<'_>) -> Result<Option<BodyCounts>> {
        for name in request.in_step {
            if let Some(mailbox) = self.folder_of(name.as_str()) {
                self.body_eviction.in_step(mailbox);
            }
        }
        let done = self.body_eviction.evict_bodies(&self.runtime, &self.account, request)?;
        if done.as_ref().is_some_and(|done| done.now > 0) && !request.dry_run {
            // Space of small bodies is inside the store's file. If it stays there, it is used
            // again.
            let _ = self.runtime.block_on(self.account.shrink_store());
        }
        Ok(done)
    }

    fn bodies(&self) -> Result<Option<BodyCounts>> {
        self.body_eviction.counts(&self.runtime, &self.account).map(Some)
    }

    fn end(&self) {
        if let Some(refetch) = &self.refetch {
            self.runtime.block_on(refetch.end());
        }
    }
}

/// Puts aside the folder of this name if its UIDVALIDITY differs, and renames the one with this
/// MAILBOXID.
fn identify(state: &AccountState, folder: &FolderName, server: &Identity) -> Result<Vec<Event>> {
    let records = records(state);
    if let Some((id, record)) = records.iter().find(|(_, record)| record.name == folder.as_str()) {
        let another = is_another(record.uidvalidity, record.mailboxid.as_deref(), server);
        let Some(mailbox) = state.mailbox(*id).filter(|_| another) else {
            return Ok(Vec::new());
        };
        let plain = superseded(mailbox, record);
        if record.mailboxid.is_some() && record.mailboxid != server.mailboxid && mailbox.name() != "INBOX" {
            // It may have another name now, under which the server is asked for it later.
            let mut events = ops::rename_mailbox(state, mailbox.name(), &free(state, &plain))?;
            events.push(Event::ObjectRemoved { name: record_name(*id) });
            events.push(record.put_as(superseded_record_name(*id)));
            return Ok(events);
        }
        let kept = uids::Uids::read(state, mailbox);
        let mut events = uids::remove(state, *id);
        if !kept.locals().is_empty() {
            let made = ops::create_mailbox(state, &free(state, &plain), Default::default())?;
            let to = made_by(state, &made);
            events.extend(made);
            events.push(Event::Moved { from: *id, uids: kept.locals(), to });
            // There they get new UIDs, in the order of their present ones.
            let mut both: Vec<(u32, u32)> = kept.iter().map(|(server, local)| (local, server)).collect();
            both.sort_unstable();
            let servers: Vec<u32> = both.into_iter().map(|(_, server)| server).collect();
            events.extend(uids::Uids::default().put(to, &servers, 1));
            events.push(record.put_as(superseded_record_name(to)));
        }
        events.push(Event::ObjectRemoved { name: record_name(*id) });
        return Ok(events);
    }
    let Some(wanted) = &server.mailboxid else { return Ok(Vec::new()) };
    let same = |record: &FolderRecord| {
        record.mailboxid.as_ref() == Some(wanted) && record.uidvalidity == server.uidvalidity
    };
    let all = records.into_iter().chain(records_below(state, SUPERSEDED));
    let Some((id, record)) = all.into_iter().find(|(_, record)| same(record)) else {
        return Ok(Vec::new());
    };
    let Some(mailbox) = state.mailbox(id) else { return Ok(Vec::new()) };
    let new = FolderRecord { name: folder.as_str().to_owned(), delimiter: folder.delimiter(), ..record };
    let superseded = Some(superseded_record_name(id)).filter(|name| state.object(name).is_some());
    let mut events: Vec<Event> = superseded.into_iter().map(|name| Event::ObjectRemoved { name }).collect();
    // RENAME of INBOX moves its messages (RFC 3501 §6.3.5): its mailbox stays the same.
    if mailbox.name() != "INBOX" {
        events.extend(ops::rename_mailbox(state, mailbox.name(), &free(state, &mailbox_name(folder)))?);
    }
    events.push(new.put(id));
    Ok(events)
}

/// The mailbox for a superseded folder, if that name is free.
fn superseded(mailbox: &Mailbox, record: &FolderRecord) -> String {
    format!("{}-{}", mailbox.name(), record.uidvalidity)
}

/// Creates the folder if it does not exist.
fn make(state: &AccountState, folder: &FolderName, server: &Identity) -> Result<Vec<Event>> {
    let records = records(state);
    if let Some((id, record)) = records.iter().find(|(_, record)| record.name == folder.as_str()) {
        let late = record.mailboxid.is_none() && server.mailboxid.is_some();
        let record = FolderRecord { mailboxid: server.mailboxid.clone(), ..record.clone() };
        return Ok(if late { vec![record.put(*id)] } else { Vec::new() });
    }
    let record = FolderRecord::new(folder, server);
    let name = mailbox_name(folder);
    let usable = |mailbox: &&Mailbox| {
        let id = mailbox.id();
        mailbox.link().is_none()
            && !records.contains_key(&id)
            && state.object(&superseded_record_name(id)).is_none()
    };
    if let Some(mailbox) = state.mailbox_named(&name).filter(usable) {
        return Ok(vec![record.put(mailbox.id())]);
    }
    let name = free(state, &name);
    let mut events = ops::create_mailbox(state, &name, Default::default())?;
    let id = made_by(state, &events);
    events.push(Event::Subscribed { name, on: true });
    events.push(record.put(id));
    Ok(events)
}

/// The mailbox that is created: superiors are created first, it is the last one.
fn made_by(state: &AccountState, events: &[Event]) -> MailboxId {
    let made = events.iter().filter(|e| matches!(e, Event::MailboxCreated { .. })).count();
    MailboxId(state.next_mailbox_id().0 + u32::try_from(made.saturating_sub(1)).unwrap_or(0))
}

/// The mailbox for a folder: its levels, without characters that a mailbox name cannot have.
fn mailbox_name(folder: &FolderName) -> String {
    let wrong = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '/');
    let levels: Vec<String> =
        folder.levels().filter(|level| !level.is_empty()).map(|level| level.replace(wrong, "_")).collect();
    let name = if levels.is_empty() { "_".to_owned() } else { levels.join("/") };
    let mut name = sealpost_account::name::normal(&name).into_owned();
    // An account's own mailbox cannot be where other users' mailboxes are: those of the source are
    // placed beside it.
    if share::check_own(&name).is_err() {
        let (first, rest) = name.split_at(name.find('/').unwrap_or(name.len()));
        name = format!("{first}_{rest}");
    }
    if sealpost_account::name::check(&name).is_ok() {
        return name;
    }
    let mut end = name.len().min(100);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{}", name[..end].replace('/', "_"), mark(&name))
}

/// A free mailbox name, derived from `wanted`.
fn free(state: &AccountState, wanted: &str) -> String {
    let numbered = (1u32..).map(|n| format!("{wanted}-{n}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| ops::find(state, name).is_none()).unwrap_or_else(|| wanted.to_owned())
}
