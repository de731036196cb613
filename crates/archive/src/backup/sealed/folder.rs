//! One folder of a sealed backup, opened.

mod storing;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_account::state::FlagRoom;
use sealpost_account::{
    Account, AccountState, Event, FlagAction, Ingest, IngestBatch, Message, Stored as Sealed,
};
use sealpost_base::{Error, MailboxId, Result, Timestamp, Uid, UidSet};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::at_server::AtServer;
use super::body_eviction::BodyEviction;
use super::flags::{from_account, to_account};
use super::read::Blocking;
use super::records::{ENTRY_MESSAGES, FolderRecord, record_name, superseded_record_name, uid};
use super::uids::{Uids, check_limits};
use crate::backup::claim::Claim;
use crate::backup::{Arrived, Flags, Folder, FolderName, KnownMessages, Resume, Stored, is_among, possible};
use crate::refetch::Refetch;
use sealpost_imap::types::DateTime;
use sealpost_vault::message::MessageReader;
use storing::{Gathered, Group, Storing};

/// Messages up to this size are held until they are complete, and then stored in batches.
const WHOLE_BYTES: usize = IngestBatch::MESSAGE_BYTES;
/// Tasks that seal messages at once; each takes a permit of the memory budget.
const AT_ONCE: usize = 3;

/// A mailbox of an account, as a folder.
pub struct SealedFolder {
    runtime: Handle,
    account: Arc<Account>,
    mailbox: MailboxId,
    record: FolderRecord,
    /// The name of the object that holds the record.
    name: String,
    known: KnownMessages,
    uids: Uids,
    writing: Option<Writing>,
    /// Messages that are complete, to be sealed.
    gathered: Gathered,
    /// Those that are sealed or being sealed, to become durable together.
    group: Option<Group>,
    sealing: Arc<Semaphore>,
    storing: VecDeque<(Vec<Arrived>, Storing)>,
    stored: Vec<(Arrived, Sealed)>,
    /// Flags that changed, and messages that were removed, since the last commit.
    flags: BTreeMap<u32, Flags>,
    vanished: Vec<u32>,
    /// How many of the first messages that arrived since then under a UID were removed again.
    undone: HashMap<u32, usize>,
    /// UIDs whose next message replaces the stored one, and those replaced since the last commit.
    replace: UidSet,
    replaced: UidSet,
    dirty: bool,
    broken: bool,
    body_eviction: Arc<BodyEviction>,
    refetch: Option<Arc<Refetch>>,
    /// Bodies lost by opening it.
    lost: u64,
    /// The last flags that were checked, and those of them that can be stored if not all.
    fitted: (Flags, Option<Flags>),
    /// A notice about its opening.
    notice: Option<String>,
    _claim: Claim,
}

/// The message that is arriving.
enum Writing {
    Whole(Vec<u8>),
    Large(Box<Ingest>),
}

impl SealedFolder {
    /// Opens the folder with the record of `mailbox`.
    pub(super) fn new(
        runtime: Handle,
        account: Arc<Account>,
        mailbox: MailboxId,
        claim: Claim,
        (body_eviction, refetch): (Arc<BodyEviction>, Option<Arc<Refetch>>),
        lost: u64,
    ) -> Result<Self> {
        let state = account.state();
        let missing = || Error::not_found("the mailbox of the folder was removed");
        let found = state.mailbox(mailbox).ok_or_else(missing)?;
        let mut names = [record_name(mailbox), superseded_record_name(mailbox)].into_iter();
        let name = names.find(|name| state.object(name).is_some()).ok_or_else(missing)?;
        let record: FolderRecord = minicbor::decode(state.object(&name).unwrap_or_default())
            .map_err(|e| Error::corrupt("the record of the folder cannot be read").with_source(e))?;
        let uids = Uids::read(&state, found);
        let (mut known, mut names) = (KnownMessages::new(), HashMap::new());
        for (server, local) in uids.iter() {
            let Some(row) = found.row(uid(local)) else { continue };
            let flags =
                names.entry(row.flags).or_insert_with(|| from_account(&state.flags_by_name(row.flags)));
            known.insert(server, flags);
        }
        record.gone.iter().for_each(|server| known.set_deleted_upstream(server.get(), true));
        drop(state);
        Ok(SealedFolder {
            runtime,
            account,
            mailbox,
            record,
            name,
            known,
            uids,
            writing: None,
            gathered: Gathered::default(),
            group: None,
            sealing: Arc::new(Semaphore::new(AT_ONCE)),
            storing: VecDeque::new(),
            stored: Vec::new(),
            flags: BTreeMap::new(),
            vanished: Vec::new(),
            undone: HashMap::new(),
            replace: UidSet::new(),
            replaced: UidSet::new(),
            dirty: false,
            broken: false,
            body_eviction,
            refetch,
            lost,
            fitted: Default::default(),
            notice: None,
            _claim: claim,
        })
    }

    /// Adds a notice for the user.
    pub(super) fn notice(&mut self, text: Option<String>) {
        self.notice = text;
    }

    fn check(&self) -> Result<()> {
        match self.broken {
            true => Err(Error::retry("an earlier operation failed; open the folder again")),
            false => Ok(()),
        }
    }

    /// Adds some stored messages, with all other changes, as one log entry.
    fn enter(&mut self, messages: &[(Arrived, Sealed)], last: bool, resume: &Resume) -> Result<()> {
        let servers: Vec<u32> = messages.iter().map(|(arrived, _)| arrived.uid).collect();
        let mut record = self.record.clone();
        if last {
            (record.highestmodseq, record.uidnext, record.whole) =
                (resume.highestmodseq, resume.uidnext, resume.whole);
            record.gone = deleted_upstream(&self.known);
            record.present = self.known.present();
        }
        let (changed, mut vanished) = if last { self.changes() } else { Default::default() };
        let replaced = servers.iter().copied().filter(|server| is_among(&self.replaced, *server));
        let replaced: Vec<u32> = replaced.collect();
        vanished = vanished.union(&replaced.iter().filter_map(|server| self.uids.local(*server)).collect());
        let (mailbox, uids) = (self.mailbox, &self.uids);
        let decide = |state: &AccountState| {
            let missing = || Error::not_found("the mailbox of the folder was removed");
            let local = state.mailbox(mailbox).ok_or_else(missing)?.uid_next().get();
            let mut room = FlagRoom::new(state);
            let mut events: Vec<Event> = Vec::with_capacity(messages.len() + 4);
            for (arrived, stored) in messages {
                let mut flags = to_account(&arrived.flags);
                if room.add(&flags).is_err() {
                    flags.keywords.clear();
                    room.add(&flags)?;
                }
                stored.check_age()?;
                let message = stored.message(received(arrived));
                events.push(Event::Appended { mailbox, message, flags });
            }
            for (flags, locals) in &changed {
                let mut flags = flags.clone();
                if room.change(mailbox, locals, FlagAction::Replace, &flags).is_err() {
                    flags.keywords.clear();
                    room.change(mailbox, locals, FlagAction::Replace, &flags)?;
                }
                let (uids, action) = (locals.clone(), FlagAction::Replace);
                events.push(Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None });
            }
            if !vanished.is_empty() {
                events.push(Event::Expunged { mailbox, uids: vanished.clone() });
            }
            if !servers.is_empty() {
                events.extend(uids.put(mailbox, &servers, local));
            }
            events.push(record.put_as(self.name.clone()));
            check_limits(state, &events)?;
            Ok((events, local))
        };
        let committed = self.runtime.block_on(self.account.commit(decide))?;
        for server in replaced {
            self.uids.forget(server);
        }
        self.uids.added(&servers, committed.value);
        self.record = record;
        Ok(())
    }

    /// A committed message.
    fn message(&self, uid: u32) -> Result<Message> {
        let missing = || Error::not_found(format!("the backup has no message with UID {uid}"));
        let local = self.uids.local(uid).ok_or_else(missing)?;
        let state = self.account.state();
        let row = state.mailbox(self.mailbox).and_then(|mailbox| mailbox.row(local)).ok_or_else(missing)?;
        state.message(row.message).ok_or_else(missing)
    }

    /// Opens a reader; an evicted body is fetched from the place that this folder records.
    fn reader(&self, uid: u32, message: &Message) -> MessageReader {
        let reader = self.account.reader(message);
        let Some(refetch) = &self.refetch else { return reader };
        let there = AtServer {
            folder: FolderName::new(self.record.name.clone(), self.record.delimiter),
            uidvalidity: self.record.uidvalidity,
            uid,
            gone: self.known.is_deleted_upstream(uid),
        };
        reader.with_bodies(refetch.at(self.account.id(), there))
    }

    /// Changed flags, grouped by their new values, and the mailbox's UIDs of removed messages.
    fn changes(&self) -> (Vec<(sealpost_account::Flags, UidSet)>, UidSet) {
        let mut by_flags: HashMap<&Flags, UidSet> = HashMap::new();
        for (server, flags) in &self.flags {
            if let Some(local) = self.uids.local(*server) {
                by_flags.entry(flags).or_default().insert(local);
            }
        }
        let changed = by_flags.into_iter().map(|(flags, locals)| (to_account(flags), locals)).collect();
        (changed, self.vanished.iter().filter_map(|server| self.uids.local(*server)).collect())
    }
}

/// The received time of an account's message if no server reported one.
const UNKNOWN: Timestamp = Timestamp(0);

/// When the message was received, as the account stores it: the first second of 1970 becomes a
/// millisecond later.
fn received(arrived: &Arrived) -> Timestamp {
    match arrived.internaldate.map(DateTime::timestamp) {
        None => UNKNOWN,
        Some(UNKNOWN) => Timestamp(1),
        Some(at) => at,
    }
}

fn deleted_upstream(known: &KnownMessages) -> UidSet {
    let runs = known.runs().filter(|run| run.gone);
    UidSet::from_ranges(runs.filter_map(|run| Some((Uid::new(run.first)?, Uid::new(run.last)?))))
}

impl Folder for SealedFolder {
    fn known(&self) -> &KnownMessages {
        &self.known
    }

    fn resume(&self) -> Resume {
        self.record.resume()
    }

    fn begin(&mut self, size: u64) -> Result<()> {
        self.check()?;
        let expected = usize::try_from(size).unwrap_or(usize::MAX).min(WHOLE_BYTES);
        self.writing = Some(Writing::Whole(Vec::with_capacity(expected)));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.writing {
            Some(Writing::Whole(whole)) if whole.len() + bytes.len() <= WHOLE_BYTES => {
                whole.extend_from_slice(bytes);
                Ok(())
            }
            Some(Writing::Whole(whole)) => {
                let head = std::mem::take(whole);
                // It waits for memory that the others hold.
                self.store_all()?;
                let account = &self.account;
                let ingest = self.runtime.block_on(async {
                    let mut ingest = account.ingest().await?;
                    ingest.write(&head).await?;
                    ingest.write(bytes).await?;
                    Ok::<_, Error>(ingest)
                })?;
                self.writing = Some(Writing::Large(Box::new(ingest)));
                Ok(())
            }
            Some(Writing::Large(ingest)) => self.runtime.block_on(ingest.write(bytes)),
            None => Ok(()),
        }
    }

    fn finish(&mut self, arrived: &Arrived) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        if arrived.uid == 0 || !self.takes(arrived.uid) {
            return Ok(());
        }
        match writing {
            Writing::Whole(whole) => return self.gather(arrived, whole),
            Writing::Large(ingest) => {
                self.store(vec![arrived.clone()], async move { Ok(vec![ingest.finish().await?]) })?;
            }
        }
        self.record_arrival(arrived);
        Ok(())
    }

    fn put(&mut self, arrived: &Arrived, bytes: Vec<u8>) -> Result<()> {
        self.check()?;
        if arrived.uid == 0 || !self.takes(arrived.uid) {
            return Ok(());
        }
        if bytes.len() <= WHOLE_BYTES {
            return self.gather(arrived, bytes);
        }
        self.begin(bytes.len() as u64)?;
        self.write(&bytes)?;
        self.finish(arrived)
    }

    fn abandon(&mut self) -> Result<()> {
        self.writing = None;
        Ok(())
    }

    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()> {
        self.check()?;
        if self.known.differs(uid, flags) {
            let gone = self.known.is_deleted_upstream(uid);
            self.known.insert(uid, flags);
            self.known.set_deleted_upstream(uid, gone);
            self.flags.insert(uid, flags.clone());
            self.dirty = true;
        }
        Ok(())
    }

    fn fitting(&mut self, flags: &Flags) -> Option<Flags> {
        if self.fitted.0 != *flags {
            self.fitted = (flags.clone(), super::flags::fitting(flags, &self.account.state()));
        }
        self.fitted.1.clone()
    }

    fn remove(&mut self, uid: u32) -> Result<()> {
        self.check()?;
        if self.known.contains(uid) {
            self.known.remove(uid);
            match self.uids.local(uid) {
                Some(_) => self.vanished.push(uid),
                // It may come once more before the commit.
                None => {
                    self.flags.remove(&uid);
                    *self.undone.entry(uid).or_default() += 1;
                }
            }
            self.dirty = true;
        }
        Ok(())
    }

    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()> {
        self.check()?;
        if self.known.contains(uid) && !self.known.is_deleted_upstream(uid) {
            self.known.set_deleted_upstream(uid, true);
            self.dirty = true;
        }
        Ok(())
    }

    fn replace(&mut self, uids: &UidSet) {
        self.replace = uids.clone();
    }

    fn takes(&self, uid: u32) -> bool {
        !self.known.contains(uid) || is_among(&self.replace, uid)
    }

    fn renumber(&mut self, uids: &BTreeMap<u32, u32>) -> Result<u64> {
        self.check()?;
        let uids = possible(&self.known, uids);
        let moved: Vec<(u32, u32, Uid)> =
            uids.iter().filter_map(|(from, to)| Some((*from, *to, self.uids.local(*from)?))).collect();
        if moved.is_empty() {
            return Ok(0);
        }
        let mut record = self.record.clone();
        for (from, ..) in &moved {
            if Uid::new(*from).is_some_and(|from| record.gone.remove(from)) {
                record.present += 1;
            }
        }
        let (mailbox, now) = (self.mailbox, &self.uids);
        let pairs: Vec<(u32, u32)> = moved.iter().map(|(_, to, local)| (*to, local.get())).collect();
        let decide = |state: &AccountState| {
            let mut events = now.renumber(mailbox, &pairs);
            events.push(record.put_as(self.name.clone()));
            check_limits(state, &events)?;
            Ok((events, ()))
        };
        self.runtime.block_on(self.account.commit(decide)).inspect_err(|_| self.broken = true)?;
        self.record = record;
        for (from, to, _) in &moved {
            let flags = self.known.flags(*from).cloned().unwrap_or_default();
            self.known.remove(*from);
            self.known.insert(*to, &flags);
        }
        let state = self.account.state();
        let mailbox = state
            .mailbox(mailbox)
            .ok_or_else(|| Error::not_found("the mailbox of the folder was removed"))?;
        self.uids = Uids::read(&state, mailbox);
        drop(state);
        Ok(moved.len() as u64)
    }

    fn commit(&mut self, resume: &Resume) -> Result<()> {
        self.check()?;
        if !self.dirty && *resume == self.resume() {
            return Ok(());
        }
        self.store_all()?;
        let mut stored = std::mem::take(&mut self.stored);
        // Messages that arrived since the last commit get their last flags at once, or are left
        // out.
        let vanished: UidSet = self.vanished.iter().filter_map(|uid| Uid::new(*uid)).collect();
        let mut undone = std::mem::take(&mut self.undone);
        stored.retain(|(arrived, _)| match undone.get_mut(&arrived.uid) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => !Uid::new(arrived.uid).is_some_and(|uid| vanished.contains(uid)),
        });
        for (arrived, _) in &mut stored {
            let replaces = is_among(&self.replaced, arrived.uid);
            match self.flags.remove(&arrived.uid) {
                Some(flags) => arrived.flags = flags,
                None if replaces => {
                    arrived.flags = self.known.flags(arrived.uid).cloned().unwrap_or_default()
                }
                None => {}
            }
        }
        let mut left = &stored[..];
        loop {
            let (messages, after) = left.split_at(left.len().min(ENTRY_MESSAGES));
            self.enter(messages, after.is_empty(), resume).inspect_err(|_| self.broken = true)?;
            left = after;
            if left.is_empty() {
                break;
            }
        }
        for uid in std::mem::take(&mut self.vanished) {
            self.uids.forget(uid);
        }
        self.flags.clear();
        self.replaced = UidSet::new();
        self.dirty = false;
        let bytes = stored.iter().map(|(_, stored)| stored.body_bytes()).sum();
        self.body_eviction.committed(&self.runtime, &self.account, bytes)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.writing = None;
        // Entries of many messages make a log that is short but slow to replay.
        let account = self.account.clone();
        self.runtime.block_on(async move {
            if account.tail_events().await > 64 { account.checkpoint().await.map(|_| ()) } else { Ok(()) }
        })
    }

    fn messages(&self) -> Result<Box<dyn Iterator<Item = Result<Stored>> + '_>> {
        Ok(Box::new(self.uids.iter().filter_map(|(server, local)| {
            let state = self.account.state();
            let row = state.mailbox(self.mailbox)?.row(uid(local))?;
            let message = state.message(row.message)?;
            Some(Ok(Stored {
                uid: server,
                flags: from_account(&state.flags_by_name(row.flags)),
                internaldate: (message.received != UNKNOWN).then(|| DateTime::utc(message.received)),
                size: message.size(),
                gone: self.known.is_deleted_upstream(server),
            }))
        })))
    }

    fn read(&self, uid: u32) -> Result<Box<dyn Read + '_>> {
        let message = self.message(uid)?;
        let pieces = self.reader(uid, &message).raw(0..message.size());
        Ok(Box::new(Blocking::new(self.runtime.clone(), pieces)))
    }

    fn head(&self, uid: u32, most: usize) -> Result<Vec<u8>> {
        let message = self.message(uid)?;
        let reader = self.reader(uid, &message);
        self.runtime.block_on(async {
            if let Some(head) = reader.evicted_head().await? {
                return Ok(head[..head.len().min(most)].to_vec());
            }
            let pieces: Vec<Bytes> = reader.raw(0..most as u64).try_collect().await?;
            Ok(pieces.concat())
        })
    }

    fn in_step(&mut self) {
        self.body_eviction.in_step(self.mailbox);
    }

    fn evicted(&self, uid: u32) -> Result<Option<[u8; 32]>> {
        let message = self.message(uid)?;
        if !self.body_eviction.is_evicted(&self.runtime, &self.account, message.object)? {
            return Ok(None);
        }
        self.runtime.block_on(self.account.reader(&message).evicted())
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn notices(&mut self) -> Vec<String> {
        self.notice.take().into_iter().collect()
    }
}
