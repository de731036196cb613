//! Changes in an account since a client's state: messages, threads, mailboxes. The account has several logs:
//! its own, and those of the mailboxes that it shares, which are its mailboxes too.
//!
//! A client's state is a position in each log ([`LogPositions`]), and perhaps an id within an entry of one of
//! them ([`AccountSyncPoint`]). A message may be in several logs under one id. It is created when it becomes visible in the first of them, and destroyed when it is visible in none.
//! So moving a message into a shared mailbox is an update.
//!
//! If all changes fit into one response, it advances the client to the end of all logs. Otherwise a response
//! advances the client in one log, and leaves its positions in the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::state::{ChangeKey, Changes, MailboxChanged, ObjectKind, SyncPoint};
use sealpost_account::thread::ThreadId;
use sealpost_account::{Account, AccountState};
use sealpost_base::{AccountId, Error, ObjectId, Position, Result, UidValidity};

use crate::resolve::{User, follow};

/// The most changes of one log to read, to find what a client knew of it.
const MOST_OF_A_LOG: usize = 65_536;
/// Attempts to read all logs at one moment.
const ATTEMPTS: usize = 3;

/// The position in each log of an account that a client knows. It knows nothing of other logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPositions(BTreeMap<AccountId, Position>);

/// How far a client has followed the changes of one kind of objects in an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSyncPoint<T> {
    /// It knows all changes up to these positions.
    pub positions: LogPositions,
    /// A log in which it knows also a part of the entry after that: the changes of objects up to this id.
    pub within: Option<(AccountId, T)>,
}

/// Changes of mailboxes, each in its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountMailboxChanges {
    /// The changes.
    pub changes: Vec<(AccountId, MailboxChanged)>,
    /// How far the client has followed them after these.
    pub upto: AccountSyncPoint<UidValidity>,
    /// Whether there are more changes after `upto`.
    pub more: bool,
}

/// Changes of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChanges<T> {
    /// Objects that the client does not know, and that exist now.
    pub created: Vec<T>,
    /// Objects that the client knows, and that have changed or may have.
    pub updated: Vec<T>,
    /// Objects that the client knows, and that no longer exist.
    pub destroyed: Vec<T>,
    /// How far the client has followed them after these.
    pub upto: AccountSyncPoint<T>,
    /// Whether there are more changes after `upto`.
    pub more: bool,
}

/// An object with one id in all logs, whose changes clients follow.
pub trait Observable: ChangeKey {
    /// What it is.
    const KIND: ObjectKind;

    /// Its changes in one log after `since`; `None` if that is too long ago.
    fn changes(state: &AccountState, since: SyncPoint<Self>, most: usize) -> Option<Changes<Self>>;

    /// The objects that lost a message after `since`, and when; `None` if that is too long ago.
    fn departed(state: &AccountState, since: Position) -> Option<Vec<(Self, Position)>>;

    /// Whether it is visible in that log, which must have maps.
    fn is_visible(self, state: &AccountState) -> bool;
}

impl Observable for ObjectId {
    const KIND: ObjectKind = ObjectKind::Emails;

    fn changes(state: &AccountState, since: SyncPoint<Self>, most: usize) -> Option<Changes<Self>> {
        state.email_changes(since, most)
    }

    fn departed(state: &AccountState, since: Position) -> Option<Vec<(Self, Position)>> {
        Some(state.departed_since(since)?.map(|(message, _, at)| (message, at)).collect())
    }

    fn is_visible(self, state: &AccountState) -> bool {
        state.maps().is_some_and(|maps| maps.messages(self).any(|number| state.is_visible(number)))
    }
}

impl Observable for ThreadId {
    const KIND: ObjectKind = ObjectKind::Threads;

    fn changes(state: &AccountState, since: SyncPoint<Self>, most: usize) -> Option<Changes<Self>> {
        state.thread_changes(since, most)
    }

    fn departed(state: &AccountState, since: Position) -> Option<Vec<(Self, Position)>> {
        Some(state.departed_since(since)?.map(|(_, thread, at)| (thread, at)).collect())
    }

    fn is_visible(self, state: &AccountState) -> bool {
        state.maps().is_some_and(|maps| maps.thread(self).any(|number| state.is_visible(number)))
    }
}

impl<T> From<LogPositions> for AccountSyncPoint<T> {
    fn from(positions: LogPositions) -> Self {
        AccountSyncPoint { positions, within: None }
    }
}

impl<T: Copy> AccountSyncPoint<T> {
    fn of(&self, log: AccountId) -> SyncPoint<T> {
        let within = self.within.filter(|(inside, _)| *inside == log).map(|(_, last)| last);
        SyncPoint { position: self.positions.of(log), within }
    }

    /// The client has followed the changes of one log up to there.
    fn advance(&mut self, log: AccountId, upto: SyncPoint<T>) {
        self.positions.0.insert(log, upto.position);
        match upto.within {
            Some(last) => self.within = Some((log, last)),
            None => self.within = self.within.filter(|(inside, _)| *inside != log),
        }
    }
}

impl FromIterator<(AccountId, Position)> for LogPositions {
    fn from_iter<I: IntoIterator<Item = (AccountId, Position)>>(positions: I) -> Self {
        LogPositions(positions.into_iter().collect())
    }
}

impl LogPositions {
    /// Each log with its position.
    pub fn iter(&self) -> impl Iterator<Item = (AccountId, Position)> {
        self.0.iter().map(|(log, position)| (*log, *position))
    }

    fn of(&self, log: AccountId) -> Position {
        self.0.get(&log).copied().unwrap_or(Position::ZERO)
    }
}

/// The logs of an account, with maps: its own, then those of its shared mailboxes. Each includes all entries
/// that this process knows.
///
/// # Errors
/// Store errors; `Limit` if a log with its maps would be too large.
pub async fn logs_of(user: User<'_>) -> Result<Vec<Arc<Account>>> {
    let own = user.account;
    own.catch_up().await?;
    let links: Vec<_> = {
        let state = own.state();
        let shared = state.links().filter(|(_, link)| link.owner.is_none());
        shared.map(|(mailbox, link)| (mailbox.id(), link.clone())).collect()
    };
    let mut logs = vec![own.clone()];
    for (mailbox, link) in links {
        logs.push(follow(user.accounts, own, mailbox, &link).await?.0);
    }
    for log in &logs {
        drop(log.with_maps().await?);
    }
    Ok(logs)
}

/// Passes the states of these logs at one moment to `look`.
///
/// # Errors
/// `Retry` if the logs change too fast for their maps.
pub async fn at_once<T>(
    logs: &[Arc<Account>],
    look: impl Fn(&[(AccountId, &AccountState)]) -> T,
) -> Result<T> {
    for _ in 0..ATTEMPTS {
        {
            let states: Vec<_> = logs.iter().map(|log| (log.id(), log.state())).collect();
            let states: Vec<_> = states.iter().map(|(id, state)| (*id, &**state)).collect();
            if states.iter().all(|(_, state)| state.maps().is_some()) {
                return Ok(look(&states));
            }
        }
        for log in logs {
            drop(log.with_maps().await?);
        }
    }
    Err(Error::retry("the account changes faster than its messages are counted"))
}

/// The positions of a client that has read these logs now.
pub fn positions(logs: &[(AccountId, &AccountState)]) -> LogPositions {
    logs.iter().map(|(log, state)| (*log, state.position())).collect()
}

/// The positions of the last changes of objects of that kind in these logs. A client that has read them
/// now knows all such changes.
pub fn last_changes(logs: &[(AccountId, &AccountState)], kind: ObjectKind) -> LogPositions {
    logs.iter().map(|(log, state)| (*log, state.last_change(kind))).collect()
}

/// Whether the logs have what the client knows: a log that it knows may be gone, or, where the store went
/// back to a backup, end before its position.
fn can_follow<T>(logs: &[(AccountId, &AccountState)], known: &AccountSyncPoint<T>) -> bool {
    known
        .positions
        .iter()
        .all(|(known, at)| logs.iter().any(|(log, state)| *log == known && at <= state.position()))
}

/// The logs in the order in which a client that gets pages follows them: the one first in which it knows a
/// part of an entry, so that there is one such log at most.
fn order_of_pages<T>(logs: &[(AccountId, &AccountState)], known: &AccountSyncPoint<T>) -> Vec<usize> {
    let first = known.within.as_ref().map(|(log, _)| *log);
    let mut order: Vec<usize> = (0..logs.len()).collect();
    order.sort_by_key(|at| first != Some(logs[*at].0));
    order
}

/// At most `most` changes of messages, or of threads, in these logs. `None` if `known` is too old, there are
/// too many changes, or a log that the client knew no longer exists: the client must read everything again.
pub fn since<T: Observable>(
    logs: &[(AccountId, &AccountState)],
    known: &AccountSyncPoint<T>,
    most: usize,
) -> Option<AccountChanges<T>> {
    if !can_follow(logs, known) {
        return None;
    }
    if let [(log, state)] = logs {
        let Changes { created, updated, destroyed, upto, more } = T::changes(state, known.of(*log), most)?;
        let mut changes = AccountChanges { created, updated, destroyed, upto: known.clone(), more };
        changes.upto.advance(*log, upto);
        return Some(changes);
    }
    let all: Vec<LogChanges<'_, T>> =
        logs.iter().map(|(log, state)| LogChanges::new(state, known.of(*log))).collect::<Option<_>>()?;
    let mut found = AccountChanges::empty(positions(logs).into(), false);
    for id in all.iter().flat_map(LogChanges::touched).collect::<BTreeSet<T>>() {
        let was = all.iter().any(|log| log.was_visible(id));
        found.add(id, was, all.iter().any(|log| log.is_visible(id)));
    }
    if found.len() <= most {
        return Some(found);
    }
    // One log at a time: in the others the client stays at its position.
    let mut found = AccountChanges::empty(known.clone(), true);
    for at in order_of_pages(logs, known) {
        let (log, state) = logs[at];
        if all[at].is_empty() {
            found.upto.advance(log, state.position().into());
            continue;
        }
        let (changes, upto) = all[at].page(most)?;
        let elsewhere = |id: T| {
            let mut others = all.iter().enumerate().filter(|(other, _)| *other != at);
            others.any(|(_, log)| log.was_visible(id))
        };
        for (id, was, is) in changes {
            let elsewhere = elsewhere(id);
            found.add(id, was || elsewhere, is || elsewhere);
        }
        found.upto.advance(log, upto);
        return Some(found);
    }
    None
}

/// At most `most` changes of the mailboxes of these logs, each in its log. The mailbox of a share is the
/// inbox there; the link in the account's own log has its name. `None` as for [`since`].
pub fn mailboxes_since(
    logs: &[(AccountId, &AccountState)],
    known: &AccountSyncPoint<UidValidity>,
    most: usize,
) -> Option<AccountMailboxChanges> {
    if !can_follow(logs, known) {
        return None;
    }
    let (mut changes, mut upto, mut left) = (Vec::new(), known.clone(), most);
    for at in order_of_pages(logs, known) {
        let (log, state) = logs[at];
        // Nothing more fits: whether there is more is seen by one change.
        let found = state.mailbox_changes(known.of(log), left.max(1))?;
        if left == 0 && !found.changes.is_empty() {
            return Some(AccountMailboxChanges { changes, upto, more: true });
        }
        left -= found.changes.len();
        changes.extend(found.changes.into_iter().map(|change| (log, change)));
        upto.advance(log, found.upto);
        if found.more {
            return Some(AccountMailboxChanges { changes, upto, more: true });
        }
    }
    Some(AccountMailboxChanges { changes, upto, more: false })
}

/// All changes of objects in one log.
struct LogChanges<'a, T> {
    state: &'a AccountState,
    since: SyncPoint<T>,
    /// Whether each object was visible then, and is visible now.
    changes: BTreeMap<T, (bool, bool)>,
    /// Objects that lost a message since, and when, whether or not they existed before. They count if
    /// another log has a copy.
    departed: Vec<(T, Position)>,
}

impl<'a, T: Observable> LogChanges<'a, T> {
    /// `None` if `since` is too long ago, or if there are too many changes.
    fn new(state: &'a AccountState, since: SyncPoint<T>) -> Option<Self> {
        let all = T::changes(state, since, MOST_OF_A_LOG)?;
        let more = all.more;
        let mut departed = T::departed(state, since.position)?;
        departed.retain(|(id, at)| *at > since.of(*id));
        (!more).then(|| LogChanges { state, since, changes: seen(all).collect(), departed })
    }

    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.departed.is_empty()
    }

    fn touched(&self) -> impl Iterator<Item = T> {
        self.changes.keys().copied().chain(self.departed.iter().map(|(id, _)| *id))
    }

    /// Whether it was visible at the point that the client knows.
    fn was_visible(&self, id: T) -> bool {
        match self.changes.get(&id) {
            Some((was, _)) => *was,
            None => id.is_visible(self.state),
        }
    }

    fn is_visible(&self, id: T) -> bool {
        match self.changes.get(&id) {
            Some((_, is)) => *is,
            None => id.is_visible(self.state),
        }
    }

    /// At most `most` of the first changes, and the point after them: whether each object was visible
    /// before, and is visible there. Includes objects created and destroyed in between.
    fn page(&self, most: usize) -> Option<(Page<T>, SyncPoint<T>)> {
        let page = T::changes(self.state, self.since, most)?;
        let upto = page.upto;
        let mut changes: BTreeMap<T, (bool, bool)> = seen(page).collect();
        for (id, _) in self.departed.iter().filter(|(id, at)| *at <= upto.of(*id)) {
            let there = self.was_visible(*id);
            changes.entry(*id).or_insert((there, there));
        }
        Some((changes.into_iter().map(|(id, (was, is))| (id, was, is)).collect(), upto))
    }
}

/// Changed objects, with whether each was visible before and is visible at the end of the page.
type Page<T> = Vec<(T, bool, bool)>;

/// Changed objects, with whether each was visible before and is visible after.
fn seen<T>(changes: Changes<T>) -> impl Iterator<Item = (T, (bool, bool))> {
    let created = changes.created.into_iter().map(|id| (id, (false, true)));
    let updated = changes.updated.into_iter().map(|id| (id, (true, true)));
    created.chain(updated).chain(changes.destroyed.into_iter().map(|id| (id, (true, false))))
}

impl<T> AccountChanges<T> {
    fn empty(upto: AccountSyncPoint<T>, more: bool) -> Self {
        AccountChanges { created: Vec::new(), updated: Vec::new(), destroyed: Vec::new(), upto, more }
    }

    fn len(&self) -> usize {
        self.created.len() + self.updated.len() + self.destroyed.len()
    }

    fn add(&mut self, id: T, was: bool, is: bool) {
        match (was, is) {
            (false, true) => self.created.push(id),
            (true, true) => self.updated.push(id),
            (true, false) => self.destroyed.push(id),
            (false, false) => {}
        }
    }
}
