//! Whole sessions at random: commands from a grammar, right, nearly right and nonsense, pipelined
//! or one by one, of several sessions of several accounts that share mailboxes.
//!
//! For any input: nothing panics, every command is completed once and in order or the connection
//! ends with BYE, every response can be parsed, the accounts stay sound, and in the end no memory
//! is held.
//!
//! `SEALPOST_SEEDS` and `SEALPOST_FIRST_SEED` as for `sessions.rs`; a failure names the seed and
//! the last commands.

#[path = "fuzz/grammar.rs"]
mod grammar;
#[path = "fuzz/talker.rs"]
mod talker;

use sealpost_account::{Account, AccountState};
use sealpost_base::{MemoryDivision, SeededRandom};
use sealpost_session::Settings;

use self::talker::Talker;
use crate::imap_world::TestServer;
use crate::sessions::seeds;

const ACCOUNTS: [&str; 3] = ["me", "you", "she"];
const SESSIONS: usize = 5;
const STEPS: usize = 120;

#[tokio::test]
async fn whatever_sessions_say_every_command_is_completed_once() {
    let mut completed = [0; 3];
    for seed in seeds(3) {
        let random = SeededRandom::new(seed);
        let settings = Settings {
            memory: MemoryDivision { work: 8 * 1024 * 1024, ..Default::default() },
            ..Settings::default()
        };
        let world = TestServer::new(settings).await;
        let mut accounts = vec![world.account().await];
        for name in &ACCOUNTS[1..] {
            let (record, root) = world.add_account(name, Some(64 * 1024)).await;
            accounts.push(world.ctx.accounts.open(record.id, &root).await.unwrap());
        }
        let mut talkers = Vec::new();
        for i in 0..SESSIONS {
            let seed = random.below(u64::MAX);
            let account = ACCOUNTS[i % ACCOUNTS.len()];
            talkers.push(Talker::new(&world.imap, account, format!("seed {seed}, session {i}"), seed).await);
        }
        let mut talking = Vec::new();
        for mut talker in talkers {
            talking.push(tokio::spawn(async move {
                for _ in 0..STEPS {
                    talker.step().await;
                }
                talker.end().await;
                talker.completed
            }));
        }
        for talker in talking {
            let counts = talker.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            completed.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        assert_eq!(world.ctx.budget.in_use(), 0, "seed {seed}: memory is held");
        for account in &accounts {
            account.refresh().await.unwrap();
            sound(account);
            let links: Vec<_> = account.state().links().map(|(_, link)| link.clone()).collect();
            for link in links {
                sound(&world.ctx.accounts.open(link.share, &link.root).await.unwrap());
            }
        }
    }
    // What the grammar comes up with is worth saying.
    let all: u32 = completed.iter().sum();
    assert!(completed[0] * 3 > all && completed[1] * 20 > all && completed[2] * 20 > all, "{completed:?}");
}

/// What is counted is what is there.
fn sound(account: &Account) {
    let state: &AccountState = &account.state();
    for mailbox in state.mailboxes() {
        let rows: Vec<_> = mailbox.all_rows().collect();
        let name = mailbox.name();
        assert_eq!(rows.len(), mailbox.len(), "{name}");
        assert!(rows.is_sorted_by(|a, b| a.uid < b.uid), "{name}: UIDs ascend");
        assert!(rows.iter().all(|row| row.uid < mailbox.uid_next()), "{name}: UIDNEXT");
        assert!(rows.iter().all(|row| row.modseq <= mailbox.highest_modseq()), "{name}: HIGHESTMODSEQ");
        let bytes: u64 = rows.iter().filter_map(|row| state.message(row.message)).map(|m| m.size()).sum();
        assert_eq!(bytes, mailbox.bytes(), "{name}: bytes");
        let having = |flag: &str| {
            let has = |row: &&sealpost_account::Row| state.flags(row.flags).system.names().any(|f| f == flag);
            rows.iter().filter(has).count()
        };
        assert_eq!(rows.len() - having("\\Seen"), mailbox.unseen(), "{name}: unseen");
        assert_eq!(having("\\Deleted"), mailbox.deleted(), "{name}: deleted");
    }
}
