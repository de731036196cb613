//! Eviction: asks the holders of an account to release it, and waits until they have.

use super::Account;

impl Account {
    /// Completes when other accounts need this account's memory: a session that only waits then releases the
    /// account.
    pub async fn wanted(&self) {
        // `self` has the sender, so this cannot fail.
        let _ = self.leaving.subscribe().wait_for(|leaving| *leaving).await;
    }

    /// Whether other accounts need this account's memory. A session between two commands then releases the
    /// account, and opens it again in its turn ([`Accounts::reopen_in_turn`]).
    pub fn is_leaving(&self) -> bool {
        *self.leaving.borrow()
    }

    pub(crate) fn ask_to_release(&self) {
        self.leaving.send_replace(true);
    }

    /// Keeps it loaded, although its memory was needed.
    pub(crate) fn stay(&self) {
        self.leaving.send_replace(false);
    }

    /// Completes when this account is evicted, or stays loaded. Does not keep it loaded.
    pub(crate) fn left(&self) -> impl Future<Output = ()> + use<> {
        let mut leaving = self.leaving.subscribe();
        async move {
            // An error means that the account was evicted.
            let _ = leaving.wait_for(|leaving| !leaving).await;
        }
    }
}
