//! What an account may still store: in its own log, and in the shared mailboxes that count for it.

use std::sync::Arc;

use sealpost_account::account::Check;
use sealpost_account::directory::{AccountName, Directory, Quotas, Resource, Usage};
use sealpost_account::{Account, AccountState, usage};
use sealpost_base::{AccountId, Error, Result};

use crate::access::Access;
use crate::resolve::ResolvedMailbox;
use crate::usage_tracker::UsageTracker;

/// What is said if not even that can be told of which resource there is too little.
const FULL: &str = "the account is full";

/// There is not enough of this resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverQuota(pub Resource);

/// What a log may hold.
#[derive(Default, Clone, Copy)]
pub struct QuotaHeadroom {
    /// The limits.
    pub limits: Quotas,
    /// What counts beside what is in that log.
    pub other: Usage,
}

impl QuotaHeadroom {
    /// Whether `more` may be added to the log with this state.
    ///
    /// # Errors
    /// The resource of which there is not enough.
    pub fn check(&self, state: &AccountState, more: Usage) -> Result<(), OverQuota> {
        match self.lacks(state, more) {
            Some(resource) => Err(OverQuota(resource)),
            None => Ok(()),
        }
    }

    /// The resource of which there is not enough.
    fn lacks(&self, state: &AccountState, more: Usage) -> Option<Resource> {
        if self.limits == Quotas::default() {
            return None;
        }
        self.limits.exceeded(usage::of(state).with(self.other), more)
    }

    /// The same where a change is decided, but for `freed`, which the change gives back; nothing to ask if
    /// nothing is limited.
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

/// What the log of a mailbox may hold: what is in a share counts for its owner. `own` is what the user's own
/// log may hold, `account` the user's account.
///
/// # Errors
/// What the store says.
pub async fn headroom_at(
    own: QuotaHeadroom,
    account: &Account,
    mailbox: &ResolvedMailbox,
    directory: &Directory,
    tracker: &UsageTracker,
) -> Result<QuotaHeadroom> {
    let limits = own.limits;
    match mailbox.access {
        Access::Own => Ok(own),
        Access::Share { owner: true, .. } => {
            let all = usage::of(&account.state()).with(own.other);
            Ok(QuotaHeadroom { limits, other: all.without(usage::of_share(&mailbox.account.state())) })
        }
        Access::Share { owner: false, .. } => {
            let unlimited = QuotaHeadroom::default();
            let Some(about) = mailbox.account.state().about() else { return Ok(unlimited) };
            let Ok(name) = AccountName::parse(&about.owner_name) else { return Ok(unlimited) };
            let owner = directory.find(&name).await?.filter(|owner| owner.id == about.owner);
            let Some(owner) = owner else { return Ok(unlimited) };
            // How much else the owner has is known from what the owner's sessions wrote down.
            let all = tracker.usage(owner.id).await?;
            let other = all.without(usage::of_share(&mailbox.account.state()));
            Ok(QuotaHeadroom { limits: owner.quotas(), other })
        }
    }
}

/// The account that what is in that log counts for, `user` being the one that looks at it.
pub fn counts_for(user: AccountId, access: Access, log: &Account) -> Option<AccountId> {
    match access {
        Access::Own | Access::Share { owner: true, .. } => Some(user),
        Access::Share { owner: false, .. } => log.state().about().map(|about| about.owner),
    }
}
