//! What changes in a caller's accounts (RFC 8620 §7.1), for streams of events and WebSockets: in the
//! caller's own one and in those of other owners.
//!
//! The server queues nothing for a slow client. When the client can take the next change, the server compares
//! the positions that the client knows with the present ones. A waiting client holds watchers of the logs and
//! no loaded account.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use sealpost_account::state::ObjectKind;
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
use crate::own_facts::{OwnFacts, OwnSources};
use crate::record_state::state_at;
use crate::session_object::account_id;
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
    /// Where the logs ended.
    positions: LogPositions,
    /// Boxed: a map has room for several accounts, and all but one have none.
    facts: Box<OwnFacts>,
}

impl KnownAccount {
    /// The account as it is.
    fn now(logs: &Logs<'_>, sources: &OwnSources) -> Self {
        let facts = Box::new(OwnFacts::now(logs, sources));
        KnownAccount { head: logs.head(), positions: positions(logs), facts }
    }

    /// The account at that moment, as a state string.
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
    /// The version of the account's record at the last comparison.
    record: u64,
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
        let seen = {
            let work = pin!(look(caller.user(), |account, logs, sources| {
                let is_own = logs.reach() == Reach::Own;
                let own = known.filter(|_| is_own).and_then(|state| logs.known::<ObjectId>(&own_part(state)));
                let own = own.filter(|point| point.within.is_none()).map(|point| point.positions);
                (account, KnownAccount::now(logs, sources), own)
            }));
            fair_scheduler::run(caller.queue(), work).await?
        };
        let is_due = known.is_some();
        let now: Known = seen.accounts.iter().map(|(account, now, _)| (*account, now.clone())).collect();
        let known = match known {
            None => now,
            Some(state) => {
                // Of other owners' accounts the client knows all, or gets all of them.
                let (_, others, quota) = push_state(caller.account(), &now);
                let (known_others, known_quota) = other_parts(state);
                let (knows_others, knows_quota) = (others == known_others, quota == known_quota);
                let others = now.into_iter().filter(|(id, _)| knows_others && *id != caller.account());
                let own = seen.accounts.into_iter().filter_map(|(account, now, own)| {
                    let facts = if knows_others { *now.facts } else { now.facts.unknown() };
                    let facts = Box::new(facts.known(knows_quota));
                    Some((account, KnownAccount { head: now.head, positions: own?, facts }))
                });
                others.chain(own).collect()
            }
        };
        let (watchers, record, compared) = (seen.watchers, seen.record, Instant::now());
        Ok(StateChanges { caller, known, watchers, record, is_due, is_first: true, compared })
    }

    /// The state that the client has after the last change.
    pub fn state(&self) -> State {
        let (own, others, quota) = push_state(self.caller.account(), &self.known);
        State::new(format!("{own}{OTHERS}{others}{OTHERS}{quota}"))
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
                tokio::select! {
                    () = self.watchers.notified() => {}
                    () = self.caller.user().standing.record_changed(self.record) => {}
                }
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
        let (known, is_first) = (&self.known, self.is_first);
        let user = self.caller.user();
        let seen = {
            let work = pin!(look(user, |account, logs, sources| {
                let now = KnownAccount::now(logs, sources);
                let before = known.get(&account);
                let types: TypeState = match before == Some(&now) {
                    true => TypeState::new(),
                    false => {
                        let types = changed_types(logs, before, is_first);
                        types.into_iter().chain(changed_records(logs, before)).collect()
                    }
                };
                (account, now, types)
            }));
            fair_scheduler::run(self.caller.queue(), work).await?
        };
        let mut changed = BTreeMap::new();
        let (mut now_known, mut is_due) = (self.known.clone(), false);
        now_known.retain(|account, _| seen.accounts.iter().any(|(there, ..)| there == account));
        for (account, now, mut types) in seen.accounts {
            let before = known.get(&account).map(|before| before.facts.clone()).unwrap_or_default();
            if now.facts != before {
                let facts = now.facts.changed(&before, user).await?.into_iter();
                types.extend(facts.map(|(name, state)| (name.to_owned(), state)));
            }
            types.retain(|name, _| is_type_granted(user.scopes, name));
            if !types.is_empty() && changed.len() == PUSHED_ACCOUNTS {
                // The client hears of these with the next change.
                is_due = true;
                continue;
            }
            now_known.insert(account, now);
            if !types.is_empty() {
                changed.insert(account_id(account), types);
            }
        }
        (self.known, self.is_due, self.is_first) = (now_known, is_due, false);
        (self.watchers, self.record, self.compared) = (seen.watchers, seen.record, Instant::now());
        Ok((!changed.is_empty()).then_some(StateChange { changed }))
    }
}

/// Between the parts of a state.
const OTHERS: char = '.';

/// The parts of the state of a client: that of the own account's logs; a print of the rest of it and of the
/// states of other owners' accounts, empty if there are none; a print of the quotas.
fn push_state(own: AccountId, known: &Known) -> (State, String, String) {
    let Some(own_known) = known.get(&own) else { return (State::new(""), String::new(), String::new()) };
    let mut text = own_known.facts.text();
    for (account, known) in known.iter().filter(|(account, _)| **account != own) {
        text.push_str(&format!("{account} {}\n", known.state()));
    }
    let print = if text.is_empty() { text } else { Hash::of(text.as_bytes()).to_string()[..16].to_owned() };
    (own_known.state(), print, own_known.facts.quota_print())
}

fn own_part(state: &State) -> State {
    State::new(state.as_str().split(OTHERS).next().unwrap_or_default())
}

/// The print of others, and that of the quotas.
fn other_parts(state: &State) -> (String, String) {
    let mut parts = state.as_str().split(OTHERS).skip(1).map(str::to_owned);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// The types of mail that changed, or may have, as /changes of each says it, with their states.
fn changed_types(logs: &Logs<'_>, before: Option<&KnownAccount>, is_first: bool) -> Vec<(String, State)> {
    let positions = before.map(|before| &before.positions);
    let has_email = has_changed::<ObjectId>(logs, positions, is_any);
    let has_thread = has_email && has_changed::<ThreadId>(logs, positions, is_any);
    let has_mailbox = has_email || before.is_none_or(|before| mailbox::has_changed(logs, &before.state()));
    let has_delivery = has_email && has_delivery(logs, positions, is_first);
    let types = [
        ("Email", has_email, ObjectKind::Emails),
        ("EmailDelivery", has_delivery, ObjectKind::Emails),
        ("Mailbox", has_mailbox, ObjectKind::Mailboxes),
        ("Thread", has_thread, ObjectKind::Threads),
    ];
    let changed = types.into_iter().filter(|(_, has_changed, _)| *has_changed);
    changed.map(|(name, _, kind)| (name.to_owned(), logs.state(kind))).collect()
}

/// Whether changes of objects are such ones, or are more than the server can list, or unknown.
fn has_changed<T: Observable>(
    logs: &[(AccountId, &AccountState)],
    known: Option<&LogPositions>,
    is_such: fn(&AccountChanges<T>) -> bool,
) -> bool {
    let found = known.and_then(|known| since::<T>(logs, &known.clone().into(), JMAP_CHANGES));
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

/// The types that are in the caller's own log alone, and have changed since the client knew it, with their
/// states.
fn changed_records(logs: &Logs<'_>, before: Option<&KnownAccount>) -> Vec<(String, State)> {
    if logs.reach() != Reach::Own {
        return Vec::new();
    }
    let (log, state) = logs.own();
    let known = before.and_then(|before| before.positions.iter().find(|(known, _)| *known == log));
    let known = known.map_or(Position::ZERO, |(_, position)| position);
    let types = [
        ("AddressBook", state.last_change(ObjectKind::AddressBooks)),
        ("ContactCard", state.last_change(ObjectKind::Cards)),
        ("EmailSubmission", state.submissions().changed()),
        ("Identity", state.identities().changed()),
    ];
    let changed = types.into_iter().filter(|(_, at)| *at > known);
    changed.map(|(name, at)| (name.to_owned(), state_at(at))).collect()
}

/// The accounts of a user as they are.
struct Seen<T> {
    accounts: Vec<T>,
    /// For what comes after it.
    watchers: LogWatchers,
    /// The version of the account's record.
    record: u64,
}

/// Looks at each account of the user, at one moment of its logs.
async fn look<T>(user: &User, look: impl Fn(AccountId, &Logs<'_>, &OwnSources) -> T) -> Result<Seen<T>> {
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
    let shared = accounts_of(mailboxes);
    let sources = OwnSources::new(user.standing.record(), &shared);
    let own_logs = OpenLogs::of_own(own.clone(), logs);
    let mut seen = vec![own_logs.look(|logs| look(user.id, logs, &sources)).await?];
    // RFC 9670 §1.4: of no account without anything that the user has subscribed to.
    for account in shared.into_iter().filter(|account| account.is_subscribed()) {
        let listed = account.mailboxes.into_iter().map(|mailbox| mailbox.log).collect();
        let logs = OpenLogs::shared_by(account.owner, own.clone(), listed);
        seen.push(logs.look(|logs| look(account.owner, logs, &sources)).await?);
    }
    Ok(Seen { accounts: seen, watchers, record: sources.record.version })
}
