//! What changes in a caller's accounts (RFC 8620 §7.1), for streams of events and WebSockets: in the
//! caller's own one and in those of other owners.
//!
//! The server queues nothing for a slow client. When the client can take the next change, the server compares
//! the positions that the client knows with the present ones. A waiting client holds watchers of the logs and
//! no loaded account.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use sealpost_account::{AccountState, ThreadId};
use sealpost_auth::fair_scheduler;
use sealpost_base::limits::{HTTP_EVENT_BYTES, JMAP_CHANGES, JMAP_PUSH_INTERVAL};
use sealpost_base::{AccountId, ObjectId, Position, Result};
use sealpost_jmap::State;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::push::{StateChange, TypeState};
use sealpost_mailbox::account_changes::{
    AccountChanges, LogPositions, Observable, logs_of, positions, since,
};
use sealpost_mailbox::lease::LogWatchers;
use sealpost_mailbox::resolve;
use sealpost_mailbox::shared_accounts::{Reach, accounts_of};
use sealpost_vault::Hash;
use tokio::time::{Instant, sleep, sleep_until};

use crate::caller::Caller;
use crate::logs::{Logs, OpenLogs};
use crate::mailbox;
use crate::record_state::state_at;
use crate::session_object::account_id;
use crate::share_notification;
use crate::shared_accounts;
use crate::state_string::{Head, state_of};
use crate::type_capabilities::is_type_granted;
use crate::user::User;

/// How long to wait before another attempt if the account cannot be read.
const RETRY: Duration = Duration::from_secs(10);

/// Accounts in one change, at most: so it fits an event, as all of them have at most
/// [`sealpost_base::limits::LINKS`] positions.
const PUSHED_ACCOUNTS: usize = HTTP_EVENT_BYTES / 1024;

/// What a client knows of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownAccount {
    head: Head,
    positions: LogPositions,
    /// Changes of share notifications; none in other owners' accounts.
    notices: u64,
}

impl KnownAccount {
    /// The account as it is.
    fn now(logs: &Logs<'_>) -> Self {
        let is_own = logs.reach() == Reach::Own;
        let notices = if is_own { logs.own().1.share_notices().changes } else { 0 };
        KnownAccount { head: logs.head(), positions: positions(logs), notices }
    }

    fn state(&self) -> State {
        state_of(self.head, &self.positions)
    }
}

/// What a client knows of each of its accounts; one that is missing it does not know.
type Known = BTreeMap<AccountId, KnownAccount>;

/// Changes of a caller's accounts, one after another.
pub struct StateChanges {
    caller: Caller,
    known: Known,
    watchers: LogWatchers,
    /// Whether a change may have come since the last comparison.
    is_due: bool,
    /// Whether no comparison was made yet: what the client does not know may have come as mail.
    is_first: bool,
    /// When the accounts were compared last.
    compared: Instant,
}

impl StateChanges {
    /// Follows changes from the client's state, or from now on.
    ///
    /// # Errors
    /// Store errors.
    pub(crate) async fn begin(caller: Caller, known: Option<&State>) -> Result<Self> {
        let (watchers, seen) = {
            let work = pin!(look(caller.user(), |account, logs| {
                let is_own = logs.reach() == Reach::Own;
                let own = known.filter(|_| is_own).and_then(|state| logs.known(&own_part(state)));
                (account, KnownAccount::now(logs), own)
            }));
            fair_scheduler::run(caller.queue(), work).await?
        };
        let is_due = known.is_some();
        let now: Known = seen.iter().map(|(account, now, _)| (*account, now.clone())).collect();
        let known = match known {
            None => now,
            Some(state) => {
                // Of other owners' accounts the client knows all, or gets all of them.
                let knows_others = push_state(caller.account(), &now).1 == others_part(state);
                let others = now.into_iter().filter(|(id, _)| knows_others && *id != caller.account());
                let own = seen.into_iter().filter_map(|(account, now, own)| {
                    let notices = if knows_others { now.notices } else { u64::MAX };
                    Some((account, KnownAccount { head: now.head, positions: own?, notices }))
                });
                others.chain(own).collect()
            }
        };
        Ok(StateChanges { caller, known, watchers, is_due, is_first: true, compared: Instant::now() })
    }

    /// The state that the client has after the last change.
    pub fn state(&self) -> State {
        let (own, others) = push_state(self.caller.account(), &self.known);
        match others {
            None => own,
            Some(print) => State::new(format!("{own}{OTHERS}{print}")),
        }
    }

    /// The next change. `None` if the login is no longer valid. Cancel-safe.
    pub async fn next(&mut self) -> Option<StateChange> {
        let caller = self.caller.clone();
        tokio::select! {
            biased;
            () = caller.lost() => None,
            change = self.next_change() => Some(change),
        }
    }

    async fn next_change(&mut self) -> StateChange {
        loop {
            if !self.is_due {
                self.watchers.notified().await;
                self.is_due = true;
            }
            // Merge entries that follow each other closely into one change.
            sleep_until(self.compared + JMAP_PUSH_INTERVAL).await;
            // Boxed, to keep the futures of thousands of waiting clients small.
            match Box::pin(self.compare()).await {
                Ok(Some(change)) => return change,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot find out what changed in an account");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// How the accounts differ from what the client knows, if they do.
    async fn compare(&mut self) -> Result<Option<StateChange>> {
        let (known, scopes, is_first) = (&self.known, self.caller.user().scopes, self.is_first);
        let (watchers, seen) = {
            let work = pin!(look(self.caller.user(), |account, logs| {
                let now = KnownAccount::now(logs);
                let before = known.get(&account);
                if before == Some(&now) {
                    return (account, now, None);
                }
                let state = now.state();
                let types = changed_types(logs, before, is_first).chain(changed_contacts(logs, before));
                let mut types: TypeState = types.map(|name| (name.to_owned(), state.clone())).collect();
                if before.map_or(0, |before| before.notices) != now.notices {
                    types.insert("ShareNotification".to_owned(), share_notification::state_of(now.notices));
                }
                types.extend(changed_records(logs, before));
                types.retain(|name, _| is_type_granted(scopes, name));
                (account, now, (!types.is_empty()).then_some(types))
            }));
            fair_scheduler::run(self.caller.queue(), work).await?
        };
        (self.watchers, self.is_due, self.compared) = (watchers, false, Instant::now());
        self.is_first = false;
        let mut changed = BTreeMap::new();
        let mut known = std::mem::take(&mut self.known);
        for (account, now, types) in seen {
            let before = known.remove(&account);
            if types.is_some() && changed.len() == PUSHED_ACCOUNTS {
                // The client hears of these with the next change.
                self.known.extend(before.map(|before| (account, before)));
                self.is_due = true;
                continue;
            }
            self.known.insert(account, now);
            changed.extend(types.map(|types| (account_id(account), types)));
        }
        Ok((!changed.is_empty()).then_some(StateChange { changed }))
    }
}

/// Between the two parts of a state.
const OTHERS: char = '.';

/// The parts of the state of a client: that of the own account, and a print of its share notifications
/// and of the states of other owners' accounts, if there are any.
fn push_state(own: AccountId, known: &Known) -> (State, Option<String>) {
    let notices = known.get(&own).map_or(0, |own| own.notices);
    let mut text = if notices == 0 { String::new() } else { format!("{notices}\n") };
    for (account, known) in known.iter().filter(|(account, _)| **account != own) {
        text.push_str(&format!("{account} {}\n", known.state()));
    }
    let print = (!text.is_empty()).then(|| Hash::of(text.as_bytes()).to_string()[..16].to_owned());
    (known.get(&own).map_or_else(|| State::new(""), KnownAccount::state), print)
}

fn own_part(state: &State) -> State {
    State::new(state.as_str().split(OTHERS).next().unwrap_or_default())
}

fn others_part(state: &State) -> Option<String> {
    state.as_str().split_once(OTHERS).map(|(_, print)| print.to_owned())
}

/// The types of contacts that changed, or may have: they are in the caller's own log.
fn changed_contacts(logs: &Logs<'_>, before: Option<&KnownAccount>) -> impl Iterator<Item = &'static str> {
    let (log, state) = logs.own();
    let known = before.and_then(|before| before.positions.iter().find(|(known, _)| *known == log));
    let (books, cards) = known.map_or((true, true), |(_, at)| state.contacts().changed_since(at));
    let is_own = logs.reach() == Reach::Own;
    [("AddressBook", is_own && books), ("ContactCard", is_own && cards)]
        .into_iter()
        .filter_map(|(name, has_changed)| has_changed.then_some(name))
}

/// The types of mail that changed, or may have: as /changes of each says it.
fn changed_types(
    logs: &Logs<'_>,
    before: Option<&KnownAccount>,
    is_first: bool,
) -> impl Iterator<Item = &'static str> {
    let positions = before.map(|before| &before.positions);
    let has_email = has_changed::<ObjectId>(logs, positions, is_any);
    let has_thread = has_email && has_changed::<ThreadId>(logs, positions, is_any);
    let has_mailbox = has_email || before.is_none_or(|before| mailbox::has_changed(logs, &before.state()));
    let has_delivery = has_email && has_delivery(logs, positions, is_first);
    [("Email", has_email), ("EmailDelivery", has_delivery), ("Mailbox", has_mailbox), ("Thread", has_thread)]
        .into_iter()
        .filter_map(|(name, has_changed)| has_changed.then_some(name))
}

/// Whether changes of objects are such ones, or are more than the server can list, or unknown.
fn has_changed<T: Observable>(
    logs: &[(AccountId, &AccountState)],
    known: Option<&LogPositions>,
    is_such: fn(&AccountChanges<T>) -> bool,
) -> bool {
    let found = known.and_then(|known| since::<T>(logs, known, JMAP_CHANGES));
    found.is_none_or(|found| found.more || is_such(&found))
}

fn is_any<T>(found: &AccountChanges<T>) -> bool {
    !(found.created.is_empty() && found.updated.is_empty() && found.destroyed.is_empty())
}

/// Whether emails were created, or may have been (RFC 8621 §1.5). In another owner's account, mailboxes that
/// come or go with the caller's rights bring no new mail.
fn has_delivery(logs: &Logs<'_>, known: Option<&LogPositions>, is_first: bool) -> bool {
    let is_created = |found: &AccountChanges<ObjectId>| !found.created.is_empty();
    let (Some(positions), Reach::SharedBy(_)) = (known, logs.reach()) else {
        return match known {
            None => is_first || logs.reach() == Reach::Own,
            known => has_changed(logs, known, is_created),
        };
    };
    let is_known = |log: AccountId| positions.iter().any(|(known, _)| known == log);
    let stayed: Vec<_> = logs.iter().filter(|(log, _)| is_known(*log)).copied().collect();
    let is_there = |log: AccountId| stayed.iter().any(|(there, _)| *there == log);
    let positions = positions.iter().filter(|(log, _)| is_there(*log)).collect();
    has_changed(&stayed, Some(&positions), is_created)
}

/// The types with states of their own that have changed since the client knew the caller's own log, with
/// their states.
fn changed_records(logs: &Logs<'_>, before: Option<&KnownAccount>) -> Vec<(String, State)> {
    if logs.reach() != Reach::Own {
        return Vec::new();
    }
    let (log, state) = logs.own();
    let known = before.and_then(|before| before.positions.iter().find(|(known, _)| *known == log));
    let known = known.map_or(Position::ZERO, |(_, position)| position);
    let types =
        [("EmailSubmission", state.submissions().changed()), ("Identity", state.identities().changed())];
    let changed = types.into_iter().filter(|(_, at)| *at > known);
    changed.map(|(name, at)| (name.to_owned(), state_at(at))).collect()
}

/// Looks at each account of the user, at one moment of its logs; watchers for what comes after it.
async fn look<T>(user: &User, look: impl Fn(AccountId, &Logs<'_>) -> T) -> Result<(LogWatchers, Vec<T>)> {
    let accounts = &user.ctx().accounts;
    let own = accounts.open(user.id, &user.root).await?;
    let resolver = resolve::User { accounts, account: &own };
    let logs = logs_of(resolver).await?;
    // Other owners share mail alone.
    let mailboxes = match user.grants(Capability::Mail) {
        true => shared_accounts::mailboxes(user, &own).await?,
        false => Vec::new(),
    };
    // Made before the states are read: what comes in between is looked at again. Also of mailboxes
    // that the user may not look up now.
    let others = mailboxes.iter().map(|mailbox| mailbox.log.log_watcher());
    let watchers = LogWatchers::new(logs.iter().map(|log| log.log_watcher()).chain(others));
    let mut seen = vec![OpenLogs::of_own(own.clone(), logs).look(|logs| look(user.id, logs)).await?];
    // RFC 9670 §1.4: of no account without anything that the user has subscribed to.
    for account in accounts_of(mailboxes).into_iter().filter(|account| account.is_subscribed()) {
        let listed = account.mailboxes.into_iter().map(|mailbox| mailbox.log).collect();
        let logs = OpenLogs::shared_by(account.owner, own.clone(), listed);
        seen.push(logs.look(|logs| look(account.owner, logs)).await?);
    }
    Ok((watchers, seen))
}
