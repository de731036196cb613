//! How fast an account is without any protocol around it: `cargo run --release --example
//! account_speed -- DIR`.
//!
//! Delivers 5 kB messages from ten tasks at once to one account in a new local store in DIR, then
//! loads it and times what commands are made of. Prints one line for each, in milliseconds or per
//! second.

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::{Account, Accounts, Delivery, Event, FlagAction, Flags, SystemFlags};
use sealpost_base::{AccountId, Budget, Clock, Random, SystemClock, SystemRandom};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, RootKey, Store};

const MESSAGES: usize = 10_000;
const TASKS: usize = 10;
const ID: AccountId = AccountId([1; 16]);

#[allow(clippy::print_stdout, reason = "this program exists to print figures")]
fn report(what: &str, figure: f64, unit: &str) {
    println!("{what:<44} {figure:>10.2} {unit}");
}

fn mail(n: usize) -> Vec<u8> {
    let mut mail = format!("Subject: message {n}\r\nFrom: a@example.org\r\nTo: b@example.org\r\n\r\n");
    for line in 0..64 {
        mail +=
            &format!("Line {line} of message {n} says nothing that the one before did not say already.\r\n");
    }
    mail.into_bytes()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: account_speed DIR")?;
    let clock = Arc::new(SystemClock::new());
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let root = RootKey::generate(&*random);
    let public = AccountKeys::derive(&root, ID).public();
    let store = Store::local(std::path::Path::new(&dir)).await?;
    let accounts = || {
        Accounts::new(
            store.clone(),
            LogKey::for_tests(),
            clock.clone(),
            random.clone(),
            Budget::new(256 << 20),
        )
    };

    let delivering = accounts();
    let start = clock.monotonic();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let accounts = delivering.clone();
            tokio::spawn(async move {
                for n in (task..MESSAGES).step_by(TASKS) {
                    let mut ingest = accounts.ingest(ID).await?;
                    ingest.write(&mail(n)).await?;
                    accounts.deliver(ID, &public, ingest.finish().await?, Delivery::default()).await?;
                }
                Ok::<_, sealpost_base::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let seconds = (clock.monotonic() - start).as_secs_f64();
    report("deliveries, ten at once", MESSAGES as f64 / seconds, "/s");
    let stats = store.stats();
    report("waits for the disk per message", stats.fsyncs as f64 / MESSAGES as f64, "");

    let milliseconds = |start| (clock.monotonic() - start).as_secs_f64() * 1000.0;
    let start = clock.monotonic();
    let account = accounts().open(ID, &root).await?;
    report("load, no checkpoint yet", milliseconds(start), "ms");
    let start = clock.monotonic();
    account.checkpoint().await?;
    report("checkpoint", milliseconds(start), "ms");
    let start = clock.monotonic();
    let account_again = accounts().open(ID, &root).await?;
    report("load from the checkpoint", milliseconds(start), "ms");
    drop(account_again);

    for (what, event) in commands(&account) {
        let start = clock.monotonic();
        account.commit(|_| Ok((vec![event.clone()], ()))).await?;
        report(what, milliseconds(start), "ms");
    }
    for what in ["1,000 structures, cold", "1,000 structures, warm"] {
        let start = clock.monotonic();
        let messages: Vec<_> = account.state().messages().take(1000).map(|(_, m)| m).collect();
        let read = futures::stream::iter(messages).map(|m| {
            let account = account.clone();
            async move { account.structure(&m).await }
        });
        let all: Vec<_> = read.buffered(16).collect().await;
        assert!(all.iter().all(|structure| structure.is_ok()));
        report(what, milliseconds(start), "ms");
    }
    let start = clock.monotonic();
    let messages: Vec<_> = account.state().messages().take(1000).map(|(_, m)| m).collect();
    let read = futures::stream::iter(messages).map(|m| {
        let account = account.clone();
        async move { account.text(&m).await }
    });
    let all: Vec<_> = read.buffered(16).collect().await;
    assert!(all.iter().all(|text| text.is_ok()));
    report("1,000 texts", milliseconds(start), "ms");
    Ok(())
}

fn commands(account: &Account) -> Vec<(&'static str, Event)> {
    let state = account.state();
    let (inbox, archive) = (state.inbox(), state.mailbox_named("Archive"));
    let to = archive.map_or(inbox.id(), |m| m.id());
    let uids: sealpost_base::UidSet = inbox.uids().iter().take(1000).collect();
    let flags = Flags::system(SystemFlags::FLAGGED);
    let (mailbox, action) = (inbox.id(), FlagAction::Add);
    vec![
        ("COPY 1,000", Event::Copied { from: mailbox, uids: uids.clone(), to }),
        (
            "STORE 1,000",
            Event::FlagsStored { mailbox, uids: uids.clone(), action, flags, unchanged_since: None },
        ),
        ("MOVE 1,000", Event::Moved { from: mailbox, uids, to }),
    ]
}
