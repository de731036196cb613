//! From an address to the accounts and the addresses of other servers that get its mail.
//!
//! In this order, and the first match decides: the account of that name; the alias of that name;
//! with a tag (`user+tag`), the account or alias without it; the domain's catch-all, unless there
//! ever was an account of that name. Aliases may lead to aliases; each address is followed once, so
//! loops end, and limits bound the rest.

use std::collections::{HashSet, VecDeque};

use sealpost_base::{AccountId, Error, Kind, Result, limits};
use sealpost_vault::PublicKey;

use super::{
    AccountName, AccountRecord, Address, Alias, AliasName, Directory, OutsideAddress, Quotas, Targets,
    VacationMark,
};

/// The targets of the mail for an address: at least one account or outside address, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Accounts here.
    pub recipients: Vec<Recipient>,
    /// Addresses of other servers.
    pub outside: Vec<Outside>,
}

/// An address of another server that gets the mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// The address.
    pub address: OutsideAddress,
    /// The alias that leads there.
    pub alias: AliasName,
}

impl Resolved {
    fn is_empty(&self) -> bool {
        self.recipients.is_empty() && self.outside.is_empty()
    }
}

/// One account that gets the mail: all that a delivery needs to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The account.
    pub id: AccountId,
    /// Its name.
    pub name: AccountName,
    /// What the delivery is sealed to.
    pub public: PublicKey,
    /// The tag of `user+tag@domain`, if the mail was addressed so.
    pub detail: Option<String>,
    /// What the account may hold.
    pub quotas: Quotas,
    /// Its vacation response, if it has ever had one.
    pub vacation: Option<VacationMark>,
}

/// What answers to an address.
pub(super) enum AddressOwner {
    /// The account.
    Account(AccountRecord),
    /// The alias, or catch-all.
    Alias(Alias),
}

impl Directory {
    /// What gets the mail for `address`, in any spelling; `postmaster` without a domain
    /// is the host's (RFC 5321 §4.1.1.3, §4.5.1). On a store behind a network they, and what is
    /// recorded of them, may be those of up to ten seconds ago.
    ///
    /// # Errors
    /// `NotFound` if the address leads nowhere, `Invalid` if it is no address, `Limit` if its
    /// aliases fan out too far, and errors of the store: a recipient that cannot be looked up is
    /// not refused permanently.
    pub async fn resolve(&self, address: &str) -> Result<Resolved> {
        let address = if address.eq_ignore_ascii_case("postmaster") {
            Address::from_parts("postmaster", &self.host.hostname)?
        } else {
            Address::parse(address)?
        };
        // An earlier state of a record refuses no recipient.
        if let Some(versions) = self.versions.lately() {
            let lately = Directory { versions, ..self.clone() };
            match lately.expand(address.clone()).await {
                Ok(resolved) if !resolved.is_empty() => return Ok(resolved),
                Err(e) if e.kind() == Kind::Retry => return Err(e),
                _ => {}
            }
        }
        match self.expand(address.clone()).await? {
            resolved if resolved.is_empty() => {
                Err(Error::not_found(format!("no account or alias {address}")))
            }
            resolved => Ok(resolved),
        }
    }

    async fn expand(&self, address: Address) -> Result<Resolved> {
        let mut seen = HashSet::from([address.clone()]);
        let mut queue = VecDeque::from([(address, None, 0)]);
        let Resolved { mut recipients, mut outside } = Resolved::default();
        while let Some((address, detail, depth)) = queue.pop_front() {
            match self.look_up(&address, detail).await? {
                Some((AddressOwner::Account(account), detail))
                    if recipients.iter().all(|recipient| recipient.id != account.id) =>
                {
                    recipients.push(recipient(account, detail));
                }
                Some((AddressOwner::Alias(alias), detail)) => {
                    if depth == limits::ALIAS_DEPTH {
                        return Err(Error::limit(format!("the aliases at {address} nest too deep")));
                    }
                    let (here, elsewhere) = self.targets_now(alias.targets).await?;
                    for target in here {
                        if seen.len() > limits::ALIAS_LOOKUPS {
                            return Err(too_many(&alias.name));
                        }
                        if seen.insert(target.clone()) {
                            queue.push_back((target, detail.clone(), depth + 1));
                        }
                    }
                    for address in elsewhere {
                        if seen.len() > limits::ALIAS_LOOKUPS {
                            return Err(too_many(&alias.name));
                        }
                        if seen.insert(address.canonical().clone()) {
                            outside.push(Outside { address, alias: alias.name.clone() });
                        }
                    }
                }
                Some((AddressOwner::Account(_), _)) | None => {}
            }
        }
        Ok(Resolved { recipients, outside })
    }

    /// The targets as they are today: an outside address whose domain has come to be served here is
    /// one of this server.
    async fn targets_now(&self, targets: Targets) -> Result<(Vec<Address>, Vec<OutsideAddress>)> {
        let Targets { mut here, outside } = targets;
        let mut elsewhere = Vec::with_capacity(outside.len());
        for address in outside {
            if self.serves(address.canonical().domain()).await? {
                here.push(address.canonical().clone());
            } else {
                elsewhere.push(address);
            }
        }
        Ok((here, elsewhere))
    }

    /// What answers to `address`, and the tag that the mail has by then: the address's own, else
    /// the one it came with.
    pub(super) async fn look_up(
        &self,
        address: &Address,
        detail: Option<String>,
    ) -> Result<Option<(AddressOwner, Option<String>)>> {
        if let Some(found) = self.exact(address).await? {
            return Ok(Some((found, detail)));
        }
        if let Some((user, tag)) = address.split_tag()
            && let Some(found) = self.exact(&user).await?
        {
            let tag = Some(tag.to_owned()).filter(|tag| !tag.is_empty());
            return Ok(Some((found, tag.or(detail))));
        }
        if let Some(postmaster) = self.postmaster_for(address) {
            let alias = Alias {
                name: AliasName::Address(address.clone()),
                targets: Targets::from(std::slice::from_ref(postmaster)),
                changed: self.clock.now(),
            };
            return Ok(Some((AddressOwner::Alias(alias), detail)));
        }
        if self.had_account(address).await? {
            return Ok(None);
        }
        let catch_all = AliasName::CatchAll(address.domain().to_owned());
        Ok(self.alias(&catch_all).await?.map(|alias| (AddressOwner::Alias(alias), detail)))
    }

    async fn exact(&self, address: &Address) -> Result<Option<AddressOwner>> {
        // Of other addresses there are no accounts and no aliases.
        let Ok(name) = AccountName::new(address.clone()) else { return Ok(None) };
        if let Some(account) = self.find(&name).await? {
            return Ok(Some(AddressOwner::Account(account)));
        }
        Ok(self.alias_of(address).await?.map(AddressOwner::Alias))
    }

    /// Whether the address, or its form without a tag, ever was an account's name. Mail for a
    /// former account does not go to the catch-all; an alias of that name may have it.
    async fn had_account(&self, address: &Address) -> Result<bool> {
        let without_tag = address.split_tag().map(|(user, _)| user);
        for address in [Some(address.clone()), without_tag].into_iter().flatten() {
            if let Ok(name) = AccountName::new(address)
                && self.newest_account(&name).await?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the settings send this host's postmaster.
    fn postmaster_for(&self, address: &Address) -> Option<&Address> {
        let target = self.host.postmaster.as_ref()?;
        let domains = std::iter::once(&self.host.hostname).chain(&self.host.domain);
        let is_ours =
            address.local() == "postmaster" && domains.into_iter().any(|domain| address.domain() == domain);
        (is_ours && target != address).then_some(target)
    }
}

fn recipient(account: AccountRecord, detail: Option<String>) -> Recipient {
    let (quotas, vacation) = (account.quotas(), account.vacation);
    Recipient { id: account.id, name: account.name, public: account.public, detail, quotas, vacation }
}

fn too_many(alias: &AliasName) -> Error {
    Error::limit(format!("the alias {alias} leads to too many addresses"))
}
