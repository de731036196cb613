//! Keeps the identities of an account's own addresses as the directory has them.

use std::collections::HashSet;

use sealpost_account::identity::{Identity, own_identity_id};
use sealpost_account::state::Identities;
use sealpost_account::{AccountState, Event};
use sealpost_base::{IdentityId, Result, limits};
use sealpost_directory::{AccountName, AccountRecord};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::CreatedIds;

use crate::scope::Scope;

/// The id of an identity: `I` and 32 hex digits.
pub(crate) fn id_of(id: IdentityId) -> sealpost_jmap::id::IdentityId {
    let text = format!("I{id}");
    sealpost_jmap::id::IdentityId::new(text).expect("hexadecimal digits are safe characters")
}

/// The identity that an id names; `None` if none can have it.
pub(crate) fn identity_of(given: &GivenId, created: &CreatedIds) -> Option<IdentityId> {
    let text = given.resolve(created)?.as_str();
    let id: IdentityId = text.strip_prefix('I')?.parse().ok()?;
    (id_of(id).as_str() == text).then_some(id)
}

/// The account as it is recorded now.
pub(crate) async fn record_of(scope: &Scope<'_>) -> Result<AccountRecord> {
    let user = scope.user();
    user.ctx().directory.get(&AccountName::parse(&user.name)?).await
}

/// Stores the identities of addresses that the account has now, and removes those of addresses that it
/// has no more.
pub(crate) async fn refresh(scope: &Scope<'_>) -> Result<AccountRecord> {
    let record = record_of(scope).await?;
    let user = scope.user();
    let addresses = user.shared.own_addresses.of(user.ctx(), &record).await?;
    let is_due = scope.own_state(|state| !differences(state.identities(), &addresses).is_empty()).await?;
    if is_due {
        let decide = |state: &AccountState| Ok((differences(state.identities(), &addresses), ()));
        scope.account().commit(decide).await?;
    }
    Ok(record)
}

/// What makes the identities those of these addresses, as far as there is room.
fn differences(identities: &Identities, addresses: &[String]) -> Vec<Event> {
    let wanted: HashSet<IdentityId> = addresses.iter().map(|address| own_identity_id(address)).collect();
    let (mut count, mut bytes) = (identities.len(), identities.bytes());
    let mut events = Vec::new();
    for (id, known) in identities.iter().filter(|(id, known)| known.value.is_own && !wanted.contains(id)) {
        (count, bytes) = (count - 1, bytes - known.value.bytes());
        events.push(Event::IdentityRemoved { id });
    }
    for address in addresses {
        let id = own_identity_id(address);
        let identity = Identity { email: address.clone(), is_own: true, ..Identity::default() };
        let more = identity.bytes();
        if identities.get(id).is_none()
            && count < limits::IDENTITIES
            && bytes + more <= limits::IDENTITIES_BYTES
        {
            (count, bytes) = (count + 1, bytes + more);
            events.push(Event::IdentityStored { id, identity });
        }
    }
    events
}
