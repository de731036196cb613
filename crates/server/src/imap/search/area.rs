//! Where a search looks: a mailbox, those of its messages that count, and what numbers and `$` mean there.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState};
use sealpost_base::{MailboxId, Uid, UidSet, UidValidity};
use sealpost_imap::types::SequenceSet;
use sealpost_mailbox::Access;

use crate::imap::connection::End;
use crate::imap::targets;
use crate::imap::view::View;

/// A mailbox to be searched.
pub(in crate::imap) struct Area {
    pub(in crate::imap) account: Arc<Account>,
    /// What the right to read it comes from.
    pub(in crate::imap) access: Access,
    pub(in crate::imap) mailbox: MailboxId,
    pub(in crate::imap) uid_validity: UidValidity,
    /// The messages that are searched: sequence number n is the n-th of these.
    pub(in crate::imap) uids: UidSet,
    /// Those that are `\Recent` in this session.
    pub(in crate::imap) recent: UidSet,
    /// What `$` stands for.
    pub(in crate::imap) saved: UidSet,
}

impl Area {
    /// The selected mailbox, as the client knows it.
    pub(in crate::imap) fn selected(view: &View) -> Self {
        Area {
            account: view.account().clone(),
            access: view.access(),
            mailbox: view.mailbox(),
            uid_validity: view.uid_validity(),
            uids: view.uids().clone(),
            recent: view.recent().clone(),
            saved: view.saved().clone(),
        }
    }

    /// A mailbox as it is.
    pub(in crate::imap) fn whole(account: Arc<Account>, access: Access, mailbox: &Mailbox) -> Self {
        Area {
            account,
            access,
            mailbox: mailbox.id(),
            uid_validity: mailbox.uid_validity(),
            uids: mailbox.uids(),
            recent: UidSet::new(),
            saved: UidSet::new(),
        }
    }

    /// The mailbox in that state.
    ///
    /// # Errors
    /// If it was deleted, its UIDs mean something else now, or it may not be read any more (RFC 4314 §5.1.1).
    pub(in crate::imap) fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox, End> {
        let readable = self.access.rights(state).contains(Rights::READ);
        let mailbox =
            state.mailbox(self.mailbox).filter(|m| readable && m.uid_validity() == self.uid_validity);
        mailbox.ok_or(End::MailboxGone)
    }

    /// The ranges of UIDs that a set of UIDs stands for.
    pub(super) fn by_uid(&self, set: &SequenceSet) -> UidSet {
        targets::ranges_of_uids(&self.uids, &self.saved, set)
    }

    /// The ranges of UIDs that a set of message numbers stands for. Numbers beyond the mailbox match nothing: in a search
    /// they are no error (RFC 7377 §2).
    pub(super) fn by_number(&self, set: &SequenceSet) -> UidSet {
        targets::ranges_of_numbers(&self.uids, &self.saved, set)
    }

    /// The number of a message, from 1.
    pub(in crate::imap) fn number(&self, uid: Uid) -> Option<u32> {
        self.uids.rank(uid).and_then(|rank| u32::try_from(rank + 1).ok())
    }
}
