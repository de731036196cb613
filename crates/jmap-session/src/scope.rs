//! What the calls of one request share: the caller's account as it is now, and the ids of what the
//! request has created.

use std::sync::Arc;

use sealpost_account::{Account, AccountState};
use sealpost_base::{Permit, Result};
use sealpost_directory::{AccountName, Quotas, Usage};
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::{AccountId, CreatedIds};
use sealpost_jmap::{MethodError, State};
use sealpost_mailbox::account_changes::{LogPositions, at_once, logs_of};
use sealpost_mailbox::quota_headroom::{QuotaHeadroom, UserQuota};
use sealpost_mailbox::resolve;
use sealpost_mailbox::share::{Sharing, leftovers};
use sealpost_search::Engine;

use crate::email::Composer;
use crate::session_object;
use crate::state_string::state_of;
use crate::user::User;

/// The scope of one request.
pub(crate) struct Scope<'a> {
    user: &'a User,
    account: Arc<Account>,
    id: AccountId,
    using: Vec<Capability>,
    /// Objects that the request has created, or brought along.
    pub(crate) created: CreatedIds,
}

/// The states of the logs of an account at one moment: its own first, then its own shared
/// mailboxes.
pub(crate) type Logs<'a> = [(sealpost_base::AccountId, &'a AccountState)];

impl<'a> Scope<'a> {
    /// Opens the caller's account, with all that any node has acknowledged before.
    pub(crate) async fn open(user: &'a User, using: Vec<Capability>, created: CreatedIds) -> Result<Self> {
        let account = user.ctx().accounts.open_current(user.id, &user.root).await?;
        Ok(Scope { user, account, id: session_object::account_id(user.id), using, created })
    }

    /// Whether the request uses that capability.
    pub(crate) fn uses(&self, capability: Capability) -> bool {
        self.using.contains(&capability)
    }

    /// The id of the account.
    pub(crate) fn id(&self) -> &AccountId {
        &self.id
    }

    /// The state of a client that has read the logs up to there.
    pub(crate) fn state(&self, positions: &LogPositions) -> State {
        state_of(self.account.id(), positions)
    }

    /// Memory for so many bytes, unless they are few.
    pub(crate) async fn permit(&self, bytes: usize) -> Option<Permit> {
        self.user.permit(bytes).await
    }

    /// Refuses another account than the caller's.
    pub(crate) fn require(&self, account: &AccountId) -> Result<(), MethodError> {
        if *account == self.id { Ok(()) } else { Err(MethodErrorType::AccountNotFound.into()) }
    }

    /// Shows all logs of the account at one moment. Nothing may wait in `look`.
    pub(crate) async fn look<T>(&self, look: impl Fn(&Logs<'_>) -> T) -> Result<T> {
        at_once(&self.logs().await?, look).await
    }

    /// Shows the state of the account's own log, with all that this process knows to be in it. Nothing may
    /// wait in `look`.
    pub(crate) async fn own_state<T>(&self, look: impl FnOnce(&AccountState) -> T) -> Result<T> {
        self.account.catch_up().await?;
        Ok(look(&self.account.state()))
    }

    /// The logs of the account, its own first, for [`at_once`] and to read messages from.
    pub(crate) async fn logs(&self) -> Result<Vec<Arc<Account>>> {
        logs_of(self.resolver()).await
    }

    /// What searches.
    pub(crate) fn engine(&self) -> &Engine {
        &self.user.ctx().search
    }

    /// The caller.
    pub(crate) fn user(&self) -> &User {
        self.user
    }

    /// The account itself.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// What resolves names.
    pub(crate) fn resolver(&self) -> resolve::User<'_> {
        resolve::User { accounts: &self.user.ctx().accounts, account: &self.account }
    }

    /// What makes mailboxes that are shared as those above them are.
    pub(crate) fn sharing(&self) -> Sharing<'_> {
        let ctx = self.user.ctx();
        Sharing {
            user: self.resolver(),
            name: &self.user.name,
            directory: &ctx.directory,
            random: &*ctx.random,
            usage: &ctx.usage,
            before: leftovers::removable_before(ctx.clock.now(), ctx.settings.retention),
        }
    }

    /// The limits of the account.
    pub(crate) async fn quotas(&self) -> Result<Quotas> {
        let name = AccountName::parse(&self.user.name)?;
        Ok(self.user.ctx().directory.get(&name).await?.quotas())
    }

    /// What messages are made with.
    pub(crate) fn composer(&self) -> Composer<'_> {
        let ctx = self.user.ctx();
        Composer { random: &*ctx.random, hostname: &ctx.hostname, now: ctx.clock.now() }
    }

    /// The most bytes that a message may have.
    pub(crate) fn message_size(&self) -> u64 {
        self.user.ctx().settings.message_size
    }

    /// The limits on what the user may store.
    pub(crate) async fn quota(&self) -> Result<UserQuota<'_>> {
        let ctx = self.user.ctx();
        let own = self.headroom().await?;
        Ok(UserQuota { user: self.resolver(), own, directory: &ctx.directory, tracker: &ctx.usage })
    }

    /// How much the account's own log may still hold.
    pub(crate) async fn headroom(&self) -> Result<QuotaHeadroom> {
        let limits = self.quotas().await?;
        let other = match limits == Quotas::default() {
            true => Usage::default(),
            false => self.resolver().usage_in_own_shares().await?,
        };
        Ok(QuotaHeadroom { limits, other })
    }
}
