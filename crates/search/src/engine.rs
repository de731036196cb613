//! State that all searches of a process share: the memory for results, the permits to sort, and cached
//! orders.

use std::sync::Arc;

use sealpost_account::Accounts;
use sealpost_base::Budget;
use tokio::sync::Semaphore;

use crate::matches::ResultMemory;
use crate::sort::orders::Orders;

/// Sessions that sort or thread at once. Each holds at most two fair parts of the budget, an eighth of it
/// each, and waits for the second while it holds the first. Together they hold less than the budget, so that
/// one of them always makes progress.
const SORTING: usize = 3;

/// Searches, sorts and threads messages. One for a process.
pub struct Engine {
    pub(crate) accounts: Accounts,
    pub(crate) budget: Budget,
    pub(crate) results: ResultMemory,
    /// Permits to hold much of the budget while waiting for more.
    pub(crate) sorting: Arc<Semaphore>,
    pub(crate) orders: Arc<Orders>,
}

impl Engine {
    /// An engine for a process with that budget; cached orders take about `orders` bytes.
    pub fn new(accounts: Accounts, budget: &Budget, orders: usize) -> Self {
        Engine {
            accounts,
            budget: budget.clone(),
            results: ResultMemory::of(budget),
            sorting: Arc::new(Semaphore::new(SORTING)),
            orders: Arc::new(Orders::new(orders)),
        }
    }
}
