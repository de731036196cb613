//! Prepares a mail that is due: decides what to do, and makes the jobs to send it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealpost_base::{Error, Kind, Timestamp, limits};

use super::Shared;
use super::dispatch::is_beyond;
use crate::MailId;
use crate::dsn::{Action, EXPIRED};
use crate::envelope::{Body, Mail};
use crate::event::{Event, Failure, Held, Outcome, Rule, Status};
use crate::schedule::{Job, RouteKey, is_meant};
use crate::state::{Flags, Row, State, delayed, expires, seconds};

/// The state of a mail.
pub(super) struct View {
    pub(super) row: Row,
    /// The remaining recipients, and the last reply for each.
    pub(super) left: Vec<(u16, Option<Failure>)>,
}

impl View {
    /// The state of a mail; `None` if it is not queued any more.
    pub(super) fn of(state: &State, id: MailId, mail: &Mail) -> Option<View> {
        let row = *state.rows().get(id)?;
        let left = (0..mail.recipients.len())
            .filter_map(|place| Some((u16::try_from(place).ok()?, state.left(id, place)?)));
        Some(View { row, left: left.collect() })
    }
}

impl Shared {
    pub(super) async fn prepare(self: Arc<Self>, id: MailId) {
        let now = self.now();
        if self.is_stopping() {
            return self.dispatch().put_back(id, now);
        }
        let mail = match self.queue.read(id).await {
            Ok(mail) => mail,
            Err(e) => return self.unreadable(id, &e),
        };
        let view = View::of(&self.queue.state(), id, &mail);
        let Some(view) = view else { return self.dispatch().put_back(id, now) };
        if view.row.flags.has(Flags::HELD) {
            return self.record(id, vec![Event::Released(id)]);
        }
        if let Some(rule) = self.rule(&mail, &view, now) {
            let held = Held { mail: id, until: rule.until, rule: rule.number };
            return self.record(id, vec![Event::Held(held)]);
        }
        // RFC 5321 §6.3: many Received fields show a loop.
        if mail.facts.received as usize > limits::RECEIVED_FIELDS {
            let why =
                Failure::local(Status::new(5, 4, 6), "the message has passed too many servers: a mail loop");
            return self.give_up(id, &mail, &view, |_| why.clone()).await;
        }
        // A mail expires only after an attempt: a clock that is wrong must not make it expire untried.
        if now >= expires(&view.row) && view.row.attempts > 0 {
            return self.give_up(id, &mail, &view, expired).await;
        }
        let is_late = now >= delayed(&view.row) && view.row.attempts > 0;
        let events = match is_late && !view.row.flags.has(Flags::DELAY_REPORTED) {
            true => self.report_delay(id, &mail, &view, now).await,
            false => Vec::new(),
        };
        let next = seconds(view.row.next);
        if next > now && !is_beyond(&view.row, next, now) {
            return match events.is_empty() {
                true => self.dispatch().put_back(id, next),
                false => self.record(id, events),
            };
        }
        if !events.is_empty() {
            self.queue.record(events);
        }
        self.offer(id, &mail, &view).await;
    }

    /// Records the last events about a mail, for now.
    pub(super) fn record(&self, id: MailId, events: Vec<Event>) {
        self.settled(id);
        self.queue.record(events);
    }

    /// Retries a mail that cannot be read, and removes it when its time is over. Its sender is unknown, so
    /// there is no report.
    pub(super) fn unreadable(&self, id: MailId, error: &Error) {
        let now = self.now();
        let state = self.queue.state();
        let Some(row) = state.rows().get(id).copied() else {
            drop(state);
            return self.dispatch().put_back(id, now);
        };
        drop(state);
        if error.kind() == Kind::Retry {
            return self.dispatch().put_back(id, now.after(std::time::Duration::from_secs(60)));
        }
        if now >= expires(&row) {
            tracing::error!(mail = %id, %error, "a queued mail that cannot be read is removed: its time is over");
            return self.record(id, vec![Event::Removed(id)]);
        }
        tracing::error!(mail = %id, %error, "a queued mail cannot be read");
        let text = format!("the message cannot be read: {error}");
        let failure = Failure::local(Status::new(4, 3, 0), text);
        let attempts = row.attempts.saturating_add(1);
        let next = crate::retry::next_attempt(now, attempts, &*self.queue.inner().random);
        let outcomes = vec![(0, Outcome::Deferred(failure))];
        let attempted = crate::event::Attempted { mail: id, outcomes, attempts, next };
        self.record(id, vec![Event::Attempted(attempted)]);
    }

    /// A standing rule that holds the mail. Rules that name a site are checked at the connection.
    fn rule(&self, mail: &Mail, view: &View, now: Timestamp) -> Option<Rule> {
        let state = self.queue.state();
        let matches = |rule: &&Rule| {
            let domains =
                || view.left.iter().filter_map(|(place, _)| mail.recipients.get(usize::from(*place)));
            rule.until > now
                && rule.selector.site.is_none()
                && rule.selector.is_given()
                && domains().any(|recipient| rule.selector.matches(&mail.from, &recipient.domain()))
        };
        state.rules().find(matches).cloned()
    }

    /// A rule that holds mail to a site.
    pub(super) fn rule_of_site(&self, mail: &Mail, domain: &str, site: &str) -> Option<Rule> {
        let (state, now) = (self.queue.state(), self.now());
        let matches = |rule: &&Rule| {
            let of_site = |wanted: &str| is_meant(site, wanted);
            rule.until > now
                && rule.selector.site.as_deref().is_some_and(of_site)
                && rule.selector.matches(&mail.from, domain)
        };
        state.rules().find(matches).cloned()
    }

    async fn report_delay(&self, id: MailId, mail: &Arc<Mail>, view: &View, now: Timestamp) -> Vec<Event> {
        let left = view.left.iter().map(|(place, last)| (*place, Action::Delayed, last.clone()));
        let left: Vec<_> = left.collect();
        let (first, rest) = left.split_at(left.len().min(100));
        // Each group fits into an entry.
        for some in rest.chunks(100) {
            self.queue.record(self.reports(id, mail, some.to_vec(), &view.row, now).await);
        }
        let mut events = vec![Event::DelayReported(id)];
        events.extend(self.reports(id, mail, first.to_vec(), &view.row, now).await);
        events
    }

    async fn give_up(
        self: &Arc<Self>,
        id: MailId,
        mail: &Arc<Mail>,
        view: &View,
        why: impl Fn(Option<&Failure>) -> Failure,
    ) {
        if let Some(active) = self.dispatch().get_mut(id) {
            active.large = matches!(mail.body, Body::Object(_)).then(|| mail.clone());
        }
        let outcomes = view.left.iter().map(|(place, last)| (*place, Outcome::Failed(why(last.as_ref()))));
        self.settle(id, mail, view.row.attempts, outcomes.collect(), None).await;
    }

    /// Offers the remaining recipients to the scheduler, one job for each domain.
    async fn offer(self: &Arc<Self>, id: MailId, mail: &Arc<Mail>, view: &View) {
        let mut domains: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for (place, _) in &view.left {
            if let Some(recipient) = mail.recipients.get(usize::from(*place)) {
                domains.entry(recipient.domain()).or_default().push(*place);
            }
        }
        let now = self.now();
        let suspended: Vec<(Job, Timestamp)> = {
            let mut dispatch = self.dispatch();
            if let Some(active) = dispatch.get_mut(id) {
                active.jobs = domains.len();
                active.large = matches!(mail.body, Body::Object(_)).then(|| mail.clone());
            }
            let jobs = domains.into_iter().map(|(domain, recipients)| Job {
                mail: id,
                account: view.row.account,
                route: route(&domain, &mail.from, Choice::First),
                recipients,
                size: view.row.size,
                attempt: view.row.attempts.saturating_add(1),
            });
            let jobs: Vec<_> = jobs.collect();
            jobs.into_iter().filter_map(|job| dispatch.scheduler.offer(now, job).err()).collect()
        };
        for (job, until) in suspended {
            self.suspended(&job, until).await;
        }
        self.wake.notify_one();
    }

    /// Defers a job whose site is suspended, to a time of its own.
    pub(super) async fn suspended(self: &Arc<Self>, job: &Job, until: Timestamp) {
        let until = sealpost_mime::header::date::format(until.seconds(), 0);
        let text = format!("its servers could not be reached repeatedly; not tried before {until}");
        let failure = Failure::at(domain_of(&job.route), Status::new(4, 4, 1), &text, false);
        let outcomes = job.recipients.iter().map(|place| (*place, Outcome::Deferred(failure.clone())));
        self.settle_job(job, outcomes.collect(), None).await;
    }
}

/// The failure of a mail whose time is over, after its last failure.
pub(super) fn expired(last: Option<&Failure>) -> Failure {
    match last {
        None => Failure::local(EXPIRED, "it could not be delivered within five days"),
        Some(last) => Failure { status: EXPIRED, ..last.clone() },
    }
}

/// One of the two ways of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    First,
    Second,
}

/// The key of a destination: the domain, and the domain of the sender, which routes may depend on.
pub(super) fn route(domain: &str, from: &str, choice: Choice) -> RouteKey {
    let sender = from.rsplit_once('@').map_or(String::new(), |(_, domain)| domain.to_lowercase());
    let choice = if choice == Choice::First { '1' } else { '2' };
    format!("{choice}{domain} {sender}").into()
}

/// The domain of the recipients of a route.
pub(super) fn domain_of(route: &str) -> &str {
    let rest = route.get(1..).unwrap_or_default();
    rest.split_once(' ').map_or(rest, |(domain, _)| domain)
}

/// The way of a route.
pub(super) fn choice_of(route: &str) -> Choice {
    if route.starts_with('2') { Choice::Second } else { Choice::First }
}
