//! Changes of messages over all placements ([`crate::emails`]): their flags, their mailboxes, and their
//! destruction. However many messages a call changes, each log gets one entry.
//!
//! Flag changes apply to all visible placements. A mailbox that a message leaves loses its visible
//! placements; one that it joins gets one placement, moved there if another mailbox loses it. A message that
//! joins another log of the account is sealed again for it. It becomes visible there before it leaves its old
//! log, so a crash in between can duplicate it, but loses nothing.

mod batch;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::ObjectKind;
use sealpost_account::{Account, AccountState, Flags, NewMessage, Unplaced};
use sealpost_base::{AccountId, Error, Kind, MailboxId, ObjectId, Position, Result};
use sealpost_directory::Usage;

use self::batch::Batch;
use self::plan::{Plan, plan};
use crate::access::Access;
use crate::account_changes::{LogPositions, at_once, logs_of};
use crate::entry::entry_of;
use crate::flags::permitted;
use crate::quota_headroom::{OverQuota, UserQuota};
use crate::shared_accounts::{READS, Reach, logs_shared_by};

/// A mailbox of an account: its log, and the mailbox in that log.
pub type Place = (AccountId, MailboxId);

/// A change of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum EmailChange {
    /// Changes flags or mailboxes.
    Update {
        /// The change of its flags.
        flags: Option<FlagEdit>,
        /// The change of its mailboxes, which leaves it in at least one.
        mailboxes: Option<PlaceEdit>,
    },
    /// Expunges it in the logs where it is visible, including placements there that are flagged `\Deleted`.
    Destroy,
}

/// A change of the flags of a message, without `\Deleted`.
#[derive(Debug, Clone, PartialEq)]
pub enum FlagEdit {
    /// Sets exactly these flags.
    Replace(Flags),
    /// Adds and removes flags.
    Change {
        /// Flags to add.
        add: Flags,
        /// Flags to remove.
        remove: Flags,
    },
}

/// A change of the mailboxes of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum PlaceEdit {
    /// Sets exactly these mailboxes.
    Replace(BTreeSet<Place>),
    /// Adds and removes mailboxes.
    Change {
        /// Mailboxes to add.
        add: BTreeSet<Place>,
        /// Mailboxes to remove.
        remove: BTreeSet<Place>,
    },
}

impl PlaceEdit {
    /// The mailboxes after the change.
    pub fn apply(&self, places: &BTreeSet<Place>) -> BTreeSet<Place> {
        match self {
            PlaceEdit::Replace(places) => places.clone(),
            PlaceEdit::Change { add, remove } => places.difference(remove).chain(add).copied().collect(),
        }
    }
}

/// Why a message was not changed or not added.
#[derive(Debug)]
pub enum EmailRefusal {
    /// There is no such message.
    NotFound,
    /// The user lacks a right to one of its mailboxes.
    Forbidden,
    /// One of the mailboxes does not exist, or none would remain.
    Mailboxes,
    /// More mailboxes than a message may be in.
    TooManyMailboxes,
    /// Flags beyond a limit.
    TooManyFlags(Error),
    /// The account may not use more of a resource.
    OverQuota(OverQuota),
    /// A log has changed since the expected position.
    Stale,
    /// Anything else.
    Error(Error),
}

impl From<OverQuota> for EmailRefusal {
    fn from(over: OverQuota) -> Self {
        EmailRefusal::OverQuota(over)
    }
}

/// Errors of [`Account::append_each`].
impl From<Error> for EmailRefusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Limit => EmailRefusal::TooManyFlags(error),
            Kind::NotFound => EmailRefusal::Mailboxes,
            _ => EmailRefusal::Error(error),
        }
    }
}

/// Entries that calls have appended to logs.
#[derive(Debug, Default)]
pub struct Written {
    /// The entries, in the order in which they were appended.
    pub entries: Vec<(AccountId, Position)>,
    /// The required positions of the last changes of these objects before the first entry, if any.
    pub expected: Option<(ObjectKind, LogPositions)>,
}

impl Written {
    /// Whether the objects in the log are as they have to be: no other writer has changed them since the
    /// expected position, or since an own entry.
    pub fn may_follow(&self, log: AccountId, state: &AccountState) -> bool {
        let Some((kind, expected)) = &self.expected else { return true };
        let own = self.entries.iter().rev().find(|(other, _)| *other == log).map(|(_, at)| *at);
        let before = || expected.iter().find(|(other, _)| *other == log).map(|(_, at)| at);
        own.or_else(before).is_some_and(|known| state.last_change(*kind) <= known)
    }

    fn note(&mut self, log: AccountId, entry: Option<Position>) {
        self.entries.extend(entry.map(|at| (log, at)));
    }
}

/// A user who changes the messages of an account.
#[derive(Clone, Copy)]
pub struct EmailWriter<'a> {
    /// The user, and what may be stored.
    pub quota: UserQuota<'a>,
    /// The account.
    pub reach: Reach,
}

impl EmailWriter<'_> {
    /// The logs that the messages of the account are in, or may come into.
    async fn logs(self) -> Result<Vec<Arc<Account>>> {
        match self.reach {
            Reach::Own => logs_of(self.quota.user).await,
            Reach::SharedBy(owner) => logs_shared_by(self.quota.user, owner).await,
        }
    }

    /// How the user reaches a log of the account.
    fn access(self, log: AccountId) -> Access {
        self.reach.access(self.quota.user.account.id(), log)
    }
}

/// Places new messages in mailboxes of one log, all in one entry. Returns a result for each. A refused
/// message is removed from the store. `freed` is the usage that the call itself frees.
///
/// # Errors
/// Store errors; the messages may then still appear.
pub async fn add_emails(
    writer: EmailWriter<'_>,
    log: &Account,
    messages: Unplaced,
    targets: &[Vec<MailboxId>],
    freed: Usage,
    written: &mut Written,
) -> Result<Vec<Result<(), EmailRefusal>>> {
    let access = writer.access(log.id());
    let headroom = writer.quota.headroom_of(log, access).await?;
    let known = &*written;
    let check = |state: &AccountState, more: Usage| {
        if !known.may_follow(log.id(), state) {
            return Err(EmailRefusal::Stale);
        }
        if !access.rights(state).contains(Rights::INSERT) {
            return Err(EmailRefusal::Forbidden);
        }
        Ok(headroom.check(state, more.without(freed))?)
    };
    let committed = log.append_each(messages, targets, check).await?;
    written.note(log.id(), entry_of(&committed));
    Ok(committed.value)
}

/// Changes messages, each named by the object that first held it; they must be distinct. Returns a result for
/// each. Each log gets at most one entry for changes, and one for messages that join it.
///
/// # Errors
/// Store errors; some of the changes may have been made.
pub async fn change_emails(
    writer: EmailWriter<'_>,
    changes: &[(ObjectId, EmailChange)],
    written: &mut Written,
) -> Result<Vec<Result<(), EmailRefusal>>> {
    let logs = writer.logs().await?;
    let planned = at_once(&logs, |states| {
        let access = |log| writer.access(log);
        let one = |(object, change): &(ObjectId, EmailChange)| plan(states, access, *object, change);
        changes.iter().map(one).collect::<Vec<_>>()
    });
    let planned = planned.await?;
    let (mut plans, mut results) = (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
    for found in planned {
        let (plan, result) = match found {
            Ok(plan) => (Some(plan), Ok(())),
            Err(refusal) => (None, Err(refusal)),
        };
        plans.push(plan);
        results.push(result);
    }
    bring_into_logs(writer, &logs, &plans, &mut results, written).await?;
    for log in &logs {
        change_in_log(writer, log, changes, &plans, &mut results, written).await?;
    }
    Ok(results)
}

/// Seals messages for the logs that they join, and places them there.
async fn bring_into_logs(
    writer: EmailWriter<'_>,
    logs: &[Arc<Account>],
    plans: &[Option<Plan>],
    results: &mut [Result<(), EmailRefusal>],
    written: &mut Written,
) -> Result<()> {
    for log in logs {
        let mut coming = Unplaced::of(log.clone());
        let (mut which, mut targets, mut freed) = (Vec::new(), Vec::new(), Usage::default());
        for (index, plan) in plans.iter().enumerate() {
            let Some(plan) = plan.as_ref().filter(|_| results[index].is_ok()) else { continue };
            let Some(mailboxes) = plan.comes_into(log.id()) else { continue };
            let source = logs.iter().find(|other| other.id() == plan.source);
            let source = source.ok_or_else(|| Error::internal("a message of no log of the account"))?;
            match writer.quota.user.accounts.reseal(source, &plan.message, log.id()).await {
                Ok(stored) => {
                    let rights = writer.access(log.id()).rights(&log.state());
                    let (flags, received) = (permitted(&plan.flags, rights).into(), plan.message.received);
                    coming.push(NewMessage { stored, flags, received });
                    which.push(index);
                    freed = freed.with(plan.freed_by_moving());
                    targets.push(mailboxes);
                }
                Err(error) => results[index] = Err(EmailRefusal::Error(error)),
            }
        }
        if which.is_empty() {
            continue;
        }
        let placed = add_emails(writer, log, coming, &targets, freed, written).await?;
        for (index, placed) in which.into_iter().zip(placed) {
            results[index] = placed;
        }
    }
    Ok(())
}

/// Makes the changes in one log, by one entry.
async fn change_in_log(
    writer: EmailWriter<'_>,
    log: &Account,
    changes: &[(ObjectId, EmailChange)],
    plans: &[Option<Plan>],
    results: &mut [Result<(), EmailRefusal>],
    written: &mut Written,
) -> Result<()> {
    let id = log.id();
    let is_here = |index: &usize| plans[*index].as_ref().is_some_and(|plan| plan.is_in(id));
    let which: Vec<usize> =
        (0..changes.len()).filter(|index| results[*index].is_ok()).filter(is_here).collect();
    if which.is_empty() {
        return Ok(());
    }
    let access = writer.access(id);
    let headroom = writer.quota.headroom_of(log, access).await?;
    let known = &*written;
    let committed = log.commit_many(which.len(), |state| {
        if !known.may_follow(id, state) {
            return Ok((Vec::new(), which.iter().map(|_| Err(EmailRefusal::Stale)).collect()));
        }
        if state.maps().is_none() {
            return Err(Error::retry("the account changes faster than its messages are counted"));
        }
        let rights = access.rights(state);
        let mut batch = Batch::new(id, state, headroom);
        let done: Vec<Result<(), EmailRefusal>> = which
            .iter()
            .map(|index| {
                let (object, change) = &changes[*index];
                let plan = plans[*index].as_ref();
                if plan.is_some_and(|plan| !rights.contains(plan.needs(id))) {
                    return Err(EmailRefusal::Forbidden);
                }
                let elsewhere = plan.is_some_and(|plan| plan.stays_elsewhere(id));
                batch.change(*object, change, elsewhere)
            })
            .collect();
        Ok((batch.into_events(), done))
    });
    let committed = committed.await?;
    written.note(id, entry_of(&committed));
    for (index, done) in which.into_iter().zip(committed.value) {
        results[index] = done;
    }
    Ok(())
}

/// Groups places by their logs.
fn by_log(places: &BTreeSet<Place>) -> BTreeMap<AccountId, Vec<MailboxId>> {
    let mut logs: BTreeMap<AccountId, Vec<MailboxId>> = BTreeMap::new();
    for (log, mailbox) in places {
        logs.entry(*log).or_default().push(*mailbox);
    }
    logs
}
