//! Data that is derived from an account's mail and can be rebuilt, such as an index. The account
//! reports events; it never knows what is derived, and works the same without it.

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use sealpost_base::{AccountId, Result};

use crate::account::Account;
use crate::cache::CacheCounts;

/// Derives from the mail of all accounts of a process, and looks after what it derived.
pub trait Derived: Send + Sync {
    /// What it keeps of an account while that is loaded ([`Account::derived`]).
    fn attach(&self) -> Arc<dyn Any + Send + Sync>;

    /// Called after entries were applied. Work that takes longer than a read of the state belongs
    /// into the background.
    fn on_commit(&self, account: &Arc<Account>);

    /// A checkpoint was written, and what was expunged long ago is purged: the time to make what is
    /// missing and to leave out what is gone.
    ///
    /// # Errors
    /// What the store says. What is left undone is done the next time.
    fn maintain(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>>;

    /// Objects of messages were removed, between two checkpoints: what holds their bytes has to go too.
    ///
    /// # Errors
    /// As [`Derived::maintain`].
    fn purged(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>>;

    /// What its caches counted, by name.
    fn cache_counts(&self) -> Vec<(&'static str, CacheCounts)>;

    /// Called when this process no longer has the account's key: no data derived from its mail may
    /// stay in a cache.
    fn forget(&self, account: AccountId);
}
