//! The messages of a FETCH: the changed ones, and copies of their rows, taken from the account's state.

use sealpost_account::MessageNumber;
use sealpost_account::event::{Event, FlagAction, Flags, Message, SystemFlags};
use sealpost_account::rights::Rights;
use sealpost_base::{Error, ModSeq, Timestamp, Uid, UidSet};
use sealpost_imap::write::Writer;
use sealpost_mailbox::changes::{self, Part};
use sealpost_mailbox::flags::changing;
use sealpost_session::Context;

use super::items::{FetchField, Plan};
use crate::connection::End;
use crate::flags;
use crate::reply::{Failure, Reply};
use crate::responses::Responses;
use crate::selected::{AlreadySent, Selected};

/// Bytes of flags in one snapshot; further rows wait for the next one. A single row may have tens of
/// kilobytes of keywords, and a snapshot has at least one row.
pub(super) const BATCH_FLAG_BYTES: usize = 4 * 1024;

/// The row of a message when its batch was copied.
#[derive(Clone)]
pub(super) struct FetchRow {
    pub(super) uid: Uid,
    pub(super) sequence: u32,
    pub(super) modseq: ModSeq,
    pub(super) saved: Timestamp,
    /// `\Seen` was set because of this command.
    pub(super) seen: bool,
    /// `FLAGS (…)`, if the response has flags.
    pub(super) flags: Option<Vec<u8>>,
    pub(super) number: MessageNumber,
    pub(super) message: Message,
}

/// Rows of the messages that still exist, and the messages left for the next snapshot because flags are long.
/// All messages are left if the client must learn of keywords first.
pub(super) fn snapshot<'a>(
    selected: &mut Selected,
    responses: &Responses,
    uids: &'a [Uid],
    plan: &Plan,
    seen: &UidSet,
) -> Result<(Vec<FetchRow>, &'a [Uid]), Failure> {
    let modseqs = responses.dialect.modseq();
    let account = selected.account().clone();
    let state = account.state();
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    if shows_flags(plan, seen) && selected.misses_keywords(mailbox) {
        return Ok((Vec::new(), uids));
    }
    let mut highest = ModSeq::ZERO;
    let mut writer = Writer::new();
    let mut rows = Vec::with_capacity(uids.len());
    let (mut left, mut flag_bytes) = (uids, 0);
    while let Some((uid, others)) = left.split_first().filter(|_| flag_bytes <= BATCH_FLAG_BYTES) {
        left = others;
        let (Some(row), Some(sequence)) = (mailbox.row(*uid), selected.sequence(*uid)) else { continue };
        let Some(message) = state.message(row.message) else { continue };
        // RFC 3501 §6.4.5: when \Seen was set, the flags are part of the response.
        let seen = seen.contains(*uid);
        let flags = (plan.wants_flags() || seen).then(|| {
            flags::write(&mut writer, &state, row.flags, selected.recent().contains(*uid));
            writer.take().to_vec()
        });
        flag_bytes += flags.as_ref().map_or(0, Vec::len);
        if plan.wants(&FetchField::ModSeq) || (seen && modseqs) {
            highest = highest.max(row.modseq);
        }
        rows.push(FetchRow {
            uid: *uid,
            sequence,
            modseq: row.modseq,
            saved: row.saved,
            seen,
            flags,
            number: row.message,
            message,
        });
    }
    selected.wrote_modseq(highest);
    Ok((rows, left))
}

/// Whether responses have flags; `seen` are the messages that became `\Seen` by the command.
pub(super) fn shows_flags(plan: &Plan, seen: &UidSet) -> bool {
    plan.wants_flags() || !seen.is_empty()
}

/// The messages that changed after `since`.
pub(super) async fn changed_among(
    ctx: &Context,
    selected: &Selected,
    since: ModSeq,
    targets: &UidSet,
) -> Result<UidSet, Failure> {
    let changed = || {
        let state = selected.account().state();
        let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        let changed: UidSet = mailbox.changed_since(since).map(|row| row.uid).collect();
        Ok(changed.intersection(targets))
    };
    ctx.accounts.cpu_gate().run(selected.uids().len(), changed).await
}

/// The first of the messages from a UID on that changed after `since`.
pub(super) fn changed_from(
    selected: &Selected,
    since: ModSeq,
    from: Uid,
    targets: &UidSet,
) -> Result<Part, Failure> {
    let state = selected.account().state();
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    Ok(changes::updated(mailbox, since, from, None, |row| targets.contains(row.uid)))
}

/// The number of messages that no longer exist.
pub(super) fn gone_of(selected: &Selected, targets: &UidSet) -> Result<usize, Failure> {
    let state = selected.account().state();
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    Ok(targets.difference(&mailbox.uids()).len())
}

/// Sets `\Seen` where it is not set, and returns those messages. A store that refuses writes must not
/// prevent reading, so a failure is only logged.
pub(super) async fn mark_seen(selected: &Selected, targets: &UidSet) -> Result<AlreadySent, Reply> {
    let mailbox = selected.mailbox();
    let seen = Flags::system(SystemFlags::SEEN);
    let committed = selected.account().commit_many(targets.len(), |state| {
        // RFC 4314 §4: MUST NOT be set without the right.
        if !selected.rights(state).contains(Rights::SEEN) {
            return Ok((Vec::new(), UidSet::new()));
        }
        let m = state.mailbox(mailbox).ok_or_else(|| Error::not_found("the mailbox is gone"))?;
        let (uids, _) = changing(state, m, targets, FlagAction::Add, &seen);
        let (action, flags) = (FlagAction::Add, seen.clone());
        let event = Event::FlagsStored { mailbox, uids: uids.clone(), action, flags, unchanged_since: None };
        Ok((if uids.is_empty() { Vec::new() } else { vec![event] }, uids))
    });
    Ok(match committed.await {
        Ok(committed) => AlreadySent { uids: committed.value, position: committed.position },
        Err(error) => {
            tracing::warn!(%error, "messages could not be marked as seen");
            AlreadySent::default()
        }
    })
}
