//! [`Directory`]: what its parts share, and what the host is called. The other files of this crate add its methods.

use std::sync::Arc;

use sealpost_base::{Clock, Random, Result};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{Store, TokenKeys};

use super::served::Served;
use super::versions::{StoreMoment, Versions};
use super::{AccountName, Address, AliasName, Watermarks};

/// The accounts and aliases of one store. Cheap to clone; clones and other processes see each other's changes
/// at once.
#[derive(Clone)]
pub struct Directory {
    pub(super) versions: Versions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) host: Arc<Host>,
    pub(super) served: Arc<Served>,
    pub(super) tokens: TokenKeys,
}

/// What the host itself is called.
pub(super) struct Host {
    pub(super) hostname: String,
    /// The domain of names that are given without one.
    pub(super) domain: Option<String>,
    pub(super) postmaster: Option<Address>,
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
    pub fn store_moment(&self) -> Option<StoreMoment> {
        self.versions.moment()
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
