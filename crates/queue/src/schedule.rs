//! [`Scheduler`]: which mail is sent next, over which connection. Pure, with the time as an argument.
//!
//! Mail that is due waits as jobs, one for each destination of a mail. The runner resolves a
//! destination to a site, the set of its mail servers, and opens connections to sites. The scheduler
//! is fair over (account, site). Accounts take turns when a connection is opened; at a site they take
//! turns by the cost of their mail ([`site`]). An open connection takes the next job of its site, up to
//! [`MAILS_PER_CONNECTION`]. It closes early if no more connections may be opened and another pair has
//! waited for [`STARVED`]. A connection without a job waits for one for a while, unless another pair
//! needs a connection.

pub(crate) mod due;
pub(crate) mod fair;
pub(crate) mod site;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Random, Timestamp};

use crate::MailId;
use fair::{RoundRobin, Shares};
use site::Site;
pub(crate) use site::is_meant;

/// Mails that one connection takes.
pub const MAILS_PER_CONNECTION: u32 = 100;
/// Destinations that are resolved at once, and how many more for accounts that have [`FEW`] under way.
pub const RESOLVING: usize = 64;
/// See [`RESOLVING`].
pub const RESOLVING_RESERVE: usize = 16;
/// Of all connections one in so many is for accounts that have [`FEW`] open. So servers that stall keep the
/// mail of one sender waiting, and no other's.
pub const CONNECTIONS_RESERVE: usize = 8;
/// Connections, or destinations, of an account that has few of them: fewer than this.
pub const FEW: usize = 2;
/// How long the site of a resolved destination is remembered.
pub const RESOLVED: Duration = Duration::from_secs(60);
/// How long a pair waits, while all connections are in use, before a connection closes early for it.
pub const STARVED: Duration = Duration::from_millis(250);
/// Destinations and sites that are remembered although no job waits for them.
const REMEMBERED: usize = 10_000;
/// Bytes that make a message cost one more unit.
const COST_BYTES: u32 = 64 * 1024;
/// The highest cost of a job.
const COST_MOST: u32 = 64;

/// An account, as a number of the state's table.
pub type AccountKey = u32;
/// A destination: the domain of recipients, and the domain of the sender, which routes may depend on.
pub type RouteKey = Arc<str>;
/// A site.
pub type SiteId = Arc<str>;

/// Recipients of one mail that have one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The mail.
    pub mail: MailId,
    /// The account that sent it.
    pub account: AccountKey,
    /// Its destination.
    pub route: RouteKey,
    /// Recipients, by their places in the envelope.
    pub recipients: Vec<u16>,
    /// Bytes of the message.
    pub size: u32,
    /// Attempts at the mail, this one included.
    pub attempt: u8,
}

impl Job {
    /// Its cost in units of the account's share: one for each recipient and each 64 KiB.
    fn cost(&self) -> u32 {
        (self.recipients.len() as u32 + self.size / COST_BYTES).clamp(1, COST_MOST)
    }
}

/// The next step of the runner.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve a destination to its site; the job is one of those that wait for it.
    Resolve(RouteKey, Job),
    /// Open a connection to that site, for that job first.
    Connect(SiteId, Job),
    /// Send that job over an idle connection to that site.
    Reuse(SiteId, Job),
    /// Close an idle connection to that site: another site needs a connection.
    Close(SiteId),
}

/// The state of a destination.
enum Route {
    Resolving(Vec<Job>),
    At(SiteId, Timestamp),
}

/// Destinations, sites and connections.
pub struct Scheduler {
    routes: HashMap<RouteKey, Route>,
    unresolved: RoundRobin<AccountKey, RouteKey>,
    resolving: usize,
    /// The account for which each of them is resolved.
    resolvers: HashMap<RouteKey, AccountKey>,
    resolving_of: Shares<AccountKey>,
    sites: HashMap<SiteId, Site>,
    /// Pairs of account and site that may connect. An entry may be outdated.
    ready: RoundRobin<AccountKey, SiteId>,
    connections: usize,
    /// By the account for which each was opened.
    connections_of: Shares<AccountKey>,
    /// How many of them are idle.
    idle: usize,
    /// Jobs for idle connections, which count as busy.
    handed: VecDeque<(SiteId, Job)>,
    most: usize,
    /// Since when a pair waits because all connections are in use.
    starved: Option<Timestamp>,
    jobs: usize,
}

impl Scheduler {
    /// A scheduler with at most so many connections at once.
    pub fn new(connections: usize) -> Self {
        Scheduler {
            routes: HashMap::new(),
            unresolved: RoundRobin::default(),
            resolving: 0,
            resolvers: HashMap::new(),
            resolving_of: Shares::default(),
            sites: HashMap::new(),
            ready: RoundRobin::default(),
            connections: 0,
            connections_of: Shares::default(),
            idle: 0,
            handed: VecDeque::new(),
            most: connections.max(1),
            starved: None,
            jobs: 0,
        }
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.jobs
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Adds a job that is due.
    ///
    /// # Errors
    /// The job, and until when its site is suspended.
    pub fn offer(&mut self, now: Timestamp, job: Job) -> Result<(), (Job, Timestamp)> {
        match self.routes.get_mut(&job.route) {
            Some(Route::Resolving(waiting)) => {
                let is_turn_of = |account| waiting.last().is_some_and(|last| last.account == account);
                // Its turn comes with the first of the accounts that wait for the destination.
                if !self.resolvers.contains_key(&job.route) && !is_turn_of(job.account) {
                    self.unresolved.push(job.account, job.route.clone());
                }
                waiting.push(job);
            }
            Some(Route::At(site, until)) if now < *until && until.since(now) <= RESOLVED => {
                let site = site.clone();
                return self.queue(now, site, job);
            }
            _ => {
                self.unresolved.push(job.account, job.route.clone());
                self.routes.insert(job.route.clone(), Route::Resolving(vec![job]));
            }
        }
        self.jobs += 1;
        Ok(())
    }

    fn queue(&mut self, now: Timestamp, id: SiteId, job: Job) -> Result<(), (Job, Timestamp)> {
        let site = self.sites.entry(id.clone()).or_insert_with(|| Site::new(now));
        site.used = now;
        if let Some(until) = site.suspended(now) {
            return Err((job, until));
        }
        // No other job waits for the site: an idle connection would have got it.
        if site.idle > 0 {
            site.idle -= 1;
            self.idle -= 1;
            self.handed.push_back((id, job));
            return Ok(());
        }
        site.push(job);
        self.jobs += 1;
        self.make_ready(now, &id);
        Ok(())
    }

    /// Lets the accounts that wait for the site connect, if it may have another connection.
    fn make_ready(&mut self, now: Timestamp, id: &SiteId) {
        let Some(site) = self.sites.get_mut(id).filter(|site| site.may_connect(now)) else { return };
        for account in site.make_ready() {
            self.ready.push(account, id.clone());
        }
    }

    /// The next step, if there is one now. Call it until it returns `None`.
    pub fn next(&mut self, now: Timestamp) -> Option<Action> {
        if let Some((site, job)) = self.handed.pop_front() {
            return Some(Action::Reuse(site, job));
        }
        while let Some((account, route)) = self.next_unresolved() {
            // Resolved, or begun, for another account.
            let Some(Route::Resolving(waiting)) = self.routes.get(&route) else { continue };
            if self.resolvers.contains_key(&route) {
                continue;
            }
            let Some(job) = waiting.first().cloned() else {
                self.routes.remove(&route);
                continue;
            };
            self.resolving += 1;
            self.resolving_of.add(account);
            self.resolvers.insert(route.clone(), account);
            return Some(Action::Resolve(route, job));
        }
        while let Some((account, id)) = self.next_ready() {
            let Some(site) = self.sites.get_mut(&id) else { continue };
            site.took_ready(account);
            if !site.may_connect(now) {
                continue;
            }
            let Some(job) = site.pop_of(account) else { continue };
            self.jobs -= 1;
            site.connections += 1;
            site.used = now;
            self.connections += 1;
            self.connections_of.add(account);
            self.make_ready(now, &id);
            return Some(Action::Connect(id, job));
        }
        if self.ready.is_empty() {
            self.starved = None;
            return None;
        }
        self.starved.get_or_insert(now);
        self.close_idle()
    }

    /// The next destination to resolve, if one may be resolved now.
    fn next_unresolved(&mut self) -> Option<(AccountKey, RouteKey)> {
        if self.resolving >= RESOLVING + RESOLVING_RESERVE {
            return None;
        }
        let (is_scarce, shares) = (self.resolving >= RESOLVING, &self.resolving_of);
        self.unresolved.pop_where(|account| !is_scarce || shares.of(account) < FEW)
    }

    /// The next pair that may connect now.
    fn next_ready(&mut self) -> Option<(AccountKey, SiteId)> {
        if self.connections >= self.most {
            return None;
        }
        let (is_scarce, shares) = (self.are_connections_scarce(), &self.connections_of);
        self.ready.pop_where(|account| !is_scarce || shares.of(account) < FEW)
    }

    /// Whether the connections that are left are for accounts that have [`FEW`].
    fn are_connections_scarce(&self) -> bool {
        self.connections >= self.most - self.most / CONNECTIONS_RESERVE
    }

    fn resolving_ended(&mut self, route: &RouteKey) {
        self.resolving = self.resolving.saturating_sub(1);
        if let Some(account) = self.resolvers.remove(route) {
            self.resolving_of.give_back(account);
        }
    }

    /// Notes the site of a destination. Returns the jobs whose site is suspended, with the end of the
    /// suspension.
    pub fn resolved(&mut self, now: Timestamp, route: &RouteKey, site: SiteId) -> Vec<(Job, Timestamp)> {
        self.resolving_ended(route);
        let waiting = self.routes.insert(route.clone(), Route::At(site.clone(), now.after(RESOLVED)));
        let Some(Route::Resolving(waiting)) = waiting else { return Vec::new() };
        self.jobs -= waiting.len();
        let queued = waiting.into_iter().map(|job| self.queue(now, site.clone(), job));
        let queued: Vec<_> = queued.collect();
        self.forget_idle(now);
        queued.into_iter().filter_map(Result::err).collect()
    }

    /// Takes the jobs that wait for a destination that could not be resolved.
    pub fn unresolvable(&mut self, route: &RouteKey) -> Vec<Job> {
        self.resolving_ended(route);
        match self.routes.remove(route) {
            Some(Route::Resolving(waiting)) => {
                self.jobs -= waiting.len();
                waiting
            }
            _ => Vec::new(),
        }
    }

    /// The next job for a connection to the site that has sent `mails`; `None` if there is none for it.
    pub fn next_job(&mut self, now: Timestamp, id: &SiteId, mails: u32) -> Option<Job> {
        let site = self.sites.get_mut(id)?;
        site.used = now;
        if mails >= MAILS_PER_CONNECTION || site.connections > site.allowed() || site.suspended(now).is_some()
        {
            return None;
        }
        if self.starved.is_some_and(|since| now.since(since) >= STARVED) {
            self.starved = None;
            return None;
        }
        let job = site.pop()?;
        self.jobs -= 1;
        Some(job)
    }

    /// Whether a connection to the site that has sent `mails` may wait for another job.
    pub fn may_idle(&mut self, now: Timestamp, id: &SiteId, mails: u32) -> bool {
        let is_needed = self.are_connections_scarce() && !self.ready.is_empty();
        let Some(site) = self.sites.get_mut(id) else { return false };
        if mails >= MAILS_PER_CONNECTION
            || site.connections > site.allowed()
            || site.suspended(now).is_some()
            || site.jobs() > 0
            || is_needed
        {
            return false;
        }
        site.idle += 1;
        self.idle += 1;
        true
    }

    /// Notes that an idle connection to the site closes without a job.
    pub fn idle_ended(&mut self, id: &SiteId) {
        if let Some(site) = self.sites.get_mut(id) {
            site.idle = site.idle.saturating_sub(1);
            self.idle = self.idle.saturating_sub(1);
        }
    }

    fn close_idle(&mut self) -> Option<Action> {
        if self.idle == 0 {
            return None;
        }
        let id = self.sites.iter().find(|(_, site)| site.idle > 0).map(|(id, _)| id.clone())?;
        self.idle_ended(&id);
        Some(Action::Close(id))
    }

    /// Notes that the site's servers work, as the outcome of a mail shows.
    pub fn succeeded(&mut self, now: Timestamp, id: &SiteId) {
        if let Some(site) = self.sites.get_mut(id) {
            site.succeeded();
        }
        self.make_ready(now, id);
    }

    /// Notes a failed connection. If it suspends the site, returns its jobs with the end of the suspension.
    pub fn failed(&mut self, now: Timestamp, id: &SiteId, random: &dyn Random) -> Vec<(Job, Timestamp)> {
        let Some(site) = self.sites.get_mut(id) else { return Vec::new() };
        if !site.failed(now, random) {
            return Vec::new();
        }
        let until = site.suspended(now).unwrap_or(now);
        let jobs = site.drain(&mut |_| true);
        self.jobs -= jobs.len();
        jobs.into_iter().map(|job| (job, until)).collect()
    }

    /// Notes that a connection closed, or did not open, whose first job was of `account`.
    pub fn closed(&mut self, now: Timestamp, id: &SiteId, account: AccountKey) {
        self.connections = self.connections.saturating_sub(1);
        self.connections_of.give_back(account);
        if let Some(site) = self.sites.get_mut(id) {
            site.connections = site.connections.saturating_sub(1);
        }
        self.make_ready(now, id);
    }

    /// Takes all jobs that `is_wanted` selects, such as those that the operator holds.
    pub fn take(&mut self, mut is_wanted: impl FnMut(&Job, Option<&SiteId>) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for (id, site) in &mut self.sites {
            taken.extend(site.drain(&mut |job| is_wanted(job, Some(id))));
        }
        for route in self.routes.values_mut() {
            if let Route::Resolving(waiting) = route {
                taken.extend(waiting.extract_if(.., |job| is_wanted(job, None)));
            }
        }
        self.jobs -= taken.len();
        taken
    }

    /// Whether mail from `from` to `domain` goes to the site of that name, as last resolved. The name
    /// is the key of the site, or one of its hosts.
    pub fn is_at(&self, domain: &str, from: &str, site: &str) -> bool {
        let route = crate::runner::first_route(domain, from);
        match self.routes.get(&route) {
            Some(Route::At(id, _)) => is_meant(id, site),
            _ => false,
        }
    }

    /// The state of all sites, for the operator.
    pub fn sites(&self, now: Timestamp) -> impl Iterator<Item = SiteStatus<'_>> {
        self.sites.iter().map(move |(id, site)| SiteStatus {
            site: id,
            jobs: site.jobs(),
            connections: site.connections,
            allowed: site.allowed(),
            suspended: site.suspended(now),
        })
    }

    /// Forgets destinations and sites without mail when there are too many.
    fn forget_idle(&mut self, now: Timestamp) {
        if self.routes.len() > REMEMBERED + self.jobs {
            self.routes.retain(|_, route| match route {
                Route::Resolving(_) => true,
                Route::At(_, until) => *until > now && until.since(now) <= RESOLVED,
            });
        }
        if self.sites.len() > REMEMBERED + self.jobs {
            self.sites.retain(|_, site| !site.is_idle(now) || now.since(site.used) < RESOLVED);
        }
    }
}

/// The state of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteStatus<'a> {
    /// Its key.
    pub site: &'a str,
    /// Jobs that wait for it.
    pub jobs: usize,
    /// Open connections.
    pub connections: usize,
    /// How many connections it may have.
    pub allowed: usize,
    /// Until when nothing is sent to it.
    pub suspended: Option<Timestamp>,
}
