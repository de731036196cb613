//! The users of domains, kept for a moment: listing the accounts of a server takes a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealpost_base::Result;
use sealpost_base::limits::{PRINCIPAL_DOMAINS, PRINCIPALS, PRINCIPALS_KEPT};
use sealpost_directory::AccountName;
use sealpost_session::Context;

/// Names of accounts.
pub(crate) type People = Arc<Vec<AccountName>>;

/// The users of the domains that were asked for last.
#[derive(Default)]
pub(crate) struct DomainUsers(Mutex<HashMap<String, (Duration, People)>>);

impl DomainUsers {
    /// The users of a domain, at most [`PRINCIPALS`] of them, as they were a moment ago.
    pub(crate) async fn of(&self, ctx: &Context, domain: &str) -> Result<People> {
        let now = ctx.clock.monotonic();
        if let Some((read, people)) = self.lock().get(domain)
            && now.saturating_sub(*read) < PRINCIPALS_KEPT
        {
            return Ok(people.clone());
        }
        let people = Arc::new(ctx.directory.accounts_in(domain, PRINCIPALS).await?);
        let mut kept = self.lock();
        kept.retain(|_, (read, _)| now.saturating_sub(*read) < PRINCIPALS_KEPT);
        if kept.len() < PRINCIPAL_DOMAINS {
            kept.insert(domain.to_owned(), (now, people.clone()));
        }
        Ok(people)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Duration, People)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
