//! The effect of distributed password guessing on valid logins. It simulates the policy of [`Throttle`] and
//! [`Line`], event by event, with a fake clock and password checks of a fixed duration. `docs/benchmarks.md`
//! has the results of a real server.

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
/// The interval between two attempts of a guesser.
const AGAIN: Duration = Duration::from_millis(500);
/// The interval between two valid logins of one kind.
const BETWEEN: Duration = Duration::from_millis(500);
const RUN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Client {
    Guesser(u32),
    /// A valid login from an address where the account has logged in before.
    Known(u32),
    /// A valid login from an address without failures.
    New(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(Client),
    /// The attempt may begin, or must wait longer.
    Retries(Client),
    /// The attempt has waited in the queue for too long.
    TimesOut(Client),
    Checked(Client),
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
    line: Line<Priority, Client>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    next: u64,
    attempts: HashMap<Client, (Duration, Attempt)>,
    places: HashMap<Client, (Priority, u64)>,
    guesses: u32,
    /// The durations of valid logins by kind, and the number of refused ones.
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
        // All at once, like a botnet on command.
        (0..guessers).for_each(|n| attack.schedule(Duration::ZERO, Event::Arrives(Client::Guesser(n))));
        let each = u32::try_from(RUN.as_millis() / BETWEEN.as_millis()).unwrap();
        for n in 0..each {
            attack.schedule(BETWEEN * n + Duration::from_millis(100), Event::Arrives(Client::Known(n)));
            attack.schedule(BETWEEN * n + Duration::from_millis(350), Event::Arrives(Client::New(n)));
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
                Event::Arrives(client) => self.arrives(client, at),
                Event::Retries(client) => self.retries(client, at),
                Event::TimesOut(client) => {
                    if self.places.get(&client).is_some_and(|place| self.line.give_up(*place)) {
                        self.refuse(client, at);
                    }
                }
                Event::Checked(client) => self.checked(client, at),
            }
        }
        self
    }

    fn arrives(&mut self, client: Client, at: Duration) {
        let (address, name) = match client {
            // Each guesser is in a network of its own.
            Client::Guesser(n) => {
                let name = match self.target {
                    Target::OneAccount => "victim".to_owned(),
                    Target::AnyName => format!("name {n} {at:?}"),
                };
                (Ipv4Addr::from(0x0a00_0007 + (n << 8)), name)
            }
            Client::Known(n) => (Ipv4Addr::from(0xc000_0007 + (n << 8)), format!("user {n}")),
            Client::New(n) => (Ipv4Addr::from(0xd000_0007 + (n << 8)), format!("other {n}")),
        };
        let network = Some(Network::of(IpAddr::V4(address)));
        match self.throttle.arrive(network, Name::of(&name), matches!(client, Client::Known(_))) {
            Ok(attempt) => {
                self.attempts.insert(client, (at, attempt));
                self.retries(client, at);
            }
            Err(_) => self.refuse(client, at),
        }
    }

    fn retries(&mut self, client: Client, at: Duration) {
        let Some((_, attempt)) = self.attempts.get_mut(&client) else { return };
        match attempt.look() {
            Ok(None) => {}
            Ok(Some(wait)) => return self.schedule(at + wait, Event::Retries(client)),
            Err(_) => return self.refuse(client, at),
        }
        match self.line.enter(attempt.priority(), client) {
            Entry::Now => self.schedule(at + CHECK, Event::Checked(client)),
            Entry::Full => self.refuse(client, at),
            Entry::Waits(place, put_out) => {
                self.places.insert(client, place);
                self.schedule(at + limits::LOGIN_QUEUE_TIMEOUT, Event::TimesOut(client));
                if let Some(other) = put_out {
                    self.refuse(other, at);
                }
            }
        }
    }

    fn checked(&mut self, client: Client, at: Duration) {
        let Some((came, attempt)) = self.attempts.remove(&client) else { return };
        match kind(client) {
            Some(kind) => {
                attempt.succeeded();
                self.times.entry(kind).or_default().push(at - came);
            }
            None => {
                attempt.failed();
                self.guesses += 1;
                self.schedule(at + AGAIN, Event::Arrives(client));
            }
        }
        if let Some(next) = self.line.leave() {
            self.places.remove(&next);
            self.schedule(at + CHECK, Event::Checked(next));
        }
    }

    fn refuse(&mut self, client: Client, at: Duration) {
        self.places.remove(&client);
        if let Some((_, attempt)) = self.attempts.remove(&client) {
            attempt.failed();
        }
        match kind(client) {
            Some(kind) => *self.refused.entry(kind).or_default() += 1,
            None => self.schedule(at + AGAIN, Event::Arrives(client)),
        }
    }

    /// The median and the 99th percentile of the durations, and the number of refused logins.
    fn result(&mut self, kind: &'static str) -> (Duration, Duration, usize) {
        let times = self.times.entry(kind).or_default();
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        (at(50), at(99), self.refused.get(kind).copied().unwrap_or(0))
    }
}

fn kind(client: Client) -> Option<&'static str> {
    match client {
        Client::Guesser(_) => None,
        Client::Known(_) => Some("known"),
        Client::New(_) => Some("new"),
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
            // The checks in progress, and its own.
            assert!(known.1 <= 2 * CHECK, "{known:?} with {guessers} guessers at {target:?}");
            // Logins that arrive with the first wave wait until it is over. By then each of its addresses has
            // failed once.
            let wave = CHECK * guessers.min(Login::default().checks_waiting as u32) / AT_ONCE as u32;
            // Other valid logins are checked meanwhile.
            let longest = wave + wave / 10 + 2 * CHECK;
            assert!(new.0 <= 2 * CHECK && new.1 <= longest, "{new:?} with {guessers} guessers at {target:?}");
        }
    }
}
