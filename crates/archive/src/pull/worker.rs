//! Connections at work: each takes one folder after the other, helps with a huge one when there are
//! no more, and reconnects when it was lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Error, Kind, Result, UidSet};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::env::{Tools, connect, stopped};
use super::fetch::{Fetching, find_remaining};
use super::folder_task::FolderTask;
use super::incoming::Incoming;
use super::report::Failure;
use super::shared::{CHECK_INTERVAL, Next, Shared};
use super::sync::{Sync, all_missing};
use crate::client::{Backoff, Connection, Listing, Selected, Server};

/// Makes the first connection and lists the mailboxes. A busy server is tried again.
pub(super) async fn begin(server: &Server, tools: &Tools) -> Result<(Connection, Listing)> {
    let mut backoff = Backoff::new(server.timeouts.retry);
    let mut stop = tools.stop.clone();
    loop {
        let attempt = async {
            let mut connection = connect_to_pull(server, tools).await?;
            let listing = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Err(stopped()),
                listing = connection.listing() => listing?,
            };
            Ok((connection, listing))
        };
        match attempt.await {
            Err(e) if e.kind() == Kind::Retry && !*tools.stop.borrow() => {
                pause(&mut backoff, e, tools, &mut tools.stop.clone()).await?;
            }
            result => return result,
        }
    }
}

/// A connection on which the server reports vanished messages, if it can.
async fn connect_to_pull(server: &Server, tools: &Tools) -> Result<Connection> {
    let mut connection = connect(server, tools).await?;
    connection.enable_qresync();
    Ok(connection)
}

/// Waits before the next attempt; the error if there is none.
async fn pause(
    backoff: &mut Backoff,
    error: Error,
    tools: &Tools,
    stop: &mut watch::Receiver<bool>,
) -> Result<()> {
    let Some(wait) = backoff.next(&error, &*tools.random) else { return Err(error) };
    if wait > Duration::from_secs(2) {
        tools.observer.waits(&format!("{error}; trying again in {} s", wait.as_secs()));
    }
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => Err(stopped()),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}

/// Pulls all folders, over as many connections as allowed, beginning with this one.
pub(super) async fn run(shared: &Arc<Shared>, first: Connection) {
    let most = shared.options.connections.max(1);
    // The largest folder is for the existing connection.
    let largest = shared.next(true).await;
    let (mut first, mut largest) = (Some(first), Some(largest));
    let mut workers = JoinSet::new();
    // Forwards the stop signal from outside to the tasks of this pull.
    let (watched, mut stop) = (shared.clone(), shared.tools.stop.clone());
    let watching = tokio::spawn(async move {
        if stop.wait_for(|stop| *stop).await.is_ok() {
            watched.end();
        }
    });
    for nth in 0..most {
        let mut worker = Worker {
            shared: shared.clone(),
            connection: first.take(),
            next: largest.take(),
            backoff: Backoff::new(shared.server.timeouts.retry),
            stop: shared.stop(),
            first: nth == 0,
        };
        workers.spawn(async move { worker.run().await });
    }
    while workers.join_next().await.is_some() {}
    watching.abort();
    // It holds the backup, for which other tasks may wait.
    let _ = watching.await;
}

/// One connection, lost and made again.
struct Worker {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    /// What it begins with.
    next: Option<Next>,
    backoff: Backoff,
    stop: watch::Receiver<bool>,
    /// The others give up if the server does not want so many connections.
    first: bool,
}

/// Why work on a folder ended.
enum End {
    /// There is nothing left to be fetched.
    Done,
    /// Something about this folder.
    Folder(Error),
    /// The backup cannot be written.
    Backup(Error),
    /// Nothing was done: the server does not want this connection.
    Back(Error),
    /// The pull is to end, or no connection can be had.
    Stop(Error),
}

impl Worker {
    async fn run(&mut self) {
        let shared = self.shared.clone();
        while let Some(job) = self.next().await {
            let end = self.work(&job).await;
            let gives_up = matches!(end, End::Stop(_));
            match end {
                End::Done => {}
                End::Back(e) => {
                    shared.give_back(&job);
                    if !self.rest(e).await {
                        break;
                    }
                    continue;
                }
                End::Folder(e) => job.set_error(&e),
                End::Stop(e) => job.left_early(&e),
                End::Backup(e) => shared.broken(e),
            }
            if job.leave() {
                let failed = self.doubtful(&job).await;
                let (report, written) = job.finish(failed).await;
                shared.done(&job, report, written);
            }
            if gives_up {
                if self.first {
                    // No other connection does better.
                    shared.end();
                }
                break;
            }
        }
        if let Some(connection) = self.connection.take() {
            shared.received(connection.received());
            connection.logout().await;
        }
    }

    /// The next folder. All connections but the first connect before they take one; if the server
    /// refuses them, others do the work.
    async fn next(&mut self) -> Option<Arc<FolderTask>> {
        let shared = self.shared.clone();
        loop {
            let next = match self.next.take() {
                Some(next) => next,
                None => shared.next(self.first || self.connection.is_some()).await,
            };
            match next {
                Next::Folder(job) => return Some(job),
                Next::Done => return None,
                Next::Connect => {}
            }
            let connected = tokio::select! {
                biased;
                connected = connect_to_pull(&shared.server, &shared.tools) => connected,
                () = shared.all_done() => return None,
            };
            match connected {
                Ok(connection) => self.connection = Some(connection),
                Err(e) => {
                    if !self.rest(e).await {
                        return None;
                    }
                }
            }
        }
    }

    /// Waits before another connection is tried; returns whether to try.
    async fn rest(&mut self, error: Error) -> bool {
        if error.kind() != Kind::Retry {
            return false;
        }
        let Some(wait) = self.backoff.next(&error, &*self.shared.tools.random) else { return false };
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.shared.all_done() => false,
        }
    }

    /// Works on a folder until there is nothing left to fetch, with as many connections one after
    /// the other as it takes.
    async fn work(&mut self, job: &FolderTask) -> End {
        loop {
            if *self.stop.borrow() {
                return End::Stop(stopped());
            }
            let was_there = self.connection.is_some();
            let error = match self.attempt(job).await {
                Ok(()) => return End::Done,
                Err(Attempt::End(end)) => {
                    if matches!(&end, End::Folder(e) if e.kind() == Kind::Limit) {
                        // Commands may be pending whose answers are of no use to the next folder.
                        self.drop_connection();
                    }
                    return end;
                }
                Err(Attempt::Retry(error)) => error,
            };
            // The server accepts the login, and this folder ends the connection.
            let about_folder = was_there || self.connection.is_some();
            self.drop_connection();
            if *self.stop.borrow() {
                return End::Stop(stopped());
            }
            if !self.first && job.is_untouched() {
                return End::Back(error);
            }
            self.shared.reconnected();
            let tools = self.shared.tools.clone();
            tokio::select! {
                biased;
                () = until_done(job) => return End::Done,
                paused = pause(&mut self.backoff, error, &tools, &mut self.stop) => if let Err(e) = paused {
                    let goes_on = about_folder && !*self.stop.borrow();
                    return if goes_on { End::Folder(e) } else { End::Stop(e) };
                },
            }
        }
    }

    fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.received(connection.received());
        }
    }

    async fn attempt(&mut self, job: &FolderTask) -> Result<(), Attempt> {
        if let Some(empty) = job.plan.empty()
            && self.is_done(job, &empty).await?
        {
            return Ok(());
        }
        if self.connection.is_none() {
            let connected = tokio::select! {
                biased;
                connected = connect_to_pull(&self.shared.server, &self.shared.tools) => connected,
                () = until_done(job) => return Ok(()),
            };
            let connection = match connected {
                Ok(connection) => connection,
                // Another connection is there already: the server does not want so many.
                Err(e) if !self.first && e.kind() != Kind::Retry => return Err(Attempt::End(End::Stop(e))),
                Err(e) => return Err(retry_or_end(e)),
            };
            self.connection = Some(connection);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let selected = match connection.examine(&job.plan.found.wire).await {
            Ok(selected) => selected,
            Err(e) if e.kind() == Kind::Retry => return Err(Attempt::Retry(e)),
            Err(e) => return Err(Attempt::End(End::Folder(e))),
        };
        let shared = &self.shared;
        open(job, shared, &selected, Some(connection)).await?;
        let gmail = connection.capabilities().gmail();
        let work = job.work().map_err(|e| Attempt::End(End::Backup(e)))?;
        let mut incoming = Incoming::new(work, shared.tools.clock.clone(), gmail);
        if let Some(before) = job.before_sync() {
            let sync = Sync {
                connection,
                selected: &selected,
                before: &before,
                incoming: &mut incoming,
                stop: &mut self.stop,
                delete: shared.options.delete,
                expunged: 0,
            };
            let todo = sync.run().await.map_err(retry_or_skip)?;
            let planned = job.set_todo(todo, shared.tools.clock.monotonic());
            shared.tools.observer.begins(job.name(), planned);
        }
        job.works(shared.tools.clock.monotonic());
        let fetching = Fetching { connection, job, incoming: &mut incoming, stop: &mut self.stop };
        let (came, ended) = fetching.run().await;
        if came {
            self.backoff.progress();
        }
        ended.map_err(retry_or_skip)
    }

    /// Whether the folder is done because the mailbox is empty: it is when the backup has nothing
    /// of it either. That needs no connection.
    async fn is_done(&self, job: &FolderTask, empty: &Selected) -> Result<bool, Attempt> {
        open(job, &self.shared, empty, None).await?;
        if !job.was_empty() {
            return Ok(false);
        }
        let clock = &self.shared.tools.clock;
        let work = job.work().map_err(|e| Attempt::End(End::Backup(e)))?;
        let mut incoming = Incoming::new(work, clock.clone(), false);
        let todo = all_missing(UidSet::new(), empty, &mut incoming).await.map_err(retry_or_end)?;
        let planned = job.set_todo(todo, clock.monotonic());
        self.shared.tools.observer.begins(job.name(), planned);
        Ok(true)
    }

    /// Messages that were asked for and did not come, and that the server still has.
    async fn doubtful(&mut self, job: &FolderTask) -> Vec<Failure> {
        let mut doubtful = job.doubtful();
        if doubtful.is_empty() {
            return doubtful;
        }
        let guessed = job.is_guess();
        let set: UidSet =
            doubtful.iter().filter_map(|failure| sealpost_base::Uid::new(failure.uid)).collect();
        if let Some(connection) = &mut self.connection
            && set.range_count() <= 500
            && let Ok(there) = find_remaining(connection, &set).await
        {
            doubtful.retain(|f| sealpost_base::Uid::new(f.uid).is_some_and(|uid| there.contains(uid)));
        } else if guessed {
            // The server did not say which of them exist: naming each is of no use.
            doubtful.clear();
            job.set_error(&Error::retry("the server did not send all messages that it listed"));
        }
        doubtful
    }
}

/// Waits until other connections have done everything in the folder.
async fn until_done(job: &FolderTask) {
    while !job.is_done() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Opens the folder of the backup; `connection` checks what was put back, if the mailbox has
/// messages.
async fn open(
    job: &FolderTask,
    shared: &Shared,
    selected: &Selected,
    connection: Option<&mut Connection>,
) -> Result<(), Attempt> {
    // A name that cannot be stored, or damage in one folder, does not keep others from being
    // pulled.
    let failed = |e: Error| match e.kind() {
        Kind::Retry | Kind::Internal | Kind::Offloaded => Attempt::End(End::Backup(e)),
        _ => Attempt::End(End::Folder(e)),
    };
    let Some(opened) = job.open(shared, selected).await.map_err(failed)? else { return Ok(()) };
    let confirmed = match connection {
        Some(connection) => opened.recorded.confirmed(connection).await.map_err(retry_or_skip)?,
        None => HashSet::new(),
    };
    job.begin(shared, opened, confirmed).await.map_err(failed)
}

/// How an incomplete attempt ended.
enum Attempt {
    /// Another connection may do better.
    Retry(Error),
    /// Nothing more can be done here.
    End(End),
}

/// As [`retry_or_end`], once a mailbox is selected: a command refused there may be allowed
/// elsewhere.
fn retry_or_skip(error: Error) -> Attempt {
    match error.kind() {
        Kind::Denied => Attempt::End(End::Folder(error)),
        _ => retry_or_end(error),
    }
}

fn retry_or_end(error: Error) -> Attempt {
    match error.kind() {
        Kind::Retry => Attempt::Retry(error),
        // The writer has ended; it says why.
        Kind::Internal => Attempt::End(End::Folder(error)),
        Kind::Denied => Attempt::End(End::Stop(error)),
        _ => Attempt::End(End::Folder(error)),
    }
}
