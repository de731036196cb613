//! The accounts that are to be offered a share: those that had no rights there and have some, until
//! they were offered it once. A user who changes rights repeatedly does not make another account's
//! log grow by that.

use sealpost_account::Account;
use sealpost_base::{AccountId, Result};

/// Whether an account is to be offered a share that is not deleted.
pub(crate) fn is_due(share: &Account, account: AccountId) -> bool {
    let state = share.state();
    !state.rights_of(account).is_empty() && state.acl().is_offer_due(account)
}

/// Notes in a share whether accounts are to be offered it.
pub(crate) async fn set_due(share: &Account, accounts: &[AccountId], is_due: bool) -> Result<()> {
    let noted = share.commit(|state| {
        let before = state.acl();
        let mut acl = before.clone();
        accounts.iter().for_each(|account| acl.set_offer_due(*account, is_due));
        Ok((if acl == before { Vec::new() } else { vec![acl.event()] }, ()))
    });
    noted.await.map(drop)
}
