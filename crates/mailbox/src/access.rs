//! How a user accesses a mailbox: as the owner of its log, or through a share.

use sealpost_account::AccountState;
use sealpost_account::rights::Rights;
use sealpost_base::AccountId;

/// How a user accesses a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The mailbox is in the user's own log.
    Own,
    /// The mailbox is a share.
    Share {
        /// The user's account.
        user: AccountId,
        /// Whether the user owns the share.
        owner: bool,
    },
}

impl Access {
    /// The user's rights in that state of the mailbox's log.
    pub fn rights(self, state: &AccountState) -> Rights {
        match self {
            Access::Own => Rights::ALL,
            Access::Share { user, owner } => match state.about() {
                Some(_) => state.rights_of(user),
                // The share's record of its owner may be corrupt; the owner can still read the rest.
                None if owner => Rights::ALL,
                None => Rights::NONE,
            },
        }
    }
}
