//! [`Dispatch`]: the active window, and the mails that wait outside of it. Pure, with the time as an
//! argument.

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

/// How many mails are tried at a time for the places left in a full window.
const LOOKED_AT: usize = 64;
/// Mails that are prepared at the same time, and so are in memory.
const PREPARING: usize = 64;
/// By how much a clock must go back before all times are computed again.
const WENT_BACK: std::time::Duration = std::time::Duration::from_secs(300);

/// A mail in the window.
pub(super) struct Active {
    account: u32,
    recipients: usize,
    /// Jobs that have not ended.
    pub(super) jobs: usize,
    /// Its outcomes are on their way into the log. It leaves the window when the log has them.
    settled: bool,
    /// The mail, if its body is an object to remove with it.
    pub(super) large: Option<Arc<Mail>>,
    /// The outcome of the first choice of a route, for recipients that are tried over the second.
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
    /// The first id that is not noted yet.
    new: MailId,
    looked: Timestamp,
    pub(super) destinations: HashMap<SiteId, Arc<dyn Destination>>,
    /// Idle connections, by number, and the channel that hands each a job.
    idle: HashMap<SiteId, Vec<(u64, oneshot::Sender<Job>)>>,
    idled: u64,
    /// Mails that have left the queue, whose bodies are to be removed.
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

    /// Notes new and changed mails.
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
        // Try again in a moment: mails that are due take turns.
        refused.into_iter().for_each(|id| self.due.insert(id, now.after(std::time::Duration::from_secs(1))));
        taken
    }

    /// Notes that one of those mails is prepared.
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

    /// The next step for the runner. Hands jobs to idle connections, and closes them, itself.
    pub(super) fn next_action(&mut self, now: Timestamp) -> Option<Action> {
        loop {
            match self.scheduler.next(now)? {
                Action::Reuse(site, job) => {
                    if let Some(job) = self.hand_over(&site, job) {
                        // The connection's task is gone: open another connection.
                        return Some(Action::Connect(site, job));
                    }
                }
                Action::Close(site) => drop(self.last_idle(&site)),
                action => return Some(action),
            }
        }
    }

    /// Hands a job to the connection that became idle last. Returns the job if there is none.
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

    /// Notes that a connection that has sent `mails` waits for another job. Returns its number and a channel,
    /// which brings a job, or closes if the connection has to. `None`: it has to close at once.
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

    /// Notes that the connection does not wait any more. `false` if it got a job, or had to close, before.
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

    /// Closes all idle connections.
    pub(super) fn close_idle(&mut self) {
        for (site, connections) in std::mem::take(&mut self.idle) {
            connections.iter().for_each(|_| self.scheduler.idle_ended(&site));
        }
    }

    /// Removes a mail from the window without an outcome. It is due again at `due`.
    pub(super) fn put_back(&mut self, id: MailId, due: Timestamp) {
        if self.leave(id).is_some() {
            self.due.insert(id, due);
        }
    }

    /// Notes that the outcomes of a mail are on their way into the log.
    pub(super) fn settled(&mut self, id: MailId) {
        if let Some(active) = self.active.get_mut(&id) {
            active.settled = true;
        }
    }

    /// A mail in the window.
    pub(super) fn get_mut(&mut self, id: MailId) -> Option<&mut Active> {
        self.active.get_mut(&id)
    }

    /// Notes that a job of a mail has ended. Returns whether it was the last one.
    pub(super) fn job_ended(&mut self, id: MailId) -> bool {
        let Some(active) = self.active.get_mut(&id) else { return true };
        active.jobs = active.jobs.saturating_sub(1);
        active.settled |= active.jobs == 0;
        active.settled
    }

    /// Whether no mail can enter before another leaves or is prepared.
    pub(super) fn is_full(&self) -> bool {
        self.active.len() >= limits::QUEUE_WINDOW || self.preparing >= PREPARING
    }

    /// Mails in the window.
    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    /// When the next mail is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.next()
    }
}

/// When a mail is due. A clock that went back must not delay it beyond the longest delay of a mail.
fn when(state: &State, row: &Row, now: Timestamp) -> Timestamp {
    let due = state.due(row);
    if is_beyond(row, due, now) { now.after(MAX_DELAY) } else { due }
}

/// Whether a due time is beyond any delay: it comes from a clock that was ahead.
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
