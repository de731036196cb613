//! Many sessions on the same mailboxes, each in its own dialect, at random: what each believes from
//! its responses alone is what is there, also after it was away, and every response on the way was
//! one it could have believed.
//!
//! `SEALPOST_SEEDS=1000` runs that many seeds, `SEALPOST_FIRST_SEED=7` begins with that one; a
//! failure names the seed.

#[path = "sessions/belief.rs"]
mod belief;
#[path = "sessions/client.rs"]
mod client;
#[path = "sessions/dialect.rs"]
mod dialect;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealpost_account::Account;
use sealpost_base::SeededRandom;
use sealpost_session::Settings;

use self::client::{Believer, Given, OWNER, Truth, User, mailbox_of};
use self::dialect::Dialect;
use crate::imap_world::{Client, TestServer};

const STEPS: usize = 240;
/// Steps of each session when all run at once.
const STEPS_AT_ONCE: usize = 60;

#[expect(clippy::disallowed_methods, reason = "how long a test runs is no configuration")]
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |value| value.parse().unwrap())
}

pub fn seeds(otherwise: u64) -> std::ops::Range<u64> {
    let first = number("SEALPOST_FIRST_SEED", 0);
    first..first + number("SEALPOST_SEEDS", otherwise)
}

fn truth(account: &Account, name: &str) -> Truth {
    let state = account.state();
    let mailbox = mailbox_of(&state, name);
    let flags = |row: &sealpost_account::Row| {
        let set = state.flags(row.flags);
        let keywords = set.keywords.iter().map(|k| state.keyword_name(*k).to_owned());
        set.system.names().map(str::to_owned).chain(keywords).collect()
    };
    Truth {
        uid_validity: mailbox.uid_validity().0.get(),
        highest: mailbox.highest_modseq().0,
        rows: mailbox.all_rows().map(|row| (row.uid.get(), flags(&row), row.modseq.0)).collect(),
    }
}

/// A message is `\Recent` for one session (RFC 3501 §2.3.2).
fn recent_for_one(sessions: Vec<Believer>, seed: u64) {
    let mut all = BTreeSet::new();
    for (mailbox, uid_validity, uids) in sessions.into_iter().flat_map(Believer::finish) {
        // A shared mailbox has another name for each user.
        let mailbox = if mailbox == SHARED { OWNER.mailboxes[1] } else { mailbox };
        for uid in uids {
            assert!(all.insert((mailbox, uid_validity, uid)), "seed {seed}: {mailbox} {uid} is recent twice");
        }
    }
}

async fn sessions(world: &TestServer, seed: u64) -> Vec<Believer> {
    let mut sessions = Vec::new();
    for (i, dialect) in Dialect::ALL.into_iter().enumerate() {
        let name = format!("seed {seed}, session {i}");
        sessions.push(Believer::new(&world.imap, OWNER, dialect, name, seed * 100 + i as u64).await);
    }
    sessions
}

const MESSAGE: &[u8] = b"Subject: delivered\r\n\r\nbody\r\n";

#[tokio::test]
async fn every_session_ends_with_the_true_mailbox() {
    for seed in seeds(6) {
        compare_sessions_with_the_mailbox(seed, Settings::default(), |_| ()).await;
    }
}

/// Sessions release the account whenever they wait, and it is unloaded: their updates stay the
/// same.
#[tokio::test]
async fn every_session_knows_the_mailbox_despite_hibernation() {
    let mut settings = Settings::default();
    settings.timeouts.imap_hibernate = Duration::ZERO;
    let unloaded = AtomicUsize::new(0);
    for seed in seeds(6) {
        compare_sessions_with_the_mailbox(seed, settings.clone(), |world| {
            world.clock.advance(Duration::from_secs(61));
            world.ctx.accounts.evict_idle();
            unloaded.fetch_add(usize::from(world.ctx.accounts.loaded() == 0), Ordering::Relaxed);
        })
        .await;
    }
    assert!(unloaded.into_inner() > STEPS / 2, "they did sleep");
}

async fn compare_sessions_with_the_mailbox(seed: u64, settings: Settings, between: impl Fn(&TestServer)) {
    let random = SeededRandom::new(seed);
    let world = TestServer::new(settings).await;
    let mut sessions = sessions(&world, seed).await;
    for step in 0..STEPS {
        if random.below(8) == 0 {
            let mailbox = ["INBOX", "Archive"][random.below(2) as usize];
            world.deliver(Some(mailbox), MESSAGE).await;
        }
        let who = random.below(sessions.len() as u64) as usize;
        sessions[who].step().await;
        // After the reply, the session's task continues until it waits, and may hibernate.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        between(&world);
        let account = world.account().await;
        sessions[who].believes_no_more_than_it_knows(|_, _| account.clone());
        // No other session is active now, so that one can be queried in the middle.
        if step % 6 == 5 {
            account.refresh().await.unwrap();
            sessions[who].settle(|_, name| truth(&account, name)).await;
        }
    }
    let account = world.account().await;
    account.refresh().await.unwrap();
    for session in &mut sessions {
        session.settle(|_, name| truth(&account, name)).await;
    }
    recent_for_one(sessions, seed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_knows_the_mailbox_under_concurrent_commands() {
    for seed in seeds(4) {
        let random = SeededRandom::new(seed);
        let world = TestServer::new(Settings::default()).await;
        let account = world.account().await;
        let mut talking = Vec::new();
        for mut session in sessions(&world, seed).await {
            talking.push(tokio::spawn(async move {
                for _ in 0..STEPS_AT_ONCE {
                    session.step().await;
                }
                session
            }));
        }
        for _ in 0..STEPS_AT_ONCE / 2 {
            let mailbox = ["INBOX", "Archive"][random.below(2) as usize];
            world.deliver(Some(mailbox), MESSAGE).await;
        }
        let mut sessions = Vec::new();
        for session in talking {
            sessions.push(session.await.unwrap());
        }
        account.refresh().await.unwrap();
        for session in &mut sessions {
            session.settle(|_, name| truth(&account, name)).await;
        }
        recent_for_one(sessions, seed);
    }
}

/// Archive of `me`, as those see it whom it is shared with.
const SHARED: &str = "\"Other Users/me@localhost/Archive\"";
const USERS: [User; 3] = [
    OWNER,
    User { account: "you", mailboxes: ["INBOX", SHARED] },
    User { account: "she", mailboxes: ["INBOX", SHARED] },
];

/// Three accounts, one mailbox that all have, and what else each has.
struct Shared {
    world: TestServer,
    /// The logs of the accounts, and that of the share.
    logs: [Arc<Account>; 3],
    share: Arc<Account>,
    /// The owner's hand.
    owner: Client,
    sessions: Vec<Believer>,
}

impl Shared {
    async fn new(seed: u64) -> Self {
        let mut world = TestServer::new(Settings::default()).await;
        let mut logs = vec![world.account().await];
        for user in &USERS[1..] {
            let (record, root) = world.add_account(user.account, None).await;
            logs.push(world.ctx.accounts.open(record.id, &root).await.unwrap());
        }
        let mut owner = world.login().await;
        for user in &USERS[1..] {
            owner.ok(&format!("SETACL Archive {}@localhost lrswite", user.account)).await;
        }
        let link = logs[0].state().links().map(|(_, link)| link.clone()).next().unwrap();
        let share = world.ctx.accounts.open(link.share, &link.root).await.unwrap();
        let mut sessions = Vec::new();
        for (i, dialect) in Dialect::ALL.into_iter().enumerate() {
            let user = USERS[(i + seed as usize) % USERS.len()];
            let name = format!("seed {seed}, session {i} of {}", user.account);
            sessions.push(Believer::new(&world.imap, user, dialect, name, seed * 100 + i as u64).await);
        }
        let Ok(logs) = <[Arc<Account>; 3]>::try_from(logs) else { panic!("three accounts") };
        Shared { world, logs, share, owner, sessions }
    }

    /// Where the messages of that mailbox of that user are.
    fn log(&self, user: User, name: &str) -> Arc<Account> {
        let at = USERS.iter().position(|known| known.account == user.account).unwrap();
        if name == "INBOX" { self.logs[at].clone() } else { self.share.clone() }
    }

    /// The owner gives more or less to one of the others.
    async fn give(&mut self, random: &SeededRandom) {
        let user = USERS[1 + random.below(2) as usize];
        let given = [Given::All, Given::Look, Given::Nothing][random.below(3) as usize];
        let rights = match given {
            Given::All => "lrswite",
            Given::Look => "lr",
            Given::Nothing => "\"\"",
        };
        self.owner.ok(&format!("SETACL Archive {}@localhost {rights}", user.account)).await;
        for session in self.sessions.iter_mut().filter(|session| session.user.account == user.account) {
            session.given = given;
        }
    }

    async fn settle(&mut self, who: usize) {
        for log in self.logs.iter().chain([&self.share]) {
            log.refresh().await.unwrap();
        }
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions[who].settle(|user, name| truth(&self.log(user, name), name)).await;
        self.sessions = sessions;
    }
}

#[tokio::test]
async fn sessions_know_a_shared_mailbox_while_rights_change() {
    for seed in seeds(4) {
        let random = SeededRandom::new(seed);
        let mut shared = Shared::new(seed).await;
        for step in 0..STEPS {
            if random.below(8) == 0 {
                shared.world.deliver(None, MESSAGE).await;
            }
            if random.below(16) == 0 {
                shared.give(&random).await;
            }
            let who = random.below(shared.sessions.len() as u64) as usize;
            shared.sessions[who].step().await;
            if !shared.sessions[who].is_cut_off() {
                shared.sessions[who].believes_no_more_than_it_knows(|user, name| shared.log(user, name));
            }
            if step % 6 == 5 {
                shared.settle(who).await;
            }
        }
        for who in 0..shared.sessions.len() {
            shared.settle(who).await;
        }
        recent_for_one(shared.sessions, seed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_know_a_shared_mailbox_under_concurrent_commands() {
    for seed in seeds(3) {
        let mut shared = Shared::new(seed).await;
        let mut talking = Vec::new();
        for mut session in std::mem::take(&mut shared.sessions) {
            talking.push(tokio::spawn(async move {
                for _ in 0..STEPS_AT_ONCE {
                    session.step().await;
                }
                session
            }));
        }
        for session in talking {
            shared.sessions.push(session.await.unwrap());
        }
        for who in 0..shared.sessions.len() {
            shared.settle(who).await;
        }
        recent_for_one(shared.sessions, seed);
    }
}
