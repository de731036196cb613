use sealpost_vault::entry::LogKey;
use std::sync::mpsc::channel;

use futures::FutureExt;
use sealpost_base::{FakeClock, SeededRandom, Timestamp};

use super::*;
use crate::accounts::Accounts;

/// The timeout for events that must happen at once.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn account() -> Arc<Account> {
    let (clock, random) = (Arc::new(FakeClock::new(Timestamp(0))), Arc::new(SeededRandom::new(1)));
    let root = RootKey::generate(&*random);
    let accounts = Accounts::new(Store::memory(), LogKey::for_tests(), clock, random, Budget::new(64 << 20));
    accounts.open(AccountId([1; 16]), &root).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn small_requests_continue_while_a_large_change_is_decided() {
    let account = account().await;
    let (say, said) = channel();
    let deciding = tokio::spawn(async move {
        let decide = move |_: &AccountState| {
            let say = say.clone();
            tokio::spawn(async move { say.send(()) });
            Ok((Vec::new(), said.recv_timeout(TIMEOUT).is_ok()))
        };
        account.commit_many(LONG_ROWS, decide).await
    });
    assert!(deciding.await.unwrap().unwrap().value);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_for_a_large_change_blocks_no_other_request() {
    let account = account().await;
    let (say, said) = channel();
    let changing = tokio::spawn(async move {
        let looking = account.clone();
        let change = move |_: &mut AccountState| {
            tokio::spawn(async move { looking.state().position() });
            tokio::spawn(async move { say.send(()) });
            said.recv_timeout(TIMEOUT).is_ok()
        };
        account.change_state(LONG_ROWS, change).await
    });
    assert!(changing.await.unwrap());
}

/// Waiting takes no thread: otherwise the maximum number of threads would block the runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn many_requests_wait_for_a_large_change_without_threads() {
    let account = account().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (say, said) = channel();
    let changing = tokio::spawn({
        let account = account.clone();
        async move {
            let change =
                move |_: &mut AccountState| begun.send(()).is_ok() && said.recv_timeout(TIMEOUT).is_ok();
            account.change_state(LONG_ROWS, change).await
        }
    });
    has_begun.await.unwrap();
    assert!(account.catch_up().now_or_never().is_none());
    let waiting = tokio::spawn(async move { account.catch_up().await });
    say.send(()).unwrap();
    assert!(changing.await.unwrap());
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn how_many_rows_a_change_goes_through() {
    let account = account().await;
    let state = account.state();
    let inbox = state.inbox().id();
    let uids = sealpost_base::UidSet::range(Uid::MIN, Uid::new(5000).unwrap());
    let (action, flags) = (crate::FlagAction::Add, crate::Flags::default());
    let stored =
        Event::FlagsStored { mailbox: inbox, uids: uids.clone(), action, flags, unchanged_since: None };
    let nothing = Event::Expunged { mailbox: inbox, uids };
    assert_eq!(state.rows_of(&[stored, nothing]), 5000, "there is nothing to expunge");
}
