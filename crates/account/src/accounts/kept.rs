//! Accounts that stay loaded for a little while after their last session, for clients that come back at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;

/// How long an account stays loaded after its last session.
const KEEP: Duration = Duration::from_secs(60);
/// How many do.
const ACCOUNTS: usize = 16;
/// How much state they may hold together, in bytes.
const BYTES: usize = 16 * 1024 * 1024;

/// Accounts in the order in which they were last opened, oldest first.
#[derive(Default)]
pub(super) struct Kept(VecDeque<(Duration, Arc<Account>)>);

impl Kept {
    pub(super) fn keep(&mut self, account: Arc<Account>, now: Duration) {
        self.0.retain(|(_, kept)| !Arc::ptr_eq(kept, &account));
        self.0.push_back((now, account));
        let mut bytes: usize = self.0.iter().map(|(_, kept)| kept.state().memory()).sum();
        while self.0.len() > ACCOUNTS || bytes > BYTES {
            let Some((_, oldest)) = self.0.pop_front() else { break };
            bytes -= oldest.state().memory().min(bytes);
        }
        self.expire(now);
    }

    pub(super) fn expire(&mut self, now: Duration) {
        while self.0.front().is_some_and(|(since, _)| now.saturating_sub(*since) > KEEP) {
            self.0.pop_front();
        }
    }
}
