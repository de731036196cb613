//! Whether accounts have quota for a message (RFC 5321 §4.2.3: 452 and 552; RFC 3463 §3.3: X.2.2).

use sealpost_base::AccountId;
use sealpost_directory::{Quotas, Usage};
use sealpost_smtp::types::Reply;

use super::replies;
use super::transaction::Account;
use sealpost_session::Context;

/// The reply if a message of so many bytes exceeds the quota of an account. If the usage cannot be read, the
/// message is accepted.
pub(super) async fn over_quota(
    ctx: &Context,
    account: AccountId,
    quotas: Quotas,
    bytes: u64,
) -> Option<Reply> {
    let message = Usage::of_messages(1, bytes);
    match ctx.usage.lacks(account, quotas, message).await {
        Ok(None) => None,
        // It would exceed the quota of an empty account too: a retry would be useless.
        Ok(Some(_)) if quotas.exceeded(Usage::default(), message).is_some() => Some(replies::never_fits()),
        Ok(Some(_)) => Some(replies::mailbox_full()),
        Err(error) => {
            tracing::warn!(%account, %error, "cannot read the usage of an account");
            None
        }
    }
}

/// For each account the reply if the message exceeds its quota, now that the size is known.
pub(super) async fn over_quota_each(ctx: &Context, accounts: &[Account], bytes: u64) -> Vec<Option<Reply>> {
    let mut replies = Vec::with_capacity(accounts.len());
    for account in accounts {
        replies.push(over_quota(ctx, account.id, account.quotas, bytes).await);
    }
    replies
}

/// Counts a delivered message.
pub(super) async fn delivered(ctx: &Context, account: Account, bytes: u64) {
    ctx.usage.delivered(account.id, account.quotas, Usage::of_messages(1, bytes)).await;
}
