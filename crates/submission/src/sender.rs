//! Decides which addresses an account may send as.
//!
//! These are its own name and subaddresses of it; an alias or catch-all that leads to it alone, because no
//! other account gets mail to these; and addresses that the operator allowed (`sealpost account
//! allow-from`).

use sealpost_base::{Kind, Result};
use sealpost_directory::{AccountRecord, Address, Directory, Resolved};

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
