//! Aliases: addresses that stand for one or more others, and catch-alls (`@domain`).

use std::fmt;
use std::str::FromStr;

use futures::StreamExt;
use futures::stream::BoxStream;
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, Timestamp, limits};

use super::versions::Newest;
use super::{AccountName, Address, Directory, OutsideAddress, Targets, path};

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
    /// The targets of its mail.
    pub targets: Targets,
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
    #[n(4)]
    #[cbor(default)]
    outside: Option<Vec<OutsideAddress>>,
}

impl AliasRecord {
    fn new(name: &AliasName, targets: Targets, changed: Timestamp) -> Self {
        let Targets { here, outside } = targets;
        // Absent where there are none, so that such a record is what it always was.
        let outside = Some(outside).filter(|outside| !outside.is_empty());
        AliasRecord { name: name.to_string(), targets: here, changed, removed: false, outside }
    }
}

impl AliasName {
    /// Reads `local@domain` or `@domain`.
    ///
    /// # Errors
    /// As [`AccountName::parse`].
    pub fn parse(text: &str) -> Result<Self> {
        match text.strip_prefix('@') {
            // The local part stands in for any; the domain is what is kept.
            Some(domain) => {
                let any = AccountName::new(Address::from_parts("any", domain)?)?;
                Ok(AliasName::CatchAll(any.address().domain().to_owned()))
            }
            None => AccountName::parse(text).map(|name| AliasName::Address(name.into())),
        }
    }

    /// The domain it is in.
    pub fn domain(&self) -> &str {
        match self {
            AliasName::Address(address) => address.domain(),
            AliasName::CatchAll(domain) => domain,
        }
    }

    fn directory(&self) -> String {
        format!("{ROOT}/{}", path::encode(&self.to_string()))
    }
}

/// A change of an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasChange {
    /// The alias as it is now.
    pub alias: Alias,
    /// Targets that it did not have before.
    pub added: Targets,
    /// Targets that it has no more.
    pub removed: Targets,
}

impl Directory {
    /// Adds targets to an alias; makes it if there is none.
    ///
    /// # Errors
    /// `NotFound` if a target here leads to no account and to no other server; `Conflict` if there
    /// is an account of that name; `Invalid` without targets, if one of them leads back to the alias,
    /// or if one that is outside is in a domain served here; `Limit` beyond
    /// [`limits::ALIAS_TARGETS`].
    pub async fn add_to_alias(&self, name: &AliasName, targets: impl Into<Targets>) -> Result<AliasChange> {
        let targets = targets.into();
        self.check_alias(name, &targets).await?;
        self.change_alias(name, |before| Ok(before.clone().with(targets.clone()))).await
    }

    /// Makes an alias, or gives one that exists these targets instead of those that it has.
    ///
    /// # Errors
    /// As [`Directory::add_to_alias`].
    pub async fn set_alias(&self, name: &AliasName, targets: impl Into<Targets>) -> Result<AliasChange> {
        let targets = targets.into();
        self.check_alias(name, &targets).await?;
        self.change_alias(name, |_| Ok(targets.clone())).await
    }

    /// Takes targets from an alias.
    ///
    /// # Errors
    /// `NotFound` if there is no such alias, or it has not all of these targets; `Invalid` if none
    /// would be left.
    pub async fn take_from_alias(&self, name: &AliasName, targets: &[Address]) -> Result<AliasChange> {
        self.change_alias(name, |before| {
            if before.is_empty() {
                return Err(no_alias(name));
            }
            if let Some(target) = targets.iter().find(|target| !before.contains(target)) {
                return Err(Error::not_found(format!("the alias {name} has no target {target}")));
            }
            let left = before.filtered(|target| !targets.contains(target));
            if left.is_empty() {
                return Err(Error::invalid(format!(
                    "this would remove the last target of the alias {name}; remove the alias instead"
                )));
            }
            Ok(left)
        })
        .await
    }

    /// Gives an alias the targets that `change` makes of those that it has; none has one that is
    /// not there. It may run again, on other targets.
    ///
    /// # Errors
    /// What `change` says; `Invalid` if nothing is left, `Limit` as [`Directory::set_alias`].
    pub(super) async fn change_alias(
        &self,
        name: &AliasName,
        change: impl Fn(&Targets) -> Result<Targets>,
    ) -> Result<AliasChange> {
        let changed = self.clock.now();
        let mut done = Default::default();
        self.put_alias(name, |before| {
            let before = before.map(|alias| alias.targets).unwrap_or_default();
            let targets = Targets::default().with(change(&before)?);
            if targets.is_empty() {
                return Err(Error::invalid("an alias needs at least one target"));
            }
            if targets.len() > limits::ALIAS_TARGETS {
                return Err(Error::limit(format!("an alias has at most {} targets", limits::ALIAS_TARGETS)));
            }
            done = (before, targets.clone());
            Ok(AliasRecord::new(name, targets, changed))
        })
        .await?;
        let (before, targets) = done;
        let (added, removed) = (
            targets.filtered(|target| !before.contains(target)),
            before.filtered(|target| !targets.contains(target)),
        );
        Ok(AliasChange { alias: Alias { name: name.clone(), targets, changed }, added, removed })
    }

    /// Removes an alias.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub async fn remove_alias(&self, name: &AliasName) -> Result<()> {
        let changed = self.clock.now();
        self.put_alias(name, |before| match before {
            Some(_) => {
                Ok(AliasRecord { removed: true, ..AliasRecord::new(name, Targets::default(), changed) })
            }
            None => Err(no_alias(name)),
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

    /// All aliases, by name. An unreadable one is an error in its place and does not end the
    /// stream.
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
        Err(Error::retry(format!("too many concurrent changes of the alias {name}; retry")))
    }
}

fn no_alias(name: &AliasName) -> Error {
    Error::not_found(format!("there is no alias {name}"))
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
    let targets = Targets { here: record.targets, outside: record.outside.unwrap_or_default() };
    Ok(Some(Alias { name, targets, changed: record.changed }))
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
