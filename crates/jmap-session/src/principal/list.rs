//! The principals that a caller is shown, and their state.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::Result;
use sealpost_directory::AccountName;
use sealpost_jmap::State;
use sealpost_jmap::principal::{Principal, PrincipalType};
use sealpost_mailbox::account_changes::logs_of;
use sealpost_mailbox::resolve;
use sealpost_mailbox::shared_accounts::SharedAccount;
use sealpost_vault::Hash;

use super::id::principal_id;
use crate::session_object::accounts_of_principal;
use crate::user::User;

/// The principals of a user, by name, to whom other owners share these accounts.
pub(super) async fn list(user: &User, shared: &[SharedAccount]) -> Result<Vec<Principal>> {
    let mut names = grantees(user).await?;
    if let Ok(name) = AccountName::parse(&user.name) {
        let domain = user.shared.domain_users.of(user.ctx(), name.address().domain()).await?;
        names.extend(domain.iter().map(|name| name.to_string()));
    }
    names.extend(shared.iter().map(|account| account.name.clone()));
    names.insert(user.name.clone());
    Ok(names.into_iter().map(|name| principal(user, shared, name)).collect())
}

/// The names that the user has given rights to.
async fn grantees(user: &User) -> Result<BTreeSet<String>> {
    let accounts = &user.ctx().accounts;
    let account = accounts.open(user.id, &user.root).await?;
    let mut found = BTreeSet::new();
    for log in logs_of(resolve::User { accounts, account: &account }).await? {
        let acl = log.state().acl();
        found.extend(acl.members().map(|member| member.name.clone()));
    }
    Ok(found)
}

fn principal(user: &User, shared: &[SharedAccount], name: String) -> Principal {
    let accounts = accounts_of_principal(user, shared, &name);
    Principal {
        id: Some(principal_id(&name)),
        kind: Some(PrincipalType::Individual),
        email: Some(Some(name.clone())),
        name: Some(name),
        description: Some(None),
        time_zone: Some(None),
        capabilities: Some(BTreeMap::new()),
        accounts: Some(accounts.map(|account| BTreeMap::from([account]))),
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
