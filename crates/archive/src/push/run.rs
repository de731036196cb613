//! [`Run`]: folder by folder, with as many connections one after the other as it takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Error, Kind, Result};
use tokio::sync::{mpsc, watch};

use super::contents::Contents;
use super::deliver::Delivery;
use super::origin::{From, Origin};
use super::pairs::{Pairs, pair};
use super::target::{Place, Target};
use super::tried::{Room, Tried};
use super::{FolderReport, Observer, Options, Put, Report, Told, locked};
use crate::client::{Backoff, Server};
use crate::keep::FolderName;

/// Looks, two seconds apart, that must show no change for the server to be done; and how many there are at most.
const SETTLE_QUIET: u32 = 4;
const SETTLE_LOOKS: u32 = 60;
/// Pieces that wait between source and destination.
const WAITING: usize = 32;

/// Both ends, and what was done so far.
pub(super) struct Run<'a> {
    pub(super) origin: Origin,
    pub(super) target: Target,
    pub(super) options: &'a Options,
    pub(super) observer: Arc<dyn Observer>,
    backoff: Backoff,
    room: Room,
    pub(super) report: Report,
    /// The folders of the source, and which of them is at the destination under a name, once that was asked for.
    sources: Vec<FolderName>,
    claimed: HashMap<String, FolderName>,
    /// No other folder would do better.
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
            backoff: Backoff::new(to.patience.retry),
            room: Room::default(),
            report: Report::default(),
            sources: Vec::new(),
            claimed: HashMap::new(),
            fatal: false,
        }
    }

    /// Puts there what is missing in all folders that are wanted; these.
    pub(super) async fn all(&mut self) -> Result<Vec<From>> {
        let mut folders = self.folders().await?;
        self.sources = folders.iter().map(|from| from.place().clone()).collect();
        let wanted = |name: &FolderName| (self.options.wanted)(name.as_str());
        folders.retain(|from| wanted(from.name()) || wanted(from.place()));
        for from in &folders {
            self.folder(from).await?;
            if self.report.interrupted || self.room.is_full().is_some() {
                break;
            }
        }
        Ok(folders)
    }

    /// Says goodbye to both.
    pub(super) async fn end(mut self) -> Report {
        self.origin.logout().await;
        self.target.logout().await;
        self.report
    }

    /// The source's folders. A server that is busy is tried again.
    async fn folders(&mut self) -> Result<Vec<From>> {
        loop {
            match unless(&self.options.stop, self.origin.folders()).await {
                Err(e) if e.kind() == Kind::Retry && !self.stopped() => self.pause(e).await?,
                folders => return folders,
            }
        }
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
            self.observer.note(&format!("{error}; trying again in {} s", wait.as_secs()));
        }
        self.report.reconnects += 1;
        let pause = async {
            tokio::time::sleep(wait).await;
            Ok(())
        };
        // Whoever waits sees that it is to stop.
        let _: Result<()> = unless(&self.options.stop, pause).await;
        Ok(())
    }

    async fn folder(&mut self, from: &From) -> Result<()> {
        let mut this = FolderReport { name: from.name().to_string(), ..FolderReport::default() };
        self.observer.looking(&this.name);
        let mut tried = Tried::default();
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
        this.without_keywords = tried.without_keywords();
        (this.failed, this.failures) = tried.take_failed();
        if let Some(why) = self.room.is_full() {
            this.error = Some(format!("the account takes no more: {why}"));
        }
        if let Some(why) = locked(&self.options.map).sync() {
            self.observer.note(&format!("the map of UIDs cannot be written: {why}"));
        }
        self.report.interrupted = self.stopped();
        self.observer.ended(&this);
        self.report.folders.push(this);
        ended
    }

    /// Waits until nothing more comes into the folder: a server goes on with what a connection sent that is gone, and what it
    /// has not done yet would be put there again.
    async fn settle(&mut self, wire: &[u8]) -> Result<()> {
        let step = self.target.patience().retry.saturating_mul(2);
        self.observer.note("waiting until the server is done with what an interrupted run may have sent (a map, --map, tells whether there was one)");
        let (mut last, mut quiet) = (None, 0);
        for _ in 0..SETTLE_LOOKS {
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

    /// The folder at the destination, which is connected to if it is not.
    pub(super) async fn place(&mut self, from: &From) -> Result<Place> {
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

    /// Makes sure that no other folder of the source is at that place: what one name cannot have at the destination may be what
    /// another one has already.
    async fn claim(&mut self, from: &From, place: &Place) -> Result<()> {
        for name in std::mem::take(&mut self.sources) {
            let place = self.target.place(&self.levels(&name)).await?;
            self.claimed.entry(place.name.to_string()).or_insert(name);
        }
        match self.claimed.get(place.name.as_str()) {
            Some(other) if other != from.place() => Err(Error::invalid(format!(
                "{other} has the same name there, {}; nothing is put there of this one: rename it at the source, or put it elsewhere \
                 by itself (--folder, --below)",
                place.name
            ))),
            _ => Ok(()),
        }
    }

    /// What is the same at both ends. What came there although its answer did not is added to the map.
    fn compare(
        &self,
        from: &From,
        place: &Place,
        contents: &Contents,
        there: &Contents,
        tried: &mut Tried,
    ) -> Pairs {
        let mut map = locked(&self.options.map);
        let (name, to) = (from.name().as_str(), place.name.as_str());
        let pairs = pair(contents, there, map.known(name, to));
        for (at, there_at) in &pairs.same {
            let (uid, there_uid) = (contents.messages[*at].uid, there.messages[*there_at].uid);
            if tried.found(uid, there.uidvalidity, there_uid) {
                let there = (there.uidvalidity, there_uid);
                map.put(name, to, Put { uidvalidity: contents.uidvalidity, uid, there });
            }
        }
        pairs
    }

    /// Puts into the folder what is missing; whether something was put off.
    async fn attempt(&mut self, from: &From, report: &mut FolderReport, tried: &mut Tried) -> Result<bool> {
        let mut place = self.place(from).await?;
        self.claim(from, &place).await?;
        let stop = &self.options.stop;
        let (mut was_there, wanted) = (place.wire.is_some(), place.name.clone());
        if self.options.dry_run {
            let map = locked(&self.options.map);
            self.target.find_instead(&mut place, |there| map.known(from.name().as_str(), there).is_some());
        } else {
            was_there = self.target.make(&mut place).await?;
        }
        if place.name != wanted {
            self.claim(from, &place).await?;
            self.observer.note(&format!(
                "{wanted} is called {} at the destination, which refuses that name",
                place.name
            ));
        }
        let there = unless(stop, self.target.contents(&place)).await?;
        let contents = unless(stop, self.origin.contents(from, !there.messages.is_empty())).await?;
        if !contents.complete {
            report.error = Some("the source does not list all messages of the folder".into());
        }
        let last = there.messages.last().map_or(0, |message| message.uid);
        let first = tried.looked(there.uidvalidity, last);
        let pairs = self.compare(from, &place, &contents, &there, tried);
        if first {
            report.there = pairs.same.len() as u64;
            self.observer.begins(from.name().as_str(), pairs.missing.len() as u64);
        } else {
            // Of some the answer did not come.
            report.put = (pairs.same.len() as u64).saturating_sub(report.there);
        }
        let (mut now, alone) = tried.next(&pairs.missing);
        if self.options.dry_run {
            let lost = self.origin.lost(from, &now).await?;
            report.put = (now.len() - lost.len()) as u64;
            lost.into_iter().for_each(|(uid, why)| tried.failed(uid, why));
            return Ok(false);
        }
        let Some(wire) = place.wire.clone().filter(|_| !now.is_empty()) else { return Ok(false) };
        let before = was_there && locked(&self.options.map).is_unfinished(place.name.as_str());
        if tried.must_wait(before, alone) {
            self.settle(&wire).await?;
            return Ok(true);
        }
        locked(&self.options.map).set_unfinished(place.name.as_str(), true);
        let Run { origin, target, room, options, observer, .. } = self;
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut told = Told {
            observer: &**observer,
            map: &options.map,
            report,
            uidvalidity: contents.uidvalidity,
            to: place.name.to_string(),
        };
        let connection = target.connection().await?;
        let (delivered, sent) = {
            let parts = (&mut *tried, room, &mut told);
            let delivery = Delivery::new(connection, &wire, receiver, options.stop.clone(), alone, parts);
            let delivery = delivery.run();
            let sending = origin.send(from, &mut now, sender);
            tokio::pin!(delivery, sending);
            tokio::select! {
                biased;
                sent = &mut sending => (delivery.await, sent),
                delivered = &mut delivery => {
                    let sent = match from {
                        // It notices soon, has the folder open until then, and may say why there was no more.
                        From::Copy(_) => unless(&options.stop, sending).await,
                        From::Server(_) => Ok(()),
                    };
                    (delivered, sent)
                }
            }
        };
        if delivered.is_ok()
            && let Err(e) = &sent
            && e.kind() == Kind::Retry
            && let Some(next) = now.first()
        {
            // It was this one's turn when the source's connection ended.
            tried.lost(next.get(), !crate::client::is_later(&e.to_string()), &e.to_string());
        }
        if delivered.is_ok() && !tried.is_unsettled() {
            locked(&options.map).set_unfinished(place.name.as_str(), false);
        }
        delivered.and(sent)?;
        Ok(tried.has_more(&pairs.missing) && (!alone || tried.has_bare(&pairs.missing)))
    }
}

/// Runs it, unless told to stop.
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
