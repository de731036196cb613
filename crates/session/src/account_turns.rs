//! Turns of accounts before a queue that all accounts have in common: no account has more than a few places
//! in the queue, so that delaying the others takes many accounts.
//!
//! A budget serves its requests in order of arrival. Without turns, one account that makes a hundred requests
//! would delay every other by a hundred.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::AccountId;
use tokio::sync::Semaphore;

/// Turns for work of one kind, so many of each account at a time.
pub struct AccountTurns {
    most: usize,
    accounts: Arc<Accounts>,
}

/// An account takes memory here only while it has a turn or waits for one.
#[derive(Default)]
struct Accounts(Mutex<HashMap<AccountId, Arc<Semaphore>>>);

/// The turn of an account. Dropping it lets the next work of the account in.
pub struct AccountTurn {
    accounts: Arc<Accounts>,
    account: AccountId,
    most: usize,
    /// `None` only while it is dropped.
    turns: Option<Arc<Semaphore>>,
    is_taken: bool,
}

impl AccountTurns {
    /// At most `most` turns of each account at a time.
    pub fn new(most: usize) -> Self {
        AccountTurns { most, accounts: Arc::default() }
    }

    /// Waits until fewer than the most have one.
    pub async fn wait(&self, account: AccountId) -> AccountTurn {
        let mut turn = self.enter(account);
        turn.take().await;
        turn
    }

    /// A turn, if fewer than the most have one now.
    pub fn try_take(&self, account: AccountId) -> Option<AccountTurn> {
        let mut turn = self.enter(account);
        turn.try_take().then_some(turn)
    }

    /// Accounts that have a turn or wait for one.
    pub fn accounts(&self) -> usize {
        self.accounts.lock().len()
    }

    fn enter(&self, account: AccountId) -> AccountTurn {
        let new = || Arc::new(Semaphore::new(self.most));
        let turns = Some(self.accounts.lock().entry(account).or_insert_with(new).clone());
        AccountTurn { accounts: self.accounts.clone(), account, most: self.most, turns, is_taken: false }
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccountTurn {
    /// Whether other work of the account waits for a turn.
    pub fn is_wanted(&self) -> bool {
        let copies = self.turns.as_ref().map_or(0, Arc::strong_count);
        // Each turn has a copy, and the map one.
        copies > self.most + 1
    }

    async fn take(&mut self) {
        if let Some(turns) = &self.turns
            && let Ok(permit) = turns.acquire().await
        {
            permit.forget();
            self.is_taken = true;
        }
    }

    fn try_take(&mut self) -> bool {
        if let Some(Ok(permit)) = self.turns.as_ref().map(|turns| turns.try_acquire()) {
            permit.forget();
            self.is_taken = true;
        }
        self.is_taken
    }
}

impl Drop for AccountTurn {
    fn drop(&mut self) {
        let mut accounts = self.accounts.lock();
        let Some(turns) = self.turns.take() else { return };
        if self.is_taken {
            turns.add_permits(1);
        }
        drop(turns);
        // A turn takes its copy with the lock, so the only one left is that of the map.
        if accounts.get(&self.account).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            accounts.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn turns_of_one_account_do_not_count_for_another() {
        let turns = AccountTurns::new(2);
        let [one, two] = [1, 2].map(|byte| AccountId([byte; 16]));
        let first = turns.try_take(one).unwrap();
        let second = turns.wait(one).now_or_never().unwrap();
        assert!(!first.is_wanted() && turns.try_take(one).is_none());
        let mut third = Box::pin(turns.wait(one));
        assert!((&mut third).now_or_never().is_none() && first.is_wanted());
        let other = turns.try_take(two).unwrap();
        drop(second);
        let third = third.now_or_never().unwrap();
        assert_eq!(turns.accounts(), 2);
        drop((first, third, other));
        assert_eq!(turns.accounts(), 0, "an account without turns takes no memory");
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing() {
        let turns = AccountTurns::new(1);
        let account = AccountId([1; 16]);
        let first = turns.try_take(account).unwrap();
        let mut given_up = Box::pin(turns.wait(account));
        assert!((&mut given_up).now_or_never().is_none());
        drop(given_up);
        assert!(!first.is_wanted());
        drop(first);
        assert_eq!(turns.accounts(), 0);
    }
}
