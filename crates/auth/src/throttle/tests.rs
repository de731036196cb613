//! Delays on a fake clock.

use sealpost_base::{FakeClock, Timestamp};

use super::*;

struct Fixture {
    throttle: Throttle,
    clock: Arc<FakeClock>,
}

impl Fixture {
    fn new(settings: Login) -> Self {
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        Fixture { throttle: Throttle::new(settings, clock.clone()), clock }
    }

    fn arrive(&self, from: &str, name: &str) -> Result<Attempt, Crowded> {
        self.throttle.arrive(ip(from), Name::of(name), false)
    }

    /// How long an attempt would wait.
    fn wait(&self, from: &str, name: &str) -> Duration {
        wait(&mut self.arrive(from, name).unwrap())
    }

    /// Starts an attempt, however long it must wait.
    fn begin(&self, from: &str, name: &str) -> Attempt {
        let mut attempt = self.arrive(from, name).unwrap();
        while let Step::Wait(wait) = attempt.step().unwrap() {
            self.clock.advance(wait.max(ms(1)));
        }
        attempt
    }

    fn fail(&self, from: &str, name: &str) {
        self.begin(from, name).failed();
    }
}

fn wait(attempt: &mut Attempt) -> Duration {
    match attempt.step().unwrap() {
        Step::Wait(wait) => wait,
        Step::Begin => Duration::ZERO,
    }
}

fn ip(text: &str) -> Option<Network> {
    Some(Network::of(text.parse().unwrap()))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn delays_double_up_to_the_longest_and_expire() {
    let world = Fixture::new(Login::default());
    let mut delays = Vec::new();
    for n in 0..10 {
        world.fail("192.0.2.1", &format!("{n}"));
        delays.push(world.wait("192.0.2.1", "somebody else").as_millis());
    }
    assert_eq!(delays, [0, 0, 0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
    assert_eq!(world.wait("198.51.100.2", "somebody else"), ms(0), "others are not delayed");
    world.clock.advance(secs(10 * 60));
    for n in 0..3 {
        assert_eq!(world.wait("192.0.2.1", "x"), ms(0));
        world.fail("192.0.2.1", &format!("again {n}"));
    }
    assert_eq!(world.wait("192.0.2.1", "x"), ms(0), "free failures are free again");
}

#[test]
fn a_burst_of_guesses_is_no_quicker_than_a_sequence() {
    let world = Fixture::new(Login::default());
    let mut attempts: Vec<_> =
        (0..390).map(|n| world.arrive("192.0.2.1", &format!("{n}")).unwrap()).collect();
    let began = |attempts: &mut Vec<Attempt>| -> Vec<Attempt> {
        attempts.extract_if(.., |attempt| matches!(attempt.step(), Ok(Step::Begin))).collect()
    };
    let first = began(&mut attempts);
    assert_eq!(first.len(), 4, "three free failures, and the one that may not be");
    assert!(began(&mut attempts).is_empty());
    first.into_iter().for_each(Attempt::failed);
    // The address now has failures: all but a few attempts are refused.
    let crowded = attempts.extract_if(.., |attempt| attempt.step() == Err(Crowded)).count();
    assert_eq!((crowded, attempts.len()), (386 - 4, 4));
    let mut in_a_minute = 0;
    for _ in 0..600 {
        world.clock.advance(ms(100));
        let begun = began(&mut attempts);
        in_a_minute += begun.len();
        begun.into_iter().for_each(Attempt::failed);
        while let Ok(more) = world.arrive("192.0.2.1", "more") {
            attempts.push(more);
        }
    }
    assert!(in_a_minute <= 13, "one in five seconds: {in_a_minute}");
}

#[test]
fn right_passwords_from_one_address_wait_only_for_each_other() {
    let world = Fixture::new(Login::default());
    let mut waiting: Vec<_> = (0..100).map(|n| world.arrive("192.0.2.1", &format!("{n}")).unwrap()).collect();
    let mut rounds = 0;
    while !waiting.is_empty() {
        let begun: Vec<_> =
            waiting.extract_if(.., |attempt| matches!(attempt.step(), Ok(Step::Begin))).collect();
        assert_eq!(begun.len(), 4);
        world.clock.advance(ms(50));
        begun.into_iter().for_each(Attempt::succeeded);
        rounds += 1;
    }
    assert_eq!(rounds, 25, "an office that reconnects after a restart");
    assert_eq!((world.throttle.delayed(), world.wait("192.0.2.1", "x")), (0, ms(0)));
}

#[test]
fn networks_around_an_address_slow_its_neighbours_down_later() {
    for (neighbours, scale) in [
        ((1..=255).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>(), 16),
        ((0..256).map(|n| format!("2001:db8:0:{n:x}::1")).collect(), 4),
        ((0..256).map(|n| format!("2001:db8:0:{n:x}00::1")).collect(), 16),
    ] {
        let world = Fixture::new(Login::default());
        let free = neighbours.iter().enumerate().take_while(|(n, address)| {
            let is_free = world.wait(address, "x").is_zero();
            // Each at a different account, without failures.
            world.fail(address, &format!("{n}"));
            is_free
        });
        assert_eq!(free.count(), 3 * scale + 1, "{}", neighbours[0]);
        for (n, address) in neighbours.iter().cycle().take(4 * 256).enumerate() {
            world.fail(address, &format!("more {n}"));
        }
        let between = world.wait(&neighbours[0], "x").max(world.wait(&neighbours[200], "x"));
        assert!(between >= secs(5) / scale as u32, "{between:?} for {}", neighbours[0]);
        let elsewhere = if neighbours[0].contains(':') { "2001:db8:1::1" } else { "192.0.3.1" };
        assert_eq!(world.wait(elsewhere, "x"), ms(0));
    }
}

#[test]
fn attempts_queue_per_address_but_not_per_account() {
    let world = Fixture::new(Login { delayed_per_address: 3, ..Login::default() });
    for _ in 0..20 {
        world.fail("192.0.2.1", "me");
    }
    let mut turns: Vec<_> = (0..3).map(|_| world.arrive("192.0.2.1", "you").unwrap()).collect();
    let waits: Vec<_> = turns.iter_mut().map(|turn| wait(turn).as_secs()).collect();
    assert_eq!(waits, [5, 10, 15]);
    assert!(world.arrive("192.0.2.1", "you").is_err());
    assert_eq!(world.throttle.delayed(), 3);
    drop(turns);
    assert_eq!(world.throttle.delayed(), 0);
    assert!(world.arrive("192.0.2.1", "you").is_ok());

    // The owner, at another address, never waits longer than one delay, however many guesses there are.
    let mut owner = world.arrive("203.0.113.9", "me").unwrap();
    let others: Vec<_> = (0..50).map(|n| world.arrive(&format!("198.51.{n}.7"), "me").unwrap()).collect();
    assert_eq!(wait(&mut owner), secs(5));
    world.clock.advance(secs(3));
    world.fail("198.18.0.1", "me");
    assert!(wait(&mut owner) <= secs(2));
    let known = world.throttle.arrive(ip("203.0.113.10"), Name::of("me"), true);
    assert_eq!(wait(&mut known.unwrap()), ms(0), "and not at all where it was before");
    drop(others);
}

#[test]
fn attempts_keep_their_distance_however_long_the_last_was_ago() {
    let world = Fixture::new(Login::default());
    for n in 0..20 {
        world.fail("192.0.2.1", &format!("{n}"));
    }
    world.clock.advance(secs(6));
    let _one = world.begin("192.0.2.1", "a");
    assert_eq!(world.wait("192.0.2.1", "b"), secs(5));
}

#[test]
fn an_abandoned_attempt_counts_if_its_answer_may_be_known() {
    let world = Fixture::new(Login { free_failures: 0, ..Login::default() });
    drop(world.begin("192.0.2.1", "a"));
    assert_eq!(world.wait("192.0.2.1", "b"), ms(0), "it was never checked");
    let mut checked = world.begin("192.0.2.1", "c");
    checked.checking();
    drop(checked);
    assert!(world.wait("192.0.2.1", "d") > ms(0));
}

#[test]
fn tables_are_bounded_and_delayed_attempts_are_counted() {
    let world =
        Fixture::new(Login { failure_table_size: 4, max_delayed: 2, free_failures: 0, ..Login::default() });
    let address = |n: usize| format!("192.0.{n}.1");
    for n in 0..100 {
        world.fail(&address(n), &format!("{n}"));
    }
    let tables = world.throttle.lock();
    let sizes = tables.networks.each_ref().map(LruCache::len);
    assert_eq!((sizes, tables.accounts.len()), ([4, 0, 4], 4));
    drop(tables);
    let held = [99, 98].map(|n| world.arrive(&address(n), "x").unwrap());
    assert!(world.arrive(&address(97), "x").is_err());
    assert!(world.arrive("203.0.113.1", "x").is_ok(), "an attempt without delay is not refused");
    // A delayed attempt from an address without failures is not refused either.
    world.fail("203.0.113.77", "attacked");
    let mut clean = world.arrive("198.51.100.1", "attacked").unwrap();
    assert!(wait(&mut clean) > ms(0));
    drop(held);
}

#[test]
fn addresses_that_have_failed_come_after_those_that_have_not() {
    let world = Fixture::new(Login::default());
    let clean = world.begin("192.0.2.1", "a").priority();
    world.fail("198.51.100.1", "b");
    let failed = world.begin("198.51.100.1", "c").priority();
    for n in 0..10 {
        world.fail("198.18.0.1", &format!("{n}"));
    }
    let often = world.begin("198.18.0.1", "d").priority();
    let neighbour = world.begin("198.18.0.2", "e").priority();
    let attacked = world.begin("203.0.113.1", "b").priority();
    let mut known = world.throttle.arrive(ip("198.18.0.1"), Name::of("f"), true).unwrap();
    world.clock.advance(secs(60));
    assert_eq!(known.step(), Ok(Step::Begin));
    let known = known.priority();
    assert!(known < clean && clean < attacked && attacked < failed && failed < often);
    assert_eq!(neighbour, clean, "a few failures are not held against a whole network");
    let unix = world.throttle.arrive(None, Name::of("g"), false).unwrap().priority();
    assert_eq!(unix, clean);
}

/// An attempt must not miss a notification between two checks of the tables.
#[tokio::test(start_paused = true)]
async fn a_delayed_attempt_begins_when_those_before_it_succeed() {
    let world = Fixture::new(Login { first_delay: secs(3600), max_delay: secs(3600), ..Login::default() });
    let others: Vec<_> = (0..4).map(|n| world.begin("192.0.2.1", &format!("{n}"))).collect();
    let mut waits = world.arrive("192.0.2.1", "me").unwrap();
    let waiting = tokio::spawn(async move { waits.begin().await });
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    others.into_iter().for_each(Attempt::succeeded);
    assert_eq!(waiting.await.unwrap(), Ok(true));
    assert!(start.elapsed() < secs(1));
}
