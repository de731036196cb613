//! From a mailbox's name to where its messages are, and what this session may do there.
//!
//! The one place that knows of it: a name leads to a mailbox of an account's log, which need not be the log of whoever
//! logged in. Commands that read or change messages ask here and then use [`Place::account`], never the session's own
//! account; commands that change the tree of names (CREATE, DELETE, RENAME, SUBSCRIBE) use the session's own.
//!
//! Rights are looked up whenever they are needed, in the share's own state: whoever loses them loses them at once
//! (`docs/decisions/0010-sharing.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::share::{self, About, Link};
use sealpost_account::state::Mailbox as State;
use sealpost_account::{Account, AccountState, ops};
use sealpost_base::{Error, Kind, MailboxId};
use sealpost_imap::types::{Code, Mailbox};
use sealpost_mailbox::Access;

use super::reply::{Failure, Reply};
use super::session::Session;

/// Rights of which one is enough to learn that the mailbox exists (RFC 4314 §4, MYRIGHTS).
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
pub(super) struct Place {
    /// Whose log it is.
    pub(super) account: Arc<Account>,
    /// The mailbox there.
    pub(super) mailbox: MailboxId,
    /// What this session's user may do with it.
    pub(super) rights: Rights,
    /// What the rights come from.
    pub(super) access: Access,
    /// The mailbox in the log of whoever logged in: a link, if it is a share.
    pub(super) own: MailboxId,
    /// The name that was asked for.
    pub(super) name: String,
}

/// The shares that an account has links to, and what it may do there.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<MailboxId, (String, Rights)>);

impl Session {
    /// Where that name leads.
    ///
    /// # Errors
    /// `NO [NONEXISTENT]` if there is no such mailbox, `NO [CANNOT]` if it is only a level above others.
    pub(super) async fn place(&self, name: &Mailbox) -> Result<Place, Failure> {
        let found = match self.look_up(name).await {
            // Another process may have made it a moment ago, and this one not know yet.
            Err(Failure::Reply(Reply { code: Some(Code::NonExistent | Code::Cannot), .. })) => {
                self.account()?.refresh().await?;
                self.look_up(name).await
            }
            found => found,
        };
        match found {
            // Another user may have given the name to another mailbox: that is found by looking at all of them.
            Err(Failure::Reply(_)) if share::is_of_others(name.as_str()) => {
                self.links().await?;
                self.look_up(name).await
            }
            found => found,
        }
    }

    async fn look_up(&self, name: &Mailbox) -> Result<Place, Failure> {
        self.place_of(self.account()?.clone(), name).await
    }

    /// Where that name leads for whoever has that account, with the rights of that user (RFC 4467 §7, URLFETCH).
    pub(super) async fn place_of(&self, account: Arc<Account>, name: &Mailbox) -> Result<Place, Failure> {
        let (own, link) = {
            let state = account.state();
            let mailbox = ops::existing(&state, name.as_str())?;
            (mailbox.id(), mailbox.link().cloned())
        };
        let name = name.as_str().to_owned();
        let Some(link) = link else {
            let rights = Rights::ALL;
            return Ok(Place { account, mailbox: own, rights, access: Access::Own, own, name });
        };
        let (share, access, rights) = self.follow(&account, own, &link).await?;
        let renamed = account.state().any_mailbox(own).is_none_or(|mailbox| mailbox.name() != name);
        if !rights.intersects(ANY) || link.owner.is_some() && renamed {
            return Err(gone(&name).into());
        }
        let mailbox = share.state().inbox().id();
        Ok(Place { account: share, mailbox, rights, access, own, name })
    }

    /// As [`Session::place`], for a mailbox that messages are put into: creating one that does not exist helps
    /// (RFC 3501 §6.3.11, §6.4.7).
    pub(super) async fn place_for_messages(&self, name: &Mailbox) -> Result<Place, Failure> {
        match self.place(name).await {
            Err(Failure::Reply(reply)) if matches!(reply.code, Some(Code::NonExistent | Code::Cannot)) => {
                Err(Reply::try_create().into())
            }
            other => other,
        }
    }

    /// Looks at all shares that the account has links to.
    ///
    /// # Errors
    /// What the store says. A share that is damaged is listed, and says so when it is opened.
    pub(super) async fn links(&self) -> Result<Links, Failure> {
        let account = self.account()?.clone();
        let links: Vec<(MailboxId, Link)> =
            account.state().links().map(|(mailbox, link)| (mailbox.id(), link.clone())).collect();
        let mut rights = BTreeMap::new();
        for (mailbox, link) in links {
            let found = match self.follow(&account, mailbox, &link).await {
                Ok((_, _, rights)) => rights,
                Err(error) if error.kind() == Kind::Corrupt => Rights::LOOKUP,
                Err(error) => return Err(error.into()),
            };
            // Following it may have given it another name.
            if let Some(mailbox) = account.state().any_mailbox(mailbox) {
                rights.insert(mailbox.id(), (mailbox.name().to_owned(), found));
            }
        }
        Ok(Links(rights))
    }

    /// Opens a share and says what may be done there. A link that leads nowhere any more is removed, and one whose
    /// mailbox has another name by now is renamed.
    pub(super) async fn follow(
        &self,
        own: &Account,
        mailbox: MailboxId,
        link: &Link,
    ) -> Result<(Arc<Account>, Access, Rights), Error> {
        let share = self.ctx.accounts.open(link.share, &link.root).await?;
        share.catch_up().await?;
        let access = Access::Share { user: own.id(), owner: link.owner.is_none() };
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
}

impl Place {
    /// Whether messages may still be put here: the right may have been taken away while they came.
    ///
    /// # Errors
    /// As for a mailbox that does not exist.
    pub(super) fn still_takes_messages(&self) -> Result<(), Reply> {
        match self.access.rights(&self.account.state()).contains(Rights::INSERT) {
            true => Ok(()),
            false => Err(Reply::try_create()),
        }
    }

    /// The place, if all of `needed` are among the rights to it.
    ///
    /// # Errors
    /// `NO [NOPERM]`; for a mailbox that may not even be listed, the error for one that does not exist (RFC 4314 §6).
    pub(super) fn require(self, needed: Rights) -> Result<Self, Failure> {
        if self.rights.contains(needed) {
            return Ok(self);
        }
        Err(if self.rights.contains(Rights::LOOKUP) {
            Reply::no(Code::NoPerm, "you do not have the right to do that with this mailbox").into()
        } else {
            gone(&self.name).into()
        })
    }

    /// Whether it can be opened read-write (RFC 4314 §5.2).
    pub(super) fn is_writable(&self) -> bool {
        self.rights.intersects(WRITES)
    }

    /// The mailbox in its account's state.
    ///
    /// # Errors
    /// `NotFound` if it was deleted since the name was looked up.
    pub(super) fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a State, Error> {
        state.mailbox(self.mailbox).ok_or_else(|| Error::new(Kind::NotFound, "the mailbox is gone"))
    }
}

impl Links {
    /// The names of mailboxes that may not be listed.
    pub(super) fn hidden(&self) -> BTreeSet<String> {
        let hidden = self.0.values().filter(|(_, rights)| !rights.contains(Rights::LOOKUP));
        hidden.map(|(name, _)| name.clone()).collect()
    }
}

/// The error for a mailbox that does not exist.
fn gone(name: &str) -> Error {
    Error::not_found(format!("no mailbox {name}"))
}

/// The owner deleted the mailbox, or took all rights away. What is the owner's own stays known until it is deleted for
/// good, so that it can be brought back.
async fn remove_link(own: &Account, mailbox: MailboxId, link: &Link) -> Result<(), Error> {
    own.commit(|state| {
        let still = state.link(mailbox).is_some_and(|known| known.share == link.share);
        Ok((if still { share::removed(mailbox, link) } else { Vec::new() }, ()))
    })
    .await?;
    Ok(())
}

/// The owner's name for the mailbox is the one that counts.
async fn keep_name(
    own: &Account,
    mailbox: MailboxId,
    link: &Link,
    share: &Account,
    about: &About,
) -> Result<(), Error> {
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
