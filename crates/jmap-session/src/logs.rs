//! The logs of one account as its caller sees them, at one moment.
//!
//! The account is the caller's own (its log, then those of the mailboxes that it shares), or that of
//! another owner: then it is the logs of the mailboxes that this owner shares with the caller, whose
//! names are those of the links in the caller's own log. What the caller may not read is not there.

use std::ops::Deref;
use std::sync::Arc;

use sealpost_account::state::{ChangeKey, ObjectKind};
use sealpost_account::{Account, AccountState};
use sealpost_base::{AccountId, Error, Result, UidValidity};
use sealpost_jmap::State;
use sealpost_mailbox::account_changes::{AccountSyncPoint, at_once, last_changes};
use sealpost_mailbox::shared_accounts::{Reach, may_look_up, may_read};

use crate::mailbox::tree_print;
use crate::state_string::{Head, point_in, positions_of, state_at, state_of};

/// Logs with their states.
type States<'a> = [(AccountId, &'a AccountState)];

/// The logs of an account, open: those that emails are read from.
pub(crate) struct OpenLogs {
    reach: Reach,
    own: Arc<Account>,
    /// The logs with readable emails.
    emails: Vec<Arc<Account>>,
    /// Of another owner's account: the logs of all mailboxes that are listed.
    listed: Vec<Arc<Account>>,
}

impl Deref for OpenLogs {
    type Target = [Arc<Account>];

    fn deref(&self) -> &[Arc<Account>] {
        &self.emails
    }
}

impl OpenLogs {
    /// Of the caller's own account: its log first.
    pub(crate) fn of_own(own: Arc<Account>, logs: Vec<Arc<Account>>) -> Self {
        OpenLogs { reach: Reach::Own, own, emails: logs, listed: Vec::new() }
    }

    /// Of the account of another owner, which has these mailboxes.
    pub(crate) fn shared_by(owner: AccountId, own: Arc<Account>, listed: Vec<Arc<Account>>) -> Self {
        let user = own.id();
        let emails = listed.iter().filter(|log| may_read(&log.state(), user)).cloned().collect();
        OpenLogs { reach: Reach::SharedBy(owner), own, emails, listed }
    }

    /// The logs that emails can come into, readable ones first.
    pub(crate) fn targets(&self) -> Vec<Arc<Account>> {
        let is_unread = |log: &&Arc<Account>| self.emails.iter().all(|other| other.id() != log.id());
        let unread = self.listed.iter().filter(is_unread);
        self.emails.iter().chain(unread).cloned().collect()
    }

    /// Shows the states at one moment, with the rights that the caller has then.
    ///
    /// # Errors
    /// Store errors; `Retry` if the logs change too fast for their maps.
    pub(crate) async fn look<T>(&self, look: impl Fn(&Logs<'_>) -> T) -> Result<T> {
        let user = self.own.id();
        if self.reach == Reach::Own {
            return at_once(&self.emails, |states| {
                let own = states.first().map(|(_, own)| *own);
                own.map(|own| {
                    look(&Logs { reach: self.reach, own: (user, own), emails: states, listed: states })
                })
            })
            .await
            .and_then(|found| found.ok_or_else(|| Error::internal("no log")));
        }
        let all: Vec<Arc<Account>> = std::iter::once(&self.own).chain(&self.listed).cloned().collect();
        at_once(&all, |states| {
            let (own, shares) =
                states.split_first().map_or((None, &states[..0]), |(own, rest)| (Some(own), rest));
            let own = own?.1;
            let of = |may: fn(&AccountState, AccountId) -> bool| -> Vec<(AccountId, &AccountState)> {
                shares.iter().filter(|(_, state)| may(state, user)).copied().collect()
            };
            let (emails, listed) = (of(may_read), of(may_look_up));
            Some(look(&Logs { reach: self.reach, own: (user, own), emails: &emails, listed: &listed }))
        })
        .await
        .and_then(|found| found.ok_or_else(|| Error::internal("no log")))
    }
}

impl OpenLogs {
    /// Reads on in the store the logs that a client with this state knows further than this process.
    ///
    /// # Errors
    /// Store errors.
    pub(crate) async fn catch_up_with(&self, state: &State) -> Result<()> {
        let behind = self.look(|logs| logs.behind(state)).await?;
        for log in self.emails.iter().filter(|log| behind.contains(&log.id())) {
            log.refresh().await?;
        }
        Ok(())
    }

    /// Checks that the caller may still read all logs that emails were read from.
    ///
    /// # Errors
    /// `Retry` if a right was taken away meanwhile; store errors.
    pub(crate) async fn check_still_readable(&self) -> Result<()> {
        if self.reach == Reach::Own {
            return Ok(());
        }
        match self.look(|logs| self.emails.iter().all(|log| logs.is_readable(log.id()))).await? {
            true => Ok(()),
            false => Err(Error::retry("rights to a mailbox were taken away during the call")),
        }
    }
}

/// The states of the logs of an account at one moment. As a slice, those with emails: of the
/// caller's account its own log first.
pub(crate) struct Logs<'a> {
    reach: Reach,
    /// The caller's own log, which has the names of all mailboxes.
    own: (AccountId, &'a AccountState),
    emails: &'a States<'a>,
    listed: &'a States<'a>,
}

impl<'a> Deref for Logs<'a> {
    type Target = States<'a>;

    fn deref(&self) -> &States<'a> {
        self.emails
    }
}

impl<'a> Logs<'a> {
    /// Whose account it is.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// The caller's own log.
    pub(crate) fn own(&self) -> (AccountId, &'a AccountState) {
        self.own
    }

    /// The log of a share, if the caller may look up its mailbox.
    pub(crate) fn listed(&self, share: AccountId) -> Option<&'a AccountState> {
        self.listed.iter().find(|(log, _)| *log == share).map(|(_, state)| *state)
    }

    /// Whether the emails of that log may be read.
    pub(crate) fn is_readable(&self, log: AccountId) -> bool {
        self.emails.iter().any(|(other, _)| *other == log)
    }

    /// What the states of the account begin with.
    pub(crate) fn head(&self) -> Head {
        match self.reach {
            Reach::Own => Head::Own(self.own.0),
            Reach::SharedBy(_) => Head::Shared(tree_print(self)),
        }
    }

    /// The state of objects of that kind.
    pub(crate) fn state(&self, kind: ObjectKind) -> State {
        state_of(self.head(), &last_changes(self, kind))
    }

    /// The state of a client that has followed the changes up to there, where they do not end.
    pub(crate) fn state_at<T: ChangeKey>(&self, point: &AccountSyncPoint<T>) -> State {
        state_at(self.head(), point)
    }

    /// How far a client has followed the changes that has this state; `None` if it is a state of another
    /// account, or a log is gone.
    pub(crate) fn known<T: ChangeKey>(&self, state: &State) -> Option<AccountSyncPoint<T>> {
        let logs: Vec<AccountId> = self.emails.iter().map(|(log, _)| *log).collect();
        Some(point_in(state, self.reach, &logs)?.1)
    }

    /// The logs of which a client that has this state knows later entries than this process, from another
    /// node.
    pub(crate) fn behind(&self, state: &State) -> Vec<AccountId> {
        let logs: Vec<AccountId> = self.emails.iter().map(|(log, _)| *log).collect();
        let known = positions_of(state, self.reach, &logs).unwrap_or_default();
        let is_behind = |(log, state): &&(AccountId, &AccountState)| {
            known.iter().any(|(known, at)| known == *log && at > state.position())
        };
        self.emails.iter().filter(is_behind).map(|(log, _)| *log).collect()
    }

    /// Whether a client that has this state knows the mailboxes as they are, but for what is in
    /// them. Of the caller's own account the log says what changed.
    pub(crate) fn has_same_tree(&self, state: &State) -> bool {
        let logs: Vec<AccountId> = self.emails.iter().map(|(log, _)| *log).collect();
        match self.head() {
            Head::Own(_) => true,
            head => point_in::<UidValidity>(state, self.reach, &logs).is_some_and(|(known, _)| known == head),
        }
    }
}
