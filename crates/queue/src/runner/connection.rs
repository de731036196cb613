//! Resolves destinations, and runs connections that send one job after the other.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sealpost_base::Kind;
use sealpost_delivery::outcome::{self as sent, Reason, Step};
use sealpost_delivery::transport::{Choice as Way, Connection, Destination};
use sealpost_smtp::types::Host;

use super::Shared;
use super::address::{envelope, sender, tls};
use super::message::{Marked, QueuedMessage, Sent};
use super::outcome::{is_of_site, outcome, site_works, taken};
use super::prepare::{Choice, choice_of, domain_of, route};
use crate::MailId;
use crate::envelope::Mail;
use crate::event::{Event, Failure, Held, Outcome, Status, Taken};
use crate::schedule::{Action, Job, RouteKey, SiteId};
use crate::state::Flags;

/// How long a connection without a mail to send waits for one to the same site.
const IDLE: Duration = Duration::from_secs(1);
/// Destinations that are kept before those of forgotten sites are dropped.
const DESTINATIONS: usize = 20_000;

impl Shared {
    /// Starts the task for a step of the scheduler.
    pub(super) fn begin(self: &Arc<Self>, action: Action) {
        match action {
            Action::Resolve(route, job) => {
                self.spawn(|shared| async move { shared.resolve(route, job).await });
            }
            Action::Connect(site, job) => {
                self.spawn(|shared| async move { shared.connection(site, job).await });
            }
            // `Dispatch::next_action` does these itself.
            Action::Reuse(..) | Action::Close(_) => {}
        }
    }

    async fn resolve(self: Arc<Self>, route: RouteKey, job: Job) {
        let mail = match self.queue.read(job.mail).await {
            Ok(mail) => mail,
            Err(e) => return self.resolve_by_another(&route, &job, &e).await,
        };
        let domain = domain_of(&route);
        let host = match domain.strip_prefix('[').and_then(|literal| literal.strip_suffix(']')) {
            Some(literal) => Host::literal(literal),
            None => Host::domain(domain),
        };
        let Some(host) = host else {
            let why =
                Failure::local(Status::new(5, 1, 3), "the address has no domain that mail can be sent to");
            return self.unresolved(&route, |_| Outcome::Failed(why.clone())).await;
        };
        let way = match choice_of(&route) {
            Choice::First => Way::First,
            Choice::Second => Way::Second,
        };
        match self.transport.resolve(&sender(&mail), &host, way).await {
            Some(Ok(destination)) => self.resolved(&route, destination.into()).await,
            Some(Err(why)) => {
                let why = outcome(&why.outcome());
                self.unresolved(&route, |_| why.clone()).await;
            }
            None => {
                let why = Failure::local(Status::new(4, 4, 4), "there is no route to the destination");
                self.unresolved(&route, |first| first.unwrap_or_else(|| Outcome::Deferred(why.clone())))
                    .await;
            }
        }
    }

    /// Ends the job whose mail cannot be read, and offers the other jobs that wait for the destination again.
    async fn resolve_by_another(self: &Arc<Self>, route: &RouteKey, job: &Job, error: &sealpost_base::Error) {
        let now = self.now();
        let suspended: Vec<_> = {
            let mut dispatch = self.dispatch();
            let jobs = dispatch.scheduler.unresolvable(route);
            let others = jobs.into_iter().filter(|other| other.mail != job.mail);
            let others: Vec<_> = others.collect();
            dispatch.job_ended(job.mail);
            others.into_iter().filter_map(|other| dispatch.scheduler.offer(now, other).err()).collect()
        };
        self.unreadable(job.mail, error);
        for (job, until) in suspended {
            self.suspended(&job, until).await;
        }
    }

    async fn resolved(self: &Arc<Self>, route: &RouteKey, destination: Arc<dyn Destination>) {
        let now = self.now();
        let site: SiteId = destination.site().as_str().into();
        let suspended = {
            let mut dispatch = self.dispatch();
            if dispatch.destinations.len() > DESTINATIONS {
                let known: std::collections::HashSet<String> =
                    dispatch.scheduler.sites(now).map(|site| site.site.to_owned()).collect();
                dispatch.destinations.retain(|site, _| known.contains(&**site));
            }
            dispatch.destinations.insert(site.clone(), destination);
            dispatch.scheduler.resolved(now, route, site)
        };
        for (job, until) in suspended {
            self.suspended(&job, until).await;
        }
    }

    /// Settles the jobs that waited for a destination. `why` gets the outcome of the first choice of
    /// the route, if this is the second.
    async fn unresolved(self: &Arc<Self>, route: &RouteKey, why: impl Fn(Option<Outcome>) -> Outcome) {
        let jobs = self.dispatch().scheduler.unresolvable(route);
        for job in jobs {
            let first = self.first_choice(&job);
            let outcomes = job.recipients.iter().zip(first).map(|(place, first)| (*place, why(first)));
            self.settle_job(&job, outcomes.collect(), None).await;
        }
    }

    fn first_choice(&self, job: &Job) -> Vec<Option<Outcome>> {
        let mut dispatch = self.dispatch();
        let active = dispatch.get_mut(job.mail);
        let Some(active) = active else { return vec![None; job.recipients.len()] };
        job.recipients.iter().map(|place| active.first_choice.remove(place)).collect()
    }

    /// Opens a connection and sends the jobs of its site, until it was idle for [`IDLE`] or another site
    /// needs the connection.
    async fn connection(self: Arc<Self>, site: SiteId, first: Job) {
        let account = first.account;
        let (mut next, mut mails, mut open) = (Some(first), 0, None::<Box<dyn Connection>>);
        let mut was_idle = false;
        while let Some(job) = next.take() {
            if let Some(mail) = self.ready(&job, &site).await {
                match self.send(&site, &job, &mail, (open.take(), was_idle)).await {
                    Some(connection) => open = Some(connection),
                    None => break,
                }
                mails += 1;
            }
            if self.is_stopping() {
                break;
            }
            next = self.dispatch().scheduler.next_job(self.now(), &site, mails);
            was_idle = next.is_none();
            if let (None, Some(connection)) = (&next, &mut open) {
                next = self.idle(&site, mails, connection.as_mut()).await;
            }
        }
        if let Some(connection) = open {
            connection.quit().await;
        }
        self.dispatch().scheduler.closed(self.now(), &site, account);
        self.wake.notify_one();
    }

    /// Waits for a job for a connection that has sent `mails`; `None` if it has to close.
    async fn idle(&self, site: &SiteId, mails: u32, connection: &mut dyn Connection) -> Option<Job> {
        let (number, mut job) = {
            let mut dispatch = self.dispatch();
            // Checked under the lock: `Runner::stop` closes connections that are idle already.
            if self.is_stopping() {
                return None;
            }
            dispatch.idle(self.now(), site, mails)?
        };
        tokio::select! {
            biased;
            job = &mut job => return job.ok(),
            () = connection.disturbed() => {}
            () = tokio::time::sleep(IDLE) => {}
        }
        match self.dispatch().idle_ended(site, number) {
            true => None,
            // A job arrived in the same moment.
            false => job.try_recv().ok(),
        }
    }

    /// The mail of a job; `None` if it is held, gone, or cannot be read: then the job has ended.
    async fn ready(self: &Arc<Self>, job: &Job, site: &SiteId) -> Option<Arc<Mail>> {
        if self.is_stopping() {
            return None;
        }
        let is_held = {
            let state = self.queue.state();
            let row = state.rows().get(job.mail);
            state.all_held().is_some() || row.is_some_and(|row| row.flags.has(Flags::HELD))
        };
        if is_held {
            self.settle_job(job, Vec::new(), None).await;
            return None;
        }
        let mail = match self.queue.read(job.mail).await {
            Ok(mail) => mail,
            Err(e) => {
                self.dispatch().job_ended(job.mail);
                self.unreadable(job.mail, &e);
                return None;
            }
        };
        if let Some(rule) = self.rule_of_site(&mail, domain_of(&job.route), site) {
            let held = Held { mail: job.mail, until: rule.until, rule: rule.number };
            self.dispatch().job_ended(job.mail);
            self.queue.record([Event::Held(held)]);
            return None;
        }
        Some(mail)
    }

    /// Sends a job over `open`, which may have been idle, or over a new connection. Returns the connection
    /// if it can send another mail.
    async fn send(
        self: &Arc<Self>,
        site: &SiteId,
        job: &Job,
        mail: &Arc<Mail>,
        (open, was_idle): (Option<Box<dyn Connection>>, bool),
    ) -> Option<Box<dyn Connection>> {
        let left: Vec<u16> = {
            let state = self.queue.state();
            let left =
                job.recipients.iter().filter(|place| state.left(job.mail, usize::from(**place)).is_some());
            left.copied().collect()
        };
        let (envelope, places) = envelope(mail, &left);
        let bad = left.iter().filter(|place| !places.contains(place));
        let why = Failure::local(Status::new(5, 1, 3), "the address is not one that mail can be sent to");
        let mut outcomes: Vec<_> = bad.map(|place| (*place, Outcome::Failed(why.clone()))).collect();
        if places.is_empty() {
            self.settle_job(job, outcomes, None).await;
            return open;
        }
        let mut connection = match open {
            Some(connection) => connection,
            None => self.connect(site, job, mail, &places, &mut outcomes).await?,
        };
        let source = Sent {
            message: QueuedMessage { queue: self.queue.clone(), mail: mail.clone() },
            forms: self.forms.clone(),
            marked: self.marked(job.mail),
        };
        let mut attempt = connection.send(&envelope, &source).await;
        let outcomes_so_far = &attempt.recipients;
        let is_closed = was_idle && outcomes_so_far.iter().all(is_closed_before);
        if is_closed || outcomes_so_far.iter().all(is_wrong_connection) {
            connection.quit().await;
            connection = self.connect(site, job, mail, &places, &mut outcomes).await?;
            attempt = connection.send(&envelope, &source).await;
        }
        let is_reusable = connection.is_reusable();
        let server = taken(job.mail, &attempt);
        self.attempted(site, job, mail, places, (attempt.recipients, server), outcomes).await;
        if is_reusable {
            return Some(connection);
        }
        connection.quit().await;
        None
    }

    /// Records that a mail is being sent. Done when that is durable.
    fn marked(&self, id: MailId) -> Marked {
        let (marked, queue) = (self.queue.mark_sending(id), self.queue.clone());
        let marked = async move {
            marked.await.map_err(|e| (e.kind(), e.to_string()))?;
            // A cancellation that the log has before the mark counts, and the mark does not.
            match queue.state().rows().get(id) {
                Some(_) => Ok(()),
                None => Err((Kind::NotFound, format!("{id} was canceled or removed"))),
            }
        };
        marked.boxed().shared()
    }

    /// Opens a connection. If that fails, the job has ended.
    async fn connect(
        self: &Arc<Self>,
        site: &SiteId,
        job: &Job,
        mail: &Arc<Mail>,
        places: &[u16],
        outcomes: &mut Vec<(u16, Outcome)>,
    ) -> Option<Box<dyn Connection>> {
        self.metrics.connections.increment();
        let destination = self.dispatch().destinations.get(site).cloned();
        let connected = match destination {
            Some(destination) => destination.connect(tls(mail)).await,
            None => Err(sent::Failure::new(Reason::LocalFailure, "")),
        };
        match connected {
            Ok(connection) => Some(connection),
            Err(why) => {
                self.metrics.connection_failures.increment();
                let recipients = vec![why.outcome(); places.len()];
                let bad = std::mem::take(outcomes);
                self.attempted(site, job, mail, places.to_vec(), (recipients, None), bad).await;
                None
            }
        }
    }

    /// Reports the attempt to the scheduler and the outcomes to the log. Recipients get the second choice of
    /// their route, if there is one, when the site refused this node rather than the mail.
    async fn attempted(
        self: &Arc<Self>,
        site: &SiteId,
        job: &Job,
        mail: &Arc<Mail>,
        places: Vec<u16>,
        (recipients, server): (Vec<sent::Outcome>, Option<Taken>),
        mut outcomes: Vec<(u16, Outcome)>,
    ) {
        let now = self.now();
        let suspended = {
            let mut dispatch = self.dispatch();
            if site_works(&recipients) {
                dispatch.scheduler.succeeded(now, site);
                Vec::new()
            } else if recipients.iter().filter_map(sent::Outcome::failure).any(is_of_site) {
                dispatch.scheduler.failed(now, site, &*self.queue.inner().random)
            } else {
                Vec::new()
            }
        };
        let mut second = Vec::new();
        for (place, of) in places.into_iter().zip(&recipients) {
            let concerns_route = of.failure().is_some_and(sent::Failure::concerns_route);
            if concerns_route && choice_of(&job.route) == Choice::First {
                second.push((place, outcome(of)));
            } else {
                outcomes.push((place, outcome(of)));
            }
        }
        if !second.is_empty() {
            self.try_second(job, mail, second).await;
        }
        self.settle_job(job, outcomes, server).await;
        for (job, until) in suspended {
            self.suspended(&job, until).await;
        }
    }

    async fn try_second(self: &Arc<Self>, job: &Job, mail: &Mail, failed: Vec<(u16, Outcome)>) {
        let recipients = failed.iter().map(|(place, _)| *place).collect();
        let route = route(domain_of(&job.route), &mail.from, Choice::Second);
        let second = Job { route, recipients, ..job.clone() };
        let now = self.now();
        let refused = {
            let mut dispatch = self.dispatch();
            if let Some(active) = dispatch.get_mut(job.mail) {
                active.jobs += 1;
                active.first_choice.extend(failed);
            }
            dispatch.scheduler.offer(now, second)
        };
        if let Err((job, until)) = refused {
            self.suspended(&job, until).await;
        }
        self.wake.notify_one();
    }
}

/// Whether the server closed the connection before it got any part of the mail.
fn is_closed_before(outcome: &sent::Outcome) -> bool {
    let is_lost = |reason| matches!(reason, Reason::ConnectionLost(Step::Reset | Step::Mail));
    outcome.failure().is_some_and(|failure| is_lost(failure.reason))
}

fn is_wrong_connection(outcome: &sent::Outcome) -> bool {
    outcome.failure().is_some_and(|failure| failure.reason == Reason::WrongConnection)
}
