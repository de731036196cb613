//! The principals that a caller is shown, and their state.

use std::collections::BTreeMap;

use sealpost_base::{AccountId, Result};
use sealpost_directory::AccountName;
use sealpost_jmap::State;
use sealpost_jmap::id::Id;
use sealpost_jmap::principal::{Principal, PrincipalType};
use sealpost_mailbox::account_changes::logs_of;
use sealpost_mailbox::resolve;
use sealpost_mailbox::shared_accounts::SharedAccount;
use sealpost_vault::Hash;

use crate::session_object::{account_id, accounts_of_principal};
use crate::user::User;

/// The id of the principal that owns an account.
pub(crate) fn id_of(account: AccountId) -> Id {
    Id::new(format!("R{account}")).expect("hexadecimal digits are safe characters")
}

/// The principals of a user, by name, to whom other owners share these accounts.
pub(super) async fn list(user: &User, shared: &[SharedAccount]) -> Result<Vec<Principal>> {
    let mut people: BTreeMap<AccountId, String> = BTreeMap::new();
    if let Ok(name) = AccountName::parse(&user.name) {
        let domain = user.shared.principals.of(user.ctx(), name.address().domain()).await?;
        people.extend(domain.iter().map(|(id, name)| (*id, name.to_string())));
    }
    people.extend(grantees(user).await?);
    people.extend(shared.iter().map(|account| (account.owner, account.name.clone())));
    people.insert(user.id, user.name.clone());
    let mut found: Vec<Principal> =
        people.into_iter().map(|(id, name)| principal(user, shared, id, name)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The names that the user has given rights to. What has that name, if anything, is not told
/// (decision 72).
async fn grantees(user: &User) -> Result<Vec<(AccountId, String)>> {
    let accounts = &user.ctx().accounts;
    let account = accounts.open(user.id, &user.root).await?;
    let mut found = Vec::new();
    for log in logs_of(resolve::User { accounts, account: &account }).await? {
        let acl = log.state().acl();
        found.extend(acl.members().map(|member| (member.account, member.name.clone())));
    }
    Ok(found)
}

fn principal(user: &User, shared: &[SharedAccount], id: AccountId, name: String) -> Principal {
    let accounts = accounts_of_principal(user, shared, id);
    Principal {
        id: Some(id_of(id)),
        kind: Some(PrincipalType::Individual),
        email: Some(Some(name.clone())),
        name: Some(name),
        description: Some(None),
        time_zone: Some(None),
        capabilities: Some(BTreeMap::new()),
        accounts: Some(accounts.map(|account| BTreeMap::from([(account_id(id), account)]))),
    }
}

/// The state of these principals.
pub(super) fn state_of(principals: &[Principal]) -> State {
    // Types that JSON can write.
    let text = serde_json::to_vec(principals).unwrap_or_default();
    State::new(&Hash::of(&text).to_string()[..16])
}

/// The state of a user's principals.
pub(crate) async fn state(user: &User, shared: &[SharedAccount]) -> Result<State> {
    Ok(state_of(&list(user, shared).await?))
}
