//! The effect of guessing from many addresses on right logins: a simulation of the policy of
//! [`Throttle`] and [`Line`], event by event with a clock of its own, and password checks that take
//! a fixed time. `docs/benchmarks.md` has the results of a real server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, FakeClock, Timestamp, limits};

use super::line::{Entry, Line};
use crate::settings::Login;
use crate::throttle::{Attempt, Name, Network, Priority, Throttle};

/// The duration of a password check, and how many run at once.
const CHECK: Duration = Duration::from_millis(40);
const AT_ONCE: usize = 2;
/// How long a guesser takes to come again.
const AGAIN: Duration = Duration::from_millis(500);
/// Between two right logins of one kind.
const BETWEEN: Duration = Duration::from_millis(500);
const RUN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Who {
    Guesser(u32),
    /// From where the account has logged in before.
    Known(u32),
    /// From an address without failures.
    New(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Comes(Who),
    /// It may begin now, or has to wait on.
    Looks(Who),
    /// It has waited in the line for too long.
    GivesUp(Who),
    Checked(Who),
}

/// The accounts that the guessers try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    OneAccount,
    AnyName,
}

struct Attack {
    target: Target,
    clock: Arc<FakeClock>,
    throttle: Throttle,
    line: Line<Priority, Who>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    next: u64,
    attempts: HashMap<Who, (Duration, Attempt)>,
    places: HashMap<Who, (Priority, u64)>,
    guesses: u32,
    /// How long right logins took, and how many were refused.
    times: HashMap<&'static str, Vec<Duration>>,
    refused: HashMap<&'static str, usize>,
}

impl Attack {
    fn new(guessers: u32, target: Target) -> Self {
        let settings = Login::default();
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let mut attack = Attack {
            target,
            throttle: Throttle::new(settings, clock.clone()),
            clock,
            line: Line::new(AT_ONCE, settings.checks_waiting),
            events: BinaryHeap::new(),
            next: 0,
            attempts: HashMap::new(),
            places: HashMap::new(),
            guesses: 0,
            times: HashMap::new(),
            refused: HashMap::new(),
        };
        // All at once, as a botnet on command.
        (0..guessers).for_each(|n| attack.schedule(Duration::ZERO, Event::Comes(Who::Guesser(n))));
        let each = u32::try_from(RUN.as_millis() / BETWEEN.as_millis()).unwrap();
        for n in 0..each {
            attack.schedule(BETWEEN * n + Duration::from_millis(100), Event::Comes(Who::Known(n)));
            attack.schedule(BETWEEN * n + Duration::from_millis(350), Event::Comes(Who::New(n)));
        }
        attack
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.next += 1;
        self.events.push(Reverse((at, self.next, event)));
    }

    fn run(mut self) -> Self {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > RUN + limits::LOGIN_QUEUE_TIMEOUT * 2 {
                break;
            }
            self.clock.advance(at.saturating_sub(self.clock.monotonic()));
            match event {
                Event::Comes(who) => self.comes(who, at),
                Event::Looks(who) => self.looks(who, at),
                Event::GivesUp(who) => {
                    if self.places.get(&who).is_some_and(|place| self.line.give_up(*place)) {
                        self.refuse(who, at);
                    }
                }
                Event::Checked(who) => self.checked(who, at),
            }
        }
        self
    }

    fn comes(&mut self, who: Who, at: Duration) {
        let (address, name) = match who {
            // A network of its own each.
            Who::Guesser(n) => {
                let name = match self.target {
                    Target::OneAccount => "victim".to_owned(),
                    Target::AnyName => format!("name {n} {at:?}"),
                };
                (Ipv4Addr::from(0x0a00_0007 + (n << 8)), name)
            }
            Who::Known(n) => (Ipv4Addr::from(0xc000_0007 + (n << 8)), format!("user {n}")),
            Who::New(n) => (Ipv4Addr::from(0xd000_0007 + (n << 8)), format!("other {n}")),
        };
        let network = Some(Network::of(IpAddr::V4(address)));
        match self.throttle.arrive(network, Name::of(&name), matches!(who, Who::Known(_))) {
            Ok(attempt) => {
                self.attempts.insert(who, (at, attempt));
                self.looks(who, at);
            }
            Err(_) => self.refuse(who, at),
        }
    }

    fn looks(&mut self, who: Who, at: Duration) {
        let Some((_, attempt)) = self.attempts.get_mut(&who) else { return };
        match attempt.look() {
            Ok(None) => {}
            Ok(Some(wait)) => return self.schedule(at + wait, Event::Looks(who)),
            Err(_) => return self.refuse(who, at),
        }
        match self.line.enter(attempt.priority(), who) {
            Entry::Now => self.schedule(at + CHECK, Event::Checked(who)),
            Entry::Full => self.refuse(who, at),
            Entry::Waits(place, put_out) => {
                self.places.insert(who, place);
                self.schedule(at + limits::LOGIN_QUEUE_TIMEOUT, Event::GivesUp(who));
                if let Some(other) = put_out {
                    self.refuse(other, at);
                }
            }
        }
    }

    fn checked(&mut self, who: Who, at: Duration) {
        let Some((came, attempt)) = self.attempts.remove(&who) else { return };
        match kind(who) {
            Some(kind) => {
                attempt.succeeded();
                self.times.entry(kind).or_default().push(at - came);
            }
            None => {
                attempt.failed();
                self.guesses += 1;
                self.schedule(at + AGAIN, Event::Comes(who));
            }
        }
        if let Some(next) = self.line.leave() {
            self.places.remove(&next);
            self.schedule(at + CHECK, Event::Checked(next));
        }
    }

    fn refuse(&mut self, who: Who, at: Duration) {
        self.places.remove(&who);
        if let Some((_, attempt)) = self.attempts.remove(&who) {
            attempt.failed();
        }
        match kind(who) {
            Some(kind) => *self.refused.entry(kind).or_default() += 1,
            None => self.schedule(at + AGAIN, Event::Comes(who)),
        }
    }

    /// The times in the middle and of the slowest in a hundred, and how many were refused.
    fn result(&mut self, kind: &'static str) -> (Duration, Duration, usize) {
        let times = self.times.entry(kind).or_default();
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        (at(50), at(99), self.refused.get(kind).copied().unwrap_or(0))
    }
}

fn kind(who: Who) -> Option<&'static str> {
    match who {
        Who::Guesser(_) => None,
        Who::Known(_) => Some("known"),
        Who::New(_) => Some("new"),
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "the numbers, for --nocapture")]
fn guessers_from_many_addresses_keep_no_right_login_out() {
    for target in [Target::OneAccount, Target::AnyName] {
        for guessers in [0, 100, 700, 2000] {
            let mut attack = Attack::new(guessers, target).run();
            let (known, new) = (attack.result("known"), attack.result("new"));
            println!(
                "{target:?}: {guessers} guessers, {} checked: known {known:?}, new {new:?}",
                attack.guesses
            );
            assert_eq!((known.2, new.2), (0, 0), "refused, with {guessers} guessers at {target:?}");
            // The checks under way, and its own.
            assert!(known.1 <= 2 * CHECK, "{known:?} with {guessers} guessers at {target:?}");
            // Logins that arrive with the first wave wait until it is over: each of its addresses
            // has failed once then.
            let wave = CHECK * guessers.min(Login::default().checks_waiting as u32) / AT_ONCE as u32;
            // Other right logins are checked meanwhile.
            let longest = wave + wave / 10 + 2 * CHECK;
            assert!(new.0 <= 2 * CHECK && new.1 <= longest, "{new:?} with {guessers} guessers at {target:?}");
        }
    }
}
