//! Delivery: LMTP and APPEND.

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::{Bench, CLIENTS, Measured, account};
use crate::imap::{Imap, login};
use crate::lmtp::Lmtp;

/// Connections are open before the clock starts and stay open: only delivery is measured.
pub(super) async fn deliver(
    bench: &Bench,
    kilobytes: usize,
    clients: usize,
    messages: usize,
    one_account: bool,
) -> Result<Measured> {
    let mut connections = Vec::new();
    for nth in 0..clients {
        let to = account(if one_account { 0 } else { nth % CLIENTS });
        connections.push((nth, to, Lmtp::connect(bench.server.lmtp).await?));
    }
    let mut tasks = JoinSet::new();
    let meter = bench.begin();
    for (nth, to, mut lmtp) in connections {
        let data = bench.data.clone();
        tasks.spawn(async move {
            let pool = if kilobytes < 25 { &data.small } else { &data.medium };
            for message in 0..messages / clients {
                let answers = lmtp.deliver(&[&to], &pool[(nth + message * clients) % pool.len()]).await?;
                ensure!(answers.iter().all(|answer| answer.is_ok()), "delivery: {answers:?}");
            }
            Ok(lmtp)
        });
    }
    let mut open = Vec::new();
    while let Some(done) = tasks.join_next().await {
        open.push(done??);
    }
    Ok(meter.end())
}

/// 100 mails to each of 16 accounts, into a mailbox that is created for this run and deleted after
/// it.
pub(super) async fn append(bench: &Bench, run: usize, at_once: bool) -> Result<Measured> {
    let mailbox = format!("Append{run}");
    let mut sessions = Vec::new();
    for nth in 0..CLIENTS {
        let mut session = login(&bench.server, &account(nth)).await?;
        session.ok(&format!("CREATE {mailbox}")).await?;
        sessions.push(session);
    }
    let meter = bench.begin();
    if at_once {
        let mut tasks = JoinSet::new();
        for mut session in sessions.drain(..) {
            let (data, mailbox) = (bench.data.clone(), mailbox.clone());
            tasks.spawn(
                async move { append_all(&mut session, &mailbox, &data.mailbox).await.map(|()| session) },
            );
        }
        while let Some(done) = tasks.join_next().await {
            sessions.push(done??);
        }
    } else {
        for session in &mut sessions {
            append_all(session, &mailbox, &bench.data.mailbox).await?;
        }
    }
    let measured = meter.end();
    for session in &mut sessions {
        session.ok(&format!("DELETE {mailbox}")).await?;
    }
    Ok(measured)
}

async fn append_all(session: &mut Imap, mailbox: &str, mails: &[Vec<u8>]) -> Result<()> {
    for mail in mails {
        let reply = session.append(mailbox, "\\Seen", mail).await?;
        ensure!(reply.is_ok(), "APPEND: {}", reply.status);
    }
    Ok(())
}
