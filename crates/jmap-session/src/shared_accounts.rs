//! What other owners share with a user now; that the user's rights changed is noted with it.

use std::sync::Arc;

use sealpost_account::Account;
use sealpost_base::Result;
use sealpost_mailbox::resolve;
use sealpost_mailbox::share_notices::note_changes;
use sealpost_mailbox::shared_accounts::{SharedAccount, SharedMailbox, accounts_of, shared_mailboxes};

use crate::user::User;

/// The mailboxes of other owners that a user has links to, with whatever rights.
///
/// # Errors
/// Store errors.
pub(crate) async fn mailboxes(user: &User, account: &Arc<Account>) -> Result<Vec<SharedMailbox>> {
    let ctx = user.ctx();
    let resolver = resolve::User { accounts: &ctx.accounts, account };
    let mailboxes = shared_mailboxes(resolver).await?;
    if let Err(error) = note_changes(resolver, &mailboxes, ctx.clock.now()).await {
        tracing::warn!(account = %user.id, %error, "cannot note changes of rights");
    }
    Ok(mailboxes)
}

/// The accounts of other owners, as far as a user may look up their mailboxes.
///
/// # Errors
/// Store errors.
pub(crate) async fn accounts(user: &User) -> Result<Vec<SharedAccount>> {
    let account = user.ctx().accounts.open(user.id, &user.root).await?;
    account.catch_up().await?;
    Ok(accounts_of(mailboxes(user, &account).await?))
}
