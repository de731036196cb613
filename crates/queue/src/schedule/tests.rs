//! The scheduler with a clock that the test sets.

use std::collections::BTreeMap;

use sealpost_base::SeededRandom;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn job(mail: u64, account: u32, domain: &str) -> Job {
    Job { mail: MailId(mail), account, route: domain.into(), recipients: vec![0], size: 1000, attempt: 1 }
}

/// Servers that take `takes` for each mail; each domain is a site.
struct World {
    scheduler: Scheduler,
    now: Timestamp,
    takes: Duration,
    /// Connections: site, the account that each is opened for, the mail being sent, when that is done, mails so
    /// far.
    open: Vec<(SiteId, AccountKey, Job, Timestamp, u32)>,
    sent: Vec<(Timestamp, Job)>,
    opened: usize,
}

impl World {
    fn new(connections: usize, takes: u64) -> Self {
        World {
            scheduler: Scheduler::new(connections),
            now: NOW,
            takes: Duration::from_millis(takes),
            open: Vec::new(),
            sent: Vec::new(),
            opened: 0,
        }
    }

    fn offer(&mut self, job: Job) {
        self.scheduler.offer(self.now, job).unwrap();
    }

    /// Advances the clock by a millisecond.
    fn step(&mut self) {
        while let Some(action) = self.scheduler.next(self.now) {
            match action {
                Action::Resolve(route, _) => {
                    assert!(self.scheduler.resolved(self.now, &route, route.clone()).is_empty());
                }
                Action::Connect(site, job) => {
                    self.opened += 1;
                    self.open.push((site, job.account, job, self.now.after(self.takes), 0));
                }
                Action::Reuse(..) | Action::Close(_) => panic!("no connection is idle here"),
            }
        }
        self.now = self.now.after(Duration::from_millis(1));
        let (now, takes) = (self.now, self.takes);
        let mut still = Vec::new();
        for (site, account, job, done, mails) in std::mem::take(&mut self.open) {
            if done > now {
                still.push((site, account, job, done, mails));
                continue;
            }
            self.sent.push((now, job));
            self.scheduler.succeeded(now, &site);
            match self.scheduler.next_job(now, &site, mails + 1) {
                Some(next) => still.push((site, account, next, now.after(takes), mails + 1)),
                None => self.scheduler.closed(now, &site, account),
            }
        }
        self.open = still;
    }

    fn run(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    fn connections(&self, site: &str) -> usize {
        self.open.iter().filter(|(of, ..)| **of == *site).count()
    }
}

#[test]
fn a_lone_mail_leaves_within_a_second_behind_many() {
    // One site; as many sites as mails; fewer connections than sites.
    for (sites, connections) in [(1, 100), (10_000, 100), (300, 20)] {
        let mut world = World::new(connections, 100);
        (0..10_000).for_each(|n| world.offer(job(n, 1, &format!("d{}.example", n % sites))));
        world.run(3000);
        let offered = world.now;
        world.offer(job(99_999, 2, if sites == 1 { "d0.example" } else { "other.example" }));
        world.run(1000);
        let sent = world.sent.iter().find(|(_, job)| job.account == 2);
        let (at, _) = sent.unwrap_or_else(|| panic!("{sites} sites, {connections} connections"));
        assert!(at.since(offered) < Duration::from_secs(1));
    }
}

/// Name servers that answer nothing.
#[test]
fn slow_destinations_of_one_account_delay_no_other() {
    let mut scheduler = Scheduler::new(100);
    (0..1000).for_each(|n| scheduler.offer(NOW, job(n, 1, &format!("d{n}.example"))).unwrap());
    let resolved_for = |scheduler: &mut Scheduler| {
        let actions = std::iter::from_fn(|| scheduler.next(NOW));
        let accounts = actions.map(|action| match action {
            Action::Resolve(route, _) => route,
            other => panic!("{other:?}"),
        });
        accounts.collect::<Vec<_>>()
    };
    assert_eq!(resolved_for(&mut scheduler).len(), RESOLVING);
    // Also where the other account has mail that waits for its turn.
    scheduler.offer(NOW, job(2000, 2, "other.example")).unwrap();
    scheduler.offer(NOW, job(2001, 3, "d999.example")).unwrap();
    let mut resolved = resolved_for(&mut scheduler);
    resolved.sort();
    assert_eq!(resolved, ["d999.example".into(), "other.example".into()]);
    let site: SiteId = "mx.example".into();
    scheduler.resolved(NOW, &"d999.example".into(), site.clone());
    assert!(matches!(scheduler.next(NOW), Some(Action::Connect(..))));
    // What the others have left is not the first one's.
    (0..100).for_each(|n| scheduler.offer(NOW, job(n, n as u32 % 3 + 10, &format!("e{n}.example"))).unwrap());
    let (before, actions) = (scheduler.resolving, std::iter::from_fn(|| scheduler.next(NOW)));
    let begun = actions.filter(|action| matches!(action, Action::Resolve(..))).count();
    assert_eq!((before, begun), (RESOLVING + 1, 3 * FEW));
}

/// Servers that accept connections and say nothing.
#[test]
fn stalled_connections_of_one_account_delay_no_other() {
    let mut scheduler = Scheduler::new(100);
    let connect = |scheduler: &mut Scheduler| {
        let mut connected = Vec::new();
        while let Some(action) = scheduler.next(NOW) {
            match action {
                Action::Resolve(route, _) => drop(scheduler.resolved(NOW, &route, route.clone())),
                Action::Connect(site, job) => connected.push((site, job.account)),
                Action::Reuse(..) | Action::Close(_) => panic!("no connection is idle here"),
            }
        }
        connected
    };
    (0..1000).for_each(|n| scheduler.offer(NOW, job(n, 1, &format!("d{n}.example"))).unwrap());
    let stalled = connect(&mut scheduler);
    assert_eq!(stalled.len(), 100 - 100 / CONNECTIONS_RESERVE);
    (2000..2010).for_each(|n| scheduler.offer(NOW, job(n, 2, &format!("e{n}.example"))).unwrap());
    scheduler.offer(NOW, job(3000, 3, "local")).unwrap();
    let others = connect(&mut scheduler);
    assert_eq!(others.iter().filter(|(_, account)| *account == 2).count(), FEW);
    assert_eq!(others.iter().filter(|(_, account)| *account == 3).count(), 1);
    // One that ends makes place for the next of those that may have more.
    scheduler.closed(NOW, &others[0].0, others[0].1);
    assert_eq!(connect(&mut scheduler).len(), 1);
    stalled.iter().for_each(|(site, account)| scheduler.closed(NOW, site, *account));
    assert!(connect(&mut scheduler).len() > 80, "everybody's again");
}

#[test]
fn accounts_share_a_site_evenly_by_size() {
    let mut world = World::new(100, 50);
    for n in 0..2000 {
        world.offer(job(n, 1, "d.example"));
        // Ten times as large.
        world.offer(Job { size: 10 * 64 * 1024, ..job(10_000 + n, 2, "d.example") });
    }
    world.run(5000);
    let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
    world.sent.iter().for_each(|(_, job)| *sent.entry(job.account).or_default() += 1);
    let ratio = sent[&1] as f64 / sent[&2] as f64;
    assert!((6.0..12.0).contains(&ratio), "{sent:?}");
}

#[test]
fn concurrency_grows_and_connections_carry_a_hundred_mails() {
    let mut world = World::new(100, 20);
    (0..5000).for_each(|n| world.offer(job(n, 1, "d.example")));
    world.run(1);
    assert_eq!(world.connections("d.example"), 5);
    world.run(3000);
    assert_eq!(world.connections("d.example"), 20);
    world.run(5000);
    assert_eq!(world.sent.len(), 5000);
    assert!((5000 / 100..5000 / 100 + 40).contains(&world.opened), "{}", world.opened);
    assert_eq!(world.scheduler.connections(), 0);
}

#[test]
fn failures_halve_and_five_suspend_with_backoff() {
    let random = SeededRandom::new(1);
    let mut scheduler = Scheduler::new(100);
    let mut now = NOW;
    (0..300).for_each(|n| scheduler.offer(now, job(n, 1, "d.example")).unwrap());
    let site: SiteId = "d.example".into();
    let Some(Action::Resolve(route, _)) = scheduler.next(now) else { panic!("unresolved") };
    assert!(scheduler.resolved(now, &route, site.clone()).is_empty());
    let mut back = Vec::new();
    for attempt in 0..5 {
        let action = scheduler.next(now);
        let Some(Action::Connect(..)) = action else { panic!("attempt {attempt}: {action:?}") };
        back = scheduler.failed(now, &site, &random);
        scheduler.closed(now, &site, 1);
        assert_eq!(back.is_empty(), attempt < 4);
    }
    assert_eq!((back.len(), scheduler.len()), (295, 0));
    let until = back[0].1;
    assert!((300..=340).contains(&until.since(now).as_secs()));
    let (_, again) = scheduler.offer(now, job(1, 1, "d.example")).unwrap_err();
    assert_eq!(again, until);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        now = scheduler.sites(now).next().unwrap().suspended.unwrap();
        (0..10).for_each(|n| scheduler.offer(now, job(n, 1, "d.example")).unwrap());
        while let Some(action) = scheduler.next(now) {
            match action {
                Action::Resolve(route, _) => drop(scheduler.resolved(now, &route, site.clone())),
                Action::Connect(..) => pauses.push(now),
                Action::Reuse(..) | Action::Close(_) => panic!("no connection is idle here"),
            }
        }
        let back = scheduler.failed(now, &site, &random);
        scheduler.closed(now, &site, 1);
        assert_eq!(back.len(), 9, "one tries, the others come back");
    }
    let waits: Vec<u64> = pauses.windows(2).map(|two| two[1].since(two[0]).as_secs()).collect();
    assert!(waits[0] >= 600 && waits.iter().all(|wait| *wait <= 4200), "{waits:?}");
    assert!(waits.windows(2).all(|two| two[1] + 500 >= two[0]));
    // A success ends the suspension.
    now = scheduler.sites(now).next().unwrap().suspended.unwrap();
    scheduler.offer(now, job(1, 1, "d.example")).unwrap();
    while let Some(action) = scheduler.next(now) {
        if let Action::Resolve(route, _) = action {
            scheduler.resolved(now, &route, site.clone());
        }
    }
    scheduler.succeeded(now, &site);
    assert_eq!(scheduler.sites(now).next().unwrap().suspended, None);
}

#[test]
fn a_site_that_fails_delays_no_other() {
    let random = SeededRandom::new(1);
    let mut world = World::new(10, 50);
    (0..1000).for_each(|n| world.offer(job(n, 1, "bad.example")));
    let bad: SiteId = "bad.example".into();
    for _ in 0..5 {
        world.step();
        world.scheduler.failed(world.now, &bad, &random);
    }
    world.offer(job(5000, 1, "good.example"));
    world.run(500);
    assert!(world.sent.iter().any(|(_, job)| *job.route == *"good.example"));
}

#[test]
fn a_destination_that_cannot_be_resolved_gives_back_its_jobs() {
    let mut scheduler = Scheduler::new(10);
    (0..3).for_each(|n| scheduler.offer(NOW, job(n, 1, "x.example")).unwrap());
    scheduler.offer(NOW, job(9, 1, "y.example")).unwrap();
    let Some(Action::Resolve(route, _)) = scheduler.next(NOW) else { panic!("nothing to resolve") };
    assert_eq!(scheduler.unresolvable(&route).len(), 3);
    assert_eq!(scheduler.len(), 1);
    let taken = scheduler.take(|job, site| job.mail == MailId(9) && site.is_none());
    assert_eq!((taken.len(), scheduler.is_empty()), (1, true));
    assert!(scheduler.next(NOW).is_none());
}

#[test]
fn a_clock_that_goes_back_suspends_nothing_for_long() {
    let random = SeededRandom::new(1);
    let mut scheduler = Scheduler::new(10);
    (0..20).for_each(|n| scheduler.offer(NOW, job(n, 1, "d.example")).unwrap());
    let site: SiteId = "d.example".into();
    while let Some(action) = scheduler.next(NOW) {
        if let Action::Resolve(route, _) = action {
            scheduler.resolved(NOW, &route, site.clone());
        }
    }
    (0..5).for_each(|_| drop(scheduler.failed(NOW, &site, &random)));
    assert!(scheduler.sites(NOW).next().unwrap().suspended.is_some());
    let earlier = Timestamp(NOW.0 - 365 * 86_400_000);
    assert!(scheduler.sites(earlier).next().unwrap().suspended.is_none());
    scheduler.offer(earlier, job(99, 1, "d.example")).unwrap();
}

/// A scheduler with a connection to the site that has nothing to send.
fn with_idle_connection(connections: usize) -> (Scheduler, SiteId) {
    let mut scheduler = Scheduler::new(connections);
    let site: SiteId = "d.example".into();
    scheduler.offer(NOW, job(1, 1, "d.example")).unwrap();
    let Some(Action::Resolve(route, _)) = scheduler.next(NOW) else { panic!("nothing to resolve") };
    scheduler.resolved(NOW, &route, site.clone());
    assert!(matches!(scheduler.next(NOW), Some(Action::Connect(..))));
    assert_eq!(scheduler.next_job(NOW, &site, 1), None);
    assert!(!scheduler.may_idle(NOW, &site, MAILS_PER_CONNECTION));
    assert!(scheduler.may_idle(NOW, &site, 1));
    (scheduler, site)
}

#[test]
fn an_idle_connection_gets_the_next_job_of_its_site() {
    let (mut scheduler, site) = with_idle_connection(10);
    (2..4).for_each(|n| scheduler.offer(NOW, job(n, 2, "d.example")).unwrap());
    assert_eq!(scheduler.next(NOW), Some(Action::Reuse(site.clone(), job(2, 2, "d.example"))));
    assert_eq!(scheduler.next(NOW), Some(Action::Connect(site.clone(), job(3, 2, "d.example"))));
    assert_eq!((scheduler.next(NOW), scheduler.connections()), (None, 2));
    assert!(scheduler.may_idle(NOW, &site, 1));
    scheduler.idle_ended(&site);
    scheduler.offer(NOW, job(4, 2, "d.example")).unwrap();
    assert!(matches!(scheduler.next(NOW), Some(Action::Connect(..))));
}

#[test]
fn idle_connections_make_way_when_no_more_may_be_opened() {
    let (mut scheduler, site) = with_idle_connection(1);
    scheduler.offer(NOW, job(2, 1, "e.example")).unwrap();
    let Some(Action::Resolve(route, _)) = scheduler.next(NOW) else { panic!("nothing to resolve") };
    scheduler.resolved(NOW, &route, "e.example".into());
    assert_eq!(scheduler.next(NOW), Some(Action::Close(site.clone())));
    assert_eq!(scheduler.next(NOW), None);
    assert!(!scheduler.may_idle(NOW, &site, 1), "another one would be in the way");
    scheduler.closed(NOW, &site, 1);
    assert!(matches!(scheduler.next(NOW), Some(Action::Connect(..))));
}
