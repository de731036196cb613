//! Entries of other processes: they ring the bells of the accounts concerned, so that listeners
//! read the log.
//!
//! The store says which log entries are new, so a change costs what it brings, however many
//! accounts are listened to.

use std::sync::{Arc, Weak};

use sealpost_base::Result;
use sealpost_vault::Store;
use sealpost_vault::store::Mark;

use super::{Accounts, Shared, lock};
use crate::grown::Grown;
use crate::log_end::LogEnd;

/// Rings bells for as long as there are accounts.
pub(super) async fn watch(accounts: Weak<Shared>) {
    let Some(store) = accounts.upgrade().map(|shared| shared.env.store().clone()) else { return };
    let mut changes = store.changes();
    let mut mark = first_mark(&store).await;
    while changes.changed().await.is_ok() {
        let Some(shared) = accounts.upgrade() else { return };
        if let Err(e) = notify(&Accounts(shared), &mut mark).await {
            tracing::warn!(error = %e, "cannot look for new entries of other processes");
        }
    }
}

/// No session listens yet to earlier entries.
async fn first_mark(store: &Store) -> Mark {
    match store.newer(Mark::default()).await {
        Ok(Some(newer)) => newer.mark,
        _ => Mark::default(),
    }
}

async fn notify(accounts: &Accounts, mark: &mut Mark) -> Result<()> {
    loop {
        let Some(newer) = accounts.0.env.store().newer(mark.clone()).await? else {
            return look_everywhere(accounts).await;
        };
        for (id, position) in newer.entries.iter().filter_map(|path| sealpost_journal::log_entry(path)) {
            // This process reports what it appends by itself, and knows more of it.
            let _ = accounts.0.grown.send(Grown { log: id, position, touched: None });
            let head = lock(&accounts.0.heads).by_account.get(&id).cloned();
            // A path alone rings nothing: it may be of no entry.
            if let Some(head) = head
                && position > *head.known_end.borrow()
            {
                let known = *head.known_end.borrow();
                head.notify(head.journal.last_after(known).await?);
            }
        }
        *mark = newer.mark;
        if !newer.complete {
            return look_everywhere(accounts).await;
        }
        if !newer.more {
            return Ok(());
        }
    }
}

/// Reads the logs of all accounts that have listeners.
async fn look_everywhere(accounts: &Accounts) -> Result<()> {
    let heads: Vec<Arc<LogEnd>> = lock(&accounts.0.heads).by_account.values().cloned().collect();
    for head in heads.into_iter().filter(|head| Arc::strong_count(head) > 2) {
        let known = *head.known_end.borrow();
        head.notify(head.journal.last_after(known).await?);
    }
    Ok(())
}
