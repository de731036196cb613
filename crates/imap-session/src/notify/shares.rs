//! Watches mailboxes that other users share with this account, or this account with others. Each has a log
//! and a log watcher of its own (`docs/decisions/0010-sharing.md`).

use std::collections::BTreeMap;

use sealpost_account::rights::Rights;
use sealpost_account::share::Link;
use sealpost_account::{AccountState, LogWatcher};
use sealpost_base::{AccountId, MailboxId, limits};
use sealpost_mailbox::watch::WatchedShare;

use super::groups::{Groups, Wanted};
use super::known::{Event, Overflow, of_messages};
use crate::own_entries::OwnEntries;
use crate::user::User;

/// "All event types described in this document require the 'l' and 'r' rights" (RFC 5465 §5).
const NEEDED: Rights = Rights::LOOKUP.with(Rights::READ);

/// The watched shares, by their links.
#[derive(Default)]
pub(super) struct Shares(BTreeMap<MailboxId, Share>);

struct Share {
    share: WatchedShare,
    wanted: Wanted,
}

impl Shares {
    /// The watchers of their logs.
    pub(super) fn log_watchers(&self) -> impl Iterator<Item = &LogWatcher> {
        self.0.values().map(|watched| watched.share.watcher())
    }

    /// The names of the readable shares, and the events wanted for each.
    pub(super) fn readable(&self, selected: Option<AccountId>) -> Vec<(String, Wanted)> {
        let others = self.0.values().filter(|watched| selected != Some(watched.share.id()));
        let readable = others.filter(|watched| watched.share.rights().contains(NEEDED));
        readable.map(|watched| (watched.share.known().name.clone(), watched.wanted)).collect()
    }

    /// The names of shares that the user may list but not read (RFC 5465 §3.1).
    pub(super) fn no_access(&self) -> Vec<String> {
        let listed = self.0.values().filter(|watched| access_of(watched.share.rights()) == Rights::LOOKUP);
        listed.map(|watched| watched.share.known().name.clone()).collect()
    }

    /// Opens the wanted shares that are not watched yet, and releases those without a link. A share that
    /// cannot be opened is tried again when the account changes.
    pub(super) async fn follow_links(&mut self, user: &User, groups: &Groups) -> Result<(), Overflow> {
        let links = wanted_links(&user.account().state(), groups);
        if links.len() > limits::NOTIFY_SHARES {
            return Err(Overflow);
        }
        let mut known = std::mem::take(&mut self.0);
        for (id, name, link, wanted) in links {
            let share = match known.remove(&id) {
                Some(Share { share, .. }) => Some(share.named(name)),
                None => open(user, id, name, &link).await,
            };
            if let Some(share) = share {
                self.0.insert(id, Share { share, wanted });
            }
        }
        Ok(())
    }

    /// Updates the known state; returns the events to report.
    pub(super) async fn update(
        &mut self,
        user: &User,
        selected: Option<AccountId>,
        own: &OwnEntries,
    ) -> Result<Vec<Event>, Overflow> {
        let mut events = Vec::new();
        for Share { share, wanted } in self.0.values_mut() {
            let change = match share.update(user.resolver()).await {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, "a shared mailbox cannot be looked at");
                    continue;
                }
            };
            let own = own.is_all_since(share.id(), change.since, change.position);
            let (before, known) = (access_of(change.rights_before), access_of(change.rights));
            let name = &share.known().name;
            if known != before {
                let (listed, readable) = (known.contains(Rights::LOOKUP), known == NEEDED);
                events.push(Event::Access { mailbox: name.clone(), listed, readable });
            } else if known == NEEDED && !own {
                if selected != Some(share.id()) {
                    events.extend(of_messages(name, change.messages, *wanted));
                }
                if wanted.metadata {
                    let entries = change.metadata.ok_or(Overflow)?;
                    let mailbox = Some(name.clone());
                    events.extend((!entries.is_empty()).then_some(Event::Metadata { mailbox, entries }));
                }
            }
        }
        Ok(events)
    }
}

/// The rights that matter here: to read, to list, or none.
fn access_of(rights: Rights) -> Rights {
    if rights.contains(NEEDED) {
        NEEDED
    } else if rights.contains(Rights::LOOKUP) {
        Rights::LOOKUP
    } else {
        Rights::NONE
    }
}

async fn open(user: &User, id: MailboxId, name: String, link: &Link) -> Option<WatchedShare> {
    match WatchedShare::open(user.resolver(), id, name, link).await {
        Ok(share) => Some(share),
        Err(error) => {
            tracing::warn!(%error, "a shared mailbox cannot be watched");
            None
        }
    }
}

/// The links for which message or metadata events are wanted.
fn wanted_links(state: &AccountState, groups: &Groups) -> Vec<(MailboxId, String, Link, Wanted)> {
    let links = state.links().map(|(mailbox, link)| {
        let wanted = groups.wanted_in(state, mailbox.name());
        (mailbox.id(), mailbox.name().to_owned(), link.clone(), wanted)
    });
    links.filter(|(.., wanted)| wanted.messages || wanted.flags || wanted.metadata).collect()
}
