//! Fetching messages in a pipeline: while one command is being answered, the next one waits at the server.

use sealpost_base::{Error, Kind, Result, Uid, UidSet};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Response, Status};
use tokio::sync::watch;

use super::env::stopped;
use super::folder_task::FolderTask;
use super::incoming::{Ended, Incoming, Received};
use crate::client::{Connection, Done, is_later, lowest};

/// Commands at the server at once.
const AHEAD: usize = 3;

/// A folder's messages being fetched over one connection.
pub(super) struct Fetching<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) job: &'a FolderTask,
    pub(super) incoming: &'a mut Incoming,
    pub(super) stop: &'a mut watch::Receiver<bool>,
}

impl Fetching<'_> {
    /// Fetches until every message has been asked for. Returns whether anything came, and how it
    /// ended.
    ///
    /// # Errors
    /// `Retry` if the connection is lost, or the server asks to wait: messages that did not come
    /// are left to fetch again.
    pub(super) async fn run(mut self) -> (bool, Result<()>) {
        let mut came = false;
        let ended = self.exchange(&mut came).await;
        let ended = match ended {
            Ok(()) => self.incoming.flush().await,
            Err(e) => {
                let settled = self.connection_lost(&e, &mut came).await;
                settled.and(Err(e))
            }
        };
        (came, ended)
    }

    /// Messages that are complete are not fetched again.
    async fn connection_lost(&mut self, e: &Error, came: &mut bool) -> Result<()> {
        let lost = self.incoming.connection_lost().await?;
        let reason = e.to_string();
        let wrong = !(is_later(&reason) || *self.stop.borrow());
        for (nth, Ended { missing, refused, taken }) in lost.into_iter().enumerate() {
            *came |= taken > 0;
            self.job.batches(|batches| {
                batches.connection_lost(missing, wrong && nth == 0, &reason);
                batches.connection_lost(refused, false, "");
            });
        }
        self.incoming.flush().await
    }

    async fn exchange(&mut self, came: &mut bool) -> Result<()> {
        loop {
            while self.incoming.pending() < AHEAD
                && !self.incoming.is_held_up()
                && let Some(set) = self.job.batches(|batches| batches.next())
            {
                let tag = self.ask(&set);
                self.incoming.ask(tag, set);
            }
            if self.incoming.pending() == 0 {
                if self.job.batches(|batches| batches.is_empty()) {
                    return Ok(());
                }
                self.go_on().await?;
                continue;
            }
            self.connection.flush().await?;
            // Until a command is completed, no new one is sent.
            loop {
                let event = match self.connection.ready()? {
                    Some(event) => event,
                    None => self.wait().await?,
                };
                if let Some(tag) = Connection::completion(&event) {
                    *came |= self.completed(tag, event).await?;
                    break;
                }
                match self.incoming.take(event).await? {
                    // Messages that were not asked for are no progress.
                    Received::Message(bytes) => self.job.batches(|batches| batches.arrived(bytes)),
                    Received::Unreadable => self.job.unreadable(),
                    Received::Empty(_) | Received::Flags(_) | Received::Nothing => {}
                }
            }
        }
    }

    /// Waits until the writer accepts more.
    async fn go_on(&mut self) -> Result<()> {
        self.incoming.flush().await?;
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Err(stopped()),
            gone_on = self.incoming.go_on() => gone_on,
        }
    }

    fn ask(&mut self, set: &UidSet) -> u32 {
        let labels = if self.connection.capabilities().gmail() { " X-GM-LABELS" } else { "" };
        self.connection.queue(|w| {
            w.raw(b"UID FETCH ");
            for (nth, (first, last)) in set.ranges().enumerate() {
                if nth > 0 {
                    w.raw(b",");
                }
                w.number_range(first.get(), last.get());
            }
            w.raw(b" (UID FLAGS INTERNALDATE").raw(labels).raw(b" BODY.PEEK[])")
        })
    }

    async fn wait(&mut self) -> Result<Event> {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Err(stopped()),
            event = self.connection.next() => event,
        }
    }

    /// A command is completed; whether messages came by it.
    async fn completed(&mut self, tag: u32, event: Event) -> Result<bool> {
        let Event::Response(Response::Status { status, code, text, .. }) = event else { return Ok(false) };
        // More messages than the server processes in one command: the remaining ones are asked for
        // again.
        let limited = code.as_ref().and_then(lowest).is_some();
        let confirmed = limited || status == Status::Ok;
        let Some(ended) = self.incoming.completed(tag, confirmed).await? else { return Ok(false) };
        let Ended { missing, refused, taken } = ended;
        if limited {
            self.job.batches(|batches| {
                batches.connection_lost(missing, false, "");
                batches.completed()
            })?;
            return Ok(taken > 0);
        }
        if confirmed {
            self.job.unanswered(&missing);
            self.job.batches(|batches| batches.completed())?;
            return Ok(taken > 0);
        }
        let none_came = refused.is_empty();
        let all = missing.union(&refused);
        match (Done { status, code, text }).ok("FETCH") {
            Err(e) if e.kind() == Kind::Retry => {
                self.job.batches(|batches| match none_came {
                    true => batches.defer(all, &e.to_string()),
                    // The server may refuse one of them for long.
                    false => batches.defer_in_halves(all, &e.to_string()),
                });
                Err(e)
            }
            Err(e) => {
                self.job.batches(|batches| {
                    batches.refused(all, &e.to_string());
                    batches.completed()
                })?;
                Ok(false)
            }
            Ok(_) => Ok(false),
        }
    }
}

/// Which of these messages the server still has.
///
/// # Errors
/// `Retry` if the connection is lost; what the server says.
pub(super) async fn find_remaining(connection: &mut Connection, doubtful: &UidSet) -> Result<UidSet> {
    let mut there = UidSet::new();
    let set: Vec<String> = doubtful.ranges().take(500).map(|(a, b)| format!("{a}:{b}")).collect();
    let command = format!("UID SEARCH UID {}", set.join(","));
    let on = |event| {
        if let Event::Response(Response::Search { numbers, .. }) = event {
            there = there.union(&numbers.into_iter().filter_map(Uid::new).collect());
        }
        Ok::<(), Error>(())
    };
    connection.run(|w| w.raw(&command), on).await?.ok("SEARCH")?;
    Ok(there)
}
