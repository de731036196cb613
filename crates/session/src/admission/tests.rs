//! Which connections are admitted, rest and stir, and that counts are correct after any sequence.

use futures::FutureExt;

use super::counts::Held;
use super::*;

fn peer(n: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, n]))
}

fn log_in(admitted: &Admitted) {
    // To an account of its own.
    assert!(admitted.logged_in(AccountId(u128::from(admitted.number).to_be_bytes())));
}

fn assert_is_empty(counts: &Counts) {
    assert_eq!((counts.bytes, counts.held), (0, Held::default()));
    assert!(counts.connections.is_empty() && counts.holders.is_empty());
    assert!(counts.waiting.is_empty() && counts.turns.is_empty());
}

/// A resting session of that account.
fn resting(admission: &Admission, account: u8) -> Option<Admitted> {
    let mut admitted = admission.admit(peer(1))?;
    assert!(admitted.logged_in(AccountId([account; 16])));
    admitted.rest(limits::RESTING_BYTES);
    Some(admitted)
}

fn stirs(admitted: &mut Admitted) -> bool {
    matches!(admitted.stir().now_or_never(), Some(Ok(())))
}

fn has_to_leave(admitted: &Admitted) -> bool {
    admitted.leave.notified().now_or_never().is_some()
}

#[test]
fn counts_go_up_and_down_and_leave_nothing_behind() {
    let admission = Admission::new(Connections { total: 4, per_address: 2 }, usize::MAX);
    let one: Vec<_> = (0..2).map(|_| admission.admit(peer(1)).unwrap()).collect();
    assert!(admission.admit(peer(1)).is_none(), "two from one address");
    let two = admission.admit(peer(2)).unwrap();
    let unix = admission.admit(None).unwrap();
    for known in one.iter().chain([&two, &unix]) {
        log_in(known);
    }
    assert!(admission.admit(peer(3)).is_none(), "four in all");
    drop(one);
    assert!(admission.admit(peer(1)).is_some());
    assert_eq!(admission.lock().networks.len(), 1);
    assert_eq!((admission.total(), admission.lock().strangers.len()), (2, 0));
    drop((two, unix));
    let counts = admission.lock();
    assert_is_empty(&counts);
}

#[test]
fn no_account_takes_the_places_of_others() {
    const ALL: usize = 60;
    let admission =
        Admission::new(Connections { total: 1000, per_address: 1000 }, ALL * limits::CONNECTION_BYTES);
    let (greedy, other) = (AccountId([1; 16]), AccountId([2; 16]));
    let mut inside = Vec::new();
    let enter = |account, inside: &mut Vec<Admitted>| {
        let admitted = admission.admit(peer(1)).unwrap();
        let may = admitted.logged_in(account);
        inside.push(admitted);
        may
    };
    assert_eq!((0..50).filter(|_| enter(greedy, &mut inside)).count(), ALL / 2);
    assert_eq!((0..50).filter(|_| enter(other, &mut inside)).count(), ALL / 4);
    assert!(enter(AccountId([3; 16]), &mut inside), "there is room for who has none");
    drop(inside);
    assert!(enter(greedy, &mut Vec::new()));
}

#[test]
fn repeated_logins_of_one_connection_count_once() {
    let admission = Admission::new(Connections { total: 30, per_address: 30 }, usize::MAX);
    let (one, other) = (AccountId([1; 16]), AccountId([2; 16]));
    let admitted = admission.admit(peer(1)).unwrap();
    for account in [one, one, other, one] {
        assert!(admitted.logged_in(account));
    }
    assert_eq!(admission.lock().held.connections, 1);
    assert_eq!(admission.lock().holders.len(), 1);
}

#[test]
fn senders_beyond_their_part_make_room() {
    const ALL: usize = 60;
    let admission = Admission::new(Connections { total: ALL, per_address: 1000 }, usize::MAX);
    let senders: Vec<_> = (0..ALL).map(|_| admission.admit(peer(1)).unwrap()).collect();
    senders.iter().for_each(Admitted::sends);
    let honest = admission.admit(peer(2)).unwrap();
    assert!(has_to_leave(&senders[ALL / 2]), "the first that is one too many");
    log_in(&honest);
}

#[test]
fn the_oldest_anonymous_connection_is_closed_first() {
    let admission = Admission::new(Connections { total: 3, per_address: 9 }, usize::MAX);
    let known = admission.admit(peer(1)).unwrap();
    log_in(&known);
    let (first, second) = (admission.admit(peer(1)).unwrap(), admission.admit(peer(2)).unwrap());
    let third = admission.admit(peer(3)).unwrap();
    assert!(has_to_leave(&first) && !has_to_leave(&known) && !has_to_leave(&second));
    drop(first);
    assert_eq!(admission.total(), 3);
    for late in [&second, &third] {
        log_in(late);
    }
    assert!(admission.admit(peer(4)).is_none(), "nobody who is known has to go");
}

#[test]
fn newcomers_do_not_push_each_other_out() {
    let admission = Admission::new(Connections { total: 32, per_address: 99 }, usize::MAX);
    let all: Vec<_> = (0..32).map(|_| admission.admit(peer(1)).unwrap()).collect();
    for known in &all[..30] {
        log_in(known);
    }
    assert!(admission.admit(peer(2)).is_none());
    assert!(!all.iter().any(has_to_leave));
}

#[test]
fn the_memory_charged_for_connections_is_bounded() {
    // A quarter is for those that stir.
    let bytes = (4 * limits::CONNECTION_BYTES + limits::TLS_BYTES).div_ceil(3) * 4;
    let admission = Admission::new(Connections { total: 1000, per_address: 1000 }, bytes);
    let mut first = admission.admit(peer(1)).unwrap();
    assert!(first.speaks_tls());
    let mut others: Vec<_> = (0..3).map(|_| admission.admit(peer(2)).unwrap()).collect();
    for known in others.iter().chain([&first]) {
        log_in(known);
    }
    assert!(admission.admit(peer(3)).is_none());
    assert!(!others[0].speaks_tls(), "there is no room for it");
    drop(first);
    assert!(others[0].speaks_tls() && admission.admit(peer(3)).is_some());
}

#[test]
fn the_oldest_handshake_is_closed() {
    let handshakes = Handshakes::new(2);
    let (first, second) = (handshakes.enter(), handshakes.enter());
    assert!(first.given_up().now_or_never().is_none());
    let third = handshakes.enter();
    assert!(first.given_up().now_or_never().is_some());
    assert!(second.given_up().now_or_never().is_none());
    drop((first, third));
    let _fourth = handshakes.enter();
    assert!(second.given_up().now_or_never().is_none(), "there was room");
}

#[test]
fn resting_sessions_leave_room_for_others_and_some_can_stir() {
    const BYTES: usize = 4 << 20;
    let admission = Admission::new(Connections { total: 10_000, per_address: 10_000 }, BYTES);
    let mut inside: Vec<_> =
        (0..=u8::MAX).cycle().map_while(|account| resting(&admission, account)).collect();
    let fit = BYTES * 15 / 16 / limits::RESTING_BYTES;
    assert!(inside.len() >= fit && 4 * fit > 5 * (BYTES / limits::CONNECTION_BYTES), "{}", inside.len());
    assert!(admission.lock().bytes <= BYTES);

    let stirring = inside.iter_mut().map_while(|session| stirs(session).then_some(())).count();
    assert!(stirring >= LEAST_HELD, "{stirring}");
    assert!(admission.lock().bytes <= BYTES);
    assert!(!stirs(&mut inside[stirring]), "there is no memory for another one");
    inside[0].rest(limits::RESTING_BYTES);
    assert!(stirs(&mut inside[stirring]), "there is again");
    assert!(admission.lock().bytes <= BYTES);
    drop(inside);
    assert_is_empty(&admission.lock());
}

#[test]
fn a_resting_session_is_charged_for_kept_memory() {
    let admission = Admission::new(Connections { total: 9, per_address: 9 }, 1 << 20);
    let mut session = resting(&admission, 1).unwrap();
    session.rest(7000);
    assert_eq!(admission.lock().bytes, 7000);
    session.rest(usize::MAX / 2);
    assert_eq!(admission.lock().bytes, limits::CONNECTION_BYTES, "and never more than if it did not rest");
    assert!(stirs(&mut session) && session.speaks_tls());
    session.rest(7000);
    assert_eq!(admission.lock().bytes, 7000 + limits::RESTING_TLS_BYTES);
    assert!(stirs(&mut session) && !session.rests());
    assert_eq!(admission.lock().bytes, limits::CONNECTION_BYTES + limits::TLS_BYTES);
}

#[test]
fn sessions_wait_only_for_those_of_their_account() {
    const BYTES: usize = 1 << 20;
    let admission = Admission::new(Connections { total: 10_000, per_address: 10_000 }, BYTES);
    let all = BYTES * 9 / 20 / limits::RESTING_BYTES;
    let mut greedy: Vec<_> = (0..all).filter_map(|_| resting(&admission, 1)).collect();
    let mut honest: Vec<_> = (2..10).filter_map(|account| resting(&admission, account)).collect();
    assert_eq!((greedy.len(), honest.len()), (all, 8));
    let stirring = greedy.iter_mut().map_while(|session| stirs(session).then_some(())).count();
    let of_greedy = admission.lock().holders[&Holder::Account(AccountId([1; 16]))].bytes;
    assert!((2..all).contains(&stirring) && of_greedy <= BYTES / 2, "{stirring}, {of_greedy}");

    let (stirred, waiting) = greedy.split_at_mut(stirring);
    assert!(!stirred[0].is_wanted(), "nobody waits");
    let mut first = Box::pin(waiting[0].stir());
    assert!(first.as_mut().now_or_never().is_none());
    assert!(stirred[0].is_wanted(), "one of its own account does");
    assert!(honest.iter_mut().all(stirs), "others do not wait behind it");
    assert!(!honest[0].is_wanted(), "nor does it wait for theirs");
    honest.iter_mut().for_each(|session| session.rest(limits::RESTING_BYTES));
    stirred[0].rest(limits::RESTING_BYTES);
    assert_eq!(first.as_mut().now_or_never(), Some(Ok(())));
    drop(first);
    assert!(!stirred[1].is_wanted());
    drop((greedy, honest));
    assert_is_empty(&admission.lock());
}

#[test]
fn waiters_wake_in_order_and_cancelled_ones_are_forgotten() {
    const BYTES: usize = 1 << 20;
    let admission = Admission::new(Connections { total: 10_000, per_address: 10_000 }, BYTES);
    let mut inside: Vec<_> = (0..=u8::MAX).map_while(|account| resting(&admission, account)).collect();
    let stirring = inside.iter_mut().map_while(|session| stirs(session).then_some(())).count();
    let (stirred, waiting) = inside.split_at_mut(stirring);
    let [gives_up, second, third, ..] = waiting else { panic!("all of them stir") };
    let mut first = Box::pin(gives_up.stir());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(second.stir());
    assert!(second.as_mut().now_or_never().is_none());
    stirred[0].rest(limits::RESTING_BYTES);
    assert!(!stirs(third), "there is memory, for those in front");
    drop(first);
    assert_eq!(second.as_mut().now_or_never(), Some(Ok(())));
    drop(second);
    assert!(admission.lock().turns.is_empty());
}

#[test]
fn anonymous_connections_yield_to_active_sessions() {
    const BYTES: usize = 1 << 20;
    let admission = Admission::new(Connections { total: 10_000, per_address: 10_000 }, BYTES);
    let mut users: Vec<_> = (0..40).map_while(|account| resting(&admission, account)).collect();
    let mut strangers = Vec::new();
    while admission.lock().missing_to_come(limits::CONNECTION_BYTES) == 0 {
        let mut stranger = admission.admit(peer(2)).unwrap();
        stranger.rest(limits::RESTING_BYTES);
        strangers.push(stranger);
    }
    assert!(users.iter_mut().all(stirs), "whatever strangers take");
    let gone = strangers.iter().take_while(|stranger| has_to_leave(stranger)).count();
    assert!(gone > 0 && !strangers[gone..].iter().any(has_to_leave), "{gone}");
    strangers.drain(..gone);
    assert!(admission.lock().bytes <= BYTES);
    assert!(stirs(&mut strangers[0]));
    drop((users, strangers));
    assert_is_empty(&admission.lock());

    // Users have all memory: the remaining stranger does not wait for them.
    let mut stranger = admission.admit(peer(2)).unwrap();
    stranger.rest(limits::RESTING_BYTES);
    let mut users: Vec<_> = (0..=u8::MAX).cycle().map_while(|account| resting(&admission, account)).collect();
    assert!(users.len() > STRANGERS_SHARE && !has_to_leave(&stranger));
    users.iter_mut().map_while(|user| stirs(user).then_some(())).count();
    assert_eq!(stranger.stir().now_or_never(), Some(Err(NoMemory)));
}

#[tokio::test]
async fn accounts_lend_memory_to_users_and_get_it_back() {
    const OWN: usize = 1 << 20;
    let accounts = crate::context::for_tests().accounts.clone();
    let lent = || accounts.account_memory().1;
    let many = Connections { total: 10_000, per_address: 10_000 };
    let admission = Admission::with_loan(many, OWN, accounts.clone(), 4 * OWN);
    let mut inside = Vec::new();
    for _ in 0..2 * OWN / limits::CONNECTION_BYTES {
        inside.push(admission.admit(peer(1)).unwrap());
    }
    assert_eq!(lent(), 0, "strangers make room for strangers");
    drop(inside);

    let users: Vec<_> = (0..=u8::MAX).cycle().map_while(|account| resting(&admission, account)).collect();
    assert!(users.len() * limits::RESTING_BYTES > 4 * OWN, "{}", users.len());
    assert!(users.len() <= admission.places() && lent() == 4 * OWN);
    assert!(admission.lock().bytes <= OWN + lent());

    // A load gets memory that is not lent, and nothing is lent while it waits.
    let (all, used) = accounts.account_memory();
    let account = accounts.try_reserve(all - used).unwrap();
    drop(users);
    assert!(lent() == account.bytes() && admission.total() == 0);
    drop((account, admission));
    assert_eq!(lent(), 0);
}

/// Silent strangers until there is no memory for another one.
fn fill_with_strangers(admission: &Admission) -> Vec<Admitted> {
    let mut strangers = Vec::new();
    while admission.lock().missing_to_come(limits::CONNECTION_BYTES) == 0 {
        let mut stranger = admission.admit(peer(2)).unwrap();
        stranger.rest(limits::SILENT_BYTES);
        strangers.push(stranger);
    }
    strangers
}

#[tokio::test]
async fn strangers_that_log_in_stay_and_cause_a_loan() {
    const OWN: usize = 1 << 20;
    let accounts = crate::context::for_tests().accounts.clone();
    let lent = || accounts.account_memory().1;
    let many = Connections { total: 10_000, per_address: 10_000 };
    let admission = Admission::with_loan(many, OWN, accounts.clone(), 4 * OWN);
    let mut clients = fill_with_strangers(&admission);
    assert!(clients.len() > OWN / 5000 && lent() == 0, "{}", clients.len());

    for client in &mut clients {
        assert!(stirs(client), "the others do not wait for its login, nor it for theirs");
        log_in(client);
        let (charged, held) = (admission.charged(), admission.lock().held.bytes);
        assert!(charged <= OWN + lent() && lent() <= held, "{charged}, {held}, {}", lent());
        client.rest(limits::RESTING_BYTES);
    }
    assert!(!clients.iter().any(has_to_leave));
    assert!(lent() > 0 && admission.total() == clients.len());
    drop((clients, admission));
    assert_eq!(lent(), 0);
}

#[tokio::test]
async fn strangers_leave_for_an_account_that_needs_lent_memory() {
    const OWN: usize = 1 << 20;
    let accounts = crate::context::for_tests().accounts.clone();
    let (all, _) = accounts.account_memory();
    let many = Connections { total: 10_000, per_address: 10_000 };
    let admission = Admission::with_loan(many, OWN, accounts.clone(), 4 * OWN);
    let mut strangers = fill_with_strangers(&admission);
    let before = strangers.len();
    let users: Vec<_> = (0..60).filter_map(|account| resting(&admission, account)).collect();
    let (_, lent) = accounts.account_memory();
    assert!(users.len() == 60 && lent > 0);

    admission.0.repay(all);
    assert!(users.iter().all(|user| !has_to_leave(user)));
    strangers.retain(|stranger| !has_to_leave(stranger));
    assert!(strangers.len() < before);
    // Now they have ended.
    admission.0.repay(all);
    assert!(accounts.account_memory().1 < lent);
    assert!(admission.lock().bytes <= OWN + accounts.account_memory().1);
}

#[tokio::test]
async fn tls_of_a_stranger_replaces_strangers() {
    const OWN: usize = 1 << 20;
    let accounts = crate::context::for_tests().accounts.clone();
    let many = Connections { total: 10_000, per_address: 10_000 };
    let admission = Admission::with_loan(many, OWN, accounts.clone(), 4 * OWN);
    let mut strangers = fill_with_strangers(&admission);
    let mut last = strangers.pop().unwrap();
    assert!(stirs(&mut last) && last.speaks_tls());
    assert!(strangers.iter().any(has_to_leave) && !has_to_leave(&last));
    assert_eq!(accounts.account_memory().1, 0);
}

#[tokio::test]
async fn few_accounts_use_lent_memory_too() {
    const OWN: usize = 1 << 20;
    const ACCOUNTS: u8 = 4;
    let accounts = crate::context::for_tests().accounts.clone();
    let many = Connections { total: 10_000, per_address: 10_000 };
    let admission = Admission::with_loan(many, OWN, accounts.clone(), 4 * OWN);
    let resting_unless_refused = |account| {
        let mut user = admission.admit(peer(1))?;
        if !user.logged_in(AccountId([account; 16])) {
            return None;
        }
        user.rest(limits::RESTING_BYTES);
        Some(user)
    };
    let mut users: Vec<_> = (0..ACCOUNTS).cycle().map_while(resting_unless_refused).collect();
    // Each has as much as is free.
    let share = 5 * OWN / (usize::from(ACCOUNTS) + 1);
    let most = usize::from(ACCOUNTS) * share / limits::RESTING_BYTES;
    assert!((most * 9 / 10..=most).contains(&users.len()), "{} of {most}", users.len());
    assert!(admission.lock().bytes <= OWN + accounts.account_memory().1);

    // With fewer of them, each can report to its client, one after the other.
    users.truncate(most / 2);
    for user in &mut users {
        assert!(stirs(user));
        user.rest(limits::RESTING_BYTES);
    }
    drop(users);
    assert_eq!(accounts.account_memory().1, 0, "all of it is given back");
}
