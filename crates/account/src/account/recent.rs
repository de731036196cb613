//! `\Recent` (RFC 3501 §2.3.2): which session reports a new message first.

use std::sync::PoisonError;

use sealpost_base::{MailboxId, Uid};

use super::Account;
use crate::event::Event;
use crate::state::{AccountState, Mailbox};

impl Account {
    /// Claims new messages as recent, for a session that has the mailbox open read-write and now reports the
    /// messages below `below` to its client. Returns the first UID that is recent in this session. No other
    /// session reports messages from there up to `below` as recent (RFC 3501 §2.3.2).
    pub fn claim_recent(&self, mailbox: MailboxId, below: Uid) -> Uid {
        let (stored, validity) = match self.state().mailbox(mailbox) {
            Some(m) => (m.recent_from(), m.uid_validity()),
            None => return below,
        };
        let mut recents = self.recents.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = recents.entry((mailbox, validity)).or_insert(stored);
        let first = (*claimed).max(stored);
        *claimed = first.max(below);
        drop(recents);
        if first < below {
            self.remember_recent(mailbox, below);
        }
        first
    }

    /// The first UID that no session has claimed as recent: none of this process, and none of another process
    /// as far as it is recorded.
    pub fn recent_from(&self, mailbox: &Mailbox) -> Uid {
        let recents = self.recents.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = mailbox.recent_from();
        recents.get(&(mailbox.id(), mailbox.uid_validity())).map_or(stored, |claimed| stored.max(*claimed))
    }

    /// Records the claim, so that it outlives this process. No session waits for it: if it is lost, messages
    /// are shown as recent again, as the RFC requires in doubt.
    fn remember_recent(&self, mailbox: MailboxId, below: Uid) {
        let Some(account) = self.this.upgrade() else { return };
        tokio::spawn(async move {
            let events = vec![Event::RecentTaken { mailbox, below }];
            let decide = |state: &AccountState| match state.mailbox(mailbox) {
                Some(m) if m.recent_from() < below => Ok((events.clone(), ())),
                _ => Ok((Vec::new(), ())),
            };
            if let Err(e) = account.commit(decide).await {
                tracing::debug!(account = %account.id, error = %e, "recent messages were not recorded");
            }
        });
    }
}
