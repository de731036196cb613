//! COPY and MOVE within a log: one entry for any number of messages, without copying their bytes. For copies
//! between logs see [`crate::cross_account_copy`].

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, Mailbox};
use sealpost_account::{Applied, FlagAction, Flags, Reservation};
use sealpost_base::{MailboxId, Position, Uid, UidSet, UidValidity};
use sealpost_directory::Usage;

use crate::entry::entry_of;
use crate::flags;
use crate::memory::reserve;
use crate::opened::OpenedMailbox;
use crate::quota_headroom::{QuotaHeadroom, UserQuota};
use crate::refusal::Refusal;
use crate::resolve::ResolvedMailbox;

/// Copy or move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The messages stay.
    Copy,
    /// The messages leave their mailbox (RFC 6851).
    Move,
}

/// The result of a copy or move.
pub struct Copied {
    /// UIDVALIDITY of the target.
    pub uid_validity: UidValidity,
    /// The messages in the source.
    pub from: UidSet,
    /// Their UIDs in the target, in the same order as `from`.
    pub uids: UidSet,
    /// The entry that placed them, if it has no other changes.
    pub entry: Option<Position>,
    /// Memory for the sets, if they are large.
    pub(crate) _memory: Option<Reservation>,
}

/// Copies or moves messages to another mailbox of the same log, without the flags that the user may not set
/// there (RFC 4314 §4). `None` if there was nothing to place. With `all_or_none`, an expunged message makes
/// the whole copy fail (RFC 2180 §4.4.1).
///
/// # Errors
/// `NoTarget`, `MessagesGone`, `OverQuota`; `Limit` if there is not enough memory; store errors.
pub async fn within_log(
    quota: UserQuota<'_>,
    source: &OpenedMailbox,
    targets: &UidSet,
    all_or_none: bool,
    to: &ResolvedMailbox,
    kind: Kind,
) -> Result<Option<Copied>, Refusal> {
    // The log entry has them; the response has them and their new UIDs.
    let memory = reserve(quota.user.accounts, &[targets; 6]).await?;
    let headroom = match kind {
        Kind::Copy => Some(quota.headroom_at(to).await?),
        Kind::Move => None,
    };
    let decide = |state: &AccountState| {
        let Ok(mailbox) = source.mailbox_in(state) else { return Ok((Vec::new(), Ok(()))) };
        Ok(match count(state, targets, mailbox, all_or_none, to, headroom.as_ref()) {
            Ok(0) => (Vec::new(), Ok(())),
            Ok(count) => {
                let rights = to.access.rights(state);
                (events(state, targets, mailbox, to.mailbox, rights, kind, count), Ok(()))
            }
            Err(refusal) => (Vec::new(), Err(refusal)),
        })
    };
    let committed = source.account.commit_many(targets.len(), decide).await?;
    let entry = entry_of(&committed);
    committed.value?;
    let placed = committed.applied.into_iter().find_map(|applied| match applied {
        Applied::Placed { uid_validity, from, uids, .. } => Some((uid_validity, from, uids)),
        _ => None,
    });
    let copied = |(uid_validity, from, uids)| Copied { uid_validity, from, uids, entry, _memory: memory };
    Ok(placed.map(copied))
}

/// Checks that the messages may be placed; returns how many there are.
fn count(
    state: &AccountState,
    targets: &UidSet,
    source: &Mailbox,
    all_or_none: bool,
    to: &ResolvedMailbox,
    headroom: Option<&QuotaHeadroom>,
) -> Result<u32, Refusal> {
    if state.mailbox(to.mailbox).is_none() || !to.access.rights(state).contains(Rights::INSERT) {
        return Err(Refusal::NoTarget);
    }
    let (count, bytes) = measure(state, source, targets);
    if all_or_none && count < targets.len() {
        return Err(Refusal::MessagesGone);
    }
    if let Some(headroom) = headroom {
        headroom.check(state, Usage::of_messages(count as u64, bytes))?;
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The events that place the messages in mailbox `to` of the same log, without the flags that the user may
/// not set there with these rights (RFC 4314 §4).
fn events(
    state: &AccountState,
    targets: &UidSet,
    source: &Mailbox,
    to: MailboxId,
    rights: Rights,
    kind: Kind,
    count: u32,
) -> Vec<Event> {
    let (from, uids) = (source.id(), targets.clone());
    let mut events = vec![match kind {
        Kind::Copy => Event::Copied { from, uids, to },
        Kind::Move => Event::Moved { from, uids, to },
    }];
    let Some(target) = state.mailbox(to) else { return events };
    let lost = flags::lost(state, source, rights);
    let last = target.uid_next().get().checked_add(count - 1).and_then(Uid::new);
    if let (true, Some(last)) = (lost != Flags::default(), last) {
        events.push(Event::FlagsStored {
            mailbox: to,
            uids: UidSet::range(target.uid_next(), last),
            action: FlagAction::Remove,
            flags: lost,
            unchanged_since: None,
        });
    }
    events
}

/// How many of the messages exist, and their total bytes.
fn measure(state: &AccountState, mailbox: &Mailbox, uids: &UidSet) -> (usize, u64) {
    let rows = uids.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
    rows.fold((0, 0), |(count, bytes), row| (count + 1, bytes + state.message_size(row.message)))
}
