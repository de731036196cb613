//! The accounts with subscriptions, as this node knows them: enough to tell whether an entry of a log
//! is of interest, without a request to the store. URLs and keys are not here.

use std::collections::HashMap;
use std::time::Duration;

use sealpost_base::limits::{PUSH_ACCOUNTS, PUSH_LOGS};
use sealpost_base::{AccountId, Position, Timestamp};
use sealpost_directory::StoreMoment;
use tokio::time::Instant;

use crate::positions::Positions;
use crate::subscription::{AccountNote, SubscriptionId};

/// All of them.
#[derive(Default)]
pub(crate) struct Index {
    accounts: HashMap<AccountId, Watched>,
    /// Whose a log of a shared mailbox is.
    owners: HashMap<AccountId, AccountId>,
    is_full: bool,
}

/// An account, whether or not it has subscriptions now.
struct Watched {
    /// The version of its note.
    version: u64,
    /// Its own log first.
    logs: Box<[WatchedLog]>,
    subscriptions: Box<[Known]>,
    /// When its record was read last, and that moment of the store.
    checked: Option<(Instant, Option<StoreMoment>)>,
}

#[derive(Clone, Copy)]
struct WatchedLog {
    id: AccountId,
    /// Up to where this node knows it; `None`: it has not looked.
    seen: Option<Position>,
    /// Up to where its changes were pushed.
    pushed: Option<Position>,
}

#[derive(Clone, Copy)]
struct Known {
    id: SubscriptionId,
    is_verified: bool,
    expires: Timestamp,
}

impl Index {
    /// Takes over the note of an account; the subscriptions that may be pushed to from now on.
    pub(crate) fn install(
        &mut self,
        account: AccountId,
        version: u64,
        note: &AccountNote,
    ) -> Vec<SubscriptionId> {
        let known = self.accounts.get(&account);
        if known.is_some_and(|known| known.version > version) {
            return Vec::new();
        }
        if known.is_none() && self.accounts.len() >= PUSH_ACCOUNTS {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::error!(
                    most = PUSH_ACCOUNTS,
                    "too many accounts have push subscriptions; others get no pushes"
                );
            }
            return Vec::new();
        }
        let was_open = |id: &SubscriptionId| {
            let before = known.iter().flat_map(|known| known.subscriptions.iter());
            before.into_iter().any(|other| other.id == *id && other.is_verified)
        };
        let open = note.subscriptions.iter().filter(|it| it.is_verified).map(|it| it.id);
        let opened: Vec<_> = open.filter(|id| !was_open(id)).collect();
        let position = |log: AccountId| {
            let known = known.and_then(|known| known.logs.iter().find(|it| it.id == log).copied());
            known.unwrap_or(WatchedLog { id: log, seen: None, pushed: None })
        };
        let has_any = !note.subscriptions.is_empty();
        let logs = std::iter::once(account).chain(note.shares.iter().copied().take(PUSH_LOGS - 1));
        let logs: Box<[_]> = logs.filter(|_| has_any).map(position).collect();
        let checked = known.and_then(|known| known.checked);
        let of =
            |it: &crate::Subscription| Known { id: it.id, is_verified: it.is_verified, expires: it.expires };
        let subscriptions = note.subscriptions.iter().map(of).collect();
        self.forget(account);
        for log in logs.iter().skip(1) {
            self.owners.insert(log.id, account);
        }
        self.accounts.insert(account, Watched { version, logs, subscriptions, checked });
        opened
    }

    /// The account has no note any more.
    pub(crate) fn forget(&mut self, account: AccountId) {
        if let Some(known) = self.accounts.remove(&account) {
            for log in known.logs.iter().skip(1) {
                self.owners.remove(&log.id);
            }
        }
    }

    /// The version of an account's note that is known.
    pub(crate) fn version(&self, account: AccountId) -> Option<u64> {
        self.accounts.get(&account).map(|known| known.version)
    }

    /// The versions that are known, of all accounts.
    pub(crate) fn versions(&self) -> Vec<(AccountId, u64)> {
        self.accounts.iter().map(|(account, known)| (*account, known.version)).collect()
    }

    /// All accounts.
    pub(crate) fn accounts(&self) -> Vec<AccountId> {
        self.accounts.keys().copied().collect()
    }

    /// How many subscriptions there are.
    pub(crate) fn subscriptions(&self) -> usize {
        self.accounts.values().map(|known| known.subscriptions.len()).sum()
    }

    /// Bytes of the tables, about.
    pub(crate) fn memory(&self) -> usize {
        let rows = |known: &Watched| {
            size_of_val::<[WatchedLog]>(&known.logs) + size_of_val::<[Known]>(&known.subscriptions)
        };
        let accounts = self.accounts.capacity() * (size_of::<(AccountId, Watched)>() + 1);
        let owners = self.owners.capacity() * (size_of::<(AccountId, AccountId)>() + 1);
        accounts + owners + self.accounts.values().map(rows).sum::<usize>()
    }

    /// The logs whose positions this node does not know.
    pub(crate) fn unknown(&self) -> Vec<AccountId> {
        let logs = self.accounts.values().flat_map(|known| known.logs.iter());
        logs.filter(|log| log.seen.is_none()).map(|log| log.id).collect()
    }

    /// The account that a log is of, if that has subscriptions.
    pub(crate) fn owner(&self, log: AccountId) -> Option<AccountId> {
        if self.accounts.get(&log).is_some_and(|known| !known.logs.is_empty()) {
            return Some(log);
        }
        self.owners.get(&log).copied()
    }

    /// The logs of an account, its own first, with the positions that are known.
    pub(crate) fn logs(&self, account: AccountId) -> Vec<(AccountId, Option<Position>)> {
        let logs = self.accounts.get(&account).map(|known| known.logs.iter());
        logs.into_iter().flatten().map(|log| (log.id, log.seen)).collect()
    }

    /// The subscriptions of an account that may be pushed to.
    pub(crate) fn open(&self, account: AccountId, now: Timestamp) -> Vec<SubscriptionId> {
        let known = self.accounts.get(&account).map(|known| known.subscriptions.iter());
        let open = known.into_iter().flatten().filter(|it| it.is_verified && now < it.expires);
        open.map(|it| it.id).collect()
    }

    /// The accounts with subscriptions that have expired.
    pub(crate) fn expired(&self, now: Timestamp) -> Vec<AccountId> {
        let is_over = |known: &Watched| known.subscriptions.iter().any(|it| it.expires <= now);
        self.accounts.iter().filter(|(_, known)| is_over(known)).map(|(account, _)| *account).collect()
    }

    /// The log goes to `position`; whether that is news, or nothing was known.
    pub(crate) fn saw(&mut self, log: AccountId, position: Position) -> bool {
        let Some(known) = self.log_mut(log) else { return false };
        let is_news = known.seen.is_none_or(|seen| seen < position);
        known.seen = Some(known.seen.unwrap_or(position).max(position));
        is_news
    }

    /// Whether `position` is beyond what is known of the log.
    pub(crate) fn is_news(&self, log: AccountId, position: Position) -> bool {
        let Some(owner) = self.owner(log) else { return false };
        self.logs(owner).iter().any(|(id, seen)| *id == log && seen.is_none_or(|seen| seen < position))
    }

    /// What an earlier run pushed of a log.
    pub(crate) fn pushed_before(&mut self, log: AccountId, position: Position) {
        if let Some(known) = self.log_mut(log)
            && known.seen.is_none()
        {
            (known.seen, known.pushed) = (Some(position), Some(position));
        }
    }

    /// Up to where all is pushed, but for the accounts to which something is owed.
    pub(crate) fn settle(&mut self, is_owed: impl Fn(&AccountId) -> bool) -> Positions {
        let mut positions = Positions::new();
        for (account, known) in &mut self.accounts {
            for log in &mut known.logs {
                if !is_owed(account) {
                    log.pushed = log.seen;
                }
                positions.extend(log.pushed.map(|pushed| (log.id, pushed)));
            }
        }
        positions
    }

    /// Whether the account's record was read within that time, and no record has changed since, as far
    /// as the store tells; if not, it counts as read from now on.
    pub(crate) fn was_checked(
        &mut self,
        account: AccountId,
        (now, moment): (Instant, Option<StoreMoment>),
        within: Duration,
    ) -> bool {
        let Some(known) = self.accounts.get_mut(&account) else { return false };
        let holds = |(at, then)| now.saturating_duration_since(at) < within && then == moment;
        if known.checked.is_some_and(holds) {
            return true;
        }
        known.checked = Some((now, moment));
        false
    }

    /// The record could not be read, or must be read again.
    pub(crate) fn uncheck(&mut self, account: AccountId) {
        if let Some(known) = self.accounts.get_mut(&account) {
            known.checked = None;
        }
    }

    fn log_mut(&mut self, log: AccountId) -> Option<&mut WatchedLog> {
        let owner = self.owner(log)?;
        self.accounts.get_mut(&owner)?.logs.iter_mut().find(|it| it.id == log)
    }
}

#[cfg(test)]
mod tests {
    use sealpost_vault::slot::SlotId;

    use super::*;
    use crate::Subscription;

    const ME: AccountId = AccountId([7; 16]);
    const SHARE: AccountId = AccountId([8; 16]);

    fn note(verified: &[(u8, bool)]) -> AccountNote {
        let subscription = |(number, is_verified): &(u8, bool)| Subscription {
            id: SubscriptionId([*number; 16]),
            device: String::new(),
            url: String::new(),
            keys: None,
            code: String::new(),
            is_verified: *is_verified,
            expires: Timestamp(100),
            types: None,
            slot: SlotId([0; 8]),
        };
        let subscriptions = verified.iter().map(subscription).collect();
        AccountNote { subscriptions, shares: vec![SHARE], ..AccountNote::default() }
    }

    #[test]
    fn logs_lead_to_accounts_and_open_subscriptions() {
        let mut index = Index::default();
        assert!(index.install(ME, 1, &note(&[(1, false)])).is_empty());
        assert_eq!((index.owner(ME), index.owner(SHARE)), (Some(ME), Some(ME)));
        assert_eq!(index.install(ME, 2, &note(&[(1, true), (2, false)])), [SubscriptionId([1; 16])]);
        assert!(index.install(ME, 3, &note(&[(1, true)])).is_empty(), "it was open before");
        assert!(index.install(ME, 2, &note(&[])).is_empty(), "an earlier version");
        assert_eq!(index.open(ME, Timestamp(99)), [SubscriptionId([1; 16])]);
        assert!(index.open(ME, Timestamp(100)).is_empty());
        assert_eq!((index.expired(Timestamp(100)), index.expired(Timestamp(99))), (vec![ME], vec![]));
        index.install(ME, 4, &note(&[]));
        assert_eq!((index.owner(ME), index.owner(SHARE), index.version(ME)), (None, None, Some(4)));
    }

    #[test]
    fn positions_of_owed_pushes_stay_behind() {
        let mut index = Index::default();
        index.install(ME, 1, &note(&[(1, true)]));
        index.pushed_before(ME, Position(5));
        assert!(!index.is_news(ME, Position(5)) && index.is_news(ME, Position(6)));
        assert!(index.is_news(SHARE, Position(1)), "nothing is known of it");
        assert!(index.saw(ME, Position(6)) && !index.saw(ME, Position(6)));
        assert_eq!(index.settle(|_| true), Positions::from([(ME, Position(5))]));
        index.saw(SHARE, Position(2));
        let both = Positions::from([(ME, Position(6)), (SHARE, Position(2))]);
        assert_eq!(index.settle(|_| false), both);
        // Another version of the note keeps what is known.
        index.install(ME, 2, &note(&[(1, true)]));
        assert_eq!(index.logs(ME), [(ME, Some(Position(6))), (SHARE, Some(Position(2)))]);
    }

    #[test]
    fn accounts_beyond_the_limit_are_not_watched() {
        let mut index = Index::default();
        let id = |number: usize| {
            let mut id = AccountId([0; 16]);
            id.0[..8].copy_from_slice(&number.to_be_bytes());
            id
        };
        let mut plain = note(&[]);
        plain.shares.clear();
        for number in 0..PUSH_ACCOUNTS {
            index.install(id(number), 1, &plain);
        }
        index.install(id(PUSH_ACCOUNTS), 1, &plain);
        assert_eq!((index.version(id(PUSH_ACCOUNTS)), index.version(id(0))), (None, Some(1)));
    }

    #[test]
    fn ten_thousand_subscriptions_take_few_megabytes() {
        let mut index = Index::default();
        for number in 0..10_000u64 {
            let mut account = AccountId([0; 16]);
            account.0[..8].copy_from_slice(&number.to_be_bytes());
            let note = AccountNote { shares: Vec::new(), ..note(&[(1, true)]) };
            index.install(account, 1, &note);
        }
        assert_eq!(index.subscriptions(), 10_000);
        assert!(index.memory() < 4 * 1024 * 1024, "{}", index.memory());
        assert_eq!(index.unknown().len(), 10_000);
    }
}
