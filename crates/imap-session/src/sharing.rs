//! Sharing in IMAP commands: the IMAP side of [`sealpost_mailbox::share`].

use std::sync::Arc;

use sealpost_account::Account;
use sealpost_base::Timestamp;
use sealpost_directory::Usage;
use sealpost_mailbox::share::Sharing;
use sealpost_mailbox::share::leftovers::{removable_before, remove};

use super::reply::Failure;
use super::shared::ImapShared;
use super::user::User;
use sealpost_session::Context;

/// Removes leftovers of the account's shares in the background, unless this process has done so recently.
pub(super) fn remove_in_background(shared: &ImapShared, own: &Arc<Account>) {
    let ctx = &shared.ctx;
    if !shared.leftovers.is_due(own.id(), ctx.clock.monotonic()) {
        return;
    }
    let (ctx, own) = (ctx.clone(), own.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = remove(&ctx.accounts, &ctx.directory, before(&ctx), &own) => {}
            () = ctx.shutdown.wait() => {}
        }
    });
}

fn before(ctx: &Context) -> Timestamp {
    removable_before(ctx.clock.now(), ctx.settings.retention)
}

impl User {
    /// The usage of the shares that the session's own account owns.
    pub(super) async fn usage_in_own_shares(&self) -> Result<Usage, Failure> {
        Ok(self.resolver().usage_in_own_shares().await?)
    }

    /// The environment for sharing this user's mailboxes.
    pub(super) fn sharing(&self) -> Sharing<'_> {
        Sharing {
            user: self.resolver(),
            name: self.name(),
            directory: self.directory(),
            random: &*self.shared.ctx.random,
            usage: &self.shared.ctx.usage,
            before: before(&self.shared.ctx),
        }
    }
}
