//! [`Dispatch`]: the active window, and what waits outside of it. Pure, with the time as an argument.

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_base::{Timestamp, limits};
use sealpost_delivery::transport::Destination;
use tokio::sync::oneshot;

use crate::MailId;
use crate::envelope::Mail;
use crate::event::Outcome;
use crate::log::Touched;
use crate::retry::MAX_DELAY;
use crate::schedule::due::DueIndex;
use crate::schedule::{Action, Job, Scheduler, SiteId};
use crate::state::{Flags, Row, State};

/// Mails that are looked at for one that may enter a full window.
const LOOKED_AT: usize = 64;
/// Mails that are read at once to see what is to be done about them, and so are in memory; the others
/// follow.
const PREPARING: usize = 64;
/// By how much a clock goes back before all times are looked at again.
const WENT_BACK: std::time::Duration = std::time::Duration::from_secs(300);

/// A mail in the window.
pub(super) struct Active {
    account: u32,
    recipients: usize,
    /// Jobs that have not ended.
    pub(super) jobs: usize,
    /// Everything is recorded; it leaves the window when the log says so.
    settled: bool,
    /// The mail, if its body is an object that goes with it.
    pub(super) large: Option<Arc<Mail>>,
    /// What the first choice of a route came to, for recipients that the second one is tried for.
    pub(super) first_choice: HashMap<u16, Outcome>,
}

/// The window.
pub(super) struct Dispatch {
    pub(super) scheduler: Scheduler,
    due: DueIndex,
    active: HashMap<MailId, Active>,
    of_account: HashMap<u32, usize>,
    /// Recipients of the mails in the window.
    recipients: usize,
    /// Mails that entered and are being read.
    preparing: usize,
    /// The first id that was not looked at.
    new: MailId,
    looked: Timestamp,
    pub(super) destinations: HashMap<SiteId, Arc<dyn Destination>>,
    /// Idle connections, by number, and how each gets a job.
    idle: HashMap<SiteId, Vec<(u64, oneshot::Sender<Job>)>>,
    idled: u64,
    /// Mails that are queued no more, whose bodies are to be removed.
    pub(super) finished: Vec<Arc<Mail>>,
}

impl Dispatch {
    pub(super) fn new(connections: usize) -> Self {
        Dispatch {
            scheduler: Scheduler::new(connections),
            due: DueIndex::default(),
            active: HashMap::new(),
            of_account: HashMap::new(),
            recipients: 0,
            preparing: 0,
            new: MailId(0),
            looked: Timestamp(0),
            destinations: HashMap::new(),
            idle: HashMap::new(),
            idled: 0,
            finished: Vec::new(),
        }
    }

    /// Notes all mail of the state.
    pub(super) fn rebuild(&mut self, state: &State, now: Timestamp) {
        self.due.clear();
        for (id, row) in state.rows().from(MailId(0)) {
            self.due.insert(id, when(state, row, now));
        }
        self.new = state.next_id();
        self.looked = now;
    }

    /// Notes what is new and what changed.
    pub(super) fn look(&mut self, state: &State, touched: Touched, now: Timestamp) {
        if touched.all || now.after(WENT_BACK) < self.looked {
            self.rebuild(state, now);
        }
        self.looked = now;
        for (id, row) in state.rows().from(self.new) {
            self.due.insert(id, when(state, row, now));
        }
        self.new = self.new.max(state.next_id());
        for id in touched.mails {
            let is_active = self.active.get(&id).is_some_and(|active| !active.settled);
            let row = state.rows().get(id);
            if is_active && row.is_some() {
                continue;
            }
            if !is_active
                && let Some(active) = self.leave(id)
                && row.is_none()
            {
                self.finished.extend(active.large);
            }
            if let Some(row) = row {
                self.due.insert(id, when(state, row, now));
            }
        }
    }

    /// Mails that enter the window: due, and within its limits.
    pub(super) fn fill(&mut self, state: &State, now: Timestamp) -> Vec<MailId> {
        let mut taken = Vec::new();
        if state.all_held().is_some() {
            return taken;
        }
        let account = |id| state.rows().get(id).map(|row| row.account);
        let mut refused = Vec::new();
        while self.preparing < PREPARING
            && refused.len() < LOOKED_AT
            && let Some(id) = self.due.pop(now, account)
        {
            let Some(row) = state.rows().get(id) else { continue };
            if self.active.contains_key(&id) {
                continue;
            }
            let due = state.due(row);
            if due > now && !is_beyond(row, due, now) {
                self.due.insert(id, due);
            } else if self.may_enter(row) {
                self.enter(id, row);
                self.preparing += 1;
                taken.push(id);
            } else {
                refused.push(id);
            }
        }
        // A moment later: what is due now is handed out by turns.
        refused.into_iter().for_each(|id| self.due.insert(id, now.after(std::time::Duration::from_secs(1))));
        taken
    }

    /// What is to be done about one of those mails is known.
    pub(super) fn prepared(&mut self) {
        self.preparing = self.preparing.saturating_sub(1);
    }

    fn may_enter(&self, row: &Row) -> bool {
        let of_account = self.of_account.get(&row.account).copied().unwrap_or(0);
        let recipients = self.recipients + usize::from(row.recipients);
        let fits = self.active.is_empty() || recipients <= limits::QUEUE_WINDOW_RECIPIENTS;
        let has_few = of_account < limits::QUEUE_WINDOW_ACCOUNT
            && self.active.len() < limits::QUEUE_WINDOW + limits::QUEUE_WINDOW_RESERVE;
        fits && (self.active.len() < limits::QUEUE_WINDOW || has_few)
    }

    fn enter(&mut self, id: MailId, row: &Row) {
        *self.of_account.entry(row.account).or_insert(0) += 1;
        let recipients = usize::from(row.recipients);
        self.recipients += recipients;
        let active = Active {
            account: row.account,
            recipients,
            jobs: 0,
            settled: false,
            large: None,
            first_choice: HashMap::new(),
        };
        self.active.insert(id, active);
    }

    fn leave(&mut self, id: MailId) -> Option<Active> {
        let active = self.active.remove(&id)?;
        self.recipients -= active.recipients;
        if let Some(count) = self.of_account.get_mut(&active.account) {
            *count -= 1;
            if *count == 0 {
                self.of_account.remove(&active.account);
            }
        }
        Some(active)
    }

    /// What is to be done next; idle connections are told here.
    pub(super) fn next_action(&mut self, now: Timestamp) -> Option<Action> {
        loop {
            match self.scheduler.next(now)? {
                Action::Reuse(site, job) => {
                    if let Some(job) = self.hand_over(&site, job) {
                        // The connection's task is gone: this one comes in its place.
                        return Some(Action::Connect(site, job));
                    }
                }
                Action::Close(site) => drop(self.last_idle(&site)),
                action => return Some(action),
            }
        }
    }

    /// Gives a job to the connection that became idle last; the job, if there is none.
    fn hand_over(&mut self, site: &SiteId, job: Job) -> Option<Job> {
        match self.last_idle(site) {
            Some(connection) => connection.send(job).err(),
            None => Some(job),
        }
    }

    fn last_idle(&mut self, site: &SiteId) -> Option<oneshot::Sender<Job>> {
        let idle = self.idle.get_mut(site)?;
        let last = idle.pop();
        if idle.is_empty() {
            self.idle.remove(site);
        }
        last.map(|(_, connection)| connection)
    }

    /// A connection that has sent `mails` waits for another job, unless it is to be closed: its
    /// number, and where the job comes. Nothing comes if it is to be closed then.
    pub(super) fn idle(
        &mut self,
        now: Timestamp,
        site: &SiteId,
        mails: u32,
    ) -> Option<(u64, oneshot::Receiver<Job>)> {
        if !self.scheduler.may_idle(now, site, mails) {
            return None;
        }
        let (connection, job) = oneshot::channel();
        self.idled += 1;
        self.idle.entry(site.clone()).or_default().push((self.idled, connection));
        Some((self.idled, job))
    }

    /// The connection waits no more. `false` if it was given a job, or told to close, before.
    pub(super) fn idle_ended(&mut self, site: &SiteId, number: u64) -> bool {
        let Some(idle) = self.idle.get_mut(site) else { return false };
        let before = idle.len();
        idle.retain(|(other, _)| *other != number);
        let was_idle = idle.len() < before;
        if idle.is_empty() {
            self.idle.remove(site);
        }
        if was_idle {
            self.scheduler.idle_ended(site);
        }
        was_idle
    }

    /// Tells all idle connections to close.
    pub(super) fn close_idle(&mut self) {
        for (site, connections) in std::mem::take(&mut self.idle) {
            connections.iter().for_each(|_| self.scheduler.idle_ended(&site));
        }
    }

    /// Nothing is recorded about it: it leaves the window, and is looked at again then.
    pub(super) fn put_back(&mut self, id: MailId, due: Timestamp) {
        if self.leave(id).is_some() {
            self.due.insert(id, due);
        }
    }

    /// Everything about it will be recorded in a moment.
    pub(super) fn settled(&mut self, id: MailId) {
        if let Some(active) = self.active.get_mut(&id) {
            active.settled = true;
        }
    }

    /// A mail in the window.
    pub(super) fn get_mut(&mut self, id: MailId) -> Option<&mut Active> {
        self.active.get_mut(&id)
    }

    /// A job of a mail has ended. Whether it was the last one.
    pub(super) fn job_ended(&mut self, id: MailId) -> bool {
        let Some(active) = self.active.get_mut(&id) else { return true };
        active.jobs = active.jobs.saturating_sub(1);
        active.settled |= active.jobs == 0;
        active.settled
    }

    /// Whether no mail enters before others leave or were read.
    pub(super) fn is_full(&self) -> bool {
        self.active.len() >= limits::QUEUE_WINDOW || self.preparing >= PREPARING
    }

    /// Mails in the window.
    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    /// When something is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.next()
    }
}

/// When a mail is due. A clock that went back must not delay it for longer than a mail is ever delayed.
fn when(state: &State, row: &Row, now: Timestamp) -> Timestamp {
    let due = state.due(row);
    if is_beyond(row, due, now) { now.after(MAX_DELAY) } else { due }
}

/// Whether no mail is due that late: the time is one of a clock that was ahead.
pub(super) fn is_beyond(row: &Row, due: Timestamp, now: Timestamp) -> bool {
    let is_held = row.flags.has(Flags::HELD) || row.flags.has(Flags::FUTURE);
    !is_held && due > now.after(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use sealpost_base::Position;

    use super::*;
    use crate::event::{Batch, Event, WriterId};
    use crate::state::tests::mail;

    #[test]
    fn few_mails_are_read_at_once_however_many_are_due() {
        let now = Timestamp::from_seconds(1_700_000_000);
        let mut state = State::default();
        let events = (0..500).map(|_| Event::Accepted(Box::new(mail(now, 1, &["u@d.example"])))).collect();
        let batch = Batch { at: now, writer: WriterId([1; 16]), nonce: 1, events, first: MailId(0) };
        state.apply(Position(1), &batch);
        let mut dispatch = Dispatch::new(10);
        dispatch.rebuild(&state, now);
        assert_eq!(dispatch.fill(&state, now).len(), PREPARING);
        assert!(dispatch.fill(&state, now).is_empty() && dispatch.is_full());
        (0..10).for_each(|_| dispatch.prepared());
        assert_eq!((dispatch.fill(&state, now).len(), dispatch.active()), (10, PREPARING + 10));
    }
}
