//! What changes in a caller's account (RFC 8620 §7.1), for whoever waits for it: streams of events,
//! WebSockets.
//!
//! Nothing is queued for a slow client: its positions in the logs are compared with the present
//! ones when it can take the next change. While it waits it holds no account, only watchers of the
//! logs.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use sealpost_auth::fair_scheduler;
use sealpost_base::limits::{JMAP_CHANGES, JMAP_PUSH_INTERVAL};
use sealpost_base::{AccountId, ObjectId, Position, Result};
use sealpost_jmap::State;
use sealpost_jmap::push::{StateChange, TypeState};
use sealpost_mailbox::account_changes::{AccountChanges, LogPositions, at_once, logs_of, positions, since};
use sealpost_mailbox::lease::LogWatchers;
use sealpost_mailbox::resolve;
use tokio::time::{Instant, sleep, sleep_until};

use crate::caller::Caller;
use crate::record_state::state_at;
use crate::session_object::account_id;
use crate::state_string::{positions_in, state_of};
use crate::user::User;

/// How long a client waits whose account could not be read, before it is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// Changes of a caller's account, one after another.
pub struct StateChanges {
    caller: Caller,
    /// Up to where the client knows the logs; `None`: it knows another time of them, or none.
    known: Option<LogPositions>,
    watchers: LogWatchers,
    /// Something may have changed that was not compared yet.
    is_due: bool,
    /// When the account was compared last.
    compared: Instant,
}

impl StateChanges {
    /// Changes after the state that the client knows, or from now on.
    ///
    /// # Errors
    /// Store errors.
    pub(crate) async fn begin(caller: Caller, known: Option<&State>) -> Result<Self> {
        let (watchers, position) = {
            let work = pin!(look(caller.user(), |logs| {
                let ids: Vec<AccountId> = logs.iter().map(|(log, _)| *log).collect();
                match known {
                    Some(state) => positions_in(state, &ids),
                    None => Some(positions(logs)),
                }
            }));
            fair_scheduler::run(caller.queue(), work).await?
        };
        let (is_due, compared) = (known.is_some(), Instant::now());
        Ok(StateChanges { caller, known: position, watchers, is_due, compared })
    }

    /// The state that the client knows with the last change.
    pub fn state(&self) -> State {
        let own = self.caller.account();
        self.known.as_ref().map_or_else(|| State::new(""), |known| state_of(own, known))
    }

    /// The next change; `None` if the login is not valid any more. Cancel-safe.
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
            // Entries that follow each other closely are one change.
            sleep_until(self.compared + JMAP_PUSH_INTERVAL).await;
            // Boxed: what waits for thousands of clients should be small.
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

    /// How the account differs from what the client knows, if it does.
    async fn compare(&mut self) -> Result<Option<StateChange>> {
        let known = self.known.as_ref();
        let (watchers, (found, (now, records))) = {
            let work = pin!(look(self.caller.user(), |logs| {
                let found = known.map(|known| since::<ObjectId>(logs, known, JMAP_CHANGES));
                (found.flatten(), (positions(logs), changed_records(logs, known)))
            }));
            fair_scheduler::run(self.caller.queue(), work).await?
        };
        let is_same = self.known.as_ref() == Some(&now);
        (self.watchers, self.is_due, self.compared) = (watchers, false, Instant::now());
        if is_same {
            return Ok(None);
        }
        let account = self.caller.account();
        let state = state_of(account, &now);
        self.known = Some(now);
        let types = changed_types(found.as_ref()).map(|name| (name.to_owned(), state.clone())).chain(records);
        let changed = BTreeMap::from([(account_id(account), types.collect::<TypeState>())]);
        Ok(Some(StateChange { changed }))
    }
}

/// The types that may have changed with these emails; `None`: more than can be told.
fn changed_types(emails: Option<&AccountChanges<ObjectId>>) -> impl Iterator<Item = &'static str> {
    let is_all = emails.is_none_or(|found| found.more);
    let is_any = |of: fn(&AccountChanges<ObjectId>) -> bool| is_all || emails.is_some_and(of);
    let has_email = is_any(|it| !(it.created.is_empty() && it.updated.is_empty() && it.destroyed.is_empty()));
    // RFC 8621 §1.5.
    let has_delivery = is_any(|it| !it.created.is_empty());
    [("Email", has_email), ("EmailDelivery", has_delivery), ("Mailbox", true), ("Thread", has_email)]
        .into_iter()
        .filter_map(|(name, has_changed)| has_changed.then_some(name))
}

/// The types with states of their own that have changed since the client knew the account's own log, with
/// their states.
fn changed_records(
    logs: &[(AccountId, &sealpost_account::AccountState)],
    known: Option<&LogPositions>,
) -> Vec<(String, State)> {
    let Some((own, state)) = logs.first() else { return Vec::new() };
    let known = known.and_then(|known| known.iter().find(|(log, _)| log == own));
    let known = known.map_or(Position::ZERO, |(_, position)| position);
    let types =
        [("EmailSubmission", state.submissions().changed()), ("Identity", state.identities().changed())];
    let changed = types.into_iter().filter(|(_, at)| *at > known);
    changed.map(|(name, at)| (name.to_owned(), state_at(at))).collect()
}

/// Looks at all logs of the user's account at one moment; watchers for what comes after it.
async fn look<T>(
    user: &User,
    look: impl Fn(&[(AccountId, &sealpost_account::AccountState)]) -> T,
) -> Result<(LogWatchers, T)> {
    let accounts = &user.ctx().accounts;
    let account = accounts.open(user.id, &user.root).await?;
    let logs = logs_of(resolve::User { accounts, account: &account }).await?;
    // Made before the states are read: what comes in between is looked at again.
    let watchers = LogWatchers::new(logs.iter().map(|log| log.log_watcher()));
    Ok((watchers, at_once(&logs, look).await?))
}
