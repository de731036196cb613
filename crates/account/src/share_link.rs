//! [`Link`]: what leads from a name to a shared mailbox.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, limits};
use sealpost_vault::RootKey;

/// What leads from a mailbox's name to the share that its messages are in.
#[derive(Clone, Encode, Decode)]
pub struct Link {
    /// The share's log.
    #[n(0)]
    pub share: AccountId,
    /// Its key.
    #[n(1)]
    pub root: RootKey,
    /// The name of the account it belongs to; `None`: to the account that has the link.
    #[n(2)]
    pub owner: Option<String>,
}

/// The most links to other users' mailboxes that an account may have without subscribing to them;
/// beyond it an offer makes no link. The limit is part of the offer, so that a replay gives the
/// same result after the limit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct UnacceptedLinks {
    /// Of the account that offers.
    #[n(0)]
    pub of_one: u32,
    /// Of all accounts.
    #[n(1)]
    pub of_all: u32,
}

impl UnacceptedLinks {
    /// What offers say that are made now.
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
