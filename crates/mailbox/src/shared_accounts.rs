//! What other owners share with a user, as accounts: one for each owner, with the mailboxes that
//! the user may look up.
//!
//! Nothing here opens the owner's own log, of which the user has no key: an owner's account is, for
//! the user, the logs of the shares alone. A mailbox is listed with the right `l`, and its messages
//! are there with `l` and `r` (RFC 8621 §2, `mayReadItems`).

use std::collections::BTreeMap;
use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::share::{About, Link};
use sealpost_account::{Account, AccountState};
use sealpost_base::{AccountId, Kind, MailboxId, Result};

use crate::access::Access;
use crate::resolve::{User, follow};

/// The rights that reading the messages of another owner's mailbox needs.
pub const READS: Rights = Rights::LOOKUP.with(Rights::READ);

/// Rights that change something in a mailbox, or make one below it.
const CHANGES: Rights = Rights::INSERT
    .with(Rights::EXPUNGE)
    .with(Rights::SEEN)
    .with(Rights::WRITE)
    .with(Rights::DELETE_MESSAGES)
    .with(Rights::CREATE)
    .with(Rights::DELETE_MAILBOX);

/// An account whose messages a user reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The user's own, with the mailboxes that it shares.
    Own,
    /// The mailboxes that this owner shares with the user.
    SharedBy(AccountId),
}

impl Reach {
    /// How that user reaches a log of the account.
    pub fn access(self, user: AccountId, log: AccountId) -> Access {
        match self {
            Reach::Own if user == log => Access::Own,
            reach => Access::Share { user, owner: reach == Reach::Own },
        }
    }
}

/// A mailbox that another owner shares with the user.
#[derive(Clone)]
pub struct SharedMailbox {
    /// The link in the user's own log.
    pub own: MailboxId,
    /// The log with its messages.
    pub log: Arc<Account>,
    /// What the log says about itself.
    pub about: About,
    /// The user's rights.
    pub rights: Rights,
    /// The user has subscribed to it.
    pub is_subscribed: bool,
}

/// The account of another owner, as far as the user sees it.
#[derive(Clone)]
pub struct SharedAccount {
    /// The owner's account.
    pub owner: AccountId,
    /// What that account is called.
    pub name: String,
    /// The mailboxes that the user may look up; one at least.
    pub mailboxes: Vec<SharedMailbox>,
}

impl SharedAccount {
    /// Whether the user has subscribed to one of its mailboxes.
    pub fn is_subscribed(&self) -> bool {
        self.mailboxes.iter().any(|mailbox| mailbox.is_subscribed)
    }

    /// Whether the user may change nothing in any of its mailboxes.
    pub fn is_read_only(&self) -> bool {
        !self.mailboxes.iter().any(|mailbox| mailbox.rights.intersects(CHANGES))
    }
}

/// Whether the user may look up the mailbox of a share in that state.
pub fn may_look_up(state: &AccountState, user: AccountId) -> bool {
    state.rights_of(user).contains(Rights::LOOKUP)
}

/// Whether the user may read the messages of a share in that state.
pub fn may_read(state: &AccountState, user: AccountId) -> bool {
    state.rights_of(user).contains(READS)
}

/// All mailboxes of other owners that the user has links to, with whatever rights. A share that is
/// corrupt, or whose key is not to be had, is left out.
///
/// # Errors
/// Store errors.
pub async fn shared_mailboxes(user: User<'_>) -> Result<Vec<SharedMailbox>> {
    let own = user.account;
    let links: Vec<(MailboxId, Link)> = {
        let state = own.state();
        let others = state.links().filter(|(_, link)| link.owner.is_some());
        others.map(|(mailbox, link)| (mailbox.id(), link.clone())).collect()
    };
    let mut found = Vec::with_capacity(links.len());
    for (mailbox, link) in links {
        let (log, _, rights) = match follow(user.accounts, own, mailbox, &link).await {
            Ok(followed) => followed,
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Corrupt | Kind::Denied) => continue,
            Err(error) => return Err(error),
        };
        let about = log.state().about();
        let is_subscribed = {
            let state = own.state();
            state.any_mailbox(mailbox).is_some_and(|mailbox| state.is_subscribed(mailbox.name()))
        };
        if let Some(about) = about {
            found.push(SharedMailbox { own: mailbox, log, about, rights, is_subscribed });
        }
    }
    Ok(found)
}

/// The accounts that these mailboxes make, by their owners.
pub fn accounts_of(mailboxes: Vec<SharedMailbox>) -> Vec<SharedAccount> {
    let mut accounts: BTreeMap<AccountId, SharedAccount> = BTreeMap::new();
    for mailbox in mailboxes.into_iter().filter(|mailbox| mailbox.rights.contains(Rights::LOOKUP)) {
        let (owner, name) = (mailbox.about.owner, mailbox.about.owner_name.clone());
        let account = accounts.entry(owner);
        let account = account.or_insert_with(|| SharedAccount { owner, name, mailboxes: Vec::new() });
        account.mailboxes.push(mailbox);
    }
    accounts.into_values().collect()
}

/// The logs of the mailboxes that this owner shares with the user, and that the user may look up;
/// all of them with maps.
///
/// # Errors
/// Store errors; `Limit` if one would be too large with its maps.
pub async fn logs_shared_by(user: User<'_>, owner: AccountId) -> Result<Vec<Arc<Account>>> {
    let mailboxes = shared_mailboxes(user).await?.into_iter();
    let listed = mailboxes.filter(|it| it.about.owner == owner && it.rights.contains(Rights::LOOKUP));
    let logs: Vec<Arc<Account>> = listed.map(|mailbox| mailbox.log).collect();
    for log in &logs {
        drop(log.with_maps().await?);
    }
    Ok(logs)
}
