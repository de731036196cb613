//! Memory for held bodies. No account can take all of it, and small bodies never wait for large ones.
//!
//! Small and large bodies have a share of the budget each. Before a body waits for its share, it waits for the
//! turn of its account, and meanwhile has no place in the queue that all accounts have in common.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::limits::{
    HTTP_BUDGET_SHARE, HTTP_HELD_BODY_BYTES, HTTP_LARGE_BODIES_PER_ACCOUNT, HTTP_SMALL_BODIES_PER_ACCOUNT,
    HTTP_SMALL_BODIES_SHARE, HTTP_SMALL_BODY_BYTES,
};
use sealpost_base::{AccountId, Budget, Permit};
use tokio::sync::Semaphore;

/// Memory for the held bodies of all requests and WebSockets.
pub(crate) struct HeldBodies {
    small: Shelf,
    large: Shelf,
}

/// The memory for bodies of one kind, and the accounts that have or want some of it.
struct Shelf {
    memory: Budget,
    /// Bodies of one account at a time.
    most: usize,
    accounts: Arc<Accounts>,
}

/// An account takes memory here only while it has a turn or waits for one.
#[derive(Default)]
struct Accounts(Mutex<HashMap<AccountId, Arc<Semaphore>>>);

/// The turn of an account to receive a body. Dropping it lets the next body of the account in.
pub(crate) struct Turn {
    accounts: Arc<Accounts>,
    account: AccountId,
    most: usize,
    /// `None` only while it is dropped.
    turns: Option<Arc<Semaphore>>,
    is_taken: bool,
}

/// The memory of a body, and the turn of its account.
pub(crate) struct BodyPermit {
    memory: Permit,
    turn: Turn,
}

impl HeldBodies {
    pub(crate) fn new(budget: &Budget) -> Self {
        let shelf = |part, most| {
            let memory = budget.share(budget.common() / part);
            Shelf { memory, most, accounts: Arc::default() }
        };
        HeldBodies {
            small: shelf(HTTP_SMALL_BODIES_SHARE, HTTP_SMALL_BODIES_PER_ACCOUNT),
            large: shelf(HTTP_BUDGET_SHARE, HTTP_LARGE_BODIES_PER_ACCOUNT),
        }
    }

    /// The most bytes of a body: the whole share of large ones.
    pub(crate) fn most_bytes(&self) -> usize {
        self.large.memory.total().min(HTTP_HELD_BODY_BYTES)
    }

    /// Whether a body of that many bytes is a large one.
    pub(crate) fn is_large(&self, bytes: usize) -> bool {
        bytes > HTTP_SMALL_BODY_BYTES.min(self.small.memory.total())
    }

    /// Waits for the turn of an account to receive a body of at most `bytes`.
    pub(crate) async fn turn(&self, account: AccountId, bytes: usize) -> Turn {
        let mut turn = self.shelf(bytes).enter(account);
        turn.take().await;
        turn
    }

    /// The turn if the account has it now.
    pub(crate) fn try_turn(&self, account: AccountId, bytes: usize) -> Option<Turn> {
        let mut turn = self.shelf(bytes).enter(account);
        turn.try_take().then_some(turn)
    }

    /// Waits for the memory of a body whose turn it is. A request acquires its own memory first.
    pub(crate) async fn memory(&self, bytes: usize) -> Permit {
        self.shelf(bytes).memory.acquire_large(bytes).await
    }

    fn shelf(&self, bytes: usize) -> &Shelf {
        if self.is_large(bytes) { &self.large } else { &self.small }
    }
}

impl Shelf {
    fn enter(&self, account: AccountId) -> Turn {
        let new = || Arc::new(Semaphore::new(self.most));
        let turns = Some(self.accounts.lock().entry(account).or_insert_with(new).clone());
        Turn { accounts: self.accounts.clone(), account, most: self.most, turns, is_taken: false }
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The permit to receive the body into this memory.
    pub(crate) fn with(self, memory: Permit) -> BodyPermit {
        BodyPermit { memory, turn: self }
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

impl Drop for Turn {
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

impl BodyPermit {
    /// Releases all but `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.memory.shrink(bytes);
    }

    /// Whether other bodies of the account wait for this one.
    pub(crate) fn is_wanted(&self) -> bool {
        let copies = self.turn.turns.as_ref().map_or(0, Arc::strong_count);
        // Each turn has a copy, and the map one.
        copies > self.turn.most + 1
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LARGE: usize = HTTP_SMALL_BODY_BYTES + 1;

    async fn body(bodies: &HeldBodies, account: AccountId, bytes: usize) -> BodyPermit {
        let turn = bodies.turn(account, bytes).await;
        turn.with(bodies.memory(bytes).await)
    }

    fn at_once(bodies: &HeldBodies, account: AccountId, bytes: usize) -> Option<BodyPermit> {
        body(bodies, account, bytes).now_or_never()
    }

    fn accounts() -> [AccountId; 2] {
        [AccountId([1; 16]), AccountId([2; 16])]
    }

    #[test]
    fn a_second_large_body_of_an_account_waits_without_memory() {
        let budget = Budget::new(16 * LARGE);
        let (bodies, [one, two]) = (HeldBodies::new(&budget), accounts());
        let first = at_once(&bodies, one, LARGE).unwrap();
        assert!(!first.is_wanted());
        let mut second = Box::pin(body(&bodies, one, LARGE));
        assert!((&mut second).now_or_never().is_none() && first.is_wanted());
        assert_eq!((budget.in_use(), budget.waiting()), (LARGE, 0));
        assert!(bodies.try_turn(one, LARGE).is_none());
        let other = at_once(&bodies, two, LARGE).unwrap();
        let small = at_once(&bodies, one, 1).unwrap();
        drop(first);
        let second = second.now_or_never().unwrap();
        drop((second, other, small));
        assert!(bodies.small.accounts.lock().is_empty() && bodies.large.accounts.lock().is_empty());
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn small_bodies_never_wait_behind_large_ones() {
        let budget = Budget::new(64 * HTTP_SMALL_BODY_BYTES);
        let (bodies, [one, two]) = (HeldBodies::new(&budget), accounts());
        let _whole = at_once(&bodies, one, bodies.most_bytes()).unwrap();
        let mut waiting = Box::pin(body(&bodies, two, LARGE));
        assert!((&mut waiting).now_or_never().is_none() && budget.waiting() == 1);
        let small: Vec<_> = (0..HTTP_SMALL_BODIES_PER_ACCOUNT)
            .map(|_| at_once(&bodies, one, HTTP_SMALL_BODY_BYTES))
            .collect();
        assert!(small.iter().all(Option::is_some));
        assert!(at_once(&bodies, one, 1).is_none(), "this account has its part");
        drop(small);
        assert!(at_once(&bodies, two, 1).is_some());
    }
}
