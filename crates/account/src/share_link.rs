//! [`Link`]: leads from a name to a shared mailbox.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, limits};
use sealpost_vault::RootKey;

/// Leads from a mailbox's name to the share that has its messages.
#[derive(Clone, Encode, Decode)]
pub struct Link {
    /// The share's log.
    #[n(0)]
    pub share: AccountId,
    /// Its key.
    #[n(1)]
    pub root: RootKey,
    /// The name of the owner's account; `None` if the account with the link is the owner.
    #[n(2)]
    pub owner: Option<String>,
}

/// The most links to other users' mailboxes that an account may have without a subscription; an offer beyond
/// that makes no link. The limit is part of the offer, so that a replay gives the same result after the limit
/// changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct UnacceptedLinks {
    /// To mailboxes of the offering account.
    #[n(0)]
    pub of_one: u32,
    /// To mailboxes of all accounts.
    #[n(1)]
    pub of_all: u32,
}

impl UnacceptedLinks {
    /// The limits in present offers.
    pub const LIMITS: UnacceptedLinks = UnacceptedLinks {
        of_one: limits::UNACCEPTED_LINKS_OF_ONE as u32,
        of_all: limits::UNACCEPTED_LINKS as u32,
    };
}

/// Shows the share, never the key.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({}, owner {:?})", self.share, self.owner)
    }
}
