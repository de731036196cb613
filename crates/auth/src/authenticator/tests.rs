//! Logins with a store in memory: success, failure, cost, and changes that take effect at once.

use std::time::Duration;

use sealpost_base::{FakeClock, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, NewAccount, UnverifiedSlots};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{Store, TokenKind};

use super::*;
use crate::grant_token::GrantToken;
use crate::throttle::Priority;

struct Fixture {
    store: Store,
    directory: Directory,
    auth: Arc<Authenticator>,
    clock: Arc<TestClock>,
    budget: Budget,
}

/// A clock that follows tests and the time of a paused runtime.
struct TestClock {
    moved: FakeClock,
    start: tokio::time::Instant,
}

impl TestClock {
    fn advance(&self, by: Duration) {
        self.moved.advance(by);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.moved.now().after(self.start.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.moved.monotonic() + self.start.elapsed()
    }
}

impl Fixture {
    async fn new(settings: Login) -> Self {
        Self::over(Store::memory(), settings)
    }

    fn over(store: Store, settings: Login) -> Self {
        let random = Arc::new(SeededRandom::new(3));
        let moved = FakeClock::new(Timestamp(1_000_000));
        let clock = Arc::new(TestClock { moved, start: tokio::time::Instant::now() });
        let key = ServerKeys::generate(&*random);
        let directory = Directory::new(store.clone(), key, clock.clone(), random.clone())
            .on_host("host.mail.example", Some("mail.example"), None)
            .unwrap();
        let budget = Budget::new(256 * 1024 * 1024);
        let auth = Authenticator::new(directory.clone(), &settings, budget.clone(), clock.clone(), &*random);
        Fixture { store, directory, auth: Arc::new(auth.unwrap()), clock, budget }
    }

    async fn account(&self, name: &str, password: &str) -> (AccountName, RootKey) {
        let name = AccountName::parse(name).unwrap();
        let new = NewAccount::with_password(secret(password));
        let (_, root) = self.directory.create(&name, new).await.unwrap();
        (name, root)
    }

    async fn login(&self, name: &str, secret: &str) -> Result<Entered, Denied> {
        self.auth.login(Some([192, 0, 2, 1].into()), name, secret.as_bytes()).await
    }

    async fn refused(&self, name: &str, secret: &str) -> bool {
        matches!(self.login(name, secret).await, Err(Denied::Credentials))
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

fn patient() -> Login {
    Login { free_failures: 1000, ..Login::default() }
}

#[tokio::test]
async fn names_in_any_case_and_secrets_to_the_letter() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@mail.example", "pässword").await;
    for spelling in ["me@mail.example", "ME@Mail.Example", "me", "\"me\"@mail.example"] {
        let entered = world.login(spelling, "pässword").await.unwrap();
        assert!(entered.record.name == name && entered.root.same(&root));
    }
    assert!(world.login("me", "pa\u{308}ssword").await.is_ok(), "however it was typed");
    for (name, secret) in [
        ("me", "Pässword"),
        ("me", "pässword "),
        ("me", ""),
        ("me", "päss\0word"),
        ("me", "pässwordpässword"),
        ("you", "pässword"),
        ("", "pässword"),
        ("not an address@", "x"),
    ] {
        assert!(world.refused(name, secret).await, "{name:?} {secret:?}");
    }
    assert!(world.refused("me", &"x".repeat(100_000)).await);
}

#[tokio::test]
async fn tokens_log_in_recovery_codes_do_not() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (info, app_password) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let code = world.directory.set_recovery(&name, &root).await.unwrap();
    assert!(world.login("me@x", &app_password).await.unwrap().root.same(&root));
    assert!(world.refused("me@x", &code).await);
    let mut wrong = app_password.to_string();
    let last = wrong.pop().unwrap();
    wrong.push(if last == '0' { '1' } else { '0' });
    assert!(world.refused("me@x", &wrong).await);
    world.account("you@x", "pw").await;
    assert!(world.refused("you@x", &app_password).await, "a token opens its own account");
    world.directory.revoke_app_password(&name, info.id).await.unwrap();
    assert!(world.refused("me@x", &app_password).await, "at once");
}

#[tokio::test]
async fn logins_are_cached_until_expiry_or_a_record_change() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "old").await;
    assert!(world.login("me@x", "old").await.is_ok());
    assert_eq!(world.auth.remembered(), 1);

    // Without permits no password check runs: only cached logins succeed.
    let turns = take_all_turns(&world).await;
    assert!(world.login("me@x", "old").await.is_ok());
    let wrong = tokio::time::timeout(Duration::from_millis(50), world.login("me@x", "wrong")).await;
    assert!(wrong.is_err(), "a wrong password for a cached account costs a check");
    drop(turns);

    world.clock.advance(Duration::from_secs(11 * 60));
    let turns = take_all_turns(&world).await;
    let expired = tokio::time::timeout(Duration::from_millis(50), world.login("me@x", "old")).await;
    assert!(expired.is_err(), "ten minutes are over");
    drop(turns);

    assert!(world.login("me@x", "old").await.is_ok());
    world.directory.set_password(&name, &root, secret("new")).await.unwrap();
    assert!(world.refused("me@x", "old").await, "a changed password takes effect at once");
    assert!(world.login("me@x", "new").await.unwrap().root.same(&root));
    world.directory.remove(&name).await.unwrap();
    assert!(world.refused("me@x", "new").await, "and so does removal");

    world.clock.advance(Duration::from_secs(11 * 60));
    world.auth.sweep();
    assert_eq!(world.auth.remembered(), 0, "no key outlives its time");
}

#[tokio::test]
async fn cached_logins_are_bounded() {
    let world = Fixture::new(Login { cache_entries: 2, ..patient() }).await;
    for name in ["a@x", "b@x", "c@x"] {
        world.account(name, "pw").await;
        assert!(world.login(name, "pw").await.is_ok());
    }
    assert_eq!(world.auth.remembered(), 2);
    let none = Fixture::new(Login { cache_ttl: Duration::ZERO, ..patient() }).await;
    none.account("a@x", "pw").await;
    assert!(none.login("a@x", "pw").await.is_ok());
    assert_eq!(none.auth.remembered(), 0);
}

#[tokio::test]
async fn a_name_that_is_no_account_costs_a_check_too() {
    let world = Fixture::new(patient()).await;
    let turns = take_all_turns(&world).await;
    for (name, secret) in [("nobody@x", "pw"), ("nobody@x", ""), ("@", "pw")] {
        let attempt = tokio::time::timeout(Duration::from_millis(20), world.login(name, secret)).await;
        assert!(attempt.is_err(), "{name:?} waits for a permit like any other");
    }
    drop(turns);
    assert!(world.refused("nobody@x", "pw").await);
    // The result arrives before the memory is released.
    while world.budget.in_use() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_that_come_at_once_pay_for_the_first() {
    let world = Fixture::new(Login { checks_at_once: 1, ..patient() }).await;
    world.account("me@x", "pw").await;
    let logins = (0..20).map(|_| world.login("me@x", "pw"));
    let all = futures::future::join_all(logins).await;
    assert!(all.iter().all(Result::is_ok));
}

/// A burst as clients open it: the same name and secret, valid or invalid.
#[tokio::test]
async fn connections_with_one_secret_cost_one_check_and_count_once() {
    let world =
        Fixture::new(Login { checks_at_once: 1, cache_ttl: Duration::ZERO, ..Login::default() }).await;
    world.account("me@x", "pw").await;
    let at_once = async |secret: &str| {
        let logins: Vec<_> = (0..50)
            .map(|_| {
                let (auth, secret) = (world.auth.clone(), secret.to_owned());
                tokio::spawn(async move {
                    auth.login(Some([192, 0, 2, 1].into()), "me@x", secret.as_bytes()).await
                })
            })
            .collect();
        let ended = futures::future::join_all(logins).await;
        ended.into_iter().filter(|login| login.as_ref().unwrap().is_ok()).count()
    };
    let checked = || world.auth.checks.run_so_far();
    assert_eq!((at_once("pw").await, checked()), (50, 1));
    for n in 0..4 {
        // If each of fifty counted, at least the first of four would be delayed.
        assert_eq!((at_once(&format!("wrong {n}")).await, checked()), (0, 2 + n));
    }
    assert_eq!(world.auth.held_back(), 0);
}

/// 390 concurrent guesses, each on a connection of its own.
#[tokio::test]
async fn guesses_that_come_at_once_are_not_all_checked() {
    let max_delay = Duration::from_millis(500);
    let world = Fixture::new(Login { max_delay, ..Login::default() }).await;
    world.account("me@x", "pw").await;
    let guesses = (0..390).map(|n| {
        let auth = world.auth.clone();
        tokio::spawn(async move {
            auth.login(Some([192, 0, 2, 1].into()), "me@x", format!("guess {n}").as_bytes()).await
        })
    });
    let start = tokio::time::Instant::now();
    let guesses: Vec<_> = guesses.collect();
    let (mut wrong, mut busy) = (0, 0);
    for guess in guesses {
        match guess.await.unwrap() {
            Err(Denied::Credentials) => wrong += 1,
            Err(Denied::Busy) => busy += 1,
            _ => panic!("none is right"),
        }
    }
    // Four at once, four that waited, and on a slow machine a few that waited before the first result.
    assert!(wrong <= 20 && busy >= 370, "{wrong} wrong, {busy} busy");
    assert!(start.elapsed() >= 3 * max_delay, "the attempts that waited did so one by one");
}

#[tokio::test]
async fn attempts_from_known_addresses_are_checked_first() {
    let world =
        Fixture::new(Login { checks_at_once: 1, checks_waiting: 2, cache_ttl: Duration::ZERO, ..patient() })
            .await;
    world.account("me@x", "pw").await;
    let from = |host: u8| Some(IpAddr::from([198, 51, 100, host]));
    world.auth.login(from(1), "me@x", b"pw").await.unwrap();
    let turn = world.auth.checks.turn(first()).await.unwrap();
    let attempt = |host: u8, secret: &'static str| {
        let auth = world.auth.clone();
        tokio::spawn(async move { auth.login(from(host), "me@x", secret.as_bytes()).await })
    };
    let mut guesses = Vec::new();
    for host in 2..4 {
        guesses.push(attempt(host, "wrong"));
        while world.auth.checks.waiting() < guesses.len() {
            tokio::task::yield_now().await;
        }
    }
    // The queue is full, so a guess is displaced.
    let known = attempt(1, "pw");
    assert!(matches!(guesses.pop().unwrap().await.unwrap(), Err(Denied::Busy)));
    drop(turn);
    assert!(known.await.unwrap().is_ok());
    assert!(matches!(guesses.pop().unwrap().await.unwrap(), Err(Denied::Credentials)));
}

#[tokio::test]
async fn one_more_than_may_wait_is_busy() {
    let world = Fixture::new(Login { checks_at_once: 1, checks_waiting: 2, ..patient() }).await;
    let turns = world.auth.checks.turn(first()).await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|n| {
            let auth = world.auth.clone();
            tokio::spawn(async move { auth.login(None, "a@x", format!("pw{n}").as_bytes()).await.is_err() })
        })
        .collect();
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    while world.auth.checks.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(world.login("b@x", "pw").await, Err(Denied::Busy)));
    drop(turns);
    for task in waiting {
        assert!(task.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_delay_password_checks_but_not_cached_logins_or_tokens() {
    let world = Fixture::new(Login::default()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (_, app_password) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    assert!(world.login("me@x", "pw").await.is_ok(), "cached from here on");
    for _ in 0..4 {
        assert!(world.refused("me@x", "wrong").await);
    }
    let start = tokio::time::Instant::now();
    assert!(world.refused("me@x", "wrong").await);
    assert!(start.elapsed() >= Duration::from_millis(250), "the fifth attempt waits");
    let start = tokio::time::Instant::now();
    assert!(world.login("me@x", "pw").await.is_ok());
    assert!(world.login("me@x", &app_password).await.is_ok());
    assert!(start.elapsed() < Duration::from_millis(250), "the owner's clients are not delayed");
}

/// The priority of an attempt without failures.
fn first() -> Priority {
    let throttle = Throttle::new(Login::default(), Arc::new(FakeClock::new(Timestamp(0))));
    throttle.arrive(None, Name::of("somebody"), false).unwrap().priority()
}

/// Takes all permits, so that no other attempt gets a password check.
async fn take_all_turns(world: &Fixture) -> Vec<checks::CheckPermit> {
    let mut turns = Vec::new();
    while let Ok(turn) =
        tokio::time::timeout(Duration::from_millis(20), world.auth.checks.turn(first())).await
    {
        turns.push(turn.unwrap());
    }
    turns
}

#[tokio::test]
async fn bearers_show_tokens_and_nothing_else() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (info, app_password) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let bearer =
        async |name: &str, app_password: &str| world.auth.bearer(None, name, app_password.as_bytes()).await;
    let entered = bearer("ME@X", &app_password).await.unwrap();
    assert!(entered.root.same(&root) && entered.slot == info.id);
    for (name, app_password) in [
        ("me@x", "pw"),
        ("me@x", ""),
        ("you@x", &*app_password),
        ("", &*app_password),
        ("me@x", &app_password[..60]),
    ] {
        assert!(
            matches!(bearer(name, app_password).await, Err(Denied::Credentials)),
            "{name:?} {app_password:?}"
        );
    }
    let alone = async |app_password: &str| world.auth.bearer_alone(None, app_password.as_bytes()).await;
    assert!(alone(&app_password).await.unwrap().root.same(&root), "it names its account");
    assert!(matches!(alone("pw").await, Err(Denied::Credentials)));
    world.directory.revoke_app_password(&name, info.id).await.unwrap();
    assert!(matches!(bearer("me@x", &app_password).await, Err(Denied::Credentials)), "at once");
    assert!(matches!(alone(&app_password).await, Err(Denied::Credentials)));
}

#[tokio::test(start_paused = true)]
async fn failing_bearer_logins_are_delayed_too() {
    let world = Fixture::new(Login::default()).await;
    let attempt = async || world.auth.bearer(Some([192, 0, 2, 1].into()), "me@x", b"sp_wrong").await;
    for _ in 0..4 {
        assert!(attempt().await.is_err());
    }
    let start = tokio::time::Instant::now();
    assert!(attempt().await.is_err());
    assert!(start.elapsed() >= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn forged_tokens_are_delayed_and_expired_ones_are_not() {
    let world = Fixture::new(Login::default()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let record = world.directory.get(&name).await.unwrap();
    let (_, slot, secret) = world.directory.add_grant(&record, &root, "client").await.unwrap();
    let (cookie_slot, cookie) = world.directory.add_web_login(&record, &root, "browser").await.unwrap();
    let token = |lifetime| {
        let (account, at) = (name.to_string(), world.clock.now().after(lifetime));
        let (secret, scopes) = (secret.clone(), Scopes::NONE.with(Scope::Mail));
        let (client, binding) = ([0; 32], [0; 32]);
        let token = GrantToken { account, slot, secret, scopes, at, generation: 1, client, binding };
        token.seal(TokenKind::Access, world.directory.token_keys(), &SeededRandom::new(9)).to_string()
    };
    let peer = Some([192, 0, 2, 1].into());
    let bearer = async |token: &str| world.auth.bearer(peer, "", token.as_bytes()).await;
    let (good, expired) = (token(Duration::from_secs(3600)), token(Duration::ZERO));
    assert!(bearer(&good).await.unwrap().root.same(&root));
    assert!(world.auth.web_login(peer, cookie.as_bytes()).await.unwrap().root.same(&root));
    world.directory.revoke_app_password(&name, slot).await.unwrap();
    world.directory.revoke_app_password(&name, cookie_slot).await.unwrap();
    let start = tokio::time::Instant::now();
    for _ in 0..20 {
        assert!(matches!(bearer(&expired).await, Err(Denied::Expired)));
        assert!(matches!(bearer(&good).await, Err(Denied::Expired)), "revoked");
        let ended = world.auth.web_login(peer, cookie.as_bytes()).await;
        assert!(matches!(ended, Err(Denied::Expired)));
    }
    assert!(start.elapsed() < Duration::from_millis(250), "these are no guesses");
    for _ in 0..2 {
        assert!(matches!(bearer("sa_AAAA").await, Err(Denied::Credentials)));
        let forged = world.auth.web_login(peer, b"sw_x").await;
        assert!(matches!(forged, Err(Denied::Credentials)));
    }
    world.auth.forged(peer).await;
    assert!(start.elapsed() >= Duration::from_millis(250), "these are");
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_as_long_as_its_slot() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let standing = async |secret: &str| {
        let entered = world.login("me@x", secret).await.unwrap();
        world.auth.standing(&entered)
    };
    let mut by_password = standing("pw").await;
    let (info, app_password) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let by_app_password = standing(&app_password).await;
    assert!(by_password.holds() && by_app_password.holds(), "a new slot is known at once");
    tokio::time::sleep(standing::PERIOD * 3).await;
    assert!(by_password.holds() && by_app_password.holds());

    world.directory.set_password(&name, &root, secret("new")).await.unwrap();
    tokio::time::timeout(standing::PERIOD * 2, by_password.lost()).await.unwrap();
    assert!(!by_password.holds() && by_app_password.holds());
    by_password = standing("new").await;
    world.directory.revoke_app_password(&name, info.id).await.unwrap();
    tokio::time::timeout(standing::PERIOD * 2, by_app_password.lost()).await.unwrap();
    assert!(by_password.holds());
    let next = world.directory.rekey(&name, &root, UnverifiedSlots::Refuse).await.unwrap().root;
    tokio::time::timeout(standing::PERIOD * 2, by_password.lost()).await.unwrap();
    by_password = standing("new").await;
    assert!(by_password.holds() && world.login("me@x", "new").await.unwrap().root.same(&next));
    world.directory.remove(&name).await.unwrap();
    tokio::time::timeout(standing::PERIOD * 2, by_password.lost()).await.unwrap();
    drop((by_password, by_app_password));
    tokio::time::sleep(standing::PERIOD * 2).await;
    assert_eq!(world.auth.standings.accounts(), 0, "no account is watched without sessions");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_account_refuses_logins_and_ends_its_sessions() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (_, app_password) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let session = world.auth.standing(&world.login("me@x", "pw").await.unwrap());
    world.directory.suspend(&name).await.unwrap();
    for right in ["pw", &app_password] {
        assert!(matches!(world.login("me@x", right).await, Err(Denied::Suspended)));
    }
    let bearer = world.auth.bearer(None, "me@x", app_password.as_bytes()).await;
    assert!(matches!(bearer, Err(Denied::Suspended)));
    assert!(world.refused("me@x", "wrong").await, "a guess does not reveal it");
    assert_eq!(world.auth.metrics().failures(), 4);
    tokio::time::timeout(standing::PERIOD * 2, session.lost()).await.unwrap();
    world.clock.advance(Duration::from_secs(11 * 60));
    world.auth.sweep();
    assert_eq!(world.auth.remembered(), 0, "its key is not kept");

    world.directory.resume(&name).await.unwrap();
    assert!(world.login("me@x", "pw").await.unwrap().root.same(&root));
}

#[tokio::test]
async fn without_a_configured_domain_names_are_written_out() {
    let mut world = Fixture::new(patient()).await;
    world.account("jane@host.mail.example", "pw").await;
    world.account("jane@mail.example", "pw").await;
    let entered = world.login("jane", "pw").await.unwrap();
    assert_eq!(entered.record.name.as_str(), "jane@mail.example");
    world.directory = world.directory.on_host("host.mail.example", None, None).unwrap();
    let auth = Authenticator::new(
        world.directory.clone(),
        &patient(),
        world.budget.clone(),
        world.clock.clone(),
        &SeededRandom::new(4),
    );
    world.auth = Arc::new(auth.unwrap());
    assert!(world.refused("jane", "pw").await, "the host's name is no domain of mail");
    assert!(world.login("jane@mail.example", "pw").await.is_ok());
}

/// While a bus is connected, records are read after a notice, and otherwise rarely; when it disconnects, at
/// once.
#[tokio::test(start_paused = true)]
async fn notices_are_checked_at_once_and_other_records_rarely() {
    let world = Fixture::new(patient()).await;
    let (name, _) = world.account("me@x", "pw").await;
    let id = world.directory.get(&name).await.unwrap().id;
    let standings = world.auth.standings();
    let enter = async || world.auth.standing(&world.login("me@x", "pw").await.unwrap());
    standings.set_bus_connected(true);
    let unheard = enter().await;
    world.directory.remove(&name).await.unwrap();
    tokio::time::sleep(standing::SELDOM - 2 * standing::PERIOD).await;
    assert!(unheard.holds());
    tokio::time::timeout(standing::PERIOD * 4, unheard.lost()).await.unwrap();
    for gone in [false, true] {
        world.directory.undelete(&name).await.unwrap();
        let session = enter().await;
        tokio::time::sleep(standing::PERIOD).await;
        world.directory.remove(&name).await.unwrap();
        assert!(session.holds());
        if gone {
            standings.set_bus_connected(false)
        } else {
            standings.look(id)
        }
        tokio::time::timeout(standing::PERIOD / 2, session.lost()).await.unwrap();
    }
}

/// A store that reports changes is read only after a change.
#[tokio::test]
async fn nothing_is_read_while_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let world = Fixture::over(Store::local(dir.path()).await.unwrap(), patient());
    let (name, root) = world.account("me@x", "pw").await;
    let before = world.directory.store_moment().unwrap();
    let entered = world.login("me@x", "pw").await.unwrap();
    let standing = world.auth.standing(&entered);
    assert_eq!(world.directory.store_moment(), Some(before), "a login changes nothing");
    tokio::time::pause();
    let reads = || world.store.metrics().reads.read().count();
    let before = reads();
    tokio::time::sleep(standing::PERIOD * 20).await;
    assert!(standing.holds() && reads() <= before + 1, "once, as it was new: {}", reads() - before);
    world.directory.set_password(&name, &root, secret("new")).await.unwrap();
    standing.lost().await;
}

/// Logins to an account fail if its record was forged with a stolen `server.key`.
#[tokio::test]
async fn a_forged_record_refuses_logins_until_it_is_put_right() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (_, token) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let id = world.directory.get(&name).await.unwrap().id;
    let other = RootKey::generate(&SeededRandom::new(9));
    let forged = world.directory.update(&name, |record| {
        record.public = other.delivery_key(id);
        Ok(())
    });
    forged.await.unwrap();
    for right in ["pw", &token] {
        assert!(matches!(world.login("me@x", right).await, Err(Denied::Unavailable(_))), "{right}");
    }
    let bearer = world.auth.bearer(None, "me@x", token.as_bytes()).await;
    assert!(matches!(bearer, Err(Denied::Unavailable(_))));
    assert!(world.refused("me@x", "wrong").await);
    world.directory.set_password(&name, &root, secret("two")).await.unwrap();
    for right in ["two", &token] {
        assert!(world.login("me@x", right).await.unwrap().root.same(&root));
    }
}

/// Slots without a tag, from older versions, get one when a login opens them; each slot separately.
#[tokio::test]
async fn a_login_verifies_only_the_slot_that_it_opens() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (_, token) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let untagged = world.directory.update(&name, |record| {
        let untag = |slot: &Slot| slot.clone().labelled(slot.label().map(str::to_owned), Timestamp(1));
        record.slots = record.slots.iter().map(untag).collect();
        Ok(())
    });
    untagged.await.unwrap();
    let unverified = async || {
        let record = world.directory.get(&name).await.unwrap();
        let slots: Vec<_> = record.unverified(&root).map(Slot::kind).collect();
        (slots, record.version)
    };
    assert_eq!(unverified().await.0.len(), 2);
    assert!(world.refused("me@x", "wrong").await);
    assert_eq!(unverified().await.0.len(), 2);
    world.login("me@x", "pw").await.unwrap();
    assert_eq!(unverified().await.0, [SlotKind::Token]);
    world.login("me@x", &token).await.unwrap();
    let (left, version) = unverified().await;
    assert!(left.is_empty());
    for right in ["pw", &token] {
        world.login("me@x", right).await.unwrap();
    }
    assert_eq!(unverified().await.1, version, "once is enough");
    // No copy of a withdrawn secret remains.
    let record = world.directory.get(&name).await.unwrap();
    assert!(world.directory.withdrawn_copies(&record).await.unwrap().is_empty());
}

/// An attacker with `server.key` and copies restores a withdrawn app password in the record.
#[tokio::test]
async fn a_restored_withdrawn_secret_does_not_log_in() {
    let world = Fixture::new(patient()).await;
    let (name, root) = world.account("me@x", "pw").await;
    let (info, token) = world.directory.add_app_password(&name, &root, "phone").await.unwrap();
    let before = world.directory.get(&name).await.unwrap();
    world.directory.revoke_app_password(&name, info.id).await.unwrap();
    assert!(world.directory.get(&name).await.unwrap().is_list_due(), "revoking takes no key");
    world.login("me@x", "pw").await.unwrap();
    let listed = world.directory.get(&name).await.unwrap();
    assert!(!listed.is_list_due());
    let put_back = async |with_list: bool| {
        let changed = world.directory.update(&name, |record| {
            record.slots = before.slots.clone();
            record.slot_list = if with_list { before.slot_list.clone() } else { record.slot_list.take() };
            Ok(())
        });
        changed.await.unwrap();
    };
    put_back(false).await;
    let version = world.directory.get(&name).await.unwrap().version;
    assert!(matches!(world.login("me@x", &token).await, Err(Denied::Unavailable(_))));
    world.login("me@x", "pw").await.unwrap();
    assert_eq!(world.directory.get(&name).await.unwrap().version, version);
    // This node has seen a later list than the restored one.
    put_back(true).await;
    for secret in ["pw", &token] {
        assert!(matches!(world.login("me@x", secret).await, Err(Denied::Unavailable(_))), "{secret}");
    }
}
