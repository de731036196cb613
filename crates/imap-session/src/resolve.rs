//! Mailbox names in IMAP commands, resolved by [`sealpost_mailbox::resolve`].

use sealpost_imap::types::Mailbox;
use sealpost_mailbox::resolve::{self, LinkRights, ResolvedMailbox, is_missing};

use super::reply::{Failure, Reply};
use super::user::User;

impl User {
    /// Resolves a mailbox name.
    ///
    /// # Errors
    /// `NO [NONEXISTENT]` if there is no such mailbox, `NO [CANNOT]` if it is a nonexistent parent.
    pub(super) async fn resolve(&self, name: &Mailbox) -> Result<ResolvedMailbox, Failure> {
        Ok(self.resolver().resolve(name.as_str()).await?)
    }

    /// As [`User::resolve`], for a target of messages: creating a missing one helps (RFC 3501 §6.3.11,
    /// §6.4.7).
    pub(super) async fn resolve_for_messages(&self, name: &Mailbox) -> Result<ResolvedMailbox, Failure> {
        match self.resolver().resolve(name.as_str()).await {
            Err(error) if is_missing(&error) => Err(Reply::try_create().into()),
            other => Ok(other?),
        }
    }

    /// Opens all shares to which the account has links.
    ///
    /// # Errors
    /// Store errors. A corrupt share is listed, and fails when opened.
    pub(super) async fn links(&self) -> Result<LinkRights, Failure> {
        Ok(self.resolver().links().await?)
    }

    /// The resolver of this user's mailbox names.
    pub(super) fn resolver(&self) -> resolve::User<'_> {
        resolve::User { accounts: self.accounts(), account: self.account() }
    }
}
