//! What is done now and then: reads the subscriptions that other nodes have changed, ends those that
//! have expired or whose login is gone, notes up to where this node has pushed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sealpost_account::Touched;
use sealpost_base::{AccountId, Error, Result};
use tokio::time::{Instant, sleep};

use crate::job::{check, without_expired};
use crate::positions::{self, FILE, Positions};
use crate::pusher::Inner;

/// How often subscriptions of other nodes are looked for: one listing for a thousand accounts.
pub(crate) const REFRESH: Duration = Duration::from_secs(60);
/// How often it is noted up to where this node has pushed.
const SAVE: Duration = Duration::from_secs(15);
/// How often the logins of all subscriptions are checked: those of active accounts are when they are
/// pushed to.
const CHECK: Duration = Duration::from_secs(3600);
/// Notes, logs or records that are read at once.
const AT_ONCE: usize = 8;

/// Runs until the pusher stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let pushed = load(&inner).await;
    refresh(&inner, true).await;
    {
        let mut index = inner.index();
        pushed.iter().for_each(|(log, position)| index.pushed_before(*log, *position));
    }
    sweep(&inner).await;
    // The tables cannot be evicted, so loaded accounts give way to them.
    let reservation = inner.parts.accounts.try_reserve(0);
    let (mut refreshed, mut checked, mut seen) = (Instant::now(), Instant::now(), None);
    loop {
        tokio::select! {
            () = inner.sweeps.notified() => sweep(&inner).await,
            () = sleep(SAVE) => {}
        }
        if refreshed.elapsed() >= REFRESH {
            refreshed = Instant::now();
            refresh(&inner, false).await;
            expire(&inner).await;
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            // Before the records are read: changes meanwhile are for the next time.
            let now = inner.parts.directory.store_moment();
            if now.is_none() || now != seen {
                check_all(&inner).await;
            }
            seen = now;
        }
        look_up(&inner).await;
        if let Some(reservation) = &reservation {
            reservation.set(inner.memory());
        }
        save(&inner).await;
    }
}

/// Reads notes that are new or have changed. A store that only this process serves is read once.
async fn refresh(inner: &Inner, is_first: bool) {
    if inner.parts.store.notices_commits() && !is_first {
        return;
    }
    let before: Vec<(AccountId, u64)> = inner.index().versions();
    let listed = match inner.notes.list().await {
        Ok(listed) => listed,
        Err(error) => return tracing::warn!(%error, "cannot list push subscriptions"),
    };
    let changed: Vec<AccountId> = {
        let mut index = inner.index();
        for (account, version) in before {
            // It is gone, or an attacker brought an earlier one back.
            if listed.get(&account).is_none_or(|listed| *listed < version) {
                index.forget(account);
            }
        }
        let is_known = |(account, version): &(&AccountId, &u64)| index.version(**account) >= Some(**version);
        let is_new = |it: &(&AccountId, &u64)| !is_known(it) && !inner.notes.is_back(*it.0, *it.1);
        listed.iter().filter(is_new).map(|(account, _)| *account).collect()
    };
    let read = |account: AccountId| async move {
        match inner.notes.read(account).await {
            // Noise alone takes no place in the tables.
            Ok((0, _)) => {}
            Ok((version, note)) => inner.install(account, version, &note),
            Err(error) => tracing::warn!(%account, %error, "cannot read push subscriptions"),
        }
    };
    futures::stream::iter(changed).for_each_concurrent(AT_ONCE, read).await;
}

/// Pushes changes that this node, or one that is lost, owes: in every log that goes beyond the position
/// that this node knows.
async fn sweep(inner: &Inner) {
    let accounts = inner.index().accounts();
    let compare = |account: AccountId| async move {
        if let Err(error) = compare(inner, account).await {
            tracing::warn!(%account, %error, "cannot look for changes of an account that were not pushed");
        }
    };
    futures::stream::iter(accounts).for_each_concurrent(AT_ONCE, compare).await;
}

async fn compare(inner: &Inner, account: AccountId) -> Result<()> {
    let logs = inner.index().logs(account);
    let mut ends = Vec::with_capacity(logs.len());
    for (log, seen) in logs {
        ends.push((log, seen, inner.parts.accounts.log_position(log).await?));
    }
    // A log that this node never knew owes nothing.
    if ends.iter().any(|(_, seen, end)| seen.is_some_and(|seen| seen < *end)) {
        // Without the key the node does not know which types changed. All have the same state, and it
        // is another one: RFC 8620 §7.1 wants the types whose state changed.
        inner.touch(account, Touched::ALL);
    }
    let mut index = inner.index();
    for (log, _, end) in ends {
        index.saw(log, end);
    }
    Ok(())
}

/// Reads the positions of logs that this node has not looked at, so that what is appended there after
/// a crash of this node is found.
async fn look_up(inner: &Inner) {
    let unknown = inner.index().unknown();
    let look = |log: AccountId| async move {
        match inner.parts.accounts.log_position(log).await {
            Ok(end) => drop(inner.index().saw(log, end)),
            Err(error) => tracing::warn!(%log, %error, "cannot read the end of a log for pushes"),
        }
    };
    futures::stream::iter(unknown).for_each_concurrent(AT_ONCE, look).await;
}

async fn expire(inner: &Inner) {
    let now = inner.parts.clock.now();
    let expired = inner.index().expired(now);
    for account in expired {
        let ended = inner.change(account, |note| {
            without_expired(note, now);
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::warn!(%account, %error, "cannot remove push subscriptions that have expired");
        }
    }
}

async fn check_all(inner: &Inner) {
    let accounts = inner.index().accounts();
    let check = |account: AccountId| async move {
        let checked = async {
            let (_, note) = inner.notes.read(account).await?;
            if note.subscriptions.is_empty() { Ok(()) } else { check(inner, account, &note).await.map(drop) }
        };
        if let Err(error) = checked.await {
            tracing::warn!(%account, %error, "cannot check the logins of push subscriptions");
        }
    };
    futures::stream::iter(accounts).for_each_concurrent(AT_ONCE, check).await;
}

async fn load(inner: &Inner) -> Positions {
    let Some(data) = &inner.parts.data else { return Positions::new() };
    let path = data.join(FILE);
    let loaded = blocking(move || positions::load(&path)).await;
    loaded.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read up to where this node has pushed; nothing is pushed again");
        Positions::new()
    })
}

/// Notes up to where this node has pushed.
pub(crate) async fn save(inner: &Inner) {
    let Some(data) = &inner.parts.data else { return };
    let path = data.join(FILE);
    let positions = {
        // Under one lock, and positions are known after pushes are scheduled: so every known position
        // is owed here, or was pushed.
        let mut index = inner.index();
        let busy = inner.schedule().busy();
        index.settle(|account| busy.contains(account))
    };
    if let Err(error) = blocking(move || positions::save(&path, &positions)).await {
        tracing::warn!(%error, "cannot note up to where this node has pushed");
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::internal("a blocking task panicked").with_source(e))?
}
