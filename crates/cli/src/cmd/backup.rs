//! `sealpost backup`: a store, or one account of it, into another store.
//!
//! Objects never change, so a copy is what is missing. What makes it consistent while the server
//! writes is the order: first what refers to others is listed (manifests, then log entries, so that
//! no checkpoint is of what is behind the end of the log; records), then everything else is listed
//! and copied, then what was listed first, logs in their order. So whatever the copy refers to is
//! in it, but for messages that the server gave up meanwhile. It says so in the log before it
//! removes them; so a log that grew is listed anew, with what came.
//!
//! What cannot be read at FROM (damaged, not allowed, a disk that fails) is named, and everything
//! else is copied. A log ends before an entry that cannot be read, because one with a gap would be
//! worse: checkpoints of what comes later stay away too. So does a record at a version that cannot
//! be read.
//!
//! Where TO was used itself, and its log went on differently, nothing of that log is copied: it
//! would end what TO has had since. That cannot be told once FROM's log was trimmed beyond the end
//! of TO's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_base::limits::DATABASE_START_TIME;
use sealpost_base::{AccountId, Error, Kind, SystemRandom};
use sealpost_directory::unverified_account;
use sealpost_journal::{entries_of, queue_entries_of};
use sealpost_vault::store::{Extent, Transfer, Unreadable};
use sealpost_vault::{ListedObject, Store};
use serde::Serialize;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{FAILED, Usage};
use crate::global::Global;
use crate::output::{counted, warn};
use crate::store::{Purpose, is_store};

/// Arguments of `sealpost backup`.
#[derive(clap::Args)]
#[command(after_help = "A store is s3://bucket/prefix (with the endpoint, region and access key of the \
                        configuration), file:///directory, a directory, or config:FILE, the store of \
                        another configuration. Objects that TO already has are not copied again: run the \
                        command again to continue after an interruption, or to update a backup. It \
                        replaces and removes nothing. It does not copy the server's key: copy server.key \
                        yourself. New objects are read back and compared; existing ones are compared by \
                        size, with --verify byte by byte. A file at TO that is missing or has another \
                        size is written again. Exit status 1 if an object at TO differs, or if an object \
                        at FROM is damaged or cannot be read; the others are copied.\n
Examples:
  sealpost backup ./sealpost-data /backup/mail
  sealpost backup --config /etc/sealpost.toml s3://mail /backup/mail --json
  sealpost backup ./sealpost-data s3://mail --account jane@example.org")]
pub struct Args {
    /// The store to copy from
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to copy to; a missing directory is created
    #[arg(value_name = "TO")]
    to: String,
    /// Copy this account and its shared mailboxes only; may be repeated. The data directory must
    /// have the server.key of FROM
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    /// Compare existing objects at TO byte by byte instead of by size
    #[arg(long)]
    verify: bool,
}

/// Objects that are copied at the same time.
const AT_ONCE: usize = 8;
/// How often an account is begun anew because the server removed what was to be copied.
const PASSES: usize = 10;
/// How often what a log refers to is looked through, because the log grew meanwhile.
const WALKS: usize = 3;
/// Folders of which each holds a log: accounts, and the queues of nodes.
const LOGS: [&str; 2] = ["acct", "queue"];
/// What nobody refers to, what lasts a moment, and what is said of one store and not of another.
const LEFT_OUT: [&str; 4] = ["probe", "server", "spool", "store"];

/// Digits of a position in the name of a log entry or a manifest.
const POSITION_DIGITS: usize = 16;
/// What the names of objects in the folder of manifests begin with that say which entries count
/// although their key was retired.
const ATTESTATION: char = 'k';

mod repaired;

/// What became of objects that were copied in their order.
struct Ordered {
    /// None of them was removed meanwhile.
    none_gone: bool,
    /// The first one that could not be read: what follows is not in the copy.
    ends_before: Option<String>,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Summary {
    from: String,
    to: String,
    accounts: u64,
    copied: u64,
    bytes: u64,
    already: u64,
    /// Objects that the server removed meanwhile.
    gone: u64,
    /// Objects that are not the same at TO, and stayed.
    differing: BTreeSet<String>,
    /// Objects at FROM that cannot be read.
    unreadable: BTreeSet<String>,
    /// The same, of those that the server makes anew: nothing is lost.
    unreadable_derived: BTreeSet<String>,
    /// Objects that were not copied because one before them cannot be read.
    held_back: BTreeSet<String>,
    /// Log entries that TO was repaired without: it would contradict itself with them.
    repaired_without: BTreeSet<String>,
    /// What is wrong with the database of FROM: its listings may lack objects.
    damage: Vec<String>,
}

struct StoreBackup {
    verify: bool,
    from: Store,
    to: Store,
    summary: Summary,
    /// Accounts whose log went on differently at TO: what FROM says of their usage is not true there.
    forked: BTreeSet<String>,
    bar: ProgressBar,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let config = Config::load(global)?;
    require(&config, &args)?;
    let from = open(&config, &args.from, Purpose::Read).await?;
    let to = open(&config, &args.to, Purpose::Change).await?;
    // What no listing shows is not copied, and nothing else would tell.
    let damage = from.inspect(Extent::Newest, DATABASE_START_TIME).await?.damage;
    let summary = Summary { from: args.from.clone(), to: args.to.clone(), damage, ..Summary::default() };
    let mut copy =
        StoreBackup { verify: args.verify, summary, bar: progress(global), ..StoreBackup::new(from, to) };
    let done = if args.account.is_empty() {
        copy.everything().await
    } else {
        DataDir::require_key(&config)?;
        let data_dir = DataDir::over(&config, copy.from.clone())?;
        copy.accounts(&data_dir, &args.account).await
    };
    copy.bar.finish_and_clear();
    let summary = copy.summary;
    if let Err(e) = done {
        global.output().note(summary.to_text());
        return Err(e.context("the backup is incomplete; run the command again to continue"));
    }
    match summary.is_complete() {
        true => global.output().done(&summary, Summary::to_text)?,
        false => global.output().show(&summary, Summary::to_text)?,
    }
    Ok(if summary.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Opening a local store makes it: what is to be copied has to be there.
fn require(config: &Config, args: &Args) -> Result<()> {
    for store in [&args.from, &args.to] {
        if let Some(file) = local(config, store)?.filter(|path| path.exists() && !path.is_dir()) {
            return Err(Usage(format!("{} is not a directory", file.display())).into());
        }
    }
    match local(config, &args.from)? {
        Some(directory) if !is_store(&directory)? => {
            Err(Error::not_found(format!("there is no store in {}", directory.display())).into())
        }
        _ => Ok(()),
    }
}

/// The directory of a local store.
fn local(config: &Config, store: &str) -> Result<Option<PathBuf>> {
    match store.strip_prefix("config:") {
        None => config.store.directory_of(store),
        Some(file) => {
            let named = Global { config: Some(file.into()), ..Global::default() };
            let other = Config::load(&named)?;
            Ok(other.store.directory(&other.directory))
        }
    }
}

async fn open(config: &Config, store: &str, purpose: Purpose) -> Result<Store> {
    match store.strip_prefix("config:") {
        None => config.store.at(store, purpose).await,
        Some(file) => {
            let named = Global { config: Some(file.into()), ..Global::default() };
            let other = Config::load(&named)?;
            other.store.open(&other.directory, purpose).await
        }
    }
}

impl StoreBackup {
    fn new(from: Store, to: Store) -> Self {
        let (summary, forked, bar) = (Summary::default(), BTreeSet::new(), ProgressBar::hidden());
        StoreBackup { verify: false, from, to, summary, forked, bar }
    }

    async fn everything(&mut self) -> Result<()> {
        let roots = self.from.names_below("").await?;
        let records: Vec<&String> = roots
            .iter()
            .filter(|root| !LOGS.contains(&root.as_str()) && !LEFT_OUT.contains(&root.as_str()))
            .collect();
        // Which records there are is looked up before the accounts: an account that is made later
        // is not in the copy at all.
        let mut listed = Vec::new();
        for root in &records {
            listed.push(self.list(root).await?);
        }
        for root in LOGS {
            for id in self.from.names_below(root).await? {
                self.log(&format!("{root}/{id}")).await?;
            }
        }
        // The original sends what its queues hold; a copy must not send it again.
        sealpost_queue::mark_copy(&self.to).await?;
        for (root, objects) in records.into_iter().zip(listed) {
            self.records(root, &objects).await?;
        }
        Ok(())
    }

    async fn accounts(&mut self, data_dir: &DataDir, names: &[String]) -> Result<()> {
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
            prefixes.extend([format!("usage/{}", record.id), format!("shares/{}", record.id)]);
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

    /// The log of an account, a share or a queue, which is in `folder`, and all that it refers to.
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
            // What follows is behind a gap in the log there until the checkpoint is there that covers it.
            let mut none_gone = true;
            if let Some(first) = self.before_the_log(folder, &manifests).await? {
                none_gone = self.in_order(vec![first]).await?.none_gone;
            }
            let vouching = manifests.iter().filter(|object| name(&object.path).starts_with(ATTESTATION));
            none_gone &= self.in_order(vouching.cloned().collect()).await?.none_gone;
            let log = self.without_repaired(folder, log).await?;
            // An entry that was removed has become part of a checkpoint that was not there yet.
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

    /// The log at FROM without what the one at TO was repaired without.
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

    /// The checkpoints' manifests of an account and its log, as it was no earlier.
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

    /// Everything else of an account, of checkpoints what these manifests name; with `again`, what
    /// came since.
    async fn objects(&mut self, folder: &str, manifests: &[ListedObject], again: bool) -> Result<()> {
        for kind in self.from.names_below(folder).await? {
            match kind.as_str() {
                "log" | "manifest" => {}
                // Of one that is being written there would be parts without a manifest: in the way
                // of the one that TO writes there.
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

    /// Where the log of an account at TO and the one at FROM went on differently; `None` if one of
    /// them is what the other was once.
    async fn fork(&self, folder: &str) -> Result<Option<String>> {
        let Ok(owner) = name(folder).parse::<AccountId>() else { return Ok(None) };
        let entries_of = if folder.starts_with("acct/") { entries_of } else { queue_entries_of };
        let [from, to] = [&self.from, &self.to]
            .map(|store| (store, entries_of(store.clone(), owner, Arc::new(SystemRandom))));
        let mut missing = None;
        // What is listed while it is trimmed may have a gap.
        for _ in 0..2 {
            let (here, there) = (from.1.listed().await?, to.1.listed().await?);
            let (Some(last), Some(other)) = (here.last(), there.last()) else { return Ok(None) };
            let is_behind = other.position <= last.position;
            let (end, longer, of) = if is_behind { (other, &here, from.0) } else { (last, &there, to.0) };
            // What was before it was trimmed.
            if longer.first().is_none_or(|first| first.position > end.position) {
                return Ok(None);
            }
            let path = from.1.path(end);
            let named = of.list(&format!("{folder}/log"), None);
            let named = named.try_any(|object| std::future::ready(object.path == path)).await?;
            if named {
                // What cannot be read is another matter.
                let read = (from.0.read_confirmed(&path).await, to.0.read_confirmed(&path).await);
                return Ok(Some(path).filter(|_| matches!(read, (Ok(here), Ok(there)) if here != there)));
            }
            missing = Some(path);
        }
        Ok(missing)
    }

    /// Records: those that are gone were replaced by newer versions.
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

    /// Whether the store at TO has another account of that name. Of each record the last versions
    /// are kept, so there may be none that both have; the newest one would put the account at FROM
    /// in the place of the one at TO.
    async fn is_of_another(&self, directory: &str) -> Result<bool> {
        let (from, to) = (account_of(&self.from, directory).await?, account_of(&self.to, directory).await?);
        Ok(from.zip(to).is_some_and(|(from, to)| from != to))
    }

    /// Leaves out the versions of a record: the first one is of another history, the others follow it.
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

    /// Those of an account's checkpoints whose position is below that of the log entry `end`, which
    /// is not in the copy.
    fn up_to(&mut self, end: &str, manifests: Vec<ListedObject>) -> Vec<ListedObject> {
        let end = name(end).get(..POSITION_DIGITS).unwrap_or_default();
        let is_below = |o: &ListedObject| !is_checkpoint(o) || name(&o.path) < end;
        let (below, behind) = manifests.into_iter().partition(is_below);
        let behind: Vec<ListedObject> = behind;
        self.summary.held_back.extend(behind.into_iter().map(|object| object.path));
        below
    }

    /// Copies objects one after the other, those first that come first, so that what is there of
    /// them has no gaps: what follows one that cannot be read, beside it, is not copied; of
    /// checkpoints' manifests each stands for itself.
    async fn in_order(&mut self, objects: Vec<ListedObject>) -> Result<Ordered> {
        let mut done = Ordered { none_gone: true, ends_before: None };
        let there = self.there(&objects).await?;
        // Of what is there the last one is compared byte by byte: an entry carries the hash of the
        // one before, and so on.
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
            done.none_gone &= transfer != Transfer::Gone;
            // What was there already leaves no gap; but versions that follow another one are not
            // those of the record there.
            let ends = match transfer {
                Transfer::Unreadable(_) => !known && kind(&object.path) != Some("manifest"),
                // Two histories: what follows here does not follow what is there.
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

    /// Which of `objects` are at TO, by path and size, and what else is beside them.
    async fn there(&self, objects: &[ListedObject]) -> Result<BTreeSet<(String, u64)>> {
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

    /// Copies everything below `prefix` that is missing, several objects at a time. Both listings
    /// are walked together, so it holds neither. What is there is looked at, but not `again`.
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
            Transfer::Gone => self.summary.gone += 1,
            Transfer::Differs => drop(self.summary.differing.insert(object.path.clone())),
            Transfer::Unreadable(why) => self.note_unreadable(&object.path, why),
        }
        let Summary { copied, bytes, already, .. } = &self.summary;
        self.bar.set_message(format!("{copied} copied ({}), {already} were there", HumanBytes(*bytes)));
    }

    /// Names it, once.
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

impl Summary {
    /// Whether all that counts is at TO.
    fn is_complete(&self) -> bool {
        let names = [&self.differing, &self.unreadable, &self.repaired_without];
        names.iter().all(|names| names.is_empty()) && self.damage.is_empty()
    }

    fn to_text(&self) -> String {
        let Summary { from, to, accounts, copied, bytes, already, gone, .. } = self;
        let (bytes, logs) = (HumanBytes(*bytes), counted(*accounts, "log", "logs"));
        let copied = counted(*copied, "object", "objects");
        let already = counted(*already, "was", "were");
        let mut text =
            format!("{from} to {to}: {logs}; {copied} copied and read back ({bytes}), {already} there");
        if *gone > 0 {
            text.push_str(&format!(", {} removed meanwhile", counted(*gone, "was", "were")));
        }
        let kinds = [
            (self.unreadable.len(), "not copied: unreadable"),
            (self.held_back.len(), "not copied: behind an unreadable or differing one"),
            (self.repaired_without.len(), "not copied: left out by a repair of the log at the destination"),
            (
                self.unreadable_derived.len(),
                "of derived data not copied: unreadable; the server makes such objects again",
            ),
        ];
        for (count, what) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("\n{} {what}", counted(count, "object", "objects")));
        }
        for path in &self.differing {
            text.push_str(&format!("\ndiffers: {path}"));
        }
        for what in &self.damage {
            text.push_str(&format!("\nthe database of {from} is damaged: {what}"));
        }
        if !self.damage.is_empty() {
            text.push_str(
                "\nobjects may be missing from the backup; repair the store (sealpost store \
                           repair), and run the command again",
            );
        }
        text
    }
}

/// An object that both stores list with the same size: what is short of bytes at TO is copied
/// again, the others are read if `verify` says so.
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

/// The account that the newest readable version of a record is about.
async fn account_of(store: &Store, directory: &str) -> Result<Option<AccountId>> {
    let mut versions: Vec<ListedObject> = store.list(directory, None).try_collect().await?;
    while let Some(newest) = versions.pop() {
        // What cannot be read is named when it is copied.
        let object = store.read(&newest.path).await.unwrap_or_default();
        if let Some(account) = unverified_account(&object) {
            return Ok(Some(account));
        }
    }
    Ok(None)
}

/// The last object of a listing.
fn end(listed: &[ListedObject]) -> Option<&str> {
    listed.last().map(|object| object.path.as_str())
}

/// What an object's path is without its last part.
fn directory(object: &ListedObject) -> Option<&str> {
    object.path.rsplit_once('/').map(|(directory, _)| directory)
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// What an object of an account is: the third part of its path.
fn kind(path: &str) -> Option<&str> {
    path.strip_prefix("acct/")?.split('/').nth(1)
}

/// Whether a manifest is a checkpoint's: marks of ballots have no position.
fn is_checkpoint(manifest: &ListedObject) -> bool {
    name(&manifest.path).len() == POSITION_DIGITS
}

/// Those of an account's manifests that are, the oldest one first.
fn checkpoints(manifests: &[ListedObject]) -> impl Iterator<Item = &ListedObject> {
    manifests.iter().filter(|manifest| is_checkpoint(manifest))
}

/// Whether the server makes it anew out of messages: packs, and segments of the index.
fn is_derived(path: &str) -> bool {
    matches!(kind(path), Some("pack" | "idx"))
}

fn is_beside(one: &ListedObject, other: &ListedObject) -> bool {
    directory(one) == directory(other)
}

fn progress(global: &Global) -> ProgressBar {
    if !global.output().shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {prefix} {msg}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

#[cfg(test)]
mod tests;
