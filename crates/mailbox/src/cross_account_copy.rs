//! COPY and MOVE between logs: into or out of a shared mailbox.
//!
//! Each message is sealed again for the other log. One entry there makes all of them visible. Only then, for
//! a move, another entry expunges the originals. A crash in between leaves both: it can duplicate a message,
//! but never lose one.

use std::collections::VecDeque;

use sealpost_account::account::Placed;
use sealpost_account::{Account, Accounts, Flags, Message, NewMessage, Unplaced, ops};
use sealpost_base::{Error, Kind as ErrorKind, Position, Result, Uid, UidSet, limits};
use sealpost_directory::Usage;

use crate::append;
use crate::copy::{Copied, Kind};
use crate::flags;
use crate::opened::OpenedMailbox;
use crate::quota_headroom::UserQuota;
use crate::refusal::{MailboxGone, Refusal};
use crate::resolve::ResolvedMailbox;

/// Messages in transit from one log to another. If it is dropped before they are placed, nothing remains.
pub struct CrossAccountCopy {
    source: OpenedMailbox,
    to: ResolvedMailbox,
    kind: Kind,
    /// Messages not yet sealed for the other log, in order.
    waiting: VecDeque<Going>,
    sealed: Unplaced,
    /// All of the messages.
    from: UidSet,
    /// What the move frees in the account, if both mailboxes count for it.
    freed: Usage,
}

/// A message in transit.
struct Going {
    uid: Uid,
    message: Message,
    flags: Flags,
}

impl CrossAccountCopy {
    /// Starts a copy of the messages that still exist, with the flags that the user may set in the target
    /// (RFC 4314 §4). `None` if none exists. With `all_or_none`, an expunged message makes the whole copy
    /// fail (RFC 2180 §4.4.1).
    ///
    /// # Errors
    /// `SourceGone`, `MessagesGone`, `OverQuota`; `Limit` for too many messages or flags.
    pub async fn begin(
        quota: UserQuota<'_>,
        source: OpenedMailbox,
        targets: &UidSet,
        all_or_none: bool,
        to: &ResolvedMailbox,
        kind: Kind,
    ) -> Result<Option<Self>, Refusal> {
        if targets.len() > limits::COPY_BETWEEN {
            let most = limits::COPY_BETWEEN;
            let text = format!("at most {most} messages at once go into or out of a shared mailbox");
            return Err(Error::limit(text).into());
        }
        let waiting = going(&source, targets, to)?;
        if all_or_none && waiting.len() < targets.len() {
            return Err(Refusal::MessagesGone);
        }
        waiting.iter().try_for_each(|going| ops::check_flags(&to.account.state(), &going.flags))?;
        if waiting.is_empty() {
            return Ok(None);
        }
        let bytes = waiting.iter().map(|going| going.message.size()).sum();
        let usage = Usage::of_messages(waiting.len() as u64, bytes);
        // A move between two mailboxes that count for the same account does not change its usage.
        let together = kind == Kind::Move && quota.counts_together(&source, to);
        let freed = if together { usage } else { Usage::default() };
        quota.check_at(to, usage.without(freed)).await?;
        let from = waiting.iter().map(|going| going.uid).collect();
        let sealed = Unplaced::of(to.account.clone());
        Ok(Some(CrossAccountCopy { source, to: to.clone(), kind, waiting, sealed, from, freed }))
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// Always false: see [`CrossAccountCopy::begin`].
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// The number of messages sealed for the other log.
    pub fn sealed(&self) -> usize {
        self.sealed.messages().len()
    }

    /// Seals the next message for the other log; returns whether there was one.
    ///
    /// # Errors
    /// `Damaged`; store errors.
    pub async fn seal_next(&mut self, accounts: &Accounts) -> Result<bool, Refusal> {
        let Some(Going { uid, message, flags }) = self.waiting.pop_front() else { return Ok(false) };
        let (from, to): (&Account, _) = (&self.source.account, self.to.account.id());
        let stored = accounts.reseal(from, &message, to).await.map_err(|error| match error.kind() {
            ErrorKind::Corrupt | ErrorKind::NotFound => {
                tracing::error!(%uid, %error, "a message could not be read");
                Refusal::Damaged(uid)
            }
            _ => error.into(),
        })?;
        self.sealed.push(NewMessage { stored, flags: flags.into(), received: message.received });
        Ok(true)
    }

    /// Places all messages in the target. After that, a move must [expunge](PlacedCopy::expunge) them.
    ///
    /// # Errors
    /// As [`append::place`]: while sealing takes its time, the right may be revoked and the quota used up.
    pub async fn place(self, quota: UserQuota<'_>) -> Result<PlacedCopy, Refusal> {
        let CrossAccountCopy { source, to, kind, sealed, from, freed, .. } = self;
        let Placed { uid_validity, uids, alone } = append::place(quota, &to, sealed, freed).await?;
        let uids = uids.into_iter().collect();
        let copied = Copied { uid_validity, from, uids, entry: alone, _memory: None };
        Ok(PlacedCopy { copied, source, kind })
    }
}

/// Messages placed in the target.
pub struct PlacedCopy {
    /// The messages; the entry is one of the target's log.
    pub copied: Copied,
    source: OpenedMailbox,
    kind: Kind,
}

impl PlacedCopy {
    /// Expunges moved messages in the source; returns the entry in the source's log, if any.
    ///
    /// # Errors
    /// `NotExpunged`: the client must not repeat the whole command.
    pub async fn expunge(&self) -> Result<Option<Position>, Refusal> {
        match self.kind {
            Kind::Copy => Ok(None),
            Kind::Move => self.source.expunge_copied(&self.copied.from).await,
        }
    }
}

/// The messages that exist now, with the flags that they may have in the target.
fn going(
    source: &OpenedMailbox,
    targets: &UidSet,
    to: &ResolvedMailbox,
) -> Result<VecDeque<Going>, MailboxGone> {
    let state = source.account.state();
    let mailbox = source.mailbox_in(&state)?;
    let rows = targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
    let going = rows.filter_map(|row| {
        let flags = flags::permitted(&state.flags_by_name(row.flags), to.rights);
        Some(Going { uid: row.uid, message: state.message(row.message)?, flags })
    });
    Ok(going.collect())
}
