//! Delays by a clock that moves only when told to.

use sealpost_base::{FakeClock, Timestamp};

use super::*;

fn ip(text: &str) -> Option<Network> {
    Some(Network::of(text.parse().unwrap()))
}

fn world(settings: Login) -> (Throttle, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    (Throttle::new(settings, clock.clone()), clock)
}

fn wait(throttle: &Throttle, network: Option<Network>, name: &str) -> Duration {
    throttle.admit(network, Name::of(name)).unwrap().wait()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn delays_double_up_to_the_longest_and_are_forgotten_in_time() {
    let (throttle, clock) = world(Login::default());
    let address = ip("192.0.2.1");
    let mut delays = Vec::new();
    for n in 0..10 {
        throttle.failed(address, Name::of(&format!("{n}")));
        let delay = wait(&throttle, address, "somebody else");
        delays.push(delay.as_millis());
        // Both this attempt's delay and the distance it leaves behind it.
        clock.advance(2 * delay);
    }
    assert_eq!(delays, [0, 0, 0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
    assert_eq!(wait(&throttle, ip("192.0.2.2"), "somebody else"), ms(0), "others are not held back");
    clock.advance(Duration::from_secs(10 * 60));
    for n in 0..3 {
        assert_eq!(wait(&throttle, address, "x"), ms(0));
        throttle.failed(address, Name::of(&format!("again {n}")));
    }
    assert_eq!(wait(&throttle, address, "x"), ms(0), "free failures are free again");
}

#[test]
fn attempts_of_one_address_form_a_queue_those_at_one_account_do_not() {
    let (throttle, clock) = world(Login { delayed_per_address: 3, ..Login::default() });
    let guesser = ip("192.0.2.1");
    for _ in 0..20 {
        throttle.failed(guesser, Name::of("me"));
    }
    let turns: Vec<_> = (0..3).map(|_| throttle.admit(guesser, Name::of("you")).unwrap()).collect();
    let waits: Vec<_> = turns.iter().map(|turn| turn.wait().as_secs()).collect();
    assert_eq!(waits, [5, 10, 15]);
    assert_eq!(throttle.admit(guesser, Name::of("you")).err(), Some(Crowded));
    assert_eq!(throttle.delayed(), 3);
    drop(turns);
    assert_eq!(throttle.delayed(), 0);
    assert!(throttle.admit(guesser, Name::of("you")).is_ok());

    // The owner, from elsewhere, never waits longer than one delay, however many guess.
    let others: Vec<_> =
        (0..50).map(|n| throttle.admit(ip(&format!("198.51.100.{n}")), Name::of("me")).unwrap()).collect();
    assert!(others.iter().all(|turn| turn.wait() == Duration::from_secs(5)));
    assert_eq!(wait(&throttle, ip("203.0.113.9"), "me"), Duration::from_secs(5));
    clock.advance(Duration::from_secs(5));
    assert_eq!(wait(&throttle, ip("203.0.113.9"), "me"), ms(0), "time that has passed counts");
}

#[test]
fn an_address_that_has_waited_still_keeps_its_distance() {
    let (throttle, clock) = world(Login::default());
    let address = ip("192.0.2.1");
    for n in 0..20 {
        throttle.failed(address, Name::of(&format!("{n}")));
    }
    clock.advance(Duration::from_secs(6));
    assert_eq!(wait(&throttle, address, "a"), ms(0));
    assert_eq!(wait(&throttle, address, "b"), Duration::from_secs(5));
}

#[test]
fn a_whole_ipv6_network_counts_as_one_and_mapped_addresses_as_ipv4() {
    assert_eq!(ip("2001:db8::1"), ip("2001:db8::ffff:2:3:4"));
    assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
    assert_eq!(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
    assert_ne!(ip("192.0.2.1"), ip("192.0.2.2"));
    assert_ne!(ip("::1"), ip("0.0.0.0"));
}

#[test]
fn the_tables_do_not_grow_and_all_that_wait_are_counted() {
    let (throttle, _clock) = world(Login { tracked: 4, delayed: 2, free_failures: 0, ..Login::default() });
    for n in 0..100 {
        throttle.failed(ip(&format!("192.0.2.{n}")), Name::of(&format!("{n}")));
    }
    let tables = throttle.lock();
    assert_eq!((tables.addresses.len(), tables.accounts.len()), (4, 4));
    drop(tables);
    let _one = throttle.admit(ip("192.0.2.99"), Name::of("x")).unwrap();
    let _two = throttle.admit(ip("192.0.2.98"), Name::of("x")).unwrap();
    assert!(throttle.admit(ip("192.0.2.97"), Name::of("x")).is_err());
    assert!(throttle.admit(ip("203.0.113.1"), Name::of("x")).is_ok(), "who need not wait is not turned away");
}
