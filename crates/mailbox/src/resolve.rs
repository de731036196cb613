//! Resolves a mailbox name to the log that has its messages, and the user's rights there.
//!
//! A name resolves to a mailbox in an account's log, which need not be the user's own log; only this module
//! knows which. Code that reads or changes messages resolves the name here, and then uses
//! [`ResolvedMailbox::account`], never the user's own account. Code that changes the tree of names uses the
//! user's own account.
//!
//! Each use reads the rights from the share's own state, so a revocation takes effect at once
//! (`docs/decisions/0010-sharing.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::share::{self, About, Link};
use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState, Accounts, ops};
use sealpost_base::{Error, Kind, MailboxId, Result};

use crate::access::Access;
use crate::share::rekey::rekey_if_due;

/// Any of these rights reveals that the mailbox exists (RFC 4314 §4, MYRIGHTS).
const ANY: Rights = Rights::LOOKUP
    .with(Rights::READ)
    .with(Rights::INSERT)
    .with(Rights::CREATE)
    .with(Rights::DELETE_MAILBOX)
    .with(Rights::ADMINISTER);

/// Any of these rights opens a mailbox read-write (RFC 4314 §5.2): all flags are shared.
const WRITES: Rights =
    Rights::INSERT.with(Rights::EXPUNGE).with(Rights::SEEN).with(Rights::WRITE).with(Rights::DELETE_MESSAGES);

/// A mailbox, in the log that has its messages.
#[derive(Clone)]
pub struct ResolvedMailbox {
    /// The account whose log has the mailbox.
    pub account: Arc<Account>,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// The user's rights.
    pub rights: Rights,
    /// The source of the rights.
    pub access: Access,
    /// The mailbox in the user's own log: a link, if it is a share.
    pub own: MailboxId,
    /// The name that was resolved.
    pub name: String,
}

/// A user, with the parts that names and rights need.
#[derive(Clone, Copy)]
pub struct User<'a> {
    /// Opens the logs of shares.
    pub accounts: &'a Accounts,
    /// The user's own account.
    pub account: &'a Arc<Account>,
}

/// The shares to which an account has links, and its rights there.
#[derive(Debug, Default)]
pub struct LinkRights(BTreeMap<MailboxId, (String, Rights)>);

impl User<'_> {
    /// Resolves a name.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox, `Invalid` if it is a nonexistent parent.
    pub async fn resolve(self, name: &str) -> Result<ResolvedMailbox> {
        let found = match self.resolve_known(name).await {
            // Another process may have just created it, and this one has not caught up.
            Err(error) if is_missing(&error) => {
                self.account.refresh().await?;
                self.resolve_known(name).await
            }
            found => found,
        };
        match found {
            // Another user may have given the name to another mailbox; following all links finds it.
            Err(_) if share::is_of_others(name) => {
                self.links().await?;
                self.resolve_known(name).await
            }
            found => found,
        }
    }

    /// Resolves a name in the state that this process has.
    ///
    /// # Errors
    /// As [`User::resolve`].
    pub async fn resolve_known(self, name: &str) -> Result<ResolvedMailbox> {
        let account = self.account.clone();
        let (own, link) = {
            let state = account.state();
            let mailbox = ops::existing(&state, name)?;
            (mailbox.id(), mailbox.link().cloned())
        };
        let name = name.to_owned();
        let Some(link) = link else {
            let rights = Rights::ALL;
            return Ok(ResolvedMailbox { account, mailbox: own, rights, access: Access::Own, own, name });
        };
        let (share, access, rights) = match follow(self.accounts, &account, own, &link).await {
            Err(error) if error.kind() == Kind::NotFound => return Err(no_mailbox(&name)),
            followed => followed?,
        };
        let renamed = account.state().any_mailbox(own).is_none_or(|mailbox| mailbox.name() != name);
        if !rights.intersects(ANY) || link.owner.is_some() && renamed {
            return Err(no_mailbox(&name));
        }
        let mailbox = share.state().inbox().id();
        Ok(ResolvedMailbox { account: share, mailbox, rights, access, own, name })
    }

    /// Opens all shares to which the account has links.
    ///
    /// # Errors
    /// Store errors. A corrupt share, or one whose key is unavailable, is listed and fails when opened.
    pub async fn links(self) -> Result<LinkRights> {
        let account = self.account;
        let links: Vec<(MailboxId, Link)> =
            account.state().links().map(|(mailbox, link)| (mailbox.id(), link.clone())).collect();
        let mut rights = BTreeMap::new();
        for (mailbox, link) in links {
            let found = match follow(self.accounts, account, mailbox, &link).await {
                Ok((_, _, rights)) => rights,
                Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Denied) => Rights::LOOKUP,
                // The share was removed.
                Err(error) if error.kind() == Kind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Following the link may have renamed it.
            if let Some(mailbox) = account.state().any_mailbox(mailbox) {
                rights.insert(mailbox.id(), (mailbox.name().to_owned(), found));
            }
        }
        Ok(LinkRights(rights))
    }
}

/// Opens a share to which `own` has a link; returns the rights there. Removes a dangling link, and renames
/// one whose mailbox has a new name. A share that is due for a new key gets it if this user administers it.
///
/// # Errors
/// `NotFound` if the share has a new key that is not sealed to this account: the link is removed. Store
/// errors.
pub async fn follow(
    accounts: &Accounts,
    own: &Arc<Account>,
    mailbox: MailboxId,
    link: &Link,
) -> Result<(Arc<Account>, Access, Rights)> {
    let share = match accounts.open_share(own, link).await {
        Err(error) if error.kind() == Kind::NotFound && link.owner.is_some() => {
            remove_link(own, mailbox, link).await?;
            return Err(error);
        }
        opened => opened?,
    };
    share.catch_up().await?;
    keep_key(own, link, &share).await;
    let access = Access::Share { user: own.id(), owner: link.owner.is_none() };
    rekey(accounts, own, &share, access).await;
    let (rights, about) = {
        let state = share.state();
        (access.rights(&state), state.about())
    };
    match about {
        _ if rights.is_empty() && !share.is_damaged() => remove_link(own, mailbox, link).await?,
        Some(about) => keep_name(own, mailbox, link, &share, &about).await?,
        None => {}
    }
    Ok((share, access, rights))
}

impl ResolvedMailbox {
    /// Whether messages may still be added here: the right may have been revoked while they arrived.
    pub fn still_takes_messages(&self) -> bool {
        self.access.rights(&self.account.state()).contains(Rights::INSERT)
    }

    /// The mailbox, if the user has all of the `needed` rights.
    ///
    /// # Errors
    /// `Denied`. For a mailbox that the user may not even list, the error for one that does not exist (RFC
    /// 4314 §6).
    pub fn require(self, needed: Rights) -> Result<Self> {
        if self.rights.contains(needed) {
            return Ok(self);
        }
        Err(if self.rights.contains(Rights::LOOKUP) {
            Error::denied("you do not have the right to do that with this mailbox")
        } else {
            no_mailbox(&self.name)
        })
    }

    /// Whether it can be opened read-write (RFC 4314 §5.2).
    pub fn is_writable(&self) -> bool {
        self.rights.intersects(WRITES)
    }

    /// The mailbox in its account's state.
    ///
    /// # Errors
    /// `NotFound` if it was deleted since the name was resolved.
    pub fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox> {
        state.mailbox(self.mailbox).ok_or_else(|| Error::not_found("the mailbox is gone"))
    }
}

impl LinkRights {
    /// The names of mailboxes that may not be listed.
    pub fn hidden(&self) -> BTreeSet<String> {
        let hidden = self.0.values().filter(|(_, rights)| !rights.contains(Rights::LOOKUP));
        hidden.map(|(name, _)| name.clone()).collect()
    }
}

/// Whether an error of [`User::resolve`] means that no mailbox has the name.
pub fn is_missing(error: &Error) -> bool {
    matches!(error.kind(), Kind::NotFound | Kind::Invalid)
}

/// The error for a mailbox that does not exist.
fn no_mailbox(name: &str) -> Error {
    Error::not_found(format!("no mailbox {name}"))
}

/// Removes the link to a mailbox that the owner deleted or whose rights were all revoked. An owner's own
/// share stays until it is purged, so that it can be undeleted.
async fn remove_link(own: &Account, mailbox: MailboxId, link: &Link) -> Result<()> {
    own.commit(|state| {
        let still = state.link(mailbox).is_some_and(|known| known.share == link.share);
        Ok((if still { share::removed(state, mailbox, link) } else { Vec::new() }, ()))
    })
    .await?;
    Ok(())
}

/// Gives a share a new key if one is due and this user administers it.
async fn rekey(accounts: &Accounts, own: &Account, share: &Account, access: Access) {
    let is_due = {
        let state = share.state();
        state.is_rekey_due() && access.rights(&state).contains(Rights::ADMINISTER)
    };
    if is_due
        && let Some(directory) = accounts.directory()
        && let Err(error) = rekey_if_due(directory, own, share).await
    {
        tracing::warn!(share = %share.id(), %error, "a shared mailbox has no new key yet");
    }
}

/// Stores the present key of a share in the user's own log. From then on a forged record cannot lead to
/// another key, and the mail does not depend on the record.
async fn keep_key(own: &Account, link: &Link, share: &Account) {
    let root = share.root();
    if root.epoch() == link.root.epoch() || !root.follows(&own.state().share_root(link)) {
        return;
    }
    let kept = own.commit(|state| {
        let is_linked = state.links().any(|(_, known)| known.share == link.share);
        let is_new = is_linked && root.follows(&state.share_root(link));
        let events: Vec<_> = is_new.then(|| share::later_key(link.share, &root)).into_iter().collect();
        ops::check_objects(state, &events).map(|()| (events, ()))
    });
    if let Err(error) = kept.await {
        tracing::warn!(account = %own.id(), share = %link.share, %error, "the new key of a shared mailbox is not kept yet");
    }
}

/// Adopts the owner's name for the mailbox, which takes precedence.
async fn keep_name(
    own: &Account,
    mailbox: MailboxId,
    link: &Link,
    share: &Account,
    about: &About,
) -> Result<()> {
    let Some(name) = own.state().any_mailbox(mailbox).map(|m| m.name().to_owned()) else { return Ok(()) };
    let Some(owner) = &link.owner else {
        if about.name != name {
            let about = About { name, ..about.clone() };
            share.commit(|_| Ok((vec![about.event()], ()))).await?;
        }
        return Ok(());
    };
    let wanted = share::name_for_others(owner, &about.name, link.share);
    if name == wanted {
        return Ok(());
    }
    own.commit(|state| {
        let still = state.link(mailbox).is_some_and(|known| known.share == link.share);
        let free = state.mailbox_named(&wanted).is_none();
        let event = Event::MailboxRenamed { mailbox, name: wanted.clone() };
        Ok((if still && free { vec![event] } else { Vec::new() }, ()))
    })
    .await?;
    Ok(())
}
