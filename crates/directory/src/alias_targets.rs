//! Whether the targets of an alias lead to accounts here, or outside: checked before the alias is
//! created, so that none is accepted that can never work.

use std::collections::{HashSet, VecDeque};

use futures::StreamExt;
use sealpost_base::{Error, Kind, Result, limits};

use super::resolve::AddressOwner;
use super::{AccountName, Address, Alias, AliasName, Directory, Targets};

impl Directory {
    /// Whether there can be an alias `name` to `targets`: no account is called so, each target
    /// here leads to an account or outside, and none of them back to `name`.
    ///
    /// # Errors
    /// `Conflict` if there is such an account; `NotFound` if one leads nowhere, `Invalid` if one
    /// leads back or is not outside, `Limit` if there are too many aliases on the way.
    pub(super) async fn check_alias(&self, name: &AliasName, targets: &Targets) -> Result<()> {
        if let AliasName::Address(address) = name {
            address.check_visible()?;
        }
        if let AliasName::Address(address) = name
            && self.find(&AccountName::new(address.clone())?).await?.is_some()
        {
            return Err(Error::conflict(format!("{name} is an account")));
        }
        for target in &targets.here {
            if !self.leads_on(name, target).await? {
                return Err(self.leads_nowhere(target).await);
            }
        }
        for target in &targets.outside {
            if target.canonical().domain() == name.domain() {
                return Err(Error::not_found(format!("no account or alias {target}: create it first")));
            }
            if self.serves(target.canonical().domain()).await? {
                return Err(Error::invalid(format!("{target} is an address of this server")));
            }
        }
        Ok(())
    }

    /// Follows `target` as a delivery does.
    async fn leads_on(&self, name: &AliasName, target: &Address) -> Result<bool> {
        let mut seen = HashSet::from([target.clone()]);
        let mut queue = VecDeque::from([(target.clone(), 1)]);
        let mut leads = false;
        while let Some((address, depth)) = queue.pop_front() {
            let found = self.look_up(&address, None).await?.map(|(found, _)| found);
            if would_answer(name, &address, found.as_ref()) {
                let through = if address == *target { String::new() } else { format!(", through {address}") };
                return Err(Error::invalid(format!(
                    "the alias {name} cannot lead to {target}: that leads back to it{through}"
                )));
            }
            match found {
                Some(AddressOwner::Account(_)) => leads = true,
                Some(AddressOwner::Alias(alias)) if depth == limits::ALIAS_DEPTH => {
                    return Err(Error::limit(format!("the aliases at {} nest too deep", alias.name)));
                }
                Some(AddressOwner::Alias(alias)) => {
                    leads |= !alias.targets.outside.is_empty();
                    for target in alias.targets.here {
                        if seen.insert(target.clone()) {
                            queue.push_back((target, depth + 1));
                        }
                    }
                    if seen.len() > limits::ALIAS_LOOKUPS {
                        return Err(Error::limit(format!("{target} leads to too many addresses")));
                    }
                }
                None => {}
            }
        }
        Ok(leads)
    }

    /// Why mail for `target` would not arrive.
    async fn leads_nowhere(&self, target: &Address) -> Error {
        match self.serves(target.domain()).await {
            Ok(true) => Error::not_found(format!("no account or alias {target}: create it first")),
            Ok(false) => Error::not_found(format!("{target} is not of this server")),
            Err(e) => e,
        }
    }

    /// The aliases that `gone` was a target of and that lead nowhere now: mail for them is refused.
    ///
    /// # Errors
    /// What the store says.
    pub async fn aliases_left_without(&self, gone: &Address) -> Result<Vec<Alias>> {
        let mut left = Vec::new();
        let mut aliases = self.aliases();
        while let Some(alias) = aliases.next().await {
            // One that cannot be read is reported where aliases are listed.
            let Ok(alias) = alias else { continue };
            if alias.targets.contains(gone) && !self.leads_anywhere(&alias).await? {
                left.push(alias);
            }
        }
        Ok(left)
    }

    /// Whether an alias leads to an account here, or outside.
    ///
    /// # Errors
    /// What the store says.
    pub async fn leads_anywhere(&self, alias: &Alias) -> Result<bool> {
        if !alias.targets.outside.is_empty() {
            return Ok(true);
        }
        for target in &alias.targets.here {
            match self.resolve(target.as_str()).await {
                Ok(_) => return Ok(true),
                Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Limit) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }
}

/// Whether the alias `name` answers to `address`, or would if it were made, where `found` answers now.
fn would_answer(name: &AliasName, address: &Address, found: Option<&AddressOwner>) -> bool {
    if matches!(found, Some(AddressOwner::Alias(alias)) if alias.name == *name) {
        return true;
    }
    match name {
        AliasName::Address(alias) => {
            let answers_only_now = match found {
                None => true,
                Some(AddressOwner::Alias(found)) => matches!(found.name, AliasName::CatchAll(_)),
                Some(AddressOwner::Account(_)) => false,
            };
            let without_tag = address.split_tag().map(|(user, _)| user);
            address == alias || answers_only_now && without_tag.as_ref() == Some(alias)
        }
        AliasName::CatchAll(domain) => found.is_none() && address.domain() == domain,
    }
}
