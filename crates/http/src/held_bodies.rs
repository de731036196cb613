//! Memory for held bodies. No account can take all of it, and small bodies never wait for large ones.
//!
//! Small and large bodies have a share of the budget each. Before a body waits for its share, it waits for the
//! turn of its account, and meanwhile has no place in the queue that all accounts have in common.

use sealpost_base::limits::{
    HTTP_BUDGET_SHARE, HTTP_HELD_BODY_BYTES, HTTP_LARGE_BODIES_PER_ACCOUNT, HTTP_SMALL_BODIES_PER_ACCOUNT,
    HTTP_SMALL_BODIES_SHARE, HTTP_SMALL_BODY_BYTES,
};
use sealpost_base::{AccountId, Budget, Permit};
use sealpost_session::account_turns::{AccountTurn, AccountTurns};

/// Memory for the held bodies of all requests and WebSockets.
pub(crate) struct HeldBodies {
    small: Shelf,
    large: Shelf,
}

/// The memory for bodies of one kind, and the turns of the accounts that have or want some of it.
struct Shelf {
    memory: Budget,
    turns: AccountTurns,
}

/// The memory of a body, and the turn of its account.
pub(crate) struct BodyPermit {
    memory: Permit,
    turn: AccountTurn,
}

impl HeldBodies {
    pub(crate) fn new(budget: &Budget) -> Self {
        let shelf = |part, most| {
            let memory = budget.share(budget.common() / part);
            Shelf { memory, turns: AccountTurns::new(most) }
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
    pub(crate) async fn turn(&self, account: AccountId, bytes: usize) -> AccountTurn {
        self.shelf(bytes).turns.wait(account).await
    }

    /// The turn if the account has it now.
    pub(crate) fn try_turn(&self, account: AccountId, bytes: usize) -> Option<AccountTurn> {
        self.shelf(bytes).turns.try_take(account)
    }

    /// Waits for the memory of a body whose turn it is. A request acquires its own memory first.
    pub(crate) async fn memory(&self, bytes: usize) -> Permit {
        self.shelf(bytes).memory.acquire_large(bytes).await
    }

    fn shelf(&self, bytes: usize) -> &Shelf {
        if self.is_large(bytes) { &self.large } else { &self.small }
    }
}

impl BodyPermit {
    /// The permit to receive a body into this memory, which is that of a turn.
    pub(crate) fn new(turn: AccountTurn, memory: Permit) -> Self {
        BodyPermit { memory, turn }
    }

    /// Releases all but `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.memory.shrink(bytes);
    }

    /// Whether other bodies of the account wait for this one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.turn.is_wanted()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LARGE: usize = HTTP_SMALL_BODY_BYTES + 1;

    async fn body(bodies: &HeldBodies, account: AccountId, bytes: usize) -> BodyPermit {
        let turn = bodies.turn(account, bytes).await;
        BodyPermit::new(turn, bodies.memory(bytes).await)
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
        assert!(bodies.small.turns.accounts() + bodies.large.turns.accounts() == 0);
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
