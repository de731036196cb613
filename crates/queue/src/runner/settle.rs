//! Records the outcomes of a job, together with the reports about them.

use std::sync::Arc;

use sealpost_base::{Timestamp, limits};

use super::prepare::expired;
use super::{QueuedMessage, Shared};
use crate::MailId;
use crate::dsn::{Action, Report, Reported, is_wanted};
use crate::envelope::Mail;
use crate::event::{Attempted, Event, Failure, Outcome, Taken};
use crate::retry::next_attempt;
use crate::schedule::Job;
use crate::state::{Row, expires};

/// Recipients whose outcomes and reports go into one entry: each report may be as large as a mail in the
/// log.
const AT_ONCE: usize = 100;

impl Shared {
    /// Ends a job with those outcomes, and the server that took the mail, if one did. Without outcomes other
    /// jobs settle its recipients.
    pub(super) async fn settle_job(
        self: &Arc<Self>,
        job: &Job,
        outcomes: Vec<(u16, Outcome)>,
        server: Option<Taken>,
    ) {
        if outcomes.is_empty() {
            let is_last = self.dispatch().job_ended(job.mail);
            if is_last {
                self.nothing_came(job.mail, job.attempt.saturating_sub(1));
            }
            return;
        }
        match self.queue.read(job.mail).await {
            Ok(mail) => self.settle(job.mail, &mail, job.attempt, outcomes, server).await,
            Err(e) => {
                self.dispatch().job_ended(job.mail);
                self.unreadable(job.mail, &e);
            }
        }
    }

    /// Settles a mail whose last job ended without outcomes. An empty attempt follows the events recorded
    /// before, so the mail leaves the window after them, and is due again.
    pub(super) fn nothing_came(&self, id: MailId, attempts: u8) {
        let next = self.now();
        self.queue.record([Event::Attempted(Attempted { mail: id, outcomes: Vec::new(), attempts, next })]);
    }

    /// The same for a mail that was read.
    pub(super) async fn settle(
        self: &Arc<Self>,
        id: MailId,
        mail: &Arc<Mail>,
        attempts: u8,
        mut outcomes: Vec<(u16, Outcome)>,
        server: Option<Taken>,
    ) {
        let now = self.now();
        let row = self.queue.state().rows().get(id).copied();
        let Some(row) = row else {
            // The operator removed it meanwhile.
            self.dispatch().job_ended(id);
            return self.dispatch().put_back(id, now);
        };
        let expires = expires(&row);
        if now >= expires {
            for (_, outcome) in &mut outcomes {
                if let Outcome::Deferred(failure) = outcome {
                    *outcome = Outcome::Failed(expired(Some(failure)));
                }
            }
        }
        self.count(&outcomes, &row, now);
        let next = next_attempt(now, attempts, &*self.queue.inner().random).min(expires);
        let groups = self.outcome_groups(id, mail, &row, (attempts, next), outcomes).await;
        // Before it is recorded: the log may say so at once.
        self.dispatch().job_ended(id);
        for group in groups {
            let server = server.clone().map(Event::Taken);
            self.queue.record(server.into_iter().chain(group));
        }
    }

    /// Outcomes and the reports about them, in groups of which each fits into an entry.
    pub(super) async fn outcome_groups(
        &self,
        id: MailId,
        mail: &Arc<Mail>,
        row: &Row,
        (attempts, next): (u8, Timestamp),
        mut outcomes: Vec<(u16, Outcome)>,
    ) -> Vec<Vec<Event>> {
        let (now, mut groups) = (self.now(), Vec::new());
        while !outcomes.is_empty() {
            let rest = outcomes.split_off(outcomes.len().min(AT_ONCE));
            let finished = outcomes.iter().filter_map(|(place, outcome)| match outcome {
                Outcome::Failed(failure) => Some((*place, Action::Failed, Some(failure.clone()))),
                Outcome::Relayed => Some((*place, Action::Relayed, None)),
                Outcome::Expanded => Some((*place, Action::Expanded, None)),
                Outcome::DeliveredHere => Some((*place, Action::Delivered, None)),
                Outcome::Delivered | Outcome::Deferred(_) => None,
            });
            let finished = finished.collect();
            let reports = self.reports(id, mail, finished, row, now).await;
            let mut group = vec![Event::Attempted(Attempted { mail: id, outcomes, attempts, next })];
            group.extend(reports);
            groups.push(group);
            outcomes = rest;
        }
        groups
    }

    /// The reports that the sender wants, as events that accept them.
    pub(super) async fn reports(
        &self,
        id: MailId,
        mail: &Arc<Mail>,
        recipients: Vec<(u16, Action, Option<Failure>)>,
        row: &Row,
        now: Timestamp,
    ) -> Vec<Event> {
        let reported: Vec<Reported<'_>> = recipients
            .iter()
            .filter_map(|(place, action, failure)| {
                let recipient = mail.recipients.get(usize::from(*place))?;
                let reported = Reported { recipient, action: *action, failure: failure.as_ref() };
                is_wanted(mail, recipient, *action).then_some(reported)
            })
            .collect();
        if reported.is_empty() {
            return Vec::new();
        }
        let message = QueuedMessage { queue: self.queue.clone(), mail: mail.clone() };
        let (message, is_whole) = message.beginning(limits::QUEUE_INLINE_BYTES).await.unwrap_or_else(|e| {
            tracing::warn!(mail = %id, error = %e, "a report is sent without the message, which cannot be read");
            (mail.header.clone(), false)
        });
        let host = &self.settings.host;
        let report = Report { host, id, mail, message: &message, is_whole, expires: expires(row), now };
        let mails = report.mails(&reported, &*self.queue.inner().random);
        mails.into_iter().map(|mail| Event::Accepted(Box::new(mail))).collect()
    }

    fn count(&self, outcomes: &[(u16, Outcome)], row: &Row, now: Timestamp) {
        let metrics = &self.metrics;
        for (_, outcome) in outcomes {
            match outcome {
                Outcome::Delivered | Outcome::DeliveredHere | Outcome::Expanded => {
                    metrics.delivered.increment();
                }
                Outcome::Relayed => metrics.relayed.increment(),
                Outcome::Deferred(_) => metrics.deferred.increment(),
                Outcome::Failed(_) => metrics.failed.increment(),
            }
            if !matches!(outcome, Outcome::Deferred(_) | Outcome::Failed(_)) {
                metrics.age.observe_time(now.since(crate::state::seconds(row.accepted)));
            }
        }
    }
}
