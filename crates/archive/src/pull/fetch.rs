//! Fetching messages in a pipeline: while one command is being answered, the next one waits at the server.

use std::collections::VecDeque;

use sealpost_base::{Error, Kind, Result, Uid, UidSet};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Response, Status};
use tokio::sync::watch;

use super::incoming::{Came, Incoming};
use super::job::Job;
use super::stopped;
use crate::client::{Connection, Done, is_later, lowest};

/// Commands at the server at once.
const AHEAD: usize = 3;

/// A folder's messages being fetched over one connection.
pub(super) struct Fetching<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) job: &'a Job,
    pub(super) incoming: &'a mut Incoming,
    pub(super) stop: &'a mut watch::Receiver<bool>,
}

/// A command that is not completed.
struct Asked {
    tag: u32,
    /// What did not come yet.
    missing: UidSet,
}

impl Fetching<'_> {
    /// Fetches until there is nothing left that nobody has asked for. Whether anything came, and how it ended.
    ///
    /// # Errors
    /// `Retry` if the connection is lost, or the server wants to be left alone: what did not come is among what is left
    /// again.
    pub(super) async fn run(mut self) -> (bool, Result<()>) {
        let mut asked = VecDeque::with_capacity(AHEAD);
        let mut came = false;
        let ended = self.exchange(&mut asked, &mut came).await;
        let ended = match ended {
            Ok(()) => self.incoming.flush().await,
            Err(e) => {
                // What is complete is not fetched again.
                let flushed = self.incoming.flush().await;
                let reason = e.to_string();
                let wrong = !(is_later(&reason) || *self.stop.borrow());
                self.job.batches(|batches| {
                    for (nth, Asked { missing, .. }) in asked.into_iter().enumerate() {
                        batches.lost(missing, wrong && nth == 0, &reason);
                    }
                });
                flushed.and(Err(e))
            }
        };
        (came, ended)
    }

    async fn exchange(&mut self, asked: &mut VecDeque<Asked>, came: &mut bool) -> Result<()> {
        loop {
            while asked.len() < AHEAD
                && let Some(set) = self.job.batches(|batches| batches.next())
            {
                let tag = self.ask(&set);
                asked.push_back(Asked { tag, missing: set });
            }
            if asked.is_empty() {
                return Ok(());
            }
            self.connection.flush().await?;
            // Until a command is completed, there is nothing to ask.
            loop {
                let event = match self.connection.ready()? {
                    Some(event) => event,
                    None => self.wait().await?,
                };
                if let Some(tag) = Connection::completion(&event) {
                    self.completed(tag, event, asked)?;
                    break;
                }
                match self.incoming.take(event).await? {
                    Came::Message(uid, octets) => {
                        // What nobody asked for is no progress.
                        if arrived(asked, uid) {
                            *came = true;
                            self.job.batches(|batches| batches.arrived(octets));
                        }
                    }
                    Came::Unreadable => self.job.unreadable(),
                    Came::Empty(_) | Came::Flags(_) | Came::Nothing => {}
                }
            }
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

    fn completed(&mut self, tag: u32, event: Event, asked: &mut VecDeque<Asked>) -> Result<()> {
        let Some(at) = asked.iter().position(|asked| asked.tag == tag) else { return Ok(()) };
        let Some(Asked { missing, .. }) = asked.remove(at) else { return Ok(()) };
        let Event::Response(Response::Status { status, code, text, .. }) = event else { return Ok(()) };
        if code.as_ref().and_then(lowest).is_some() {
            // More messages than the server looks at in one command: those it did not get to are asked for again.
            return self.job.batches(|batches| {
                batches.lost(missing, false, "");
                batches.completed()
            });
        }
        if status == Status::Ok {
            self.job.unanswered(&missing);
            return self.job.batches(|batches| batches.completed());
        }
        match (Done { status, code, text }).ok("FETCH") {
            Err(e) if e.kind() == Kind::Retry => {
                self.job.batches(|batches| batches.lost(missing, false, ""));
                Err(e)
            }
            Err(e) => self.job.batches(|batches| {
                batches.refused(missing, &e.to_string());
                batches.completed()
            }),
            Ok(_) => Ok(()),
        }
    }
}

/// The message came: mostly it is the first one of the first command. Whether it was asked for.
fn arrived(asked: &mut VecDeque<Asked>, uid: u32) -> bool {
    let Some(uid) = Uid::new(uid) else { return false };
    asked.iter_mut().any(|asked| asked.missing.remove(uid))
}

/// Which of these messages the server still has.
///
/// # Errors
/// `Retry` if the connection is lost; what the server says.
pub(super) async fn still_there(connection: &mut Connection, doubtful: &UidSet) -> Result<UidSet> {
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
