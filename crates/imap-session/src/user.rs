//! The user of a session: the account that it has logged in as, its name, and its rights.
//!
//! `resolve.rs` resolves mailbox names, `sharing.rs` shares mailboxes, and `quota.rs` reads the quota.

use std::sync::Arc;

use sealpost_account::{Account, Accounts};
use sealpost_base::Error;
use sealpost_directory::{AccountRecord, Directory};

use super::quota::Quota;
use super::shared::ImapShared;

/// The account that a session has logged in as.
///
/// While its session hibernates it has no account.
pub(super) struct User<A = Arc<Account>> {
    pub(super) shared: Arc<ImapShared>,
    account: A,
    name: String,
    /// The quota of the account.
    pub(super) quota: Quota,
}

impl User {
    /// The user logged in as the account of that record, which is loaded.
    pub(super) fn new(shared: Arc<ImapShared>, account: Arc<Account>, record: &AccountRecord) -> Self {
        let quota = Quota::new(&shared.ctx, &account, record);
        User { shared, account, name: record.name.as_str().to_owned(), quota }
    }

    /// The account.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// All accounts of the server.
    pub(super) fn accounts(&self) -> &Accounts {
        &self.shared.ctx.accounts
    }

    /// The directory of all accounts.
    pub(super) fn directory(&self) -> &Directory {
        &self.shared.ctx.directory
    }

    /// Catches up with log entries that this process knows.
    pub(super) async fn catch_up(&self) -> Result<(), Error> {
        self.account.catch_up().await
    }

    /// Releases the account.
    pub(super) fn release(self) -> User<()> {
        self.with(())
    }
}

impl User<()> {
    /// The same user, with the account again.
    pub(super) fn hold(self, account: Arc<Account>) -> User {
        self.with(account)
    }
}

impl<A> User<A> {
    /// The account's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn with<B>(self, account: B) -> User<B> {
        User { shared: self.shared, account, name: self.name, quota: self.quota }
    }
}
