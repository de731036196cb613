//! [`Link`]: what leads from a name to a shared mailbox.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::AccountId;
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

/// Shows the share, never the key.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({}, owner {:?})", self.share, self.owner)
    }
}
