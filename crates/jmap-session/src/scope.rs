//! What the calls of one request share: the accounts of the caller as they are now, and the ids of
//! what the request has created.

use std::sync::Arc;

use sealpost_account::{Account, AccountState};
use sealpost_base::{Permit, Result};
use sealpost_directory::{AccountName, Quotas, Usage};
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::{AccountId, CreatedIds};
use sealpost_jmap::{MethodError, State};
use sealpost_mailbox::account_changes::logs_of;
use sealpost_mailbox::email_change::EmailWriter;
use sealpost_mailbox::quota_headroom::{QuotaHeadroom, UserQuota};
use sealpost_mailbox::resolve;
use sealpost_mailbox::share::{Sharing, leftovers};
use sealpost_mailbox::shared_accounts::{Reach, SharedAccount, accounts_of, logs_shared_by};
use sealpost_search::Engine;
use sealpost_search::emails::{EmailQuery, EmailSearch};

use crate::email::{Composer, is_attached};
pub(crate) use crate::logs::{Logs, OpenLogs};
use crate::session_object;
use crate::shared_accounts;
use crate::user::User;

/// The scope of one request.
pub(crate) struct Scope<'a> {
    user: &'a User,
    account: Arc<Account>,
    /// The account that the call is about, and its id.
    reach: Reach,
    id: AccountId,
    is_read_only: bool,
    using: Vec<Capability>,
    /// Objects that this request created, or that the client passed in `createdIds`.
    pub(crate) created: CreatedIds,
}

impl<'a> Scope<'a> {
    /// Opens the caller's account, with all changes that any node has acknowledged before.
    pub(crate) async fn open(user: &'a User, using: Vec<Capability>, created: CreatedIds) -> Result<Self> {
        let account = user.ctx().accounts.open_current(user.id, &user.root).await?;
        let id = session_object::account_id(user.id);
        Ok(Scope { user, account, reach: Reach::Own, id, is_read_only: false, using, created })
    }

    /// What the next call is about: the account of that id, if the caller has it, else the caller's own.
    pub(crate) async fn select(&mut self, id: Option<&str>) -> Result<()> {
        let own = session_object::account_id(self.user.id);
        (self.reach, self.is_read_only, self.id) = match id {
            Some(id) if id != own.as_str() => match self.shared_account(id).await? {
                Some(account) => {
                    let id = session_object::account_id(account.owner);
                    (Reach::SharedBy(account.owner), account.is_read_only(), id)
                }
                None => (Reach::Own, false, own),
            },
            _ => (Reach::Own, false, own),
        };
        Ok(())
    }

    /// The scope of another account of the caller; `None` if there is none with that id.
    pub(crate) async fn of_account(&self, id: &AccountId) -> Result<Option<Scope<'a>>> {
        let mut scope = Scope {
            user: self.user,
            account: self.account.clone(),
            reach: Reach::Own,
            id: self.id.clone(),
            is_read_only: false,
            using: self.using.clone(),
            created: self.created.clone(),
        };
        scope.select(Some(id.as_str())).await?;
        Ok(Some(scope).filter(|scope| scope.id == *id))
    }

    /// What another owner shares with the caller, by the id of the owner's account.
    async fn shared_account(&self, id: &str) -> Result<Option<SharedAccount>> {
        let accounts = self.shared_accounts().await?;
        Ok(accounts.into_iter().find(|account| session_object::account_id(account.owner).as_str() == id))
    }

    /// What all other owners share with the caller.
    pub(crate) async fn shared_accounts(&self) -> Result<Vec<SharedAccount>> {
        Ok(accounts_of(shared_accounts::mailboxes(self.user, &self.account).await?))
    }

    /// Whether the request uses that capability.
    pub(crate) fn uses(&self, capability: Capability) -> bool {
        self.using.contains(&capability)
    }

    /// The id of the account.
    pub(crate) fn id(&self) -> &AccountId {
        &self.id
    }

    /// The account that the call is about.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Acquires memory, unless it is little.
    pub(crate) async fn permit(&self, bytes: usize) -> Option<Permit> {
        self.user.permit(bytes).await
    }

    /// Refuses another account than the one that was selected: the caller has none of that id.
    pub(crate) fn require(&self, account: &AccountId) -> Result<(), MethodError> {
        if *account == self.id { Ok(()) } else { Err(MethodErrorType::AccountNotFound.into()) }
    }

    /// The same for a method that changes emails or blobs (RFC 8620 §3.6.2, `accountReadOnly`).
    pub(crate) fn require_writable(&self, account: &AccountId) -> Result<(), MethodError> {
        self.require(account)?;
        if self.is_read_only { Err(MethodErrorType::AccountReadOnly.into()) } else { Ok(()) }
    }

    /// Shows all logs of the account at one moment. Nothing may wait in `look`.
    pub(crate) async fn look<T>(&self, look: impl Fn(&Logs<'_>) -> T) -> Result<T> {
        self.logs().await?.look(look).await
    }

    /// As [`Scope::look`], with at least what a client with this state knows.
    pub(crate) async fn look_after<T>(&self, state: &State, look: impl Fn(&Logs<'_>) -> T) -> Result<T> {
        let logs = self.logs().await?;
        logs.catch_up_with(state).await?;
        logs.look(look).await
    }

    /// Shows the state of the account's own log, with all that this process knows to be in it. Nothing may
    /// wait in `look`.
    pub(crate) async fn own_state<T>(&self, look: impl FnOnce(&AccountState) -> T) -> Result<T> {
        self.account.catch_up().await?;
        Ok(look(&self.account.state()))
    }

    /// The logs of the account, to look at them and to read messages from.
    pub(crate) async fn logs(&self) -> Result<OpenLogs> {
        let own = self.account.clone();
        Ok(match self.reach {
            Reach::Own => {
                let logs = logs_of(self.resolver()).await?;
                if let Some(push) = &self.user.shared.push {
                    let shares: Vec<_> = logs.iter().skip(1).map(|log| log.id()).collect();
                    push.follow_shares(self.account.id(), &shares);
                }
                OpenLogs::of_own(own, logs)
            }
            Reach::SharedBy(owner) => {
                OpenLogs::shared_by(owner, own, logs_shared_by(self.resolver(), owner).await?)
            }
        })
    }

    /// A query over the emails of the account, which are in these logs.
    pub(crate) fn email_search<'s>(&self, logs: &'s OpenLogs, query: &'s EmailQuery) -> EmailSearch<'s> {
        EmailSearch { logs, user: self.account.id(), reach: self.reach, query, is_attached }
    }

    /// What searches.
    pub(crate) fn engine(&self) -> &Engine {
        &self.user.ctx().search
    }

    /// The caller.
    pub(crate) fn user(&self) -> &'a User {
        self.user
    }

    /// The caller's own account.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Resolves mailbox names.
    pub(crate) fn resolver(&self) -> resolve::User<'_> {
        resolve::User { accounts: &self.user.ctx().accounts, account: &self.account }
    }

    /// Shares new mailboxes like their parents.
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

    /// The environment for composing messages.
    pub(crate) fn composer(&self) -> Composer<'_> {
        let ctx = self.user.ctx();
        Composer { random: &*ctx.random, hostname: &ctx.hostname, now: ctx.clock.now() }
    }

    /// The maximum size of a message, in bytes.
    pub(crate) fn message_size(&self) -> u64 {
        self.user.ctx().settings.message_size
    }

    /// The limits on what the user may store.
    pub(crate) async fn quota(&self) -> Result<UserQuota<'_>> {
        let ctx = self.user.ctx();
        let own = self.headroom().await?;
        Ok(UserQuota { user: self.resolver(), own, directory: &ctx.directory, tracker: &ctx.usage })
    }

    /// What changes the emails of the account.
    pub(crate) async fn writer(&self) -> Result<EmailWriter<'_>> {
        Ok(EmailWriter { quota: self.quota().await?, reach: self.reach })
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
