//! Leases: accounts are released and opened again.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sealpost_account::{Account, Flags};
use sealpost_mailbox::Lease;
use sealpost_mailbox::lease::LogWatchers;

use crate::fixture::{Fixture, Member};

const KEEP: Duration = Duration::from_secs(5);

/// A lease on both accounts, which nothing else holds.
fn lease(w: Fixture) -> (Lease, sealpost_account::Accounts, [std::sync::Weak<Account>; 2]) {
    let Fixture { accounts, me: Member { account: mine, .. }, you: Member { account: yours, .. }, .. } = w;
    let weak = [Arc::downgrade(&mine), Arc::downgrade(&yours)];
    (Lease::new(mine, Some(yours)), accounts, weak)
}

#[tokio::test]
async fn released_accounts_can_be_unloaded_and_opened_again() {
    let w = Fixture::new().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    let (lease, accounts, weak) = lease(w);
    accounts.evict_all();
    assert!(weak.iter().all(|account| account.strong_count() > 0), "the lease holds them");
    let released = lease.release();
    accounts.evict_all();
    assert!(weak.iter().all(|account| account.strong_count() == 0));
    let lease = released.reopen(&accounts).await.unwrap();
    assert_eq!(lease.own.state().inbox().len(), 1);
    assert_eq!(lease.others.len(), 1);
}

#[tokio::test]
async fn watchers_notify_of_any_log_while_accounts_are_released() {
    let w = Fixture::new().await;
    let lease = Lease::new(w.me.account.clone(), Some(w.you.account.clone()));
    let watchers = LogWatchers::new(lease.watchers());
    let released = lease.release();
    assert!(watchers.notified().now_or_never().is_none(), "nothing happened");
    w.append(&w.you, "INBOX", Flags::default()).await.unwrap();
    watchers.notified().now_or_never().expect("one of the logs has grown");
    let lease = released.reopen(&w.accounts).await.unwrap();
    assert_eq!(lease.others[0].state().inbox().len(), 1, "it has read on");
    let watchers = LogWatchers::new(lease.watchers());
    assert!(watchers.notified().now_or_never().is_none(), "that is known now");
    assert!(LogWatchers::new([]).notified().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn accounts_are_kept_for_a_moment_and_not_under_pressure() {
    let w = Fixture::new().await;
    let (room, _) = w.accounts.account_memory();
    let begin = tokio::time::Instant::now();
    let lease = || Lease::new(w.me.account.clone(), None);
    lease().release_due(w.accounts.clone(), KEEP).await;
    assert_eq!(begin.elapsed(), KEEP);
    lease().release_due(w.accounts.clone(), Duration::ZERO).now_or_never().expect("at once");
    let held = w.accounts.try_reserve(room * 6 / 10).unwrap();
    lease().release_due(w.accounts.clone(), KEEP).now_or_never().expect("most memory is used");
    drop(held);
    assert!(lease().release_due(w.accounts.clone(), KEEP).now_or_never().is_none());
    assert!(!lease().is_wanted());
}
