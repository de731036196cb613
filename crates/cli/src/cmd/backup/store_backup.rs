//! [`StoreBackup`]: the objects of a store, or of some of its accounts, into another store.
//!
//! Objects never change, so the command copies the missing ones. Their order makes the copy
//! consistent while the server writes. First it lists objects that refer to others: manifests, then
//! log entries, so that no checkpoint lies behind the end of the log, and records. Then it lists and
//! copies everything else, and at last the objects listed first, logs in their order. So every
//! reference in the copy leads to an object in the copy, except for messages that the server removes
//! meanwhile. The server logs a removal before it removes, so the command lists a log that grew
//! again.
//!
//! The command reports objects that it cannot read at FROM (damage, permissions, a failing disk) and
//! copies all others. The copy of a log ends before an unreadable entry, because a log with a gap
//! would be worse; checkpoints behind it are not copied either. The copy of a record ends before an
//! unreadable version.
//!
//! If TO was used itself and its log has diverged, the command copies nothing of that log: it would
//! overrule the changes at TO. It cannot detect this once FROM's log was trimmed beyond the end of
//! TO's.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use indicatif::{HumanBytes, ProgressBar};
use sealpost_base::{AccountId, Kind, SystemRandom};
use sealpost_directory::unverified_account;
use sealpost_journal::{entries_of, queue_entries_of};
use sealpost_vault::store::{Transfer, Unreadable};
use sealpost_vault::{ListedObject, Store};

use super::paths::{
    POSITION_DIGITS, checkpoints, directory, end, is_beside, is_checkpoint, is_derived, kind, name,
};
use super::repaired;
use super::summary::Summary;
use crate::data_dir::DataDir;
use crate::output::warn;

/// Objects that are copied at the same time.
const AT_ONCE: usize = 8;
/// Attempts to copy an account while the server removes objects.
const PASSES: usize = 10;
/// How often the objects of a log are listed while the log grows.
const WALKS: usize = 3;
/// Folders of which each holds a log: accounts, and the queues of nodes.
const LOGS: [&str; 2] = ["acct", "queue"];
/// Folders that are not copied: probes, temporary objects, and objects about one store only.
const LEFT_OUT: [&str; 4] = ["probe", "server", "spool", "store"];

/// The first character of attestations in the folder of manifests: they say which entries of a
/// retired key count.
const ATTESTATION: char = 'k';

/// The result of copying objects in their order.
struct Ordered {
    /// The server removed none of them meanwhile.
    none_gone: bool,
    /// The first unreadable one; the copy has none of the following ones.
    ends_before: Option<String>,
}

/// A copy of one store into another one.
pub(super) struct StoreBackup {
    pub(super) verify: bool,
    pub(super) from: Store,
    to: Store,
    pub(super) summary: Summary,
    /// Accounts whose log at TO has diverged: usage records of FROM would be wrong there.
    forked: BTreeSet<String>,
    pub(super) bar: ProgressBar,
}

impl StoreBackup {
    pub(super) fn new(from: Store, to: Store) -> Self {
        let (summary, forked, bar) = (Summary::default(), BTreeSet::new(), ProgressBar::hidden());
        StoreBackup { verify: false, from, to, summary, forked, bar }
    }

    /// Copies all that is missing.
    pub(super) async fn copy_all(&mut self) -> Result<()> {
        let roots = self.from.names_below("").await?;
        let records: Vec<&String> = roots
            .iter()
            .filter(|root| !LOGS.contains(&root.as_str()) && !LEFT_OUT.contains(&root.as_str()))
            .collect();
        // Records are listed before accounts, so that an account created later is not in the copy at
        // all.
        let mut listed = Vec::new();
        for root in &records {
            listed.push(self.list(root).await?);
        }
        for root in LOGS {
            for id in self.from.names_below(root).await? {
                self.log(&format!("{root}/{id}")).await?;
            }
        }
        // The original sends the mails in its queues; the copy must not send them again.
        sealpost_queue::mark_copy(&self.to).await?;
        for (root, objects) in records.into_iter().zip(listed) {
            self.records(root, &objects).await?;
        }
        Ok(())
    }

    pub(super) async fn accounts(&mut self, data_dir: &DataDir, names: &[String]) -> Result<()> {
        for name in names {
            let name = data_dir.account_name(name)?;
            let record = match data_dir.directory.get(&name).await {
                Err(e) if e.kind() == Kind::Corrupt => {
                    self.note_unreadable(&data_dir.directory.path_of(&name), Unreadable::Damaged);
                    continue;
                }
                record => record?,
            };
            let mut prefixes = vec![data_dir.directory.path_of(&name)];
            let mut ids: BTreeSet<AccountId> = BTreeSet::from([record.id]);
            ids.extend(data_dir.directory.shares_of(record.id).await?.iter().map(|share| share.share));
            let folders = ["usage", "shares", "vacations", "logins"];
            prefixes.extend(folders.map(|folder| format!("{folder}/{}", record.id)));
            let mut listed = Vec::new();
            for prefix in &prefixes {
                listed.push(self.list(prefix).await?);
            }
            for id in ids {
                self.log(&format!("acct/{id}")).await?;
            }
            for (prefix, objects) in prefixes.iter().zip(listed) {
                self.records(prefix, &objects).await?;
            }
        }
        Ok(())
    }

    /// Copies the log of an account, a share or a queue in `folder`, and all objects that it refers to.
    async fn log(&mut self, folder: &str) -> Result<()> {
        let is_account = folder.starts_with("acct/");
        self.summary.accounts += u64::from(is_account);
        self.bar.set_prefix(name(folder).to_owned());
        for _ in 0..PASSES {
            if let Some(end) = self.fork(folder).await? {
                self.bar.suspend(|| warn(format!("{end}: the log at TO has diverged: it is not copied")));
                self.summary.differing.insert(end);
                self.forked.insert(name(folder).to_owned());
                return Ok(());
            }
            let (mut manifests, mut log) = self.log_and_manifests(folder).await?;
            for walk in 1..=WALKS {
                self.objects(folder, &manifests, walk > 1).await?;
                let now = self.log_and_manifests(folder).await?;
                let stood_still = end(&now.1) == end(&log);
                if stood_still || walk == WALKS {
                    break;
                }
                (manifests, log) = now;
            }
            // Before TO has this checkpoint, later entries would be behind a gap in its log.
            let mut none_gone = true;
            if let Some(first) = self.before_the_log(folder, &manifests).await? {
                none_gone = self.in_order(vec![first]).await?.none_gone;
            }
            let vouching = manifests.iter().filter(|object| name(&object.path).starts_with(ATTESTATION));
            none_gone &= self.in_order(vouching.cloned().collect()).await?.none_gone;
            let log = self.without_repaired(folder, log).await?;
            // A removed entry has become part of a checkpoint that was not listed yet.
            let entries = self.in_order(log).await?;
            let manifests = match &entries.ends_before {
                None => manifests,
                Some(end) => self.up_to(end, manifests),
            };
            let manifests = self.in_order(manifests).await?;
            if none_gone && entries.none_gone && manifests.none_gone {
                return Ok(());
            }
        }
        anyhow::bail!("{folder} changed too quickly to be copied")
    }

    /// The log at FROM without the entries that a repair of the log at TO left out.
    async fn without_repaired(
        &mut self,
        folder: &str,
        mut log: Vec<ListedObject>,
    ) -> Result<Vec<ListedObject>> {
        let there: Vec<ListedObject> = self.to.list(&format!("{folder}/log"), None).try_collect().await?;
        let left_out = repaired::left_out(&self.from, &log, &self.to, &there).await?;
        log.retain(|object| !left_out.contains(&object.path));
        for path in left_out {
            let text = format!(
                "{path}: not copied, because \"sealpost account repair\" gave it up at the destination; to get it \
                 back, copy the backup into an empty store"
            );
            if self.summary.repaired_without.insert(path) {
                self.bar.suspend(|| warn(text));
            }
        }
        Ok(log)
    }

    /// The manifests of an account, and then its log, which is at least as new.
    async fn log_and_manifests(&self, folder: &str) -> Result<(Vec<ListedObject>, Vec<ListedObject>)> {
        let manifests = self.list(&format!("{folder}/manifest")).await?;
        Ok((manifests, self.list(&format!("{folder}/log")).await?))
    }

    /// The manifest of the oldest checkpoint, if the log at TO ends before it.
    async fn before_the_log(&self, folder: &str, manifests: &[ListedObject]) -> Result<Option<ListedObject>> {
        let there: Vec<ListedObject> = self.to.list(&format!("{folder}/log"), None).try_collect().await?;
        let end = there.last().map_or("", |last| name(&last.path).get(..POSITION_DIGITS).unwrap_or_default());
        Ok(checkpoints(manifests).next().filter(|oldest| name(&oldest.path) > end).cloned())
    }

    /// Copies all other objects of an account, and of checkpoints those that these manifests name;
    /// with `again`, only objects written since.
    async fn objects(&mut self, folder: &str, manifests: &[ListedObject], again: bool) -> Result<()> {
        for kind in self.from.names_below(folder).await? {
            match kind.as_str() {
                "log" | "manifest" => {}
                // An unfinished checkpoint has parts without a manifest; TO could not write its own
                // checkpoint at that position.
                "snap" => {
                    for manifest in checkpoints(manifests) {
                        let position = name(&manifest.path);
                        self.unordered(&format!("{folder}/snap/{position}"), again).await?;
                    }
                }
                _ => self.unordered(&format!("{folder}/{kind}"), again).await?,
            }
        }
        Ok(())
    }

    /// The entry at which the logs of an account at TO and at FROM diverge; `None` if one of them is
    /// an earlier state of the other.
    async fn fork(&self, folder: &str) -> Result<Option<String>> {
        let Ok(owner) = name(folder).parse::<AccountId>() else { return Ok(None) };
        let entries_of = if folder.starts_with("acct/") { entries_of } else { queue_entries_of };
        let [from, to] = [&self.from, &self.to]
            .map(|store| (store, entries_of(store.clone(), owner, Arc::new(SystemRandom))));
        let mut missing = None;
        // A listing may have a gap while the log is trimmed.
        for _ in 0..2 {
            let (here, there) = (from.1.listed().await?, to.1.listed().await?);
            let (Some(last), Some(other)) = (here.last(), there.last()) else { return Ok(None) };
            let is_behind = other.position <= last.position;
            let (end, longer, of) = if is_behind { (other, &here, from.0) } else { (last, &there, to.0) };
            // The entries before it were trimmed.
            if longer.first().is_none_or(|first| first.position > end.position) {
                return Ok(None);
            }
            let path = from.1.path(end);
            let named = of.list(&format!("{folder}/log"), None);
            let named = named.try_any(|object| std::future::ready(object.path == path)).await?;
            if named {
                // Unreadable entries are reported elsewhere.
                let read = (from.0.read_confirmed(&path).await, to.0.read_confirmed(&path).await);
                return Ok(Some(path).filter(|_| matches!(read, (Ok(here), Ok(there)) if here != there)));
            }
            missing = Some(path);
        }
        Ok(missing)
    }

    /// Copies records. Versions that disappear meanwhile were replaced by newer ones.
    async fn records(&mut self, prefix: &str, before: &[ListedObject]) -> Result<()> {
        // As they are now: the logs that were copied may have entries under a key that a later
        // version of a record has.
        let known: BTreeSet<&str> = before.iter().filter_map(directory).collect();
        let mut listed = self.list(prefix).await?;
        listed.retain(|object| directory(object).is_some_and(|directory| known.contains(directory)));
        listed.retain(|object| {
            let account = directory(object).and_then(|directory| directory.strip_prefix("usage/"));
            account.is_none_or(|account| !self.forked.contains(account))
        });
        let directories: BTreeSet<String> = listed.iter().filter_map(directory).map(str::to_owned).collect();
        for directory in directories.iter().filter(|directory| directory.starts_with("accounts/")) {
            if self.is_of_another(directory).await? {
                self.hold_back(directory, &mut listed);
            }
        }
        if !self.in_order(listed).await?.none_gone {
            for directory in directories {
                let now = self.list(&directory).await?;
                self.in_order(now).await?;
            }
        }
        Ok(())
    }

    /// Whether TO has a different account of that name. A store keeps only the last versions of a
    /// record, so the two stores may have none in common, and the newest one of FROM would replace the
    /// account at TO.
    async fn is_of_another(&self, directory: &str) -> Result<bool> {
        let (from, to) = (account_of(&self.from, directory).await?, account_of(&self.to, directory).await?);
        Ok(from.zip(to).is_some_and(|(from, to)| from != to))
    }

    /// Leaves out all versions of a record: the first one differs, the others follow it.
    fn hold_back(&mut self, directory: &str, listed: &mut Vec<ListedObject>) {
        let versions = listed.extract_if(.., |object| self::directory(object) == Some(directory));
        for (at, object) in versions.enumerate() {
            let held = if at == 0 { &mut self.summary.differing } else { &mut self.summary.held_back };
            held.insert(object.path);
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        Ok(self.from.list(prefix, None).try_collect().await?)
    }

    /// The checkpoints of an account below the position of the log entry `end`, which the copy does not
    /// have.
    fn up_to(&mut self, end: &str, manifests: Vec<ListedObject>) -> Vec<ListedObject> {
        let end = name(end).get(..POSITION_DIGITS).unwrap_or_default();
        let is_below = |o: &ListedObject| !is_checkpoint(o) || name(&o.path) < end;
        let (below, behind) = manifests.into_iter().partition(is_below);
        let behind: Vec<ListedObject> = behind;
        self.summary.held_back.extend(behind.into_iter().map(|object| object.path));
        below
    }

    /// Copies objects one after the other in their order, so that the copy has no gaps: objects behind
    /// an unreadable one in the same directory are not copied. Manifests of checkpoints are independent
    /// of each other.
    async fn in_order(&mut self, objects: Vec<ListedObject>) -> Result<Ordered> {
        let mut done = Ordered { none_gone: true, ends_before: None };
        let there = self.objects_at_target(&objects).await?;
        // The last existing one is compared byte by byte: an entry has the hash of the one before,
        // so this covers all of them.
        let is_last = |at: usize| {
            let next: Option<&ListedObject> = objects.get(at + 1);
            next.is_none_or(|next| {
                !is_beside(&objects[at], next) || !there.contains(&(next.path.clone(), next.size))
            })
        };
        let mut ended = BTreeSet::new();
        for (at, object) in objects.iter().enumerate() {
            let listed = there.contains(&(object.path.clone(), object.size));
            let known = listed && self.to.has_all(&object.path).await?;
            if !known && ended.contains(&directory(object)) {
                self.summary.held_back.insert(object.path.clone());
                continue;
            }
            let transfer = match known {
                true if self.verify => self.from.compare(&object.path, object.size, &self.to).await?,
                true if !is_last(at) => Transfer::Same,
                false if listed => self.from.mend(&object.path, object.size, &self.to).await?,
                _ => self.from.transfer(&object.path, object.size, &self.to).await?,
            };
            done.none_gone &= transfer != Transfer::Missing;
            // An object that TO has already leaves no gap; but versions behind a differing one belong
            // to another record.
            let ends = match transfer {
                Transfer::Unreadable(_) => !known && kind(&object.path) != Some("manifest"),
                // Two histories: later objects of FROM do not continue those of TO.
                Transfer::Differs => !object.path.starts_with("acct/") || kind(&object.path) == Some("log"),
                _ => false,
            };
            if ends {
                ended.insert(directory(object));
                done.ends_before.get_or_insert_with(|| object.path.clone());
            }
            self.note(object, transfer);
        }
        Ok(done)
    }

    /// The objects at TO in the directories of `objects`, by path and size.
    async fn objects_at_target(&self, objects: &[ListedObject]) -> Result<BTreeSet<(String, u64)>> {
        let directories: BTreeSet<&str> = objects.iter().filter_map(directory).collect();
        let mut there = BTreeSet::new();
        for directory in directories {
            let mut listed = self.to.list(directory, None);
            while let Some(object) = listed.try_next().await? {
                there.insert((object.path, object.size));
            }
        }
        Ok(there)
    }

    /// Copies all missing objects below `prefix`, several at a time. It reads both listings in step,
    /// so it holds neither. Existing objects are compared, unless `again`.
    async fn unordered(&mut self, prefix: &str, again: bool) -> Result<()> {
        let mut there = self.to.list(prefix, None).peekable();
        let mut here = self.from.list(prefix, None);
        let mut under_way = futures::stream::FuturesUnordered::new();
        loop {
            let next = here.try_next().await?;
            while under_way.len() >= AT_ONCE || (next.is_none() && !under_way.is_empty()) {
                if let Some(done) = under_way.next().await {
                    let (object, transfer): (ListedObject, sealpost_base::Result<Transfer>) = done;
                    self.note(&object, transfer?);
                }
            }
            let Some(object) = next else { return Ok(()) };
            let before =
                |o: &sealpost_base::Result<ListedObject>| o.as_ref().is_ok_and(|o| o.path < object.path);
            let mut there = std::pin::Pin::new(&mut there);
            while there.as_mut().next_if(before).await.is_some() {}
            let same = |o: &sealpost_base::Result<ListedObject>| {
                o.as_ref().is_ok_and(|o| o.path == object.path && o.size == object.size)
            };
            let known = there.as_mut().next_if(same).await.is_some();
            if let Some(Err(_)) = there.as_mut().peek().await
                && let Some(failed) = there.as_mut().next().await
            {
                failed?;
            }
            if known && again {
                continue;
            }
            let (from, to, verify) = (self.from.clone(), self.to.clone(), self.verify);
            under_way.push(async move {
                let transfer = match known {
                    true => compared(&from, &object, &to, verify).await,
                    false => from.transfer(&object.path, object.size, &to).await,
                };
                (object, transfer)
            });
        }
    }

    fn note(&mut self, object: &ListedObject, transfer: Transfer) {
        match transfer {
            Transfer::Copied => {
                self.summary.copied += 1;
                self.summary.bytes += object.size;
            }
            Transfer::Same => self.summary.already += 1,
            Transfer::Missing => self.summary.gone += 1,
            Transfer::Differs => drop(self.summary.differing.insert(object.path.clone())),
            Transfer::Unreadable(why) => self.note_unreadable(&object.path, why),
        }
        let Summary { copied, bytes, already, .. } = &self.summary;
        self.bar.set_message(format!("{copied} copied ({}), {already} were there", HumanBytes(*bytes)));
    }

    /// Reports the object, once.
    fn note_unreadable(&mut self, path: &str, why: Unreadable) {
        let (kept, what) = match is_derived(path) {
            true => (&mut self.summary.unreadable_derived, "cannot be read; the server makes it again"),
            false => (&mut self.summary.unreadable, "cannot be read"),
        };
        let why = match why {
            Unreadable::Damaged => "it is damaged or missing",
            Unreadable::NotAllowed => "this user has no permission for its file",
            Unreadable::DiskFailed => "the disk fails to read it",
        };
        if kept.insert(path.to_owned()) {
            self.bar.suspend(|| warn(format!("{path}: {what} ({why})")));
        }
    }
}

/// Compares an object that both stores list with the same size: an incomplete one at TO is copied
/// again, the others are read if `verify` is set.
async fn compared(
    from: &Store,
    object: &ListedObject,
    to: &Store,
    verify: bool,
) -> sealpost_base::Result<Transfer> {
    match to.has_all(&object.path).await? {
        false => from.mend(&object.path, object.size, to).await,
        true if verify => from.compare(&object.path, object.size, to).await,
        true => Ok(Transfer::Same),
    }
}

/// The account in the newest readable version of a record.
async fn account_of(store: &Store, directory: &str) -> Result<Option<AccountId>> {
    let mut versions: Vec<ListedObject> = store.list(directory, None).try_collect().await?;
    while let Some(newest) = versions.pop() {
        // Unreadable versions are reported when they are copied.
        let object = store.read(&newest.path).await.unwrap_or_default();
        if let Some(account) = unverified_account(&object) {
            return Ok(Some(account));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
