//! Data that is derived from an account's mail and can be rebuilt, such as an index. The account reports
//! events, does not know what is derived, and works without it.

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use sealpost_base::{AccountId, Result};

use crate::account::Account;
use crate::cache::CacheCounts;

/// Derives data from the mail of all accounts of a process, and maintains it.
pub trait Derived: Send + Sync {
    /// The data to keep with an account while it is loaded ([`Account::derived`]).
    fn attach(&self) -> Arc<dyn Any + Send + Sync>;

    /// Called after entries were applied. Work that takes longer than a read of the state must run in the
    /// background.
    fn on_commit(&self, account: &Arc<Account>);

    /// Called after a checkpoint and a purge: adds missing derived data, and removes that of purged messages.
    ///
    /// # Errors
    /// Store errors; the next call completes the work.
    fn maintain(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>>;

    /// Called when message objects were removed between two checkpoints: copies of their bytes must be
    /// removed too.
    ///
    /// # Errors
    /// As [`Derived::maintain`].
    fn purged(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>>;

    /// The counters of its caches, by name.
    fn cache_counts(&self) -> Vec<(&'static str, CacheCounts)>;

    /// Called when this process no longer has the account's key: no data derived from its mail may stay in a
    /// cache.
    fn forget(&self, account: AccountId);
}
