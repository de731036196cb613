//! [`Run`]: folder by folder, over as many connections one after the other as needed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Error, Kind, Result, Uid, UidSet};
use tokio::sync::{mpsc, watch};

use super::contents::Contents;
use super::deliver::Delivery;
use super::delivery_state::{DeliveryState, SizeRefusals};
use super::map::{Put, Putting};
use super::message_chunk::{ProgressSink, locked};
use super::message_matching::{Pairs, pair};
use super::origin::{From, Origin};
use super::plan::{Comparison, Plan};
use super::report::{FolderReport, Observer, Options, Report};
use super::target::{DestinationFolder, Target};
use crate::backup::FolderName;
use crate::client::{Backoff, Server};

/// Looks, two seconds apart, that must show no change before the server counts as done; and how
/// many there are at most.
const SETTLE_QUIET: u32 = 4;
const SETTLE_CHECKS: u32 = 60;
/// Pieces that wait between source and destination.
const WAITING: usize = 32;

/// Both ends, and what was done so far.
pub(super) struct Run<'a> {
    pub(super) origin: Origin,
    pub(super) target: Target,
    pub(super) options: &'a Options,
    pub(super) observer: Arc<dyn Observer>,
    backoff: Backoff,
    size_refusals: SizeRefusals,
    pub(super) report: Report,
    /// The folders of the source, and which of them the destination has under a name, once
    /// computed.
    sources: Vec<FolderName>,
    claimed: HashMap<String, FolderName>,
    is_claimed: bool,
    /// The error would occur in any other folder too.
    pub(super) fatal: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        origin: Origin,
        to: &Server,
        options: &'a Options,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Run {
            origin,
            target: Target::new(to),
            options,
            observer,
            backoff: Backoff::new(to.timeouts.retry),
            size_refusals: SizeRefusals::default(),
            report: Report::default(),
            sources: Vec::new(),
            claimed: HashMap::new(),
            is_claimed: false,
            fatal: false,
        }
    }

    /// Appends what is missing in all wanted folders; returns these.
    pub(super) async fn all(&mut self) -> Result<Vec<From>> {
        let mut folders = self.folders().await?;
        self.fitting_first(&mut folders).await?;
        self.sources = folders.iter().map(|from| from.place().clone()).collect();
        let wanted = |name: &FolderName| (self.options.wanted)(name.as_str());
        folders.retain(|from| wanted(from.name()) || wanted(from.place()));
        for from in &folders {
            self.folder(from).await?;
            if self.report.interrupted || self.size_refusals.is_full().is_some() {
                break;
            }
        }
        Ok(folders)
    }

    /// Logs out of both.
    pub(super) async fn end(mut self) -> Report {
        self.origin.logout().await;
        self.target.logout().await;
        self.report
    }

    /// The source's folders. A busy server is tried again.
    async fn folders(&mut self) -> Result<Vec<From>> {
        loop {
            match unless(&self.options.stop, self.origin.folders()).await {
                Err(e) if e.kind() == Kind::Retry && !self.stopped() => self.pause(e).await?,
                folders => return folders,
            }
        }
    }

    /// Folders whose names the destination accepts go before those that get another name there: if
    /// two would become one, the first keeps the name.
    async fn fitting_first(&mut self, folders: &mut [From]) -> Result<()> {
        while let Err(e) = unless(&self.options.stop, self.target.connection()).await {
            match e.kind() {
                _ if self.stopped() => return Ok(()),
                Kind::Retry => self.pause(e).await?,
                _ => return Err(e),
            }
        }
        folders.sort_by_key(|from| self.target.renames(&self.levels(from.place())).is_some());
        Ok(())
    }

    pub(super) fn stopped(&self) -> bool {
        *self.options.stop.borrow()
    }

    /// Waits before the next attempt, with new connections; the error if there is none.
    pub(super) async fn pause(&mut self, error: Error) -> Result<()> {
        self.origin.drop_connection();
        self.target.drop_connection();
        let Some(wait) = self.backoff.next(&error, &*self.options.random) else { return Err(error) };
        if wait > Duration::from_secs(2) {
            self.observer.waits(&format!("{error}; trying again in {} s", wait.as_secs()));
        }
        self.report.reconnects += 1;
        let pause = async {
            tokio::time::sleep(wait).await;
            Ok(())
        };
        // Callers check whether the run was stopped.
        let _: Result<()> = unless(&self.options.stop, pause).await;
        Ok(())
    }

    async fn folder(&mut self, from: &From) -> Result<()> {
        let mut this = FolderReport { name: from.name().to_string(), ..FolderReport::default() };
        self.observer.comparing(&this.name);
        let mut tried = DeliveryState::default();
        let ended = loop {
            let before = this.put;
            let attempt = self.attempt(from, &mut this, &mut tried).await;
            if this.put > before {
                self.backoff.progress();
            }
            match attempt {
                _ if self.stopped() => break Ok(()),
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(e) if e.kind() == Kind::Retry => {
                    if let Err(e) = self.pause(e).await {
                        break Err(e);
                    }
                }
                Err(e) if self.fatal => break Err(e),
                Err(e) => {
                    this.error = Some(e.to_string());
                    break Ok(());
                }
            }
        };
        let is_copy = matches!(from, From::Backup(_));
        if is_copy && tried.has_unnamed() && ended.is_ok() && !self.stopped() {
            // Messages without a known UID are recognized by their key.
            let _ = self.resolve_appended_uids(from, &mut tried).await;
        }
        this.without_keywords = tried.without_keywords();
        (this.failed, this.failures) = tried.take_failed();
        if let Some(why) = self.size_refusals.is_full() {
            this.error = Some(format!("the account accepts no more messages: {why}"));
        }
        if let Some(why) = locked(&self.options.map).sync() {
            self.observer.note(&format!("the map of UIDs cannot be written: {why}"));
        }
        self.report.interrupted = self.stopped();
        self.observer.ended(&this);
        self.report.folders.push(this);
        ended
    }

    /// Waits until no more messages appear in the folder: a server may still process what a lost
    /// connection sent, and messages not yet processed would be appended again.
    async fn settle(&mut self, wire: &[u8]) -> Result<()> {
        let step = self.target.timeouts().retry.saturating_mul(2);
        self.observer.waits(
            "waiting for the server to finish commands of a possible interrupted run (with \
                             --map, the map records such runs)",
        );
        let (mut last, mut quiet) = (None, 0);
        for _ in 0..SETTLE_CHECKS {
            let stop = &self.options.stop;
            let selected = unless(stop, self.target.connection().await?.examine(wire)).await?;
            let now = (selected.messages, selected.uidnext);
            quiet = if last == Some(now) { quiet + 1 } else { 0 };
            last = Some(now);
            if quiet == SETTLE_QUIET {
                break;
            }
            let pause = async {
                tokio::time::sleep(step).await;
                Ok(())
            };
            unless(stop, pause).await?;
        }
        Ok(())
    }

    /// The folder at the destination; connects if necessary.
    pub(super) async fn place(&mut self, from: &From) -> Result<DestinationFolder> {
        if let Err(e) = unless(&self.options.stop, self.target.connection()).await {
            self.fatal = e.kind() != Kind::Retry;
            return Err(e);
        }
        self.target.place(&self.levels(from.place())).await
    }

    /// The levels of a folder of the source at the destination.
    fn levels(&self, name: &FolderName) -> Vec<String> {
        self.options.below.iter().cloned().chain(name.levels().map(str::to_owned)).collect()
    }

    /// Makes sure that no other folder of the source uses that place: a name that the destination
    /// cannot represent may map to another folder's name. Returns whether the place is this
    /// folder's; an empty folder needs none.
    async fn claim(&mut self, from: &From, place: &DestinationFolder) -> Result<bool> {
        if !self.is_claimed {
            for name in &self.sources {
                let place = self.target.place(&self.levels(name)).await?;
                self.claimed.entry(place.name.to_string()).or_insert_with(|| name.clone());
            }
            self.is_claimed = true;
        }
        let claimed = self.claimed.entry(place.name.to_string());
        let other = claimed.or_insert_with(|| from.place().clone());
        if other == from.place() {
            return Ok(true);
        }
        if from.is_empty() {
            return Ok(false);
        }
        Err(Error::invalid(format!(
            "{other} has the same name at the destination, {}; this folder is skipped: rename it at the \
             source, or copy it separately (--folder, --prefix)",
            place.name
        )))
    }

    /// Reports once that a folder has another name at the destination than `wanted`, or than at the
    /// source.
    fn report_name(
        &self,
        from: &From,
        wanted: &FolderName,
        place: &DestinationFolder,
        report: &mut FolderReport,
    ) {
        let to = place.name.as_str();
        if report.to.as_deref() == Some(to) {
            return;
        }
        report.to = Some(to.to_owned());
        let why = match self.target.renames(&self.levels(from.place())) {
            _ if place.name != *wanted => Some("which rejects that name".to_owned()),
            why => why,
        };
        if let Some(why) = why {
            let was = if place.name == *wanted { from.name() } else { wanted };
            self.observer.note(&format!("{was} is called {to} at the destination, {why}"));
        }
    }

    /// Pairs the messages of both ends. Messages that arrived without an answer are added to the
    /// map.
    fn compare(
        &self,
        from: &From,
        place: &DestinationFolder,
        contents: &Contents,
        there: &Contents,
        tried: &mut DeliveryState,
    ) -> Pairs {
        let mut map = locked(&self.options.map);
        let (name, to) = (from.name().as_str(), place.name.as_str());
        let pairs = pair(contents, there, map.known(name, to));
        let mut found = Vec::new();
        for (at, there_at) in &pairs.same {
            let (uid, there_uid) = (contents.messages[*at].uid, there.messages[*there_at].uid);
            let put = Put { uidvalidity: contents.uidvalidity, uid, there: (there.uidvalidity, there_uid) };
            // Between servers, messages not known to be ours are the owner's, and no mirror removes
            // them.
            let is_expected = || {
                let known = map.known(name, to).filter(|_| matches!(from, From::Backup(_)));
                known.is_some_and(|known| known.expects(&put))
            };
            if tried.found(uid, there.uidvalidity, there_uid) || is_expected() {
                found.push(put);
            }
        }
        // A dry run has no file to write.
        found.into_iter().for_each(|put| map.put(name, to, put));
        pairs
    }

    /// Finds out the UIDs of appended messages, from a server that does not report them.
    async fn resolve_appended_uids(&mut self, from: &From, tried: &mut DeliveryState) -> Result<()> {
        let place = self.place(from).await?;
        let there = unless(&self.options.stop, self.target.contents(&place)).await?;
        let contents = unless(&self.options.stop, self.origin.contents(from, true)).await?;
        self.compare(from, &place, &contents, &there, tried);
        Ok(())
    }

    /// Removes messages from `missing` that are duplicates within the backup: of those that a
    /// restore put back under other UIDs one is enough, and a message that this run puts there from
    /// another folder is not put below that once more.
    async fn leave_out_twins(&mut self, from: &From, contents: &Contents, pairs: &mut Pairs) -> Result<()> {
        let (From::Backup(kept), false) = (from, pairs.missing.is_empty()) else { return Ok(()) };
        let restored = self.options.restored.clone();
        let (folder, uidvalidity) = (kept.place(), contents.uidvalidity);
        for twins in restored.twins(folder.as_str(), uidvalidity, &contents.uids()) {
            pairs.keep_one_of(&twins);
        }
        let below = restored.restorations(folder.as_str(), uidvalidity).iter().filter(|restoration| {
            restoration.below != Some(false)
                && restoration.folder != folder.as_str()
                && (self.options.wanted)(&restoration.folder)
        });
        if !restored.is_of(&self.target.account()) {
            return Ok(());
        }
        for restoration in below {
            let Some(source) = self.sources.iter().find(|name| name.as_str() == restoration.folder) else {
                continue;
            };
            if self.target.place(&self.levels(source)).await?.name.as_str() != folder.as_str() {
                continue;
            }
            let there = self.origin.uids(source, restoration.uidvalidity).await?;
            let is_there = |uid: &u32| Uid::new(*uid).is_some_and(|uid| there.contains(uid));
            let put = restoration.pairs().iter().filter(|(uid, _)| is_there(uid));
            pairs.missing =
                pairs.missing.difference(&put.filter_map(|(_, there)| Uid::new(*there)).collect());
        }
        Ok(())
    }

    /// Whether the folder, which does not exist there, would only become an empty one: it is below
    /// the folder that everything is put below, and has only messages of earlier restores. Each
    /// restore would add one level to it.
    async fn is_put_below(&mut self, from: &From, place: &DestinationFolder) -> Result<bool> {
        let (From::Backup(_), None) = (from, &place.wire) else { return Ok(false) };
        let below = &self.options.below;
        let is_below =
            !below.is_empty() && from.place().levels().take(below.len()).eq(below.iter().map(String::as_str));
        if !is_below || !self.options.restored.is_of(&self.target.account()) {
            return Ok(false);
        }
        let contents = unless(&self.options.stop, self.origin.contents(from, false)).await?;
        let mut pairs = pair(&contents, &Contents::default(), None);
        self.leave_out_twins(from, &contents, &mut pairs).await?;
        Ok(contents.complete && pairs.missing.is_empty())
    }

    /// Appends what is missing in the folder; returns whether some of it was put off.
    async fn attempt(
        &mut self,
        from: &From,
        report: &mut FolderReport,
        tried: &mut DeliveryState,
    ) -> Result<bool> {
        let Some((place, was_there)) = self.ready(from, report).await? else { return Ok(false) };
        let (contents, missing, there) = self.examine(from, &place, report, tried).await?;
        let unfinished = was_there && locked(&self.options.map).is_unfinished(place.name.as_str());
        let (is_there, dry_run) = (place.wire.is_some(), self.options.dry_run);
        let plan = Plan::of(Comparison { missing: &missing, is_there, unfinished, dry_run }, tried);
        if matches!(plan, Plan::Settle | Plan::Put { .. }) {
            tried.settling(unfinished, plan == Plan::Settle);
        }
        let wire = place.wire.clone().unwrap_or_default();
        match plan {
            Plan::Done => Ok(false),
            Plan::Show(uids) => {
                let lost = self.origin.lost(from, &uids).await?;
                report.put = (uids.len() - lost.len()) as u64;
                lost.into_iter().for_each(|(uid, why)| tried.failed(uid, why));
                Ok(false)
            }
            Plan::Settle => {
                self.settle(&wire).await?;
                Ok(true)
            }
            Plan::Put { uids, alone } => {
                self.record(from, &place, contents.uidvalidity, &uids, there);
                let (observer, map) = (self.observer.clone(), &self.options.map);
                let (uidvalidity, to) = (contents.uidvalidity, place.name.to_string());
                let sink = ProgressSink { observer: &*observer, map, report, uidvalidity, to };
                self.put(from, &wire, (uids, alone), tried, sink).await?;
                Ok(Plan::has_more(&missing, tried, alone))
            }
        }
    }

    /// The folder at the destination, created if necessary, and whether it existed; `None` if
    /// another folder is at its place, or if it need not be created.
    async fn ready(
        &mut self,
        from: &From,
        report: &mut FolderReport,
    ) -> Result<Option<(DestinationFolder, bool)>> {
        let mut place = self.place(from).await?;
        if !self.claim(from, &place).await? || self.is_put_below(from, &place).await? {
            return Ok(None);
        }
        let (mut was_there, wanted) = (place.wire.is_some(), place.name.clone());
        if self.options.dry_run {
            let map = locked(&self.options.map);
            self.target.find_instead(&mut place, |there| map.known(from.name().as_str(), there).is_some());
        } else {
            was_there = self.target.make(&mut place).await?;
        }
        if place.name != wanted {
            self.claim(from, &place).await?;
        }
        self.report_name(from, &wanted, &place, report);
        Ok(Some((place, was_there)))
    }

    /// Looks at both ends: the source's messages, which of them are missing, and the destination's
    /// UIDVALIDITY with a UID that it has not assigned yet.
    async fn examine(
        &mut self,
        from: &From,
        place: &DestinationFolder,
        report: &mut FolderReport,
        tried: &mut DeliveryState,
    ) -> Result<(Contents, UidSet, (u32, u32))> {
        let stop = &self.options.stop;
        let there = unless(stop, self.target.contents(place)).await?;
        let contents = unless(stop, self.origin.contents(from, !there.messages.is_empty())).await?;
        if !contents.complete {
            report.error = Some("the source does not list all messages of the folder".into());
        }
        let last = there.messages.last().map_or(0, |message| message.uid);
        let first = tried.destination_examined(there.uidvalidity, last);
        let mut pairs = self.compare(from, place, &contents, &there, tried);
        self.leave_out_twins(from, &contents, &mut pairs).await?;
        if first {
            report.there = pairs.same.len() as u64;
            self.observer.begins(from.name().as_str(), pairs.missing.len() as u64);
        } else {
            // Some of them were not answered.
            report.put = (pairs.same.len() as u64).saturating_sub(report.there);
        }
        Ok((contents, pairs.missing, (there.uidvalidity, last.saturating_add(1))))
    }

    /// Records what is about to be appended, for the next run if this one ends before the answers.
    fn record(
        &self,
        from: &From,
        place: &DestinationFolder,
        uidvalidity: u32,
        uids: &UidSet,
        there: (u32, u32),
    ) {
        let (mut map, to) = (locked(&self.options.map), place.name.as_str());
        match from {
            From::Backup(_) => {
                let below = !self.options.below.is_empty();
                let (uids, answered) = (uids.clone(), HashSet::new());
                map.putting(from.name().as_str(), to, Putting { uidvalidity, uids, there, below, answered });
            }
            From::Server(_) => map.set_unfinished(to, true),
        }
    }

    /// Appends these messages to the folder, as far as both ends allow.
    async fn put(
        &mut self,
        from: &From,
        wire: &[u8],
        (mut uids, alone): (UidSet, bool),
        tried: &mut DeliveryState,
        mut sink: ProgressSink<'_>,
    ) -> Result<()> {
        let Run { origin, target, size_refusals, options, .. } = self;
        let to = sink.to.clone();
        let (sender, receiver) = mpsc::channel(WAITING);
        let connection = target.connection().await?;
        let (delivered, sent) = {
            let parts = (&mut *tried, size_refusals, &mut sink);
            let delivery = Delivery::new(connection, wire, receiver, options.stop.clone(), alone, parts);
            let delivery = delivery.run();
            let sending = origin.send(from, &mut uids, sender);
            tokio::pin!(delivery, sending);
            tokio::select! {
                biased;
                sent = &mut sending => (delivery.await, sent),
                delivered = &mut delivery => {
                    let sent = match from {
                        // The reader notices soon, has the folder open until then, and may report
                        // why it ended.
                        From::Backup(_) => unless(&options.stop, sending).await,
                        From::Server(_) => Ok(()),
                    };
                    (delivered, sent)
                }
            }
        };
        if delivered.is_ok()
            && let Err(e) = &sent
            && e.kind() == Kind::Retry
            && let Some(next) = uids.first()
        {
            // It was this one's turn when the source's connection ended.
            tried.connection_lost(next.get(), !crate::client::is_later(&e.to_string()), &e.to_string());
        }
        if delivered.is_ok() && !tried.is_unsettled() {
            locked(&options.map).set_unfinished(&to, false);
        }
        delivered.and(sent)
    }
}

/// Runs it, unless it is to stop.
pub(super) async fn unless<T>(
    stop: &watch::Receiver<bool>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut stop = stop.clone();
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => Err(Error::retry("interrupted")),
        result = work => result,
    }
}
