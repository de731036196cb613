//! Who has an account here, and which addresses lead to them.
//!
//! Every account and every alias is a sequence of records in the store, each a new object:
//! `accounts/{name}/{version:016x}` and `aliases/{address}/{version:016x}`; of shared mailboxes too (`shares.rs`). The one with the highest version is
//! in force. A change is `put_new` of the next version, so that two processes never overwrite each other: the
//! loser reads what won and decides anew. Records are authenticated with the server key and bound to their path,
//! so that whoever can write to the store cannot give an account another key or send its mail elsewhere.
//!
//! Removal writes a tombstone and versions never restart, so nothing is remembered about a version that could
//! later mean something else. Every answer is what the store says now, whichever process wrote it; but where the store is
//! behind a network, deliveries are resolved by what it said a few seconds ago (`remembered.rs`). The bytes are described in `docs/format/accounts.md`.

use std::sync::Arc;

use sealpost_base::{Clock, Random, Result};
use sealpost_vault::Store;
use sealpost_vault::record::ServerKey;

mod accounts;
mod aliases;
mod name;
mod path;
mod punycode;
mod quota;
mod record;
mod remembered;
mod resolve;
mod retire;
mod secret;
mod served;
mod shares;
mod versions;

#[cfg(test)]
mod tests;

pub use accounts::NewAccount;
pub use aliases::{Alias, AliasName};
pub use name::{AccountName, Address};
pub use quota::{Quotas, Resource, Usage};
pub use record::{AccountRecord, Role, TokenInfo};
pub use resolve::{Recipient, Resolved};
pub use secret::Secret;
pub use shares::ShareRecord;
pub use versions::Seen;

use served::Served;
use versions::Versions;

/// The accounts and aliases of one store. Cheap to clone; clones and other processes see each other's changes
/// at once.
#[derive(Clone)]
pub struct Directory {
    versions: Versions,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    local: Arc<Local>,
    served: Arc<Served>,
}

/// What the host itself is called.
struct Local {
    hostname: String,
    postmaster: Option<Address>,
}

impl Directory {
    /// The directory in `store`, whose records are authenticated with `key`.
    pub fn new(store: Store, key: ServerKey, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let local = Local { hostname: "localhost".to_owned(), postmaster: None };
        Directory {
            versions: Versions::new(store, key, clock.clone(), random.clone()),
            clock,
            random,
            local: Arc::new(local),
            served: Arc::default(),
        }
    }

    /// The same directory on a host called `hostname`, which completes names without a domain, and where mail for
    /// the postmaster goes to `postmaster` if no account and no alias has that name.
    ///
    /// # Errors
    /// `Invalid` if either cannot be in an address.
    pub fn on_host(mut self, hostname: &str, postmaster: Option<&str>) -> Result<Self> {
        let hostname = Address::from_parts("postmaster", hostname)?.domain().to_owned();
        let postmaster = postmaster.map(|name| Address::parse_on(name, &hostname)).transpose()?;
        self.local = Arc::new(Local { hostname, postmaster });
        Ok(self)
    }

    /// This moment: while it is equal to an earlier one, no record has changed since then, whichever process it was; what another
    /// one writes is seen within a second. `None` where the store does not tell. Costs nothing.
    pub fn seen(&self) -> Option<Seen> {
        self.versions.seen()
    }

    /// The account name that somebody means by `name` when logging in: in any case, and without a domain that of
    /// the host.
    ///
    /// # Errors
    /// `Invalid` if it cannot be the name of an account.
    pub fn account_name(&self, name: &str) -> Result<AccountName> {
        Ok(AccountName::from(Address::parse_on(name, &self.local.hostname)?))
    }
}
