//! Names of shared mailboxes in the accounts with which they are shared.

use sealpost_base::{AccountId, Error, Result};

use crate::name;

/// The level above the mailboxes of other users (RFC 2342 §4). An account's own mailboxes cannot be below it.
pub const OTHERS: &str = "Other Users";

/// The name of another user's mailbox in accounts with which it is shared.
pub fn name_for_others(owner: &str, mailbox: &str, share: AccountId) -> String {
    let name = format!("{OTHERS}/{}/{mailbox}", owner.replace('/', "_"));
    if name::check(&name).is_ok() { name } else { format!("{OTHERS}/{share}") }
}

/// Whether a name is, or is below, [`OTHERS`].
pub fn is_of_others(name: &str) -> bool {
    name.strip_prefix(OTHERS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks that an account's own mailbox is not among those of other users.
///
/// # Errors
/// `Denied` for a name there.
pub fn check_own(name: &str) -> Result<()> {
    if is_of_others(name) {
        return Err(Error::denied(format!("only other users' mailboxes are below {OTHERS}")));
    }
    Ok(())
}
