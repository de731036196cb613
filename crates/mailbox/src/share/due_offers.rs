//! The accounts to which a share is to be offered: those that have got a first right there, until the offer
//! is made. So a user who changes rights repeatedly cannot make another account's log grow.

use sealpost_account::Account;
use sealpost_base::{AccountId, Result};

/// Whether a share that is not deleted is to be offered to an account.
pub(crate) fn is_due(share: &Account, account: AccountId) -> bool {
    let state = share.state();
    !state.rights_of(account).is_empty() && state.acl().is_offer_due(account)
}

/// Notes in a share whether it is to be offered to these accounts.
pub(crate) async fn set_due(share: &Account, accounts: &[AccountId], is_due: bool) -> Result<()> {
    let noted = share.commit(|state| {
        let before = state.acl();
        let mut acl = before.clone();
        accounts.iter().for_each(|account| acl.set_offer_due(*account, is_due));
        Ok((if acl == before { Vec::new() } else { vec![acl.event()] }, ()))
    });
    noted.await.map(drop)
}
