//! Watching mailboxes that others share with this account, or this account with others: each has a log of its own, with
//! a bell of its own (`docs/decisions/0010-sharing.md`).

use std::collections::BTreeMap;

use sealpost_account::metadata::Holder;
use sealpost_account::rights::Rights;
use sealpost_account::share::Link;
use sealpost_account::{Account, AccountState, Accounts, Bell, Ticket};
use sealpost_base::{AccountId, MailboxId, Position, limits};
use sealpost_mailbox::Access;

use super::groups::{Groups, Wanted};
use super::known::{Entry, Event, Overflow, of_messages};
use crate::imap::session::Session;
use crate::imap::tell::is_own;

/// "All event types described in this document require the 'l' and 'r' rights" (RFC 5465 §5).
const NEEDED: Rights = Rights::LOOKUP.with(Rights::READ);

/// The shares that are watched, by their links.
#[derive(Default)]
pub(super) struct Shares(BTreeMap<MailboxId, Share>);

/// Its log is not held: it is opened when its bell rings.
struct Share {
    ticket: Ticket,
    access: Access,
    wanted: Wanted,
    known: Entry,
    /// The state that was looked at last.
    position: Position,
    /// The rights that count as access (RFC 5465 §5.9).
    rights: Rights,
}

impl Shares {
    /// The bells of their logs.
    pub(super) fn bells(&self) -> impl Iterator<Item = &Bell> {
        self.0.values().map(|share| share.ticket.bell())
    }

    /// The names of those that can be looked at, and what is wanted of each.
    pub(super) fn readable(&self, selected: Option<AccountId>) -> Vec<(String, Wanted)> {
        let others = self.0.values().filter(|share| selected != Some(share.ticket.id()));
        let readable = others.filter(|share| share.rights.contains(NEEDED));
        readable.map(|share| (share.known.name.clone(), share.wanted)).collect()
    }

    /// The names of those that may be listed and not looked at (RFC 5465 §3.1).
    pub(super) fn no_access(&self) -> Vec<String> {
        let listed = self.0.values().filter(|share| share.rights == Rights::LOOKUP);
        listed.map(|share| share.known.name.clone()).collect()
    }

    /// Brings what is known up to date; what has to be told for it.
    pub(super) async fn update(
        &mut self,
        accounts: &Accounts,
        selected: Option<AccountId>,
        own: &[(AccountId, Position)],
    ) -> Result<Vec<Event>, Overflow> {
        let mut events = Vec::new();
        for share in self.0.values_mut().filter(|share| share.ticket.bell().has_rung()) {
            let account = match accounts.reopen(&share.ticket).await {
                Ok(account) => account,
                Err(error) => {
                    tracing::warn!(%error, "a shared mailbox cannot be looked at");
                    // The next change is a reason to try again.
                    share.ticket.bell_mut().hush();
                    continue;
                }
            };
            share.ticket = account.ticket();
            let state = account.state();
            if state.position() == share.position {
                continue;
            }
            let own = is_own(own, account.id(), share.position, state.position());
            let told = access_of(share.access.rights(&state));
            let now = Entry::of_share(&state, share.known.name.clone(), share.known.subscribed);
            if told != share.rights {
                events.push(Event::Access {
                    mailbox: now.name.clone(),
                    listed: told.contains(Rights::LOOKUP),
                    readable: told == NEEDED,
                });
            } else if told == NEEDED && !own {
                if selected != Some(account.id()) {
                    events.extend(of_messages(&share.known, &now, share.wanted));
                }
                if share.wanted.metadata {
                    events.extend(of_metadata(&state, share.position, &now.name)?);
                }
            }
            share.rights = told;
            share.known = now;
            share.position = state.position();
        }
        Ok(events)
    }
}

/// What of the rights counts here: those to look at it, that to know of it, or nothing.
fn access_of(rights: Rights) -> Rights {
    if rights.contains(NEEDED) {
        NEEDED
    } else if rights.contains(Rights::LOOKUP) {
        Rights::LOOKUP
    } else {
        Rights::NONE
    }
}

/// What has to be told of the metadata that all who see the mailbox see.
fn of_metadata(state: &AccountState, since: Position, name: &str) -> Result<Option<Event>, Overflow> {
    let mut entries: Vec<String> = Vec::new();
    for change in state.metadata_changes(since).ok_or(Overflow)? {
        if change.holder == Holder::Mailbox(state.inbox().id()) && !entries.contains(&change.entry) {
            entries.push(change.entry.clone());
        }
    }
    let mailbox = Some(name.to_owned());
    Ok((!entries.is_empty()).then_some(Event::Metadata { mailbox, entries }))
}

impl Session {
    /// Opens the shares that are asked about and not watched yet, and lets go of those that are no longer links. One that
    /// cannot be opened now is tried again when the account changes.
    pub(in crate::imap::notify) async fn watch_shares(&mut self) -> Result<(), Overflow> {
        let (Some(watch), Some(account)) = (&self.watch, self.account.clone()) else { return Ok(()) };
        let links = wanted_links(&account.state(), &watch.groups);
        if links.len() > limits::NOTIFY_SHARES {
            return Err(Overflow);
        }
        let mut known = match &mut self.watch {
            Some(watch) => std::mem::take(&mut watch.shares.0),
            None => return Ok(()),
        };
        let mut shares = BTreeMap::new();
        for (id, name, link, wanted) in links {
            let share = match known.remove(&id) {
                Some(share) => Some(Share { wanted, known: share.known.named(name), ..share }),
                None => self.open_share(&account, id, name, &link, wanted).await,
            };
            if let Some(share) = share {
                shares.insert(id, share);
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.shares.0 = shares;
        }
        Ok(())
    }

    async fn open_share(
        &self,
        own: &Account,
        id: MailboxId,
        name: String,
        link: &Link,
        wanted: Wanted,
    ) -> Option<Share> {
        let (account, access, rights) = match self.follow(own, id, link).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "a shared mailbox cannot be watched");
                return None;
            }
        };
        let subscribed = own.state().is_subscribed(&name);
        let (known, position) = {
            let state = account.state();
            (Entry::of_share(&state, name, subscribed), state.position())
        };
        Some(Share { ticket: account.ticket(), access, wanted, known, position, rights: access_of(rights) })
    }
}

/// The links whose messages or metadata are asked about.
fn wanted_links(state: &AccountState, groups: &Groups) -> Vec<(MailboxId, String, Link, Wanted)> {
    let links = state.links().map(|(mailbox, link)| {
        let wanted = groups.wanted_in(state, mailbox.name());
        (mailbox.id(), mailbox.name().to_owned(), link.clone(), wanted)
    });
    links.filter(|(.., wanted)| wanted.messages || wanted.flags || wanted.metadata).collect()
}
