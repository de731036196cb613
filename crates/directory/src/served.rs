//! The domains that this server serves: those of the host, and those of accounts and aliases. Mail
//! for other domains is refused with an error that says so, and not as mail for an unknown user.
//!
//! No record lists them, so they are collected from the paths of all records, and remembered.
//! Outsiders choose the domains of queries, but not how often the records are listed: as often as
//! they change, and for no more than a small part of the time.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use sealpost_base::{Result, limits};
use tokio::sync::Mutex;

use super::versions::{Newest, StoreMoment};
use super::{Address, Directory, accounts, aliases, path};

/// How long an answer is good where the store does not tell of changes.
pub(super) const AGE: Duration = Duration::from_secs(10);
/// Listing takes at most this part of the time.
const LISTING_SHARE: u32 = 50;

/// What was found last.
#[derive(Default)]
pub(super) struct Served(Mutex<Option<DomainScan>>);

struct DomainScan {
    /// The domains, as they are in paths.
    domains: HashSet<Box<str>>,
    /// There are more of them than the limit.
    is_truncated: bool,
    /// When they were listed, how long that took, and the state of the store then.
    listed_at: Duration,
    listing_time: Duration,
    moment: Option<StoreMoment>,
}

impl Directory {
    /// Whether an account or an alias, a catch-all included, is in that domain, in any spelling, or it is the
    /// host's own or the configured one. An address literal is a domain of its own.
    ///
    /// # Errors
    /// What the store says.
    pub async fn serves(&self, domain: &str) -> Result<bool> {
        let Ok(address) = Address::from_parts("postmaster", domain) else { return Ok(false) };
        if address.domain() == self.host.hostname || Some(address.domain()) == self.host.domain.as_deref() {
            return Ok(true);
        }
        // One caller lists them, and concurrent ones wait for it.
        let mut known = self.served.0.lock().await;
        let found = match known.take().filter(|found| self.is_current(found)) {
            Some(found) => found,
            None => self.find_domains().await?,
        };
        let served = found.is_truncated || found.domains.contains(&*path::encode(address.domain()));
        *known = Some(found);
        Ok(served)
    }

    fn is_current(&self, found: &DomainScan) -> bool {
        let age = self.clock.monotonic().saturating_sub(found.listed_at);
        let unchanged = match self.store_moment() {
            Some(moment) => found.moment == Some(moment),
            None => age < AGE,
        };
        unchanged || age < found.listing_time.saturating_mul(LISTING_SHARE)
    }

    async fn find_domains(&self) -> Result<DomainScan> {
        let (moment, listed_at) = (self.store_moment(), self.clock.monotonic());
        let (mut domains, mut is_truncated) = (HashSet::new(), false);
        for root in [accounts::ROOT, aliases::ROOT] {
            let mut listed = self.versions.store().list(root, None);
            while let Some(object) = listed.next().await {
                let object = object?.path;
                let Some((directory, _)) = object.rsplit_once('/') else { continue };
                let Some((_, domain)) = directory.rsplit_once('@') else { continue };
                if is_truncated || domains.contains(domain) || !self.is_in_force(root, directory).await? {
                    continue;
                }
                is_truncated = domains.len() >= limits::SERVED_DOMAINS;
                domains.insert(domain.into());
            }
        }
        let listing_time = self.clock.monotonic().saturating_sub(listed_at);
        Ok(DomainScan { domains, is_truncated, listed_at, listing_time, moment })
    }

    /// Whether the record is not one of what was removed. One that cannot be read may be in force.
    async fn is_in_force(&self, root: &str, directory: &str) -> Result<bool> {
        let Some(newest) = self.versions.newest(directory).await? else {
            return Ok(false);
        };
        Ok(match root {
            accounts::ROOT => {
                let Newest { version, bytes, .. } = &newest;
                accounts::decode(directory, *version, bytes).map_or(true, |record| record.is_active())
            }
            _ => aliases::decode(directory, &newest).map_or(true, |alias| alias.is_some()),
        })
    }
}
