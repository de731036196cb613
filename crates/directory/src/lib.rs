//! The accounts of this server, and the addresses that lead to them.
//!
//! Every account and every alias is a sequence of records in the store, each a new object:
//! `accounts/{name}/{version:016x}` and `aliases/{address}/{version:016x}`; of shared mailboxes too
//! (`shares.rs`). The one with the highest version is in force. A change is `put_new` of the next
//! version, so that two processes never overwrite each other: the loser reads the winner's version
//! and decides again. Records are authenticated with the server key and bound to their path, so
//! that an attacker with write access to the store cannot give an account another key or send its
//! mail elsewhere.
//!
//! Removal writes a tombstone and versions never restart, so nothing is remembered about a version
//! that could later mean something else. Every answer is what the store says now, whichever process
//! wrote it; but where the store is behind a network, deliveries are resolved by what it said a few
//! seconds ago (`remembered.rs`). The bytes are described in `docs/format/accounts.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use std::sync::Arc;

use sealpost_base::{Clock, Random, Result};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{Store, TokenKeys};

mod accounts;
mod alias_targets;
mod aliases;
mod login_records;
mod login_use;
mod logins;
mod maintenance;
mod name;
mod noise;
mod path;
mod punycode;
mod record;
mod rekey;
mod remembered;
mod resolve;
mod retire;
mod secret;
mod sending;
mod served;
mod server;
mod shares;
mod targets;
mod usage;
mod vacation;
mod versions;
pub mod watermarks;
mod withdrawn;

#[cfg(test)]
mod tests;

pub use accounts::{NewAccount, Rekeyed, UnverifiedSlots};
pub use aliases::{Alias, AliasChange, AliasName};
pub use login_use::{LoginUse, Rotation};
pub use maintenance::RecordsMaintained;
pub use name::{AccountName, Address};
pub use record::{AccountRecord, AppPassword, Forgery, Role, SlotInfo, VacationMark, unverified_account};
pub use resolve::{Outside, Recipient, Resolved};
pub use secret::Secret;
pub use sending::Sending;
pub use server::Authenticated;
pub use shares::ShareRecord;
pub use targets::{OutsideAddress, Targets};
pub use usage::{Quotas, Resource, Usage, UsageRecord};
pub use versions::StoreMoment;
pub use watermarks::Watermarks;

use served::Served;
use versions::Versions;

/// The accounts and aliases of one store. Cheap to clone; clones and other processes see each other's changes
/// at once.
#[derive(Clone)]
pub struct Directory {
    versions: Versions,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    host: Arc<Host>,
    served: Arc<Served>,
    tokens: TokenKeys,
}

/// What the host itself is called.
struct Host {
    hostname: String,
    /// The domain of names that are given without one.
    domain: Option<String>,
    postmaster: Option<Address>,
}

impl Directory {
    /// The directory in `store`, whose records are authenticated with `key`.
    pub fn new(store: Store, key: ServerKeys, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let host = Host { hostname: "localhost".to_owned(), domain: None, postmaster: None };
        store.seal_sizes(&key);
        let tokens = TokenKeys::of(&key);
        Directory {
            versions: Versions::new(store, key, clock.clone(), random.clone()),
            clock,
            random,
            host: Arc::new(host),
            served: Arc::default(),
            tokens,
        }
    }

    /// What seals the tokens of OAuth, whose secrets open slots.
    pub fn token_keys(&self) -> &TokenKeys {
        &self.tokens
    }

    /// The same, and what this node has seen of records is remembered there.
    #[must_use]
    pub fn with_watermarks(mut self, watermarks: Watermarks) -> Self {
        self.versions.watermarks = watermarks;
        self
    }

    /// What this node has seen of records, for readers of others than these.
    pub fn watermarks(&self) -> &Watermarks {
        &self.versions.watermarks
    }

    /// The same directory on a host called `hostname`. Names without a domain belong to `domain`;
    /// without that they are none. Mail for the postmaster of either is delivered to `postmaster`
    /// if no account and no alias has that name.
    ///
    /// # Errors
    /// `Invalid` if one of them cannot be in an address.
    pub fn on_host(mut self, hostname: &str, domain: Option<&str>, postmaster: Option<&str>) -> Result<Self> {
        let canonical = |domain| Ok(Address::from_parts("postmaster", domain)?.domain().to_owned());
        let (hostname, domain) = (canonical(hostname)?, domain.map(canonical).transpose()?);
        let postmaster = postmaster.map(|name| Address::parse_in(name, domain.as_deref())).transpose()?;
        self.host = Arc::new(Host { hostname, domain, postmaster });
        Ok(self)
    }

    /// This moment: while it is equal to an earlier one, no record has changed since then,
    /// whichever process it was; what another one writes is seen within a second. `None` where the
    /// store does not tell. Costs nothing.
    pub fn seen(&self) -> Option<StoreMoment> {
        self.versions.seen()
    }

    /// The account name that a user means by `name` when logging in: in any case, and without a
    /// domain one of the host's domain, if that has one.
    ///
    /// # Errors
    /// `Invalid` if it cannot be the name of an account.
    pub fn account_name(&self, name: &str) -> Result<AccountName> {
        AccountName::new(Address::parse_in(name, self.host.domain.as_deref())?)
    }

    /// As [`Directory::account_name`], of an alias: `@domain` is the catch-all of a domain.
    ///
    /// # Errors
    /// As [`AliasName::parse`].
    pub fn alias_name(&self, name: &str) -> Result<AliasName> {
        if name.starts_with('@') {
            return AliasName::parse(name);
        }
        self.account_name(name).map(|name| AliasName::Address(name.into()))
    }
}
