//! [`Site`]: the jobs that wait for one set of mail servers, and how many connections it gets.
//!
//! The number of connections begins at [`FIRST`]. Each success adds the reciprocal of the number, so a
//! round of successes adds one, up to [`MOST`]. Each failure to connect halves it. [`FAILURES`] failures
//! in a row suspend the site; after that one connection tests whether it can be reached again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use sealpost_base::{Random, Timestamp};

use super::{AccountKey, Job};

/// Connections to a new site.
pub const FIRST: f64 = 5.0;
/// Connections to a site, at most.
pub const MOST: f64 = 20.0;
/// Connections that fail in a row before a site is suspended.
pub const FAILURES: u32 = 5;
/// How long it is suspended first; twice as long each time.
pub const SUSPENDED: Duration = Duration::from_secs(5 * 60);
/// How long it is suspended at most.
pub const SUSPENDED_MOST: Duration = Duration::from_secs(3600);
/// What an account may send in its turn, in units of [`Job::cost`].
const QUANTUM: u32 = 1;

/// One set of mail servers.
pub(crate) struct Site {
    ring: VecDeque<AccountKey>,
    waiting: HashMap<AccountKey, Waiting>,
    jobs: usize,
    /// Open connections, those that are being opened included.
    pub(crate) connections: usize,
    /// How many of them wait for another job.
    pub(crate) idle: usize,
    allowed: f64,
    failures: u32,
    suspensions: u32,
    suspended: Option<Timestamp>,
    /// When a job or a connection last used it.
    pub(crate) used: Timestamp,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    deficit: u32,
    /// It is among the pairs that may connect.
    is_ready: bool,
}

impl Site {
    pub(crate) fn new(now: Timestamp) -> Self {
        Site {
            ring: VecDeque::new(),
            waiting: HashMap::new(),
            jobs: 0,
            connections: 0,
            idle: 0,
            allowed: FIRST,
            failures: 0,
            suspensions: 0,
            suspended: None,
            used: now,
        }
    }

    /// Jobs that wait.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    /// How many connections it may have.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed as usize
    }

    /// Until when nothing is sent to it.
    pub(crate) fn suspended(&self, now: Timestamp) -> Option<Timestamp> {
        // A clock that went back must not suspend it for longer.
        self.suspended.filter(|until| *until > now && until.since(now) <= SUSPENDED_MOST * 2)
    }

    /// Whether one more connection may be opened.
    pub(crate) fn may_connect(&self, now: Timestamp) -> bool {
        self.jobs > 0 && self.connections < self.allowed() && self.suspended(now).is_none()
    }

    /// Adds a job behind those of its account.
    pub(crate) fn push(&mut self, job: Job) {
        self.jobs += 1;
        let account = job.account;
        let waiting = self.waiting.entry(account).or_insert_with(|| {
            self.ring.push_back(account);
            Waiting::default()
        });
        waiting.jobs.push_back(job);
    }

    /// The next job, by deficit round robin (Shreedhar and Varghese, 1995).
    pub(crate) fn pop(&mut self) -> Option<Job> {
        loop {
            let account = *self.ring.front()?;
            let waiting = self.waiting.get_mut(&account)?;
            let cost = waiting.jobs.front()?.cost();
            if waiting.deficit < cost {
                waiting.deficit += QUANTUM;
                if waiting.deficit < cost {
                    self.ring.rotate_left(1);
                    continue;
                }
            }
            waiting.deficit -= cost;
            let job = waiting.jobs.pop_front();
            self.jobs -= 1;
            if waiting.jobs.is_empty() {
                self.waiting.remove(&account);
                self.ring.pop_front();
            } else {
                self.ring.rotate_left(1);
            }
            return job;
        }
    }

    /// The next job of one account.
    pub(crate) fn pop_of(&mut self, account: AccountKey) -> Option<Job> {
        let waiting = self.waiting.get_mut(&account)?;
        let job = waiting.jobs.pop_front()?;
        self.jobs -= 1;
        if waiting.jobs.is_empty() {
            self.waiting.remove(&account);
            self.ring.retain(|other| *other != account);
        }
        Some(job)
    }

    /// Takes all jobs that `is_wanted` selects.
    pub(crate) fn drain(&mut self, is_wanted: &mut dyn FnMut(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        self.waiting.retain(|_, waiting| {
            let (some, rest): (VecDeque<Job>, _) = waiting.jobs.drain(..).partition(|job| is_wanted(job));
            taken.extend(some);
            waiting.jobs = rest;
            !waiting.jobs.is_empty()
        });
        let waiting = &self.waiting;
        self.ring.retain(|account| waiting.contains_key(account));
        self.jobs -= taken.len();
        taken
    }

    /// Makes the waiting accounts that are not yet ready to connect ready, and returns them.
    pub(crate) fn make_ready(&mut self) -> Vec<AccountKey> {
        let idle = self.waiting.iter_mut().filter(|(_, waiting)| !waiting.is_ready);
        idle.map(|(account, waiting)| {
            waiting.is_ready = true;
            *account
        })
        .collect()
    }

    /// Notes that the pair of that account is not among the ready ones any more.
    pub(crate) fn took_ready(&mut self, account: AccountKey) {
        if let Some(waiting) = self.waiting.get_mut(&account) {
            waiting.is_ready = false;
        }
    }

    /// Notes a mail that a working server took or refused.
    pub(crate) fn succeeded(&mut self) {
        (self.failures, self.suspensions, self.suspended) = (0, 0, None);
        self.allowed = (self.allowed + 1.0 / self.allowed).min(MOST);
    }

    /// Notes a failed connection. Returns whether the site is suspended now.
    pub(crate) fn failed(&mut self, now: Timestamp, random: &dyn Random) -> bool {
        self.failures += 1;
        self.allowed = (self.allowed / 2.0).max(1.0);
        if self.suspended(now).is_some() {
            return true;
        }
        if self.failures < FAILURES {
            return false;
        }
        let base = SUSPENDED.saturating_mul(1 << self.suspensions.min(8)).min(SUSPENDED_MOST);
        let jitter = base.mul_f64((random.next_u64() % 1024) as f64 / 8192.0);
        self.suspended = Some(now.after(base + jitter));
        self.suspensions += 1;
        // One more failure suspends it again.
        (self.failures, self.allowed) = (FAILURES - 1, 1.0);
        true
    }

    /// Whether it can be forgotten: it has no job, connection or suspension.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.jobs == 0 && self.connections == 0 && self.suspended(now).is_none()
    }
}

/// Whether an operator who writes `wanted` means the site with this key: the whole key, or the name
/// of one of its servers.
pub(crate) fn is_meant(key: &str, wanted: &str) -> bool {
    key == wanted || key.split([',', ' ']).any(|host| host == wanted)
}
