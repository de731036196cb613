//! The addresses of accounts, kept for a moment: finding them reads all aliases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{AccountId, Result};
use sealpost_directory::AccountRecord;
use sealpost_session::Context;
use sealpost_submission::sender;

/// How long the addresses of an account are kept.
const KEPT: Duration = Duration::from_secs(60);
/// Accounts whose addresses are kept.
const ACCOUNTS: usize = 1024;

/// Addresses, with the time at which they were read.
type Known = HashMap<AccountId, (Duration, Arc<Vec<String>>)>;

/// The addresses of the accounts that were asked for last.
#[derive(Default)]
pub(crate) struct OwnAddresses(Mutex<Known>);

impl OwnAddresses {
    /// The addresses of an account as they were a moment ago.
    pub(crate) async fn of(&self, ctx: &Context, record: &AccountRecord) -> Result<Arc<Vec<String>>> {
        let now = ctx.clock.monotonic();
        let is_fresh = |at: Duration| now.saturating_sub(at) < KEPT;
        {
            let mut kept = self.lock();
            if let Some((at, addresses)) = kept.get(&record.id)
                && is_fresh(*at)
            {
                return Ok(addresses.clone());
            }
            kept.retain(|_, (at, _)| is_fresh(*at));
            if kept.len() >= ACCOUNTS {
                kept.clear();
            }
        }
        let addresses = Arc::new(sender::own_addresses(&ctx.directory, record).await?);
        self.lock().insert(record.id, (now, addresses.clone()));
        Ok(addresses)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
