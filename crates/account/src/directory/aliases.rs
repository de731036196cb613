//! Aliases: addresses that stand for one or more others, and catch-alls (`@domain`).

use std::fmt;
use std::str::FromStr;

use futures::StreamExt;
use futures::stream::BoxStream;
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, Timestamp, limits};

use super::versions::Newest;
use super::{AccountName, Address, Directory, path};

pub(super) const ROOT: &str = "aliases";

/// What an alias answers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AliasName {
    /// One address.
    Address(Address),
    /// Every address of a domain that nothing else answers to, written `@domain`.
    CatchAll(String),
}

/// One alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// What it answers to.
    pub name: AliasName,
    /// Where its mail goes: accounts here, or other aliases that lead to some.
    pub targets: Vec<Address>,
    /// When it was last changed.
    pub changed: Timestamp,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct AliasRecord {
    #[n(0)]
    name: String,
    #[n(1)]
    targets: Vec<Address>,
    #[n(2)]
    changed: Timestamp,
    #[n(3)]
    removed: bool,
}

impl AliasName {
    /// Reads `local@domain` or `@domain`.
    ///
    /// # Errors
    /// As [`Address::parse`].
    pub fn parse(text: &str) -> Result<Self> {
        match text.strip_prefix('@') {
            // The local part stands in for any; the domain is what is kept.
            Some(domain) => Ok(AliasName::CatchAll(Address::from_parts("any", domain)?.domain().to_owned())),
            None => Address::parse(text).map(AliasName::Address),
        }
    }

    fn directory(&self) -> String {
        format!("{ROOT}/{}", path::encode(&self.to_string()))
    }
}

impl Directory {
    /// Makes an alias, or gives an existing one other targets.
    ///
    /// # Errors
    /// `Conflict` if there is an account of that name; `Invalid` without targets or if one of them is the alias
    /// itself; `Limit` beyond [`limits::ALIAS_TARGETS`].
    pub async fn set_alias(&self, name: &AliasName, targets: &[Address]) -> Result<Alias> {
        let mut targets = targets.to_vec();
        targets.sort();
        targets.dedup();
        if targets.len() > limits::ALIAS_TARGETS {
            return Err(Error::limit(format!("an alias has at most {} targets", limits::ALIAS_TARGETS)));
        }
        if targets.is_empty() {
            return Err(Error::invalid("an alias needs at least one target"));
        }
        if let AliasName::Address(address) = name {
            if targets.contains(address) {
                return Err(Error::invalid(format!("the alias {name} cannot lead to itself")));
            }
            if self.find(&AccountName::from(address.clone())).await?.is_some() {
                return Err(Error::conflict(format!("{name} is an account")));
            }
        }
        let changed = self.clock.now();
        self.put_alias(name, |_| {
            Ok(AliasRecord { name: name.to_string(), targets: targets.clone(), changed, removed: false })
        })
        .await?;
        Ok(Alias { name: name.clone(), targets, changed })
    }

    /// Removes an alias.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub async fn remove_alias(&self, name: &AliasName) -> Result<()> {
        let changed = self.clock.now();
        self.put_alias(name, |before| match before {
            Some(_) => {
                Ok(AliasRecord { name: name.to_string(), targets: Vec::new(), changed, removed: true })
            }
            None => Err(Error::not_found(format!("there is no alias {name}"))),
        })
        .await
    }

    /// The alias called `name`, `None` if there is none.
    pub async fn alias(&self, name: &AliasName) -> Result<Option<Alias>> {
        let directory = name.directory();
        match self.versions.newest(&directory).await? {
            Some(newest) => decode(&directory, &newest),
            None => Ok(None),
        }
    }

    /// All aliases, by name. One that cannot be read is an error in its place and does not end the stream.
    pub fn aliases(&self) -> BoxStream<'static, Result<Alias>> {
        let aliases = self.versions.all(ROOT).map(|(directory, newest)| decode(&directory, &newest?));
        aliases.filter_map(|alias| std::future::ready(alias.transpose())).boxed()
    }

    pub(super) async fn alias_of(&self, address: &Address) -> Result<Option<Alias>> {
        self.alias(&AliasName::Address(address.clone())).await
    }

    async fn put_alias(
        &self,
        name: &AliasName,
        mut change: impl FnMut(Option<Alias>) -> Result<AliasRecord>,
    ) -> Result<()> {
        let directory = name.directory();
        for _ in 0..limits::RECORD_ATTEMPTS {
            let newest = self.versions.newest(&directory).await?;
            let before = newest.as_ref().map(|newest| decode(&directory, newest)).transpose()?.flatten();
            let bytes = minicbor::to_vec(change(before)?)
                .map_err(|e| Error::internal("an alias cannot be encoded").with_source(e.to_string()))?;
            let version = newest.map_or(0, |newest| newest.version);
            if self.versions.put_after(&directory, version, &bytes).await? {
                return Ok(());
            }
        }
        Err(Error::retry(format!("the alias {name} is being changed by others all the time")))
    }
}

/// `None` for the tombstone of an alias.
pub(super) fn decode(at: &str, newest: &Newest) -> Result<Option<Alias>> {
    let corrupt =
        |why: String| Error::corrupt(format!("the alias {at}/{:016x}", newest.version)).with_source(why);
    let record: AliasRecord = minicbor::decode(&newest.bytes).map_err(|e| corrupt(e.to_string()))?;
    let name = AliasName::parse(&record.name).map_err(|e| corrupt(e.to_string()))?;
    if name.directory() != at {
        return Err(corrupt(format!("it is the record of {name}")));
    }
    if record.removed {
        return Ok(None);
    }
    Ok(Some(Alias { name, targets: record.targets, changed: record.changed }))
}

impl fmt::Display for AliasName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AliasName::Address(address) => address.fmt(f),
            AliasName::CatchAll(domain) => write!(f, "@{domain}"),
        }
    }
}

impl FromStr for AliasName {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::parse(s)
    }
}
