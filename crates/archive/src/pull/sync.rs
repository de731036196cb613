//! Brings the known messages of a folder in step, and finds out which are missing.
//!
//! With mod-sequences the server reports what changed (RFC 7162 §3.1.4.1), with QRESYNC also what
//! vanished (§3.2.6). Otherwise all UIDs and flags are compared. No message counts as gone unless
//! the server named as many messages as it reported.

use sealpost_base::{Error, Result, Uid, UidSet, counted, limits};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{Response, SearchData, SequenceSet, Status};

use super::env::stopped;
use super::folder_task::{PriorState, SyncPlan, range};
use super::incoming::{Incoming, Received};
use super::work::Work;
use crate::backup::Resume;
use crate::client::{Connection, Done, Selected, commands, lowest};

/// Up to this many UIDs more than messages are asked for without looking up which exist.
const LOOSE: u64 = 256;
/// Commands asking for dates that are in flight at once.
const AT_ONCE: usize = 4;
/// Dates that are handed over together.
const DATES_TOGETHER: usize = 1024;
/// Messages above which a server without ESEARCH sends all UIDs as FETCH responses instead of one
/// line.
const SEARCH_LINE: u32 = 500_000;

/// A folder that is selected, and what the backup had.
pub(super) struct Sync<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) selected: &'a Selected,
    pub(super) before: &'a PriorState,
    pub(super) incoming: &'a mut Incoming,
    pub(super) stop: &'a mut tokio::sync::watch::Receiver<bool>,
    /// Messages that the server no longer has are not to stay in the backup, including those that
    /// went long ago.
    pub(super) delete: bool,
    /// Messages expunged since it was selected.
    pub(super) expunged: u64,
}

impl Sync<'_> {
    /// Sends changes of known messages to the writer, and returns what is missing.
    ///
    /// # Errors
    /// `Retry` if the connection is lost: then it can be done again. `Limit` beyond
    /// [`limits::ARCHIVE_FOLDER_MESSAGES`].
    pub(super) async fn run(mut self) -> Result<SyncPlan> {
        let before = self.before;
        let mut todo = self.compare().await?;
        self.dates().await?;
        // An empty backup gets everything: its UIDVALIDITY may differ from that of the messages to
        // be fetched again.
        if !before.all.is_empty() && !before.again.is_empty() {
            let missing = todo.missing.len();
            todo.missing = todo.missing.union(&before.again);
            let more = (todo.missing.len() - missing) as u64;
            todo.expected = todo.expected.map(|expected| expected + more);
        }
        Ok(todo)
    }

    async fn compare(&mut self) -> Result<SyncPlan> {
        let (selected, before) = (self.selected, self.before);
        let (messages, most) = (selected.messages, limits::ARCHIVE_FOLDER_MESSAGES);
        if messages > most {
            let why = format!("the server announces {messages} messages; the limit of a folder is {most}");
            return Err(Error::limit(why));
        }
        let resume = resume(selected);
        let todo = |missing, unlisted| SyncPlan { missing, expected: None, resume, unlisted };
        if before.all.is_empty() {
            let (all, unlisted) = match self.contiguous() {
                Some(all) => (all, None),
                None => {
                    let (all, complete) = self.all_uids().await?;
                    let unlisted = self.unlisted(&all, complete);
                    (all, unlisted)
                }
            };
            let todo = all_missing(all, selected, self.incoming).await?;
            return Ok(SyncPlan { unlisted, ..todo });
        }
        let marked = selected.highestmodseq > 0 && before.resume.highestmodseq > 0;
        let mut vanished = UidSet::new();
        let mut listed = None;
        if !marked {
            listed = Some(self.all_flags().await?);
        } else if selected.highestmodseq != before.resume.highestmodseq {
            vanished = self.changes().await?;
        }
        if marked && self.connection.qresync() && before.resume.whole {
            let present = before.present.difference(&vanished).len() as u64;
            let news = range(before.resume.uidnext, selected.uidnext.saturating_sub(1));
            // With more new messages than new UIDs, or fewer messages than the backup has, all are
            // compared.
            let new = u64::from(messages).checked_sub(present).filter(|new| *new <= news.len() as u64);
            if let Some(new) = new.filter(|new| news.len() as u64 <= new + LOOSE && selected.uidnext > 0) {
                let gone = before.present.intersection(&vanished);
                let long_gone = before.all.difference(&before.present);
                let gone = if self.delete { gone.union(&long_gone) } else { gone };
                self.incoming.then(Work::DeletedUpstream(gone)).await?;
                self.incoming.then(Work::InStep).await?;
                self.incoming.then(Work::Resume(resume)).await?;
                let missing = news.difference(&before.all);
                return Ok(SyncPlan { missing, expected: Some(new), resume, unlisted: None });
            }
        }
        let (all, complete) = match listed {
            Some((listed, false)) => match self.search().await? {
                Some(found) => (found, true),
                None => (listed, false),
            },
            Some(listed) => listed,
            None => self.all_uids().await?,
        };
        if complete {
            let had = if self.delete { &before.all } else { &before.present };
            self.incoming.then(Work::DeletedUpstream(had.difference(&all))).await?;
            self.incoming.then(Work::InStep).await?;
            self.incoming.then(Work::Resume(resume)).await?;
        }
        let unlisted = self.unlisted(&all, complete);
        Ok(todo(all.difference(&before.all), unlisted))
    }

    /// The notice if not all messages were named.
    fn unlisted(&self, found: &UidSet, complete: bool) -> Option<String> {
        let (listed, messages) = (found.len(), self.messages());
        (!complete).then(|| {
            let messages = counted(messages, "message", "messages");
            format!("the server announces {messages} but lists {listed}")
        })
    }

    /// How many messages there are at least.
    fn messages(&self) -> u64 {
        u64::from(self.selected.messages).saturating_sub(self.expunged)
    }

    /// All UIDs, if there are no gaps between them.
    fn contiguous(&self) -> Option<UidSet> {
        let Selected { messages, uidnext, .. } = *self.selected;
        if messages == 0 {
            return Some(UidSet::new());
        }
        (uidnext > 0 && uidnext - 1 == messages).then(|| range(1, messages))
    }

    /// All UIDs of the mailbox, and whether they are as many as it has messages.
    async fn all_uids(&mut self) -> Result<(UidSet, bool)> {
        let esearch = self.connection.capabilities().esearch();
        if !esearch && self.selected.messages > SEARCH_LINE {
            return self.all_flags().await;
        }
        match self.search().await? {
            Some(found) => Ok((found, true)),
            // More ranges than are read of a set, or an unreliable search.
            None => self.all_flags().await,
        }
    }

    /// All UIDs that a search finds, if they are as many as there are messages.
    async fn search(&mut self) -> Result<Option<UidSet>> {
        let esearch = self.connection.capabilities().esearch();
        let command = if esearch { "UID SEARCH RETURN (ALL) ALL" } else { "UID SEARCH ALL" };
        let mut found = UidSet::new();
        let done = self
            .run_command(command, |event| match event {
                Event::Response(Response::ESearch(answer)) => {
                    for data in answer.data {
                        if let SearchData::All(set) = data {
                            found = found.union(&uids(&set));
                        }
                    }
                }
                Event::Response(Response::Search { numbers, .. }) => {
                    found = found.union(&numbers.into_iter().filter_map(Uid::new).collect());
                }
                _ => {}
            })
            .await?;
        let complete = done.status == Status::Ok && self.is_complete(&found);
        Ok(complete.then_some(found))
    }

    /// All UIDs and flags, message by message.
    async fn all_flags(&mut self) -> Result<(UidSet, bool)> {
        if self.selected.messages == 0 {
            return Ok((UidSet::new(), true));
        }
        let labels = self.labels();
        let mut runs = Runs::default();
        let command = |last: &str| format!("UID FETCH 1:{last} (UID FLAGS{labels})");
        self.fetch_to("*", command, |uid| runs.add(uid)).await?;
        let found = runs.into_set();
        if !self.is_complete(&found) {
            // The server may have expunges to report.
            self.run_command("NOOP", |_| {}).await?;
        }
        let complete = self.is_complete(&found);
        Ok((found, complete))
    }

    /// Whether as many messages were named as exist. More arrive meanwhile, but not any number.
    fn is_complete(&self, found: &UidSet) -> bool {
        let messages = u64::from(self.selected.messages);
        (self.messages()..=messages + messages / 4 + LOOSE).contains(&(found.len() as u64))
    }

    /// Fetches what changed since the last pull; returns what vanished, if the server reports it.
    async fn changes(&mut self) -> Result<UidSet> {
        let Some(last) = self.before.all.last() else { return Ok(UidSet::new()) };
        let vanished = if self.connection.qresync() { " VANISHED" } else { "" };
        let (labels, since) = (self.labels(), self.before.resume.highestmodseq);
        let command =
            |last: &str| format!("UID FETCH 1:{last} (UID FLAGS{labels}) (CHANGEDSINCE {since}{vanished})");
        self.fetch_to(&last.to_string(), command, |_| {}).await
    }

    /// Asks for the dates of messages that were taken over without one, and hands them to the
    /// writer. Messages without an answer stay without a date, and are asked for again when there
    /// is another reason to look into the folder.
    async fn dates(&mut self) -> Result<()> {
        let mut left = commands(&self.before.undated);
        let (mut under_way, mut dates) = (0usize, Vec::new());
        let (mut uid, mut date) = (None, None);
        loop {
            while under_way < AT_ONCE
                && let Some(set) = left.next()
            {
                self.connection.queue(|w| w.raw(format!("UID FETCH {set} (UID INTERNALDATE)")));
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            self.connection.flush().await?;
            let event = self.next().await?;
            let completed = Connection::completion(&event).is_some();
            under_way = under_way.saturating_sub(usize::from(completed));
            if completed || dates.len() >= DATES_TOGETHER {
                self.incoming.then(Work::Dates(std::mem::take(&mut dates))).await?;
            }
            match &event {
                Event::FetchBegin(_) => (uid, date) = (None, None),
                Event::UidFetchBegin(its) => (uid, date) = (Some(*its), None),
                Event::Fetch(FetchData::Uid(its)) => uid = Some(*its),
                Event::Fetch(FetchData::InternalDate(its)) => date = Some(*its),
                Event::FetchEnd => dates.extend(uid.take().zip(date.take())),
                _ => {}
            }
            // Changes of flags may come at any time.
            self.incoming.take(event).await?;
        }
    }

    fn labels(&self) -> &'static str {
        if self.connection.capabilities().gmail() { " X-GM-LABELS" } else { "" }
    }

    /// [`Sync::fetch`] of messages from 1 to `last`, in as many commands as the server wants (RFC 9738 §3.1).
    async fn fetch_to(
        &mut self,
        last: &str,
        command: impl Fn(&str) -> String,
        mut on: impl FnMut(u32),
    ) -> Result<UidSet> {
        let (mut vanished, reached) = self.fetch(&command(last), &mut on).await?;
        let mut reached = reached;
        while let Some(uid) = reached.filter(|uid| *uid > 1) {
            let (more, next) = self.fetch(&command(&(uid - 1).to_string()), &mut on).await?;
            vanished = vanished.union(&more);
            reached = next.filter(|next| *next < uid);
        }
        Ok(vanished)
    }

    /// Runs a FETCH of flags, hands these to the writer and their UIDs to `on`; returns which
    /// messages vanished, and the lowest UID that the server got to if it did not get to all.
    async fn fetch(&mut self, command: &str, mut on: impl FnMut(u32)) -> Result<(UidSet, Option<u32>)> {
        let mut vanished = UidSet::new();
        let tag = self.connection.queue(|w| w.raw(command));
        self.connection.flush().await?;
        loop {
            let event = self.next().await?;
            if Connection::completion(&event) == Some(tag)
                && let Event::Response(Response::Status { status, code, text, .. }) = event
            {
                let reached = code.as_ref().and_then(lowest);
                if reached.is_none() {
                    Done { status, code, text }.ok("comparing flags")?;
                }
                return Ok((vanished, reached));
            }
            if let Event::Response(Response::Vanished { uids: set, .. }) = &event {
                // Others do not matter, however many a server names.
                vanished = vanished.union(&uids(set).intersection(&self.before.present));
            }
            if let Received::Flags(uid) = self.incoming.take(event).await? {
                on(uid);
            }
        }
    }

    async fn run_command(&mut self, command: &str, mut on: impl FnMut(Event)) -> Result<Done> {
        let tag = self.connection.queue(|w| w.raw(command));
        self.connection.flush().await?;
        loop {
            let event = self.next().await?;
            if Connection::completion(&event) == Some(tag)
                && let Event::Response(Response::Status { status, code, text, .. }) = event
            {
                return Ok(Done { status, code, text });
            }
            on(event);
        }
    }

    async fn next(&mut self) -> Result<Event> {
        let event = match self.connection.ready()? {
            Some(event) => event,
            None => tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return Err(stopped()),
                event = self.connection.next() => event?,
            },
        };
        match &event {
            Event::Response(Response::Expunge(_)) => self.expunged += 1,
            Event::Response(Response::Vanished { earlier: false, uids: set }) => {
                self.expunged += uids(set).len() as u64;
            }
            _ => {}
        }
        Ok(event)
    }
}

/// The plan for a backup that has nothing of a mailbox whose messages are `all`.
///
/// # Errors
/// `Internal` if the writer has ended.
pub(super) async fn all_missing(
    all: UidSet,
    selected: &Selected,
    incoming: &mut Incoming,
) -> Result<SyncPlan> {
    let resume = resume(selected);
    incoming.then(Work::InStep).await?;
    incoming.then(Work::Resume(resume)).await?;
    Ok(SyncPlan { missing: all, expected: None, resume, unlisted: None })
}

fn resume(selected: &Selected) -> Resume {
    Resume { highestmodseq: selected.highestmodseq, uidnext: selected.uidnext, whole: false }
}

/// UIDs as they come, mostly ascending.
#[derive(Default)]
struct Runs(Vec<(Uid, Uid)>);

impl Runs {
    fn add(&mut self, uid: u32) {
        let Some(uid) = Uid::new(uid) else { return };
        match self.0.last_mut() {
            Some((_, last)) if last.get().checked_add(1) == Some(uid.get()) => *last = uid,
            _ => self.0.push((uid, uid)),
        }
    }

    fn into_set(mut self) -> UidSet {
        self.0.sort_unstable();
        UidSet::from_ranges(self.0)
    }
}

/// The set's UIDs; `*` is no UID.
pub(super) fn uids(set: &SequenceSet) -> UidSet {
    let ranges = set.ranges().iter().filter_map(|range| {
        let (a, b) = (Uid::new(range.start.number()?)?, Uid::new(range.end.number()?)?);
        Some((a.min(b), a.max(b)))
    });
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable();
    UidSet::from_ranges(ranges)
}
