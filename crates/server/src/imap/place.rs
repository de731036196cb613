//! From a mailbox's name to where its messages are, and what this session may do there.
//!
//! The one place that knows of it: a name leads to a mailbox of an account's log, which need not be the log of whoever
//! logged in. Commands that read or change messages ask here and then use [`Place::account`], never the session's own
//! account; commands that change the tree of names (CREATE, DELETE, RENAME, SUBSCRIBE) use the session's own.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::Mailbox as State;
use sealpost_account::{Account, AccountState, ops};
use sealpost_base::{Error, Kind, MailboxId};
use sealpost_imap::types::{Code, Mailbox};

use super::reply::{Failure, Reply};
use super::session::Session;

/// A mailbox, in the log where its messages are.
#[derive(Clone)]
pub(super) struct Place {
    /// Whose log it is.
    pub(super) account: Arc<Account>,
    /// The mailbox there.
    pub(super) mailbox: MailboxId,
    /// What this session's user may do with it.
    pub(super) rights: Rights,
}

impl Session {
    /// Where that name leads.
    ///
    /// # Errors
    /// `NO [NONEXISTENT]` if there is no such mailbox, `NO [CANNOT]` if it is only a level above others.
    pub(super) async fn place(&self, name: &Mailbox) -> Result<Place, Failure> {
        let account = self.account()?.clone();
        let mailbox = ops::existing(&account.state(), name.as_str())?.id();
        Ok(Place { account, mailbox, rights: Rights::ALL })
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
}

impl Place {
    /// The place, if all of `needed` are among the rights to it.
    ///
    /// # Errors
    /// `NO [NOPERM]`; for a mailbox that may not even be listed, the error for one that does not exist (RFC 4314 §6).
    pub(super) fn require(self, needed: Rights) -> Result<Self, Failure> {
        if self.rights.contains(needed) {
            return Ok(self);
        }
        Err(if self.rights.contains(Rights::LOOKUP) {
            Reply::no(Code::NoPerm, "you do not have the right to do that with this mailbox")
        } else {
            Reply::no(Code::NonExistent, "no such mailbox")
        }
        .into())
    }

    /// The mailbox in its account's state.
    ///
    /// # Errors
    /// `NotFound` if it was deleted since the name was looked up.
    pub(super) fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a State, Error> {
        state.mailbox(self.mailbox).ok_or_else(|| Error::new(Kind::NotFound, "the mailbox is gone"))
    }
}
