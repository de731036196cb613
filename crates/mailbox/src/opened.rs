//! A mailbox that a client has open: its UIDs keep the meaning that they had when it was opened, or access
//! fails.

use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState, ops};
use sealpost_base::{Error, MailboxId, Position, Result, UidSet, UidValidity};

use crate::access::Access;
use crate::entry::entry_of;
use crate::refusal::{MailboxGone, Refusal};

/// The rights that removing messages needs: marking them as deleted, and expunging them.
const TAKES_OUT: Rights = Rights::DELETE_MESSAGES.with(Rights::EXPUNGE);

/// A mailbox that a client has open.
#[derive(Clone)]
pub struct OpenedMailbox {
    /// The account whose log has the mailbox.
    pub account: Arc<Account>,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// Its UIDVALIDITY when it was opened.
    pub uid_validity: UidValidity,
    /// How the user accesses it.
    pub access: Access,
}

impl OpenedMailbox {
    /// The mailbox in that state.
    ///
    /// # Errors
    /// If it is no longer the mailbox that was opened, or the user may no longer read it (RFC 4314 §5.1.1).
    pub fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox, MailboxGone> {
        find(state, self.mailbox, self.uid_validity, self.access)
    }

    /// Checks that the user may move messages out of it, or replace them (RFC 6851 §4.2, RFC 8508 §4.1).
    ///
    /// # Errors
    /// `Denied` if not.
    pub fn check_may_take_out(&self) -> Result<()> {
        match self.access.rights(&self.account.state()).contains(TAKES_OUT) {
            true => Ok(()),
            false => Err(Error::denied("you do not have the right to take messages out")),
        }
    }

    /// Expunges messages that another log has by now; returns the entry, if any still existed.
    ///
    /// # Errors
    /// `NotExpunged`: messages may be duplicated, never lost.
    pub(crate) async fn expunge_copied(&self, uids: &UidSet) -> Result<Option<Position>, Refusal> {
        let expunging = self.account.commit(|state| {
            if !self.access.rights(state).contains(Rights::EXPUNGE) {
                return Err(Error::denied("EXPUNGE right revoked during MOVE"));
            }
            let expunged = |mailbox: &Mailbox| Event::Expunged { mailbox: mailbox.id(), uids: uids.clone() };
            Ok((self.mailbox_in(state).ok().map(expunged).into_iter().collect(), ()))
        });
        match expunging.await {
            Ok(committed) => Ok(entry_of(&committed)),
            Err(error) => Err(Refusal::NotExpunged(error)),
        }
    }
}

/// As [`OpenedMailbox::mailbox_in`], from its fields.
///
/// # Errors
/// As [`OpenedMailbox::mailbox_in`].
pub fn find(
    state: &AccountState,
    mailbox: MailboxId,
    uid_validity: UidValidity,
    access: Access,
) -> Result<&Mailbox, MailboxGone> {
    let same = |mailbox: &&Mailbox| mailbox.uid_validity() == uid_validity;
    let readable = access.rights(state).contains(Rights::READ);
    state.mailbox(mailbox).filter(same).filter(|_| readable).ok_or(MailboxGone)
}

/// The events that expunge the messages marked as deleted; with `among`, only those in it. Empty if there are
/// none.
pub fn expunge_deleted(state: &AccountState, mailbox: &Mailbox, among: Option<&UidSet>) -> Vec<Event> {
    // No message is marked: skip the scan.
    if mailbox.deleted() == 0 {
        return Vec::new();
    }
    let uids = match among {
        Some(among) => ops::deleted(state, mailbox, among),
        None => ops::deleted(state, mailbox, &mailbox.uids()),
    };
    if uids.is_empty() { Vec::new() } else { vec![Event::Expunged { mailbox: mailbox.id(), uids }] }
}
