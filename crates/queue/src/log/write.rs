//! The one task that appends to a queue's log.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sealpost_base::{Error, Kind, Position, limits};
use sealpost_journal::{Append, Seal};
use tokio::time::Instant;

use super::gather::Gathering;
use super::load::read_on;
use super::{Inner, OUTCOME_DELAY, Pending, Stopped, Work, touched};
use crate::MailId;
use crate::event::{Batch, Event};
use crate::recent::weight;
use crate::state::Applied;
use crate::upkeep;

/// How often an entry is appended again while its outcome is unknown or the store fails.
const ATTEMPTS: u32 = 8;
/// Before the first of these; twice as long each time.
const PAUSE: Duration = Duration::from_millis(50);
/// The pause before outcomes are appended again that could not be, such as on a full disk.
const OUTCOME_PAUSE: Duration = Duration::from_secs(1);
/// How often an idle writer appends `Alive`. Its lease is several times that.
pub(crate) const ALIVE: Duration = Duration::from_secs(180);

/// How often a closing queue tries to append the waiting events.
const CLOSING_ATTEMPTS: u32 = 3;

/// The content of the next entry.
struct Taken {
    urgent: Vec<Pending>,
    /// How many of them are of clients, and how many are marks.
    counts: (usize, usize),
    lazy: Vec<Vec<Event>>,
}

/// The next step of the writer.
enum Next {
    Append(Taken),
    Wait(Option<Instant>),
    Close,
}

pub(super) async fn run(inner: &Arc<Inner>) -> Stopped {
    // When outcomes are due: after their delay, or after the pause behind a failed append.
    let mut lazy_due: Option<Instant> = None;
    let mut alive_due = Instant::now() + ALIVE;
    let mut failures = 0;
    let mut gathering = Gathering::default();
    loop {
        match next(inner, &mut lazy_due, &mut gathering, failures > 0) {
            Next::Append(taken) => {
                let (counts, mut others) = (taken.counts, (0, 0));
                let mut work = inner.work.lock().await;
                match append(inner, &mut work, taken).await {
                    Ok(Some(waiting)) => (lazy_due, failures, others) = (None, 0, waiting),
                    Ok(None) => {
                        let now = Instant::now();
                        // Refused mail does not delay outcomes that wait already.
                        lazy_due = lazy_due.filter(|due| *due > now).or(Some(now + OUTCOME_PAUSE));
                        failures += 1;
                    }
                    Err(stopped) => return stopped,
                }
                if failures > CLOSING_ATTEMPTS && inner.waiting().closing {
                    return Stopped::Closed;
                }
                alive_due = Instant::now() + ALIVE;
                gathering.appended(counts, others, Instant::now());
                let since = work.since;
                drop(work);
                upkeep::begin_if_due(inner, since);
            }
            Next::Close => return Stopped::Closed,
            Next::Wait(due) => {
                let until = due.unwrap_or(alive_due).min(alive_due);
                tokio::select! {
                    () = inner.wake.notified() => {}
                    () = tokio::time::sleep_until(until) => {}
                }
                if Instant::now() >= alive_due {
                    inner.waiting().lazy.push_back(vec![Event::Alive]);
                    alive_due = Instant::now() + ALIVE;
                    lazy_due = Some(Instant::now());
                }
            }
        }
    }
}

/// Takes the waiting events, if it is time. After a failure outcomes and marks get an entry without
/// mail: on a full disk they may use the reserve, since they free disk space, and mail may not.
fn next(inner: &Inner, lazy_due: &mut Option<Instant>, gathering: &mut Gathering, is_failing: bool) -> Next {
    let mut waiting = inner.waiting();
    let (closing, now) = (waiting.closing, Instant::now());
    (waiting.wanted, waiting.wanted_marks) = (1, 1);
    if waiting.urgent.is_empty() && waiting.marks.is_empty() {
        if waiting.lazy.is_empty() {
            *lazy_due = None;
            return if closing { Next::Close } else { Next::Wait(None) };
        }
        let due = *lazy_due.get_or_insert_with(|| now + OUTCOME_DELAY);
        if now < due && !closing {
            return Next::Wait(Some(due));
        }
    } else if !closing {
        let marks = waiting.marks.len();
        let gathered = match waiting.urgent.len() {
            0 => gathering.marks(marks, now),
            clients => gathering.clients(clients, now),
        };
        if let Some(until) = gathered {
            let has_clients = !waiting.urgent.is_empty();
            waiting.wanted = if has_clients { gathering.enough_clients() } else { 1 };
            let wanted = if has_clients { None } else { gathering.enough_marks(now) };
            waiting.wanted_marks = wanted.unwrap_or(usize::MAX);
            return Next::Wait(Some(until));
        }
    }
    let (mut urgent, mut marks, mut lazy) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut events) = (0, 0);
    let mut fits = |more: usize, count: usize| {
        let fits = events == 0
            || bytes + more <= limits::QUEUE_ENTRY_BYTES && events + count <= limits::QUEUE_ENTRY_EVENTS;
        if fits {
            (bytes, events) = (bytes + more, events + count);
        }
        fits
    };
    let lazy_is_due = closing || lazy_due.is_none_or(|due| Instant::now() >= due);
    let takes_lazy = !is_failing || lazy_is_due;
    // Outcomes first, up to half: they are small, and free what the mails take.
    while takes_lazy
        && let Some(group) = waiting.lazy.front()
        && lazy.len() < limits::QUEUE_ENTRY_EVENTS / 2
        && fits(group.iter().map(size_of_event).sum(), group.len())
    {
        lazy.extend(waiting.lazy.pop_front());
    }
    while let Some(pending) = waiting.marks.front()
        && fits(pending.events.iter().map(size_of_event).sum(), pending.events.len())
    {
        marks.extend(waiting.marks.pop_front());
    }
    while (!is_failing || lazy.is_empty() && marks.is_empty())
        && let Some(pending) = waiting.urgent.front()
        && fits(pending.events.iter().map(size_of_event).sum(), pending.events.len())
    {
        urgent.extend(waiting.urgent.pop_front());
    }
    let counts = (urgent.len(), marks.len());
    marks.append(&mut urgent);
    Next::Append(Taken { urgent: marks, counts, lazy })
}

/// About how many bytes an event takes in an entry.
fn size_of_event(event: &Event) -> usize {
    match event {
        Event::Accepted(mail) => weight(mail),
        Event::Attempted(attempted) => 64 + attempted.outcomes.len() * (64 + limits::QUEUE_REPLY_BYTES / 2),
        Event::Taken(taken) => 64 + taken.host.len() + taken.reply.len(),
        Event::Told(told) => 64 + told.mails.len() * 9,
        Event::Carried(carried) => 256 + carried.mails.len() * 20,
        _ => 64,
    }
}

/// Appends one entry of what was taken. Returns how many clients and marks waited for the next entry
/// when this one was durable. `None`: it is not in the log, and what is not urgent waits again.
async fn append(
    inner: &Arc<Inner>,
    work: &mut Work,
    taken: Taken,
) -> std::result::Result<Option<(usize, usize)>, Stopped> {
    let Taken { urgent, lazy, .. } = taken;
    let (mut counts, mut dones) = (Vec::new(), Vec::new());
    let groups: Vec<usize> = lazy.iter().map(Vec::len).collect();
    let mut events: Vec<Event> = lazy.into_iter().flatten().collect();
    let lazy_count = events.len();
    for Pending { events: some, done } in urgent {
        let of = |wanted: fn(&Event) -> bool| some.iter().filter(|event| wanted(event)).count();
        counts.push((
            of(|event| matches!(event, Event::Accepted(_))),
            of(|event| matches!(event, Event::Canceled(_))),
        ));
        dones.push(done);
        events.extend(some);
    }
    let first = inner.state.read().unwrap_or_else(PoisonError::into_inner).next_id();
    let nonce = inner.random.next_u64();
    let batch = Batch { at: inner.clock.now(), writer: inner.writer, nonce, events, first };
    let lazy_mails = batch.events[..lazy_count].iter().filter(|event| matches!(event, Event::Accepted(_)));
    let lazy_mails = lazy_mails.count();
    match append_batch(inner, work, &batch).await {
        Ok(applied) => {
            // Before any of the answered clients can come again.
            let others = inner.waiting().counts();
            let mut ids = applied.accepted.iter().copied().skip(lazy_mails);
            let mut canceled = applied.canceled.iter().copied();
            for (done, (accepts, cancels)) in dones.into_iter().zip(counts) {
                let accepted = ids.by_ref().take(accepts);
                let both = accepted.chain(canceled.by_ref().take(cancels).flatten());
                let _ = done.send(Ok(both.collect()));
            }
            keep_recent(inner, batch, &applied);
            Ok(Some(others))
        }
        Err(Failed::Stopped(stopped)) => {
            for done in dones {
                let error = stopped.error();
                let _ = done.send(Err((error.kind(), error.to_string())));
            }
            Err(stopped)
        }
        Err(Failed::Store(error)) => {
            let error = inner.of_full_disk(error);
            tracing::warn!(error = %error, events = batch.events.len(), "an entry of the queue was not stored");
            for done in dones {
                let _ = done.send(Err((error.kind(), error.to_string())));
            }
            let mut events = batch.events.into_iter();
            let groups = groups.into_iter().map(|count| events.by_ref().take(count).collect::<Vec<_>>());
            let groups: Vec<_> = groups.filter(|group| !matches!(group[..], [Event::Alive])).collect();
            let mut waiting = inner.waiting();
            groups.into_iter().rev().for_each(|group| waiting.lazy.push_front(group));
            Ok(None)
        }
    }
}

/// Keeps accepted mail in memory: the runner is likely to send it at once.
fn keep_recent(inner: &Inner, batch: Batch, applied: &Applied) {
    let mails = batch.events.into_iter().filter_map(|event| match event {
        Event::Accepted(mail) => Some(mail),
        _ => None,
    });
    for (id, mail) in applied.accepted.iter().zip(mails) {
        inner.recent.keep(*id, mail.into());
    }
}

enum Failed {
    Stopped(Stopped),
    Store(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Self {
        Failed::Store(e)
    }
}

/// Appends a batch and applies it. Durable when it returns.
async fn append_batch(inner: &Inner, work: &mut Work, batch: &Batch) -> std::result::Result<Applied, Failed> {
    let plain = batch.encode();
    // An entry that frees disk space may use the reserve of a full disk.
    let frees = !batch.events.iter().any(|event| matches!(event, Event::Accepted(_)));
    let journal = if frees { inner.journal.freeing() } else { inner.journal.clone() };
    let mut last = Error::retry("the queue's log grows too fast");
    for attempt in 0..ATTEMPTS {
        let tail = work.replay.tail();
        match journal.append(&tail, Seal::Owner(&inner.keys), &plain).await {
            Ok(Append::Done(tail)) => {
                work.replay.appended(tail);
                work.since.0 += 1;
                work.since.1 += plain.len() as u64;
                return Ok(inner.apply(tail.position, batch));
            }
            Ok(Append::Lost | Append::Trimmed) => {}
            Err(e) if matches!(e.kind(), Kind::Retry | Kind::Conflict) => {
                last = e;
                // The local store knows that a failed write is not there, and a full disk stays full
                // for a while.
                let is_local = inner.store.directory().is_some();
                if let Some(applied) = catch_up(inner, work, batch).await? {
                    return Ok(applied);
                }
                if is_local && attempt > 0 {
                    break;
                }
                tokio::time::sleep(PAUSE * (1 << attempt)).await;
                continue;
            }
            Err(e) => return Err(Failed::Store(e)),
        }
        if let Some(applied) = catch_up(inner, work, batch).await? {
            return Ok(applied);
        }
    }
    Err(Failed::Store(last))
}

/// Reads the entries behind the replay. Returns the result of `batch`, if it is among them.
async fn catch_up(
    inner: &Inner,
    work: &mut Work,
    batch: &Batch,
) -> std::result::Result<Option<Applied>, Failed> {
    let (mut ours, mut others) = (None, false);
    let mut read = Ok(false);
    for attempt in 0..ATTEMPTS {
        read = read_on(&inner.journal, &inner.keys, &mut work.replay, |position, entry| {
            others |= entry.writer != inner.writer;
            let applied = inner.apply(position, &entry);
            if entry.writer == inner.writer && entry.nonce == batch.nonce {
                ours = Some(applied);
            }
        })
        .await;
        match &read {
            Err(e) if e.kind() == Kind::Retry => tokio::time::sleep(PAUSE * (1 << attempt)).await,
            _ => break,
        }
    }
    if others {
        let state = inner.state.read().unwrap_or_else(PoisonError::into_inner);
        let node = state.owner().map_or(String::new(), |(_, node)| node.to_owned());
        return Err(Failed::Stopped(Stopped::Adopted(node)));
    }
    match read {
        Ok(true) => Ok(ours),
        // Only its writer trims a log, so another one has.
        Ok(false) => Err(Failed::Stopped(Stopped::Adopted("another node".to_owned()))),
        Err(e) if e.kind() == Kind::Retry => Err(Failed::Store(e)),
        Err(e) => Err(Failed::Stopped(Stopped::Broken(e.to_string()))),
    }
}

impl Inner {
    /// Applies an entry that is in the log, and notifies the runner.
    fn apply(&self, position: Position, batch: &Batch) -> Applied {
        let applied = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.apply(position, batch)
        };
        let finished: Vec<MailId> = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let touched = batch.events.iter().filter_map(touched::mail_of);
            touched.filter(|mail| state.rows().get(*mail).is_none()).collect()
        };
        finished.into_iter().for_each(|mail| self.recent.forget(mail));
        self.touched.note(batch);
        self.changed.send_replace(position);
        applied
    }
}
