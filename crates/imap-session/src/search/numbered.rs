//! A mailbox as IMAP searches it: with message numbers and `$`.

use std::sync::Arc;

use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState};
use sealpost_base::{Uid, UidSet};
use sealpost_imap::types::SequenceSet;
use sealpost_mailbox::Access;
use sealpost_search::{MailboxScope, Scope};

use crate::connection::End;
use crate::selected::Selected;
use crate::targets;

/// A mailbox to search. Sequence number n is its n-th message.
pub(crate) struct NumberedScope {
    mailbox: MailboxScope,
    /// The value of `$`.
    saved: UidSet,
}

impl NumberedScope {
    /// The selected mailbox, as the client knows it.
    pub(crate) fn selected(view: &Selected) -> Self {
        Self::among(view, view.uids().clone())
    }

    /// A subset of the selected mailbox.
    pub(crate) fn among(view: &Selected, uids: UidSet) -> Self {
        let mailbox = MailboxScope {
            account: view.account().clone(),
            access: view.access(),
            mailbox: view.mailbox(),
            uid_validity: view.uid_validity(),
            uids,
            // RFC 3501 §2.3.2: only the session knows `\Recent`.
            marked: view.recent().clone(),
        };
        NumberedScope { mailbox, saved: view.saved().clone() }
    }

    /// A mailbox in its present state.
    pub(crate) fn whole(account: Arc<Account>, access: Access, mailbox: &Mailbox) -> Self {
        let mailbox = MailboxScope::whole(account, access, mailbox);
        NumberedScope { mailbox, saved: UidSet::new() }
    }

    /// The scope for the engine.
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope::one(&self.mailbox)
    }

    /// The mailbox.
    pub(crate) fn mailbox(&self) -> &MailboxScope {
        &self.mailbox
    }

    /// The mailbox in that state.
    ///
    /// # Errors
    /// If it was deleted, its UIDVALIDITY changed, or the user may no longer read it (RFC 4314 §5.1.1).
    pub(crate) fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox, End> {
        self.mailbox.mailbox_in(state).map_err(|_| End::MailboxGone)
    }

    /// The UID ranges for a set of UIDs.
    pub(super) fn by_uid(&self, set: &SequenceSet) -> UidSet {
        targets::ranges_of_uids(&self.mailbox.uids, &self.saved, set)
    }

    /// The UID ranges for a set of message numbers. Numbers beyond the mailbox match nothing; in a search
    /// they are no error (RFC 7377 §2).
    pub(super) fn by_number(&self, set: &SequenceSet) -> UidSet {
        targets::ranges_of_numbers(&self.mailbox.uids, &self.saved, set)
    }

    /// The number of a message, from 1.
    pub(crate) fn number(&self, uid: Uid) -> Option<u32> {
        self.mailbox.uids.rank(uid).and_then(|rank| u32::try_from(rank + 1).ok())
    }
}
