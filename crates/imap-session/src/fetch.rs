//! FETCH (RFC 3501 §6.4.5, §7.4.2).
//!
//! FETCH copies rows in batches, other tasks read derived data and messages ahead, and bytes stream from the
//! store to the client in chunks. So a FETCH of a whole mailbox holds little more memory than a FETCH of one
//! message. Structures and sizes were computed when the message arrived: FETCH reads only the bytes that the
//! client requests.
//!
//! One log entry sets `\Seen` for all messages before the first response, so that responses have the new
//! flags. FETCH reports a damaged message by UID and returns the others.

mod binary;
mod char8;
mod derived;
mod items;
mod messages;
mod pipeline;
mod ranges;
mod response;
mod rows;
pub(super) mod section;
mod structure;
mod trouble;

use std::sync::Arc;

use futures::FutureExt;
use sealpost_base::{ModSeq, Uid, UidSet};
use sealpost_imap::types::{FetchItem, FetchModifier, PartialRange, SequenceSet};
use sealpost_mailbox::changes::Part;
use sealpost_mailbox::memory::reserve;
use sealpost_session::Context;
use tokio::task::yield_now;

use super::connection::End;
use super::qresync;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::targets::{self, Cursor};
use super::updates;
use super::updates::UntaggedUpdates;
use derived::Derived;
pub(super) use items::BodySection;
use items::Plan;
use messages::Messages;
pub(super) use ranges::{Opened, Reads};
use response::write_columns;
use rows::{FetchRow, changed_among, changed_from, gone_of, mark_seen, shows_flags, snapshot};
use trouble::Trouble;

/// Rows copied from the state at once: about as many bytes as a connection may hold without a reservation.
const BATCH_ROWS: usize = 64;
/// Of these, messages that may still be read when FETCH copies the next rows, so that reading never
/// waits for the end of a batch.
const AHEAD_ROWS: usize = 16;
/// The same where messages are read from a local store: several groups at a time.
const LOCAL_BATCH_ROWS: usize = 96;
const LOCAL_AHEAD_ROWS: usize = 64;

/// The arguments of a FETCH.
pub(super) struct Asked {
    pub(super) uid: bool,
    pub(super) set: SequenceSet,
    pub(super) items: Vec<FetchItem>,
    pub(super) modifiers: Vec<FetchModifier>,
}

/// FETCH.
pub(super) async fn fetch(
    ctx: &Context,
    selected: &mut Selected,
    responses: &mut Responses,
    Asked { uid, set, items, modifiers }: Asked,
    updates: &mut UntaggedUpdates,
) -> Outcome {
    let (set, modifiers) = (&set, &modifiers[..]);
    let (since, vanished) = qresync::fetch_since(responses, uid, modifiers)?;
    let mut targets = targets::resolve(selected, set, uid)?;
    // RFC 9394 §3.4: before CHANGEDSINCE.
    if let Some(range) = partial(uid, modifiers)? {
        targets = targets.slice(range.of(targets.len()));
    }
    let mut trouble = Trouble::default();
    let plan = Arc::new(Plan::new(items, uid, since.is_some(), responses.dialect));
    let marks = plan.sets_seen() && !selected.read_only();
    // RFC 7162 §3.1.4.1: the changed messages, in batches unless one log entry sets `\Seen` of all.
    let mut changed_since = since;
    if let Some(since) = since {
        if vanished {
            report_earlier(selected, responses, since, set).await?;
        }
        trouble.gone = gone_of(selected, &targets)?;
        if marks {
            targets = changed_among(ctx, selected, since, &targets).await?;
            changed_since = None;
        }
    }
    if marks {
        // A second set for the marked messages, whose flags are reported until the command ends.
        updates.room = reserve(&ctx.accounts, &[&targets, &targets]).await?;
        updates.known = mark_seen(selected, &targets).await?;
    } else {
        updates.room = reserve(&ctx.accounts, &[&targets]).await?;
    }
    let mut messages = Messages::new(selected, &plan);
    let mut part = match changed_since {
        Some(since) => changed_from(selected, since, Uid::MIN, &targets)?,
        None => Part { uids: std::mem::take(&mut targets), next: None },
    };
    let goal = targets.len().max(part.uids.len());
    loop {
        let mut done = part.uids.first().map_or(0, |first| targets.count_below(first));
        let mut cursor = Cursor::new(part.uids);
        while let Some(uids) =
            cursor.next_batch(messages.rows.batch - messages.len().min(messages.rows.ahead))
        {
            selected.account().wait_for_bulk_update().await;
            responses.progress.reach(done, goal);
            done += uids.len();
            let mut left = &uids[..];
            while !left.is_empty() {
                if shows_flags(&plan, &updates.known.uids) {
                    updates::report_new_keywords(selected, responses).await?;
                }
                let (rows, next) = snapshot(selected, responses, left, &plan, &updates.known.uids)?;
                trouble.gone += left.len() - next.len() - rows.len();
                left = next;
                fetch_rows(selected, responses, rows, &plan, &mut messages, &mut trouble).await?;
            }
        }
        messages.write(selected, responses, &plan, 0, &mut trouble).await?;
        let (Some(since), Some(next)) = (changed_since, part.next) else { break };
        yield_now().await;
        part = changed_from(selected, since, next, &targets)?;
    }
    Ok(trouble.reply(uid))
}

/// FETCH responses that NOTIFY requested (RFC 5465 §5.2): no message becomes `\Seen`.
pub(super) async fn fetch_unasked(
    selected: &mut Selected,
    responses: &mut Responses,
    uids: &UidSet,
    items: &[FetchItem],
) -> Result<(), End> {
    let plan = Arc::new(Plan::new(items.to_vec(), false, false, responses.dialect));
    let mut trouble = Trouble::default();
    let mut cursor = Cursor::new(uids.clone());
    while let Some(uids) = cursor.next_batch(BATCH_ROWS) {
        match fetch_batch(selected, responses, &uids, &plan, &mut trouble).await {
            Err(Failure::End(end)) => return Err(end),
            // Unreadable messages were reported.
            Ok(()) | Err(Failure::Reply(_)) => {}
        }
    }
    Ok(())
}

async fn fetch_batch(
    selected: &mut Selected,
    responses: &mut Responses,
    mut uids: &[Uid],
    plan: &Arc<Plan>,
    trouble: &mut Trouble,
) -> Result<(), Failure> {
    let mut messages = Messages::new(selected, plan);
    while !uids.is_empty() {
        if plan.wants_flags() {
            updates::report_new_keywords(selected, responses).await?;
        }
        let (rows, next) = snapshot(selected, responses, uids, plan, &UidSet::new())?;
        uids = next;
        fetch_rows(selected, responses, rows, plan, &mut messages, trouble).await?;
    }
    messages.write(selected, responses, plan, 0, trouble).await
}

/// VANISHED (EARLIER) for the messages of the set expunged after `since` (RFC 7162 §3.2.6).
async fn report_earlier(
    selected: &Selected,
    responses: &mut Responses,
    since: ModSeq,
    set: &SequenceSet,
) -> Result<(), Failure> {
    let vanished = {
        let state = selected.account().state();
        let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        qresync::vanished(selected, mailbox, since, set)
    };
    Ok(updates::report_vanished(responses, &vanished, true).await?)
}

async fn fetch_rows(
    selected: &Selected,
    responses: &mut Responses,
    rows: Vec<FetchRow>,
    plan: &Arc<Plan>,
    messages: &mut Messages,
    trouble: &mut Trouble,
) -> Result<(), Failure> {
    if !plan.reads_anything() {
        for row in &rows {
            write_columns(responses, row, plan);
            responses.relieve().await?;
        }
        return Ok(());
    }
    if !plan.is_derived() {
        messages.push(plan, rows).await;
        return messages.write(selected, responses, plan, messages.rows.ahead, trouble).await;
    }
    let sources = messages.sources.clone();
    sources.expect(plan, &rows).await;
    let (mut left, mut derived) = (Vec::new(), Derived::default());
    for row in rows {
        let found = match sources.is_ready(plan, &row) {
            // Polled here, it takes no room in the future of the command.
            true => sources.read(plan, &row, &mut derived).now_or_never().unwrap_or_default(),
            false => responses.await_with_progress(sources.read(plan, &row, &mut derived)).await?,
        };
        let Some(readable) = found.then(|| derived.readable(plan)).flatten() else {
            left.push(row);
            continue;
        };
        // Responses keep the order of the messages.
        if !left.is_empty() {
            messages.push(plan, std::mem::take(&mut left)).await;
            messages.write(selected, responses, plan, 0, trouble).await?;
        }
        if responses.connection.is_stopping() {
            return Err(End::Shutdown.into());
        }
        derived::write(responses, &row, plan, readable).await?;
        responses.relieve().await?;
    }
    if left.is_empty() {
        return Ok(());
    }
    messages.push(plan, left).await;
    messages.write(selected, responses, plan, 0, trouble).await
}

/// The window of messages that PARTIAL requests (RFC 9394 §3.3).
fn partial(uid: bool, modifiers: &[FetchModifier]) -> Result<Option<PartialRange>, Reply> {
    let found = modifiers.iter().find_map(|modifier| match modifier {
        FetchModifier::Partial(range) => Some(*range),
        _ => None,
    });
    if found.is_some() && !uid { Err(Reply::bad("PARTIAL needs UID FETCH")) } else { Ok(found) }
}
