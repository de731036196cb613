//! From a mailbox's name to where its messages are, and what a user may do there.
//!
//! A name leads to a mailbox of an account's log, which need not be the user's own log; only this
//! module knows which. Code that reads or changes messages resolves the name here and then uses
//! [`ResolvedMailbox::account`], never the user's own account; code that changes the tree of names
//! uses the user's own.
//!
//! Rights are looked up whenever they are needed, in the share's own state: revoking them takes
//! effect at once (`docs/decisions/0010-sharing.md`).

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

/// Rights of which one is enough to see that the mailbox exists (RFC 4314 §4, MYRIGHTS).
const ANY: Rights = Rights::LOOKUP
    .with(Rights::READ)
    .with(Rights::INSERT)
    .with(Rights::CREATE)
    .with(Rights::DELETE_MAILBOX)
    .with(Rights::ADMINISTER);

/// Rights of which one is enough to open a mailbox read-write (RFC 4314 §5.2): all flags are shared.
const WRITES: Rights =
    Rights::INSERT.with(Rights::EXPUNGE).with(Rights::SEEN).with(Rights::WRITE).with(Rights::DELETE_MESSAGES);

/// A mailbox, in the log where its messages are.
#[derive(Clone)]
pub struct ResolvedMailbox {
    /// The account of the log.
    pub account: Arc<Account>,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// The user's rights.
    pub rights: Rights,
    /// Where the rights come from.
    pub access: Access,
    /// The mailbox in the user's own log: a link, if it is a share.
    pub own: MailboxId,
    /// The name that was asked for.
    pub name: String,
}

/// A user, as far as names and rights go.
#[derive(Clone, Copy)]
pub struct User<'a> {
    /// Opens the logs of shares.
    pub accounts: &'a Accounts,
    /// The user's own account.
    pub account: &'a Arc<Account>,
}

/// The shares that an account has links to, and what it may do there.
#[derive(Debug, Default)]
pub struct LinkRights(BTreeMap<MailboxId, (String, Rights)>);

impl User<'_> {
    /// Resolves a name.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox, `Invalid` if it is only a name above others.
    pub async fn resolve(self, name: &str) -> Result<ResolvedMailbox> {
        let found = match self.resolve_known(name).await {
            // Another process may have made it a moment ago, and this one not know yet.
            Err(error) if is_missing(&error) => {
                self.account.refresh().await?;
                self.resolve_known(name).await
            }
            found => found,
        };
        match found {
            // Another user may have given the name to another mailbox: that is found by looking at all of
            // them.
            Err(_) if share::is_of_others(name) => {
                self.links().await?;
                self.resolve_known(name).await
            }
            found => found,
        }
    }

    /// Where that name leads, as far as the account is known here.
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

    /// Opens all shares that the account has links to.
    ///
    /// # Errors
    /// Store errors. A corrupt share is listed, and fails when it is opened, and so is one whose key
    /// is not to be had.
    pub async fn links(self) -> Result<LinkRights> {
        let account = self.account;
        let links: Vec<(MailboxId, Link)> =
            account.state().links().map(|(mailbox, link)| (mailbox.id(), link.clone())).collect();
        let mut rights = BTreeMap::new();
        for (mailbox, link) in links {
            let found = match follow(self.accounts, account, mailbox, &link).await {
                Ok((_, _, rights)) => rights,
                Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Denied) => Rights::LOOKUP,
                // It was removed.
                Err(error) if error.kind() == Kind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Following it may have given it another name.
            if let Some(mailbox) = account.state().any_mailbox(mailbox) {
                rights.insert(mailbox.id(), (mailbox.name().to_owned(), found));
            }
        }
        Ok(LinkRights(rights))
    }
}

/// Opens a share that `own` has a link to, with the rights there. A dangling link is removed, and
/// one whose mailbox has another name by now is renamed. A share that is due to be given a new key
/// gets it if this user administers it.
///
/// # Errors
/// `NotFound` if the share has a new key which is not for this account: the link is removed. Store errors.
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
    /// Whether messages may still be put here: the right may have been taken away while they came.
    pub fn still_takes_messages(&self) -> bool {
        self.access.rights(&self.account.state()).contains(Rights::INSERT)
    }

    /// The mailbox, if all of `needed` are among the rights to it.
    ///
    /// # Errors
    /// `Denied`; for a mailbox that may not even be listed, the error for one that does not exist
    /// (RFC 4314 §6).
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
    /// `NotFound` if it was deleted since the name was looked up.
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

/// The owner deleted the mailbox, or took all rights away. An owner's own share stays known until
/// it is purged, so that it can be undeleted.
async fn remove_link(own: &Account, mailbox: MailboxId, link: &Link) -> Result<()> {
    own.commit(|state| {
        let still = state.link(mailbox).is_some_and(|known| known.share == link.share);
        Ok((if still { share::removed(state, mailbox, link) } else { Vec::new() }, ()))
    })
    .await?;
    Ok(())
}

/// Gives a share a new key if that is due and this user administers it.
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

/// Keeps the key that a share has by now in the user's own log: no record that somebody changed
/// leads to another one, and the mail does not depend on the record.
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

/// The owner's name for the mailbox is the one that counts.
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
