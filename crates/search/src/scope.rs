//! The scope of a search: one mailbox, several, or a whole account with the shared mailboxes to which it has
//! links.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState};
use sealpost_base::{Error, MailboxId, Result, UidSet, UidValidity};
use sealpost_mailbox::Access;

/// The index of a mailbox in a [`Scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxIndex(pub u16);

/// The mailboxes that a search covers.
#[derive(Clone, Copy)]
pub struct Scope<'a>(&'a [MailboxScope]);

/// A mailbox of a [`Scope`], and the messages in it to search.
#[derive(Clone)]
pub struct MailboxScope {
    /// The account whose log has the mailbox.
    pub account: Arc<Account>,
    /// The access by which the user reads it.
    pub access: Access,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// Another UIDVALIDITY is another mailbox.
    pub uid_validity: UidValidity,
    /// The messages to search.
    pub uids: UidSet,
    /// The messages that `Criterion::Marked` selects; the caller defines the meaning.
    pub marked: UidSet,
}

/// A mailbox of the scope was deleted, its UIDVALIDITY changed, or the user may no longer read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxGone;

impl MailboxIndex {
    /// The first mailbox, which is the only one in a scope of one.
    pub const FIRST: MailboxIndex = MailboxIndex(0);
}

impl<'a> Scope<'a> {
    /// One mailbox.
    pub fn one(mailbox: &'a MailboxScope) -> Self {
        Scope(std::slice::from_ref(mailbox))
    }

    /// Several distinct mailboxes.
    ///
    /// # Errors
    /// `Limit` if there are more than a [`MailboxIndex`] can number.
    pub fn several(mailboxes: &'a [MailboxScope]) -> Result<Self> {
        if mailboxes.len() > usize::from(u16::MAX) + 1 {
            return Err(Error::limit("too many mailboxes to search at once"));
        }
        Ok(Scope(mailboxes))
    }

    /// The mailboxes, in their order.
    pub fn mailboxes(self) -> impl ExactSizeIterator<Item = (MailboxIndex, &'a MailboxScope)> {
        self.0.iter().enumerate().map(|(at, mailbox)| (MailboxIndex(at as u16), mailbox))
    }

    /// The mailbox of that index; `None` for an index of another scope.
    pub fn mailbox(self, index: MailboxIndex) -> Option<&'a MailboxScope> {
        self.0.get(usize::from(index.0))
    }

    /// The mailbox, if the scope is a single one.
    pub fn only(self) -> Option<&'a MailboxScope> {
        if let [mailbox] = self.0 { Some(mailbox) } else { None }
    }

    /// The number of messages to search.
    pub fn messages(self) -> usize {
        self.0.iter().map(|mailbox| mailbox.uids.len()).sum()
    }
}

impl MailboxScope {
    /// Every mailbox of an account that has messages itself. Linked mailboxes are in logs of their own: the
    /// caller adds those that the user may read.
    pub fn all_of(account: &Arc<Account>) -> Vec<Self> {
        let state = account.state();
        let own = state.mailboxes().filter(|mailbox| mailbox.link().is_none());
        own.map(|mailbox| MailboxScope::whole(account.clone(), Access::Own, mailbox)).collect()
    }

    /// All present messages of a mailbox.
    pub fn whole(account: Arc<Account>, access: Access, mailbox: &Mailbox) -> Self {
        MailboxScope {
            account,
            access,
            mailbox: mailbox.id(),
            uid_validity: mailbox.uid_validity(),
            uids: mailbox.uids(),
            marked: UidSet::new(),
        }
    }

    /// The mailbox in that state.
    ///
    /// # Errors
    /// If it was deleted, its UIDVALIDITY changed, or it may no longer be read (RFC 4314 §5.1.1).
    pub fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox, MailboxGone> {
        let readable = self.access.rights(state).contains(Rights::READ);
        let mailbox =
            state.mailbox(self.mailbox).filter(|m| readable && m.uid_validity() == self.uid_validity);
        mailbox.ok_or(MailboxGone)
    }
}
