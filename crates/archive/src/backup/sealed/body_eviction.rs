//! How many bodies a sealed backup keeps.
//!
//! Only bodies of messages that the server still had when last asked, in this process, are evicted:
//! other messages may exist nowhere else. Bodies are evicted while a pull runs, so that a backup of
//! a mailbox larger than the disk stays within its limit, and at its end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_account::bodies::body_bytes;
use sealpost_account::{Account, Message, MessageNumber};
use sealpost_base::{Clock, MailboxId, ObjectId, Result};
use tokio::runtime::Handle;

use super::records::{records, uid};
use super::uids::Uids;
use crate::backup::bodies::{Candidate, WORTH_BYTES, choose};
use crate::backup::{BodyCounts, EvictBodies};

/// While a pull runs, bodies are evicted once they exceed the limit by this many bytes, or by this
/// part of the limit: looking through all messages has to be worth it.
const SLACK_BYTES: u64 = 16 * 1024 * 1024;
const SLACK_PART: u64 = 8;

/// How many bodies are to be kept.
#[derive(Clone)]
pub struct BodyLimit {
    /// Bytes on disk.
    pub bytes: u64,
    /// The time, for the age of messages.
    pub clock: Arc<dyn Clock>,
    /// Excess over the limit that is tolerated while a pull runs.
    pub slack: u64,
}

impl BodyLimit {
    /// At most this many bytes on disk.
    pub fn new(bytes: u64, clock: Arc<dyn Clock>) -> Self {
        BodyLimit { bytes, clock, slack: SLACK_BYTES.max(bytes / SLACK_PART) }
    }
}

/// The state of the bodies of a backup; shared by its folders.
pub(super) struct BodyEviction {
    keep: Option<BodyLimit>,
    known: Mutex<Option<EvictionState>>,
    /// Mailboxes that are in step with the server.
    in_step: Mutex<HashSet<MailboxId>>,
    /// Lock for evicting; holds what was evicted since the last report: messages, bytes.
    giving: Mutex<(u64, u64)>,
}

struct EvictionState {
    /// Messages with evicted bodies.
    evicted: HashSet<ObjectId>,
    /// Bytes on disk of the others.
    kept: u64,
}

impl BodyEviction {
    pub(super) fn new(keep: Option<BodyLimit>) -> Self {
        BodyEviction { keep, known: Mutex::default(), in_step: Mutex::default(), giving: Mutex::default() }
    }

    /// The mailbox is in step with the server from now on.
    pub(super) fn in_step(&self, mailbox: MailboxId) {
        lock(&self.in_step).insert(mailbox);
    }

    /// Whether the body of the message is evicted.
    pub(super) fn is_evicted(&self, runtime: &Handle, account: &Account, object: ObjectId) -> Result<bool> {
        self.with(runtime, account, |known| known.evicted.contains(&object))
    }

    /// Counts kept and evicted bodies of messages that are in a mailbox; bytes on disk include
    /// those of others, which stay for a while after a message was deleted.
    pub(super) fn counts(&self, runtime: &Handle, account: &Account) -> Result<BodyCounts> {
        let kept_bytes = self.with(runtime, account, |known| known.kept)?;
        let mut counts = BodyCounts { kept_bytes, limit: self.limit(), ..BodyCounts::default() };
        let all: Vec<(ObjectId, u64)> = {
            let state = account.state();
            let rows = state.mailboxes().flat_map(|mailbox| mailbox.all_rows());
            let mut numbers: Vec<MessageNumber> = rows.map(|row| row.message).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let messages = numbers.into_iter().filter_map(|number| state.message(number));
            messages.map(|message| (message.object, body_bytes(&message))).collect()
        };
        self.with(runtime, account, |known| {
            for (object, bytes) in &all {
                if known.evicted.contains(object) {
                    counts.without += 1;
                    counts.without_bytes += bytes;
                } else {
                    counts.kept += 1;
                }
            }
        })?;
        Ok(counts)
    }

    fn limit(&self) -> Option<u64> {
        self.keep.as_ref().map(|keep| keep.bytes)
    }

    /// Messages were committed whose bodies take so many bytes: evicts some if the limit is far
    /// exceeded.
    pub(super) fn committed(&self, runtime: &Handle, account: &Account, bytes: u64) -> Result<()> {
        let Some(BodyLimit { bytes: limit, slack, .. }) = self.keep else { return Ok(()) };
        // The first look counts them too.
        let more = if lock(&self.known).is_some() { bytes } else { 0 };
        let kept = self.with(runtime, account, |known| {
            known.kept += more;
            known.kept
        })?;
        if kept <= limit.saturating_add(slack) {
            return Ok(());
        }
        // Another folder's thread evicts already: one is enough.
        let Ok(mut unreported) = self.giving.try_lock() else { return Ok(()) };
        let done = self.reduce(runtime, account, limit, &EvictBodies::default())?;
        *unreported = (unreported.0 + done.now, unreported.1 + done.now_bytes);
        Ok(())
    }

    /// Evicts bodies until the rest fit.
    pub(super) fn evict_bodies(
        &self,
        runtime: &Handle,
        account: &Account,
        request: &EvictBodies<'_>,
    ) -> Result<Option<BodyCounts>> {
        let Some(limit) = self.limit() else { return Ok(None) };
        let mut unreported = lock(&self.giving);
        // Another process may have changed the backup, and the running count is approximate.
        *lock(&self.known) = None;
        let done = self.reduce(runtime, account, limit, request)?;
        let (messages, bytes) = std::mem::take(&mut *unreported);
        let (now, now_bytes) = (done.now + messages, done.now_bytes + bytes);
        let counts = self.counts(runtime, account)?;
        Ok(Some(BodyCounts { now, now_bytes, damaged: done.damaged, ..counts }))
    }

    fn reduce(
        &self,
        runtime: &Handle,
        account: &Account,
        limit: u64,
        request: &EvictBodies<'_>,
    ) -> Result<BodyCounts> {
        let kept = self.with(runtime, account, |known| known.kept)?;
        let over = kept.saturating_sub(limit);
        let Some(keep) = self.keep.as_ref().filter(|_| over > 0) else { return Ok(BodyCounts::default()) };
        let candidates = self.candidates(runtime, account)?;
        let chosen = choose(candidates, over, keep.clock.now());
        let mut done = BodyCounts::default();
        if request.dry_run {
            done.now = chosen.len() as u64;
            done.now_bytes = chosen.iter().map(|candidate| candidate.bytes).sum();
            return Ok(done);
        }
        let messages: Vec<Message> = {
            let state = account.state();
            chosen.iter().filter_map(|candidate| state.message(candidate.message)).collect()
        };
        let progress = |messages: usize, bytes: u64| {
            (request.progress)(messages as u64, bytes);
            !(request.stop)()
        };
        let evicted = runtime.block_on(account.evict_bodies(messages, progress));
        if evicted.is_err() {
            // Some may be evicted already.
            *lock(&self.known) = None;
        }
        let evicted = evicted?;
        self.with(runtime, account, |known| {
            known.kept = known.kept.saturating_sub(evicted.bytes);
            known.evicted.extend(evicted.objects.iter().copied());
        })?;
        done.now = evicted.objects.len() as u64;
        done.now_bytes = evicted.bytes;
        done.damaged =
            evicted.damaged.into_iter().map(|(object, e)| format!("message {object}: {e}")).collect();
        Ok(done)
    }

    /// Bodies that are here, and at the server.
    fn candidates(&self, runtime: &Handle, account: &Account) -> Result<Vec<Candidate<MessageNumber>>> {
        let in_step = lock(&self.in_step).clone();
        let mut all = Vec::new();
        {
            let state = account.state();
            for (id, record) in records(&state) {
                let Some(mailbox) = state.mailbox(id).filter(|_| in_step.contains(&id)) else { continue };
                for (server, local) in Uids::read(&state, mailbox).iter() {
                    if record.gone.contains(uid(server)) {
                        continue;
                    }
                    let Some(row) = mailbox.row(uid(local)) else { continue };
                    let Some(message) = state.message(row.message) else { continue };
                    let bytes = body_bytes(&message);
                    if bytes >= WORTH_BYTES {
                        let candidate = Candidate { message: row.message, bytes, received: message.received };
                        all.push((message.object, candidate));
                    }
                }
            }
        }
        // A message may be in several folders.
        all.sort_unstable_by_key(|(_, candidate)| candidate.message);
        all.dedup_by_key(|(_, candidate)| candidate.message);
        self.with(runtime, account, |known| {
            all.retain(|(object, _)| !known.evicted.contains(object));
        })?;
        Ok(all.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// Reads the state, which is computed on first use.
    fn with<T>(
        &self,
        runtime: &Handle,
        account: &Account,
        look: impl FnOnce(&mut EvictionState) -> T,
    ) -> Result<T> {
        let mut known = lock(&self.known);
        if known.is_none() {
            let evicted: HashSet<ObjectId> = runtime.block_on(account.evicted())?.into_iter().collect();
            let state = account.state();
            let here = state.messages().filter(|(_, message)| !evicted.contains(&message.object));
            let kept = here.map(|(_, message)| body_bytes(&message)).sum();
            *known = Some(EvictionState { evicted, kept });
        }
        let fresh = || EvictionState { evicted: HashSet::new(), kept: 0 };
        Ok(look(known.get_or_insert_with(fresh)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
