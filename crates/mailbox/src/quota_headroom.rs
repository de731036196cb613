//! How much an account may still store: in its own log, and in the shared mailboxes that count for it.

use std::sync::Arc;

use sealpost_account::account::Check;
use sealpost_account::{Account, AccountState, usage};
use sealpost_base::{AccountId, Error, Result};
use sealpost_directory::{AccountName, Directory, Quotas, Resource, Usage};

use crate::access::Access;
use crate::opened::OpenedMailbox;
use crate::refusal::Refusal;
use crate::resolve::{ResolvedMailbox, User};
use crate::usage_tracker::UsageTracker;

pub use crate::refusal::OverQuota;

/// The error text if the exhausted resource is unknown.
const FULL: &str = "the account is full";

/// How much a log may hold.
#[derive(Default, Clone, Copy)]
pub struct QuotaHeadroom {
    /// The limits.
    pub limits: Quotas,
    /// Usage that counts in addition to that of the log.
    pub other: Usage,
}

impl QuotaHeadroom {
    /// Checks whether `more` may be added to the log with this state.
    ///
    /// # Errors
    /// The resource that is exhausted.
    pub fn check(&self, state: &AccountState, more: Usage) -> Result<(), OverQuota> {
        match self.lacks(state, more) {
            Some(resource) => Err(OverQuota(resource)),
            None => Ok(()),
        }
    }

    /// The resource that is exhausted.
    fn lacks(&self, state: &AccountState, more: Usage) -> Option<Resource> {
        if self.limits == Quotas::default() {
            return None;
        }
        self.limits.exceeded(usage::of(state).with(self.other), more)
    }

    /// The same check for a commit, where the change itself frees `freed`. `None` if nothing is limited.
    pub fn checking(self, freed: Usage) -> Option<Check> {
        if self.limits == Quotas::default() {
            return None;
        }
        Some(Arc::new(move |state: &AccountState, more: Usage| {
            match self.lacks(state, more.without(freed)) {
                Some(_) => Err(Error::limit(FULL)),
                None => Ok(()),
            }
        }))
    }
}

/// The limits on what a user may store.
#[derive(Clone, Copy)]
pub struct UserQuota<'a> {
    /// The user.
    pub user: User<'a>,
    /// The headroom of the user's own log.
    pub own: QuotaHeadroom,
    /// The limits of other accounts.
    pub directory: &'a Directory,
    /// The usage of other accounts.
    pub tracker: &'a UsageTracker,
}

impl UserQuota<'_> {
    /// The headroom of a mailbox's log: a share counts for its owner.
    ///
    /// # Errors
    /// Store errors.
    pub async fn headroom_at(self, mailbox: &ResolvedMailbox) -> Result<QuotaHeadroom> {
        self.headroom_of(&mailbox.account, mailbox.access).await
    }

    /// The headroom of a log that the user accesses in this way.
    ///
    /// # Errors
    /// Store errors.
    pub async fn headroom_of(self, log: &Account, access: Access) -> Result<QuotaHeadroom> {
        let (own, limits) = (self.own, self.own.limits);
        match access {
            Access::Own => Ok(own),
            Access::Share { owner: true, .. } => {
                let all = usage::of(&self.user.account.state()).with(own.other);
                Ok(QuotaHeadroom { limits, other: all.without(usage::of_share(&log.state())) })
            }
            Access::Share { owner: false, .. } => {
                let unlimited = QuotaHeadroom::default();
                let Some(about) = log.state().about() else { return Ok(unlimited) };
                let Ok(name) = AccountName::parse(&about.owner_name) else { return Ok(unlimited) };
                let owner = self.directory.find(&name).await?.filter(|owner| owner.id == about.owner);
                let Some(owner) = owner else { return Ok(unlimited) };
                // The owner's other usage comes from the record that the owner's sessions write.
                let all = self.tracker.usage(owner.id).await?;
                let other = all.without(usage::of_share(&log.state()));
                Ok(QuotaHeadroom { limits: owner.quotas(), other })
            }
        }
    }

    /// Whether `more` may be added to a mailbox.
    ///
    /// # Errors
    /// `OverQuota`; store errors.
    pub async fn check_at(self, mailbox: &ResolvedMailbox, more: Usage) -> Result<(), Refusal> {
        let headroom = self.headroom_at(mailbox).await?;
        Ok(headroom.check(&mailbox.account.state(), more)?)
    }

    /// Whether both mailboxes count for the same account.
    pub fn counts_together(self, one: &OpenedMailbox, other: &ResolvedMailbox) -> bool {
        let user = self.user.account.id();
        let source = counts_for(user, one.access, &one.account);
        source.is_some() && source == counts_for(user, other.access, &other.account)
    }
}

/// The account for which this log counts when `user` accesses it.
fn counts_for(user: AccountId, access: Access, log: &Account) -> Option<AccountId> {
    match access {
        Access::Own | Access::Share { owner: true, .. } => Some(user),
        Access::Share { owner: false, .. } => log.state().about().map(|about| about.owner),
    }
}
