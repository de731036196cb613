//! A mailbox of 1,000 messages read, searched, flagged, copied and moved; one of 10,000 selected.

use anyhow::{Result, ensure};
use sealpost_bench::mail;

use super::{Bench, Measured, READER, TEN_THOUSAND, THOUSAND};
use crate::imap::{Imap, exists, login};

/// Messages in [`THOUSAND`].
const MESSAGES: u64 = 1000;

/// Ten different mailboxes of the same sizes make the thousand; ten copies of that the ten
/// thousand.
pub(super) async fn fill(bench: &Bench, seed: u64) -> Result<()> {
    let mut session = login(&bench.server, READER).await?;
    session.ok(&format!("CREATE {THOUSAND}")).await?;
    for nth in 0..10 {
        for mail in mail::mailbox_100(seed + nth) {
            let reply = session.append(THOUSAND, "\\Seen", &mail).await?;
            ensure!(reply.is_ok(), "APPEND: {}", reply.status);
        }
    }
    session.ok(&format!("CREATE {TEN_THOUSAND}")).await?;
    session.ok(&format!("SELECT {THOUSAND}")).await?;
    for _ in 0..10 {
        session.ok(&format!("COPY 1:* {TEN_THOUSAND}")).await?;
    }
    Ok(())
}

async fn selected(bench: &Bench) -> Result<Imap> {
    let mut session = login(&bench.server, READER).await?;
    let count = exists(&session.ok(&format!("SELECT {THOUSAND}")).await?)?;
    ensure!(u64::from(count) == MESSAGES, "{THOUSAND} has {count} messages");
    Ok(session)
}

pub(super) async fn fetch(bench: &Bench, items: &str) -> Result<Measured> {
    let mut session = selected(bench).await?;
    let meter = bench.begin();
    let tally = session.count(&format!("FETCH 1:* {items}")).await?;
    let measured = meter.end();
    ensure!(tally.fetches == MESSAGES, "{} FETCH responses", tally.fetches);
    Ok(measured)
}

/// Warm: the session has searched another word, so that no cached answer is measured.
pub(super) async fn search(bench: &Bench, key: &str, cold: bool) -> Result<Measured> {
    let mut session = selected(bench).await?;
    if !cold {
        session.ok(&format!("SEARCH {key} {}", mail::ABSENT_WORD)).await?;
    }
    let meter = bench.begin();
    let reply = session.ok(&format!("SEARCH {key} {}", mail::RARE_WORD)).await?;
    let measured = meter.end();
    let found = reply.untagged.iter().find_map(|line| line.strip_prefix(b"SEARCH")).unwrap_or_default();
    let found = found.split(|b| *b == b' ').filter(|word| !word.is_empty()).count();
    ensure!(found == 10, "SEARCH found {found} of 10 messages");
    Ok(measured)
}

pub(super) async fn store(bench: &Bench) -> Result<Measured> {
    let mut session = selected(bench).await?;
    let meter = bench.begin();
    let tally = session.count("STORE 1:* +FLAGS (\\Flagged)").await?;
    let measured = meter.end();
    ensure!(tally.fetches == MESSAGES, "{} FETCH responses", tally.fetches);
    session.ok("STORE 1:* -FLAGS.SILENT (\\Flagged)").await?;
    Ok(measured)
}

pub(super) async fn copy(bench: &Bench, run: usize) -> Result<Measured> {
    let mut session = selected(bench).await?;
    session.ok(&format!("CREATE Copy{run}")).await?;
    let meter = bench.begin();
    session.ok(&format!("COPY 1:* Copy{run}")).await?;
    let measured = meter.end();
    let count = exists(&session.ok(&format!("EXAMINE Copy{run}")).await?)?;
    ensure!(u64::from(count) == MESSAGES, "the copy has {count} messages");
    session.ok(&format!("SELECT {THOUSAND}")).await?;
    session.ok(&format!("DELETE Copy{run}")).await?;
    Ok(measured)
}

/// The messages are moved back afterwards, so that the next case finds them.
pub(super) async fn r#move(bench: &Bench, run: usize) -> Result<Measured> {
    let mut session = selected(bench).await?;
    session.ok(&format!("CREATE Move{run}")).await?;
    let meter = bench.begin();
    session.ok(&format!("MOVE 1:* Move{run}")).await?;
    let measured = meter.end();
    let count = exists(&session.ok(&format!("SELECT Move{run}")).await?)?;
    ensure!(u64::from(count) == MESSAGES, "{count} messages were moved");
    session.ok(&format!("MOVE 1:* {THOUSAND}")).await?;
    session.ok(&format!("SELECT {THOUSAND}")).await?;
    session.ok(&format!("DELETE Move{run}")).await?;
    Ok(measured)
}

/// Warm: the session had the mailbox selected, then another.
pub(super) async fn select(bench: &Bench, ten_thousand: bool, cold: bool) -> Result<Measured> {
    let (name, messages) = if ten_thousand { (TEN_THOUSAND, 10 * MESSAGES) } else { (THOUSAND, MESSAGES) };
    let mut session = login(&bench.server, READER).await?;
    if !cold {
        session.ok(&format!("SELECT {name}")).await?;
        session.ok("SELECT INBOX").await?;
    }
    let meter = bench.begin();
    let reply = session.ok(&format!("SELECT {name}")).await?;
    let measured = meter.end();
    ensure!(u64::from(exists(&reply)?) == messages, "not {messages} messages");
    Ok(measured)
}
