//! Many sessions on the same mailboxes, each in its own dialect, at random: what each believes from its responses alone is
//! what is there, also after it was away, and every response on the way was one it could have believed.
//!
//! `SEALPOST_SEEDS=1000` runs that many seeds, `SEALPOST_FIRST_SEED=7` begins with that one; a failure names the seed.

#[path = "sessions/belief.rs"]
mod belief;
#[path = "sessions/client.rs"]
mod client;

use std::collections::BTreeSet;

use sealpost_account::Account;
use sealpost_base::SeededRandom;
use sealpost_server::Settings;

use self::client::{Believer, Dialect, Truth};
use crate::imap_world::World;

const STEPS: usize = 240;
/// Steps of each session when all run at once.
const STEPS_AT_ONCE: usize = 60;

#[expect(clippy::disallowed_methods, reason = "how long a test runs is no configuration")]
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |value| value.parse().unwrap())
}

fn seeds(otherwise: u64) -> std::ops::Range<u64> {
    let first = number("SEALPOST_FIRST_SEED", 0);
    first..first + number("SEALPOST_SEEDS", otherwise)
}

fn truth(account: &Account, name: &str) -> Truth {
    let state = account.state();
    let mailbox = state.mailbox_named(name).unwrap();
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
        for uid in uids {
            assert!(all.insert((mailbox, uid_validity, uid)), "seed {seed}: {mailbox} {uid} is recent twice");
        }
    }
}

async fn sessions(world: &World, seed: u64) -> Vec<Believer> {
    let mut sessions = Vec::new();
    for (i, dialect) in Dialect::ALL.into_iter().enumerate() {
        let name = format!("seed {seed}, session {i}");
        sessions.push(Believer::new(&world.ctx, dialect, name, seed * 100 + i as u64).await);
    }
    sessions
}

const MESSAGE: &[u8] = b"Subject: delivered\r\n\r\nbody\r\n";

#[tokio::test]
async fn what_each_session_believes_is_what_is_there() {
    for seed in seeds(6) {
        let random = SeededRandom::new(seed);
        let world = World::new(Settings::default()).await;
        let account = world.account().await;
        let mut sessions = sessions(&world, seed).await;
        for step in 0..STEPS {
            if random.below(8) == 0 {
                let mailbox = ["INBOX", "Archive"][random.below(2) as usize];
                world.deliver(Some(mailbox), MESSAGE).await;
            }
            let who = random.below(sessions.len() as u64) as usize;
            sessions[who].step().await;
            sessions[who].believes_no_more_than_it_knows(&account);
            // Nobody else does anything now, so that one can be asked in the middle of it all.
            if step % 6 == 5 {
                account.refresh().await.unwrap();
                sessions[who].settle(|name| truth(&account, name)).await;
            }
        }
        account.refresh().await.unwrap();
        for session in &mut sessions {
            session.settle(|name| truth(&account, name)).await;
        }
        recent_for_one(sessions, seed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_session_believes_is_what_is_there_when_all_talk_at_once() {
    for seed in seeds(4) {
        let random = SeededRandom::new(seed);
        let world = World::new(Settings::default()).await;
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
            session.settle(|name| truth(&account, name)).await;
        }
        recent_for_one(sessions, seed);
    }
}
