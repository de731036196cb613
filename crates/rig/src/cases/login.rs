//! Logins: a connection, LOGIN, LOGOUT.

use anyhow::Result;
use tokio::task::JoinSet;

use super::{Bench, Measured, account};
use crate::imap::Imap;
use crate::server::PASSWORD;

/// Logins of one run.
pub(super) const LOGINS: usize = 200;

/// An account without a login before run `run`.
pub(super) fn cold_account(run: usize) -> String {
    format!("cold{run:02}@localhost")
}

pub(super) async fn cold(bench: &Bench, run: usize) -> Result<Measured> {
    let meter = bench.begin();
    let mut imap = Imap::login(bench.server.imap, &cold_account(run), PASSWORD).await?;
    let measured = meter.end();
    imap.ok("LOGOUT").await?;
    Ok(measured)
}

pub(super) async fn repeated(bench: &Bench, clients: usize) -> Result<Measured> {
    let addr = bench.server.imap;
    let mut tasks = JoinSet::new();
    let meter = bench.begin();
    for nth in 0..clients {
        tasks.spawn(async move {
            for _ in 0..LOGINS / clients {
                Imap::login(addr, &account(nth), PASSWORD).await?.ok("LOGOUT").await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(meter.end())
}
