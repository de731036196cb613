//! Decides which addresses an account may send as.
//!
//! These are its own name and subaddresses of it; an alias or catch-all that leads to it alone, because no
//! other account gets mail to these; and addresses that the operator allowed (`sealpost account
//! allow-from`).

use std::collections::BTreeMap;

use futures::StreamExt;
use sealpost_base::{Kind, Result, limits};
use sealpost_directory::{AccountRecord, Address, AliasName, Directory, Resolved};

/// What stands for any local part of a domain (RFC 8621 §6).
const ANY: &str = "*@";

/// Whether the account of `record` may send as `address`, in any spelling.
///
/// # Errors
/// Errors of the store; the client retries.
pub async fn may_send_as(directory: &Directory, record: &AccountRecord, address: &str) -> Result<bool> {
    let Ok(parsed) = Address::parse(address) else { return Ok(false) };
    if record.may_send_from(&parsed) {
        return Ok(true);
    }
    match directory.resolve(address).await {
        Ok(Resolved { recipients, outside }) => {
            Ok(outside.is_empty() && matches!(recipients.as_slice(), [only] if only.id == record.id))
        }
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid | Kind::Limit) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the account of `record` may send as an address, or as any of a domain (`*@example.org`).
///
/// # Errors
/// As [`may_send_as`].
pub async fn may_send_as_pattern(
    directory: &Directory,
    record: &AccountRecord,
    pattern: &str,
) -> Result<bool> {
    match pattern.strip_prefix(ANY) {
        // No account or alias has this name: what leads to the account does so for the domain.
        Some(domain) => may_send_as(directory, record, &format!("any-{}@{domain}", record.id)).await,
        None => may_send_as(directory, record, pattern).await,
    }
}

/// Whether `address` is one that `pattern` stands for: the address itself, in any case, or any of a
/// domain.
pub fn matches_pattern(pattern: &str, address: &str) -> bool {
    match (pattern.strip_prefix(ANY), address.rsplit_once('@')) {
        (Some(domain), Some((_, of))) => of.eq_ignore_ascii_case(domain),
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(address),
    }
}

/// The addresses that are the account's: its name first, then those that the operator allowed, then
/// aliases that lead to it alone; `*@example.org` for a domain. At most [`limits::IDENTITIES`].
///
/// Reads all aliases.
///
/// # Errors
/// Errors of the store.
pub async fn own_addresses(directory: &Directory, record: &AccountRecord) -> Result<Vec<String>> {
    let pattern = |name: &str| match name.strip_prefix('@') {
        Some(domain) => format!("{ANY}{domain}"),
        None => name.to_owned(),
    };
    let mut own = vec![record.name.as_str().to_owned()];
    let allowed = record.sending.iter().flat_map(|sending| sending.allowed());
    own.extend(allowed.map(|name| pattern(name)));
    for alias in aliases_to(directory, record).await? {
        let pattern = pattern(&alias);
        if own.len() >= limits::IDENTITIES {
            break;
        }
        if !own.contains(&pattern) && may_send_as_pattern(directory, record, &pattern).await? {
            own.push(pattern);
        }
    }
    own.truncate(limits::IDENTITIES);
    Ok(own)
}

/// Aliases with one target that lead to the account, perhaps through others.
async fn aliases_to(directory: &Directory, record: &AccountRecord) -> Result<Vec<String>> {
    let mut targets: BTreeMap<String, Address> = BTreeMap::new();
    let mut aliases = directory.aliases();
    while let Some(alias) = aliases.next().await {
        // One that cannot be read is reported where aliases are listed.
        let alias = match alias {
            Ok(alias) => alias,
            Err(e) if e.kind() == Kind::Retry => return Err(e),
            Err(_) => continue,
        };
        if let ([target], true) = (alias.targets.here.as_slice(), alias.targets.outside.is_empty()) {
            targets.insert(alias.name.to_string(), target.clone());
        }
    }
    let leads_here = |name: &str| {
        let mut at = targets.get(name);
        for _ in 0..=limits::ALIAS_DEPTH {
            let Some(address) = at else { return false };
            let user = address.split_tag().map_or_else(|| address.clone(), |(user, _)| user);
            if user.as_str() == record.name.as_str() {
                return true;
            }
            let catch_all = AliasName::CatchAll(address.domain().to_owned()).to_string();
            let next = [address.as_str(), user.as_str(), catch_all.as_str()];
            at = next.into_iter().find_map(|name| targets.get(name));
        }
        false
    };
    Ok(targets.keys().filter(|name| leads_here(name)).cloned().collect())
}
