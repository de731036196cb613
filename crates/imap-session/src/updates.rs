//! Untagged updates report changes of the selected mailbox at the end of commands and in IDLE: EXPUNGE or
//! VANISHED, EXISTS, RECENT, FLAGS, FETCH (RFC 3501 §7.2.6, §7.3, §7.4; RFC 7162 §3.2.10; RFC 9586 §3.6).

use sealpost_account::account::Committed;
use sealpost_account::event::Event;
use sealpost_account::{AccountState, Reservation};
use sealpost_base::{ModSeq, Uid, UidSet, limits};
use sealpost_imap::types::{Code, Response, Status};
use sealpost_mailbox::changes;
use sealpost_mailbox::memory::reserve;
use tokio::task::yield_now;

use super::connection::End;
use super::contexts;
use super::fetch;
use super::flags;
use super::metadata;
use super::notify::{self, SelectedEvents};
use super::own_entries::OwnEntries;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use super::selected::{AlreadySent, Changes, Selected};
use super::session::Session;
use super::urlauth;
use sealpost_session::Context;

/// Rows read while the account's state is borrowed.
const BATCH_ROWS: usize = 256;

/// Bytes of responses after which a batch ends.
const BATCH_BYTES: usize = limits::IMAP_OUTPUT_FREE_BYTES;

/// The most ranges in one VANISHED response, so that clients can take the line (RFC 7162 §4).
const VANISHED_RANGES: usize = 400;

/// The updates that the client may get at the end of a command.
#[derive(Default)]
pub(super) struct UntaggedUpdates {
    /// Report nothing: SELECT reports the mailbox as it was opened, and the next command later changes.
    pub(super) nothing: bool,
    /// Report expunges too (RFC 3501 §7.4.1).
    pub(super) expunges: bool,
    /// Include the UID in FETCH responses: required in those that a UID command causes (RFC 3501 §6.4.8).
    pub(super) uid: bool,
    /// Flags that the client already knows.
    pub(super) known: AlreadySent,
    /// Messages whose flags are sent whether or not they changed.
    pub(super) flags: UidSet,
    /// Messages whose mod-sequence is sent in any case.
    pub(super) modseqs: UidSet,
    /// Whether the command expunges messages, which is reported whatever else the client requested.
    pub(super) takes_out: bool,
    /// Whether the command changes something: a single new log entry is then the client's own change.
    pub(super) own: bool,
    /// The memory for the sets, if they are large.
    pub(super) room: Option<Reservation>,
}

/// The items to report of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    /// FLAGS, and MODSEQ if the client wants it.
    Flags,
    /// MODSEQ only.
    ModSeq,
}

impl UntaggedUpdates {
    /// All changes.
    pub(super) fn everything() -> Self {
        UntaggedUpdates { expunges: true, ..UntaggedUpdates::default() }
    }
}

impl Session {
    /// Updates the client and the view, as far as `updates` and NOTIFY allow.
    pub(super) async fn report_updates(&mut self, updates: &UntaggedUpdates) -> Result<(), End> {
        let Session { shared, user, selected, subscriptions, responses, own, .. } = self;
        let Some(user) = user else { return Ok(()) };
        if let Some(selected) = selected {
            urlauth::report_mechanisms(user, selected, responses);
            user.warn_of_quota(responses);
        }
        // With NOTIFY, its arguments decide whether metadata is reported (RFC 5465 §5.6).
        if subscriptions.notify.is_none() && subscriptions.metadata.is_some() {
            let reporting = metadata::report_metadata(user, selected.as_ref(), subscriptions, responses, own);
            Box::pin(reporting).await?;
        }
        let wanted = subscriptions.notify.as_ref().map(|watch| watch.selected());
        if let Some(selected) = selected {
            // Boxed: waiting sessions call this, and should not be as large as this future.
            Box::pin(report(&shared.ctx, selected, responses, own, updates, wanted)).await?;
        }
        if subscriptions.notify.is_none() {
            return Ok(());
        }
        Box::pin(notify::report_others(user, selected.as_ref(), subscriptions, responses, own)).await
    }
}

/// Updates the client and the view, as far as `updates` and NOTIFY allow. `wanted` are NOTIFY's events for
/// the selected mailbox, if the client used it.
async fn report(
    ctx: &Context,
    selected: &mut Selected,
    responses: &mut Responses,
    own: &OwnEntries,
    updates: &UntaggedUpdates,
    wanted: Option<&SelectedEvents>,
) -> Result<(), End> {
    if wanted.is_none_or(|wanted| wanted.messages) {
        report_changes(ctx, selected, responses, own, updates, wanted).await?;
    } else {
        // RFC 5465 §3.1: the client wants only its own changes of the selected mailbox reported.
        if updates.takes_out {
            report_own_expunges(selected, responses).await?;
        }
        report_rows(selected, responses, &updates.flags, Items::Flags, true).await?;
        if responses.dialect.modseq() {
            let modseqs = updates.modseqs.difference(&updates.flags);
            report_rows(selected, responses, &modseqs, Items::ModSeq, true).await?;
        }
    }
    weigh(ctx, selected)
}

/// Reserves the memory of the view, if it is large.
fn weigh(ctx: &Context, selected: &mut Selected) -> Result<(), End> {
    if selected.weigh(&ctx.accounts) { Ok(()) } else { Err(End::Crowded) }
}

/// Reports the expunges of EXPUNGE and MOVE (RFC 3501 §6.4.3, RFC 6851 §3.3) even if NOTIFY requested no
/// events.
async fn report_own_expunges(selected: &mut Selected, responses: &mut Responses) -> Result<(), End> {
    let account = selected.account().clone();
    let (gone, changes) = {
        let state = account.state();
        (selected.gone_from_contexts(&state), selected.expunges(&state).map_err(|_| End::MailboxGone)?)
    };
    contexts::report_gone(responses, gone).await?;
    report_expunges(selected, responses, &changes).await
}

async fn report_changes(
    ctx: &Context,
    selected: &mut Selected,
    responses: &mut Responses,
    own: &OwnEntries,
    updates: &UntaggedUpdates,
    wanted: Option<&SelectedEvents>,
) -> Result<(), End> {
    if updates.nothing {
        return Ok(());
    }
    let account = selected.account().clone();
    let (changes, own, gone, position) = {
        let state = account.state();
        let own = own.is_all_since(account.id(), selected.reported(), state.position());
        let flags = wanted.is_none_or(|wanted| wanted.flags);
        let gone = selected.gone_from_contexts(&state);
        let changes = selected.changes(&state, updates.expunges, flags, &updates.known);
        (changes, own, gone, state.position())
    };
    let changes = changes.map_err(|_| End::MailboxGone)?;
    // The numbers of expunged messages are a set too.
    weigh(ctx, selected)?;
    let sets = [&changes.expunged, &changes.expunged, &changes.arrived];
    let _room = reserve(&ctx.accounts, &sets).await.map_err(|_| End::Crowded)?;
    // RFC 5267 §4.3.4: before the expunges, while the numbers are still valid.
    contexts::report_gone(responses, gone).await?;
    if changes.is_empty() && updates.flags.is_empty() && updates.modseqs.is_empty() {
        // The client's own silent changes affect results too.
        return contexts::update(ctx, selected, responses, &changes.arrived, position).await;
    }
    report_expunges(selected, responses, &changes).await?;
    report_arrivals(selected, responses, &changes.arrived);
    if changes.keywords {
        report_keywords(selected, responses).await?;
    }
    // RFC 5465 §5.1: reports for NOTIFY include the UID.
    let with_uid = updates.uid || wanted.is_some();
    let flags = changes.flags.uids.union(&updates.flags);
    report_rows(selected, responses, &flags, Items::Flags, with_uid).await?;
    let mut next = changes.flags.next;
    while let Some(from) = next {
        let part = {
            let state = account.state();
            let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
            selected.flags_changed(mailbox, changes.since, from, changes.below, &updates.known)
        };
        next = part.next;
        let flags = part.uids.difference(&updates.flags);
        report_rows(selected, responses, &flags, Items::Flags, with_uid).await?;
        yield_now().await;
    }
    if responses.dialect.modseq() {
        let modseqs = updates.modseqs.difference(&flags);
        report_rows(selected, responses, &modseqs, Items::ModSeq, with_uid).await?;
    }
    // RFC 5465 §5.2: the client's own messages need not be reported.
    if let Some(wanted) = wanted.filter(|wanted| !own && !wanted.items.is_empty())
        && !changes.arrived.is_empty()
    {
        fetch::fetch_unasked(selected, responses, &changes.arrived, &wanted.items).await?;
    }
    // RFC 5267 §4.3.3: after EXISTS.
    contexts::update(ctx, selected, responses, &changes.arrived, position).await
}

/// Makes a change of the selected mailbox, decided on the state of its log by scanning about `rows` rows.
/// Reports progress to the client meanwhile.
pub(super) async fn change_selected<T>(
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    rows: usize,
    mut decide: impl FnMut(&Selected, &AccountState) -> sealpost_base::Result<(Vec<Event>, T)> + Send,
) -> Result<Committed<T>, Failure> {
    let log = selected.account();
    let committing = log.commit_many(rows, |state| decide(selected, state));
    let committed = responses.await_with_progress(committing).await??;
    own.note(log.id(), &committed);
    Ok(committed)
}

/// Sends the HIGHESTMODSEQ up to which everything was reported: in the completion if that has no code yet
/// (RFC 7162 §3.2.7, §3.2.9, §6).
pub(super) fn report_modseq(selected: &mut Selected, responses: &mut Responses, reply: &mut Reply) {
    if reply.status == Status::Ok && reply.code.is_none() {
        reply.code = due_modseq(selected, responses);
    } else {
        report_modseq_alone(selected, responses);
    }
}

/// The same without a completion, when no command is in progress (RFC 5465 §5).
pub(super) fn report_modseq_alone(selected: &mut Selected, responses: &mut Responses) {
    if let Some(code) = due_modseq(selected, responses) {
        responses.out().status(None, Status::Ok, Some(&code), "all changes up to here were reported");
    }
}

fn due_modseq(selected: &mut Selected, responses: &Responses) -> Option<Code> {
    let due = selected.due_modseq()?;
    responses.dialect.modseq().then_some(Code::HighestModSeq(due))
}

async fn report_expunges(
    selected: &mut Selected,
    responses: &mut Responses,
    changes: &Changes,
) -> Result<(), End> {
    if responses.dialect.vanished() {
        if responses.dialect.qresync() && !changes.expunged.is_empty() {
            selected.owe_modseq();
        }
        return report_vanished(responses, &changes.expunged, false).await;
    }
    for range in &changes.numbers {
        for sequence in range.clone().rev() {
            responses.out().response(&Response::Expunge(sequence));
            responses.relieve().await?;
        }
    }
    Ok(())
}

/// Writes VANISHED responses, as many as needed; none for no messages.
pub(super) async fn report_vanished(
    responses: &mut Responses,
    uids: &UidSet,
    earlier: bool,
) -> Result<(), End> {
    let mut ranges = uids.ranges().peekable();
    while ranges.peek().is_some() {
        let out = responses.out().vanished(earlier);
        for (i, (first, last)) in ranges.by_ref().take(VANISHED_RANGES).enumerate() {
            if i > 0 {
                out.raw(b",");
            }
            out.number(u64::from(first.get()));
            if last > first {
                out.raw(b":").number(u64::from(last.get()));
            }
        }
        out.crlf();
        responses.relieve().await?;
    }
    Ok(())
}

fn report_arrivals(selected: &mut Selected, responses: &mut Responses, arrived: &UidSet) {
    if arrived.is_empty() {
        return;
    }
    let rev2 = responses.dialect.rev2();
    let out = responses.out();
    out.response(&Response::Exists(selected.len()));
    // RFC 9051 has no \Recent: leave it to sessions that have it.
    if !rev2 {
        let first = first_recent(selected);
        selected.mark_recent(arrived, first);
        let recent = u32::try_from(selected.recent().len()).unwrap_or(u32::MAX);
        out.response(&Response::Recent(recent));
    }
}

/// Writes FLAGS and PERMANENTFLAGS again.
async fn report_keywords(selected: &mut Selected, responses: &mut Responses) -> Result<(), End> {
    let listed = {
        let account = selected.account().clone();
        let state = account.state();
        let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        selected.listed(&state, mailbox)
    };
    listed.write(&mut responses.connection).await?;
    listed.write_permanent(&mut responses.connection, "new keywords").await
}

/// Announces new keywords before a message is shown with them (RFC 3501 §7.2.6).
pub(super) async fn report_new_keywords(
    selected: &mut Selected,
    responses: &mut Responses,
) -> Result<(), End> {
    let misses = {
        let state = selected.account().state();
        selected.misses_keywords(selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?)
    };
    // Boxed, so that waiting sessions are not as large as this future.
    if misses { Box::pin(report_keywords(selected, responses)).await } else { Ok(()) }
}

/// Writes `* n FETCH (FLAGS (…))` for each of these messages that changed after `since`, in the client's
/// dialect.
pub(super) async fn report_changed_since(
    selected: &mut Selected,
    responses: &mut Responses,
    since: ModSeq,
    among: &UidSet,
) -> Result<(), End> {
    let mut next = among.first();
    while let Some(from) = next {
        let part = {
            let state = selected.account().state();
            let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
            changes::updated(mailbox, since, from, None, |row| among.contains(row.uid))
        };
        next = part.next;
        report_rows(selected, responses, &part.uids, Items::Flags, true).await?;
        yield_now().await;
    }
    Ok(())
}

async fn report_rows(
    selected: &mut Selected,
    responses: &mut Responses,
    uids: &UidSet,
    items: Items,
    with_uid: bool,
) -> Result<(), End> {
    // RFC 7162 §3.2.4, RFC 9051 §7.5.2: unsolicited responses include the UID.
    let with_uid = with_uid || responses.dialect.modseq() || responses.dialect.rev2();
    let mut next = uids.first();
    while let Some(from) = next {
        selected.account().wait_for_bulk_update().await;
        if items == Items::Flags {
            report_new_keywords(selected, responses).await?;
        }
        next = report_batch(selected, responses, uids, from, items, with_uid);
        responses.relieve().await?;
    }
    Ok(())
}

/// Writes a batch; returns where the next one begins. That is the same place if keywords must be announced
/// first.
fn report_batch(
    selected: &mut Selected,
    responses: &mut Responses,
    uids: &UidSet,
    from: Uid,
    items: Items,
    with_uid: bool,
) -> Option<Uid> {
    let dialect = responses.dialect;
    let account = selected.account().clone();
    let state = account.state();
    let mailbox = selected.mailbox_in(&state).ok()?;
    let out = responses.out();
    if items == Items::Flags && selected.misses_keywords(mailbox) {
        return Some(from);
    }
    let begun = out.len();
    let (mut reported, mut highest, mut next) = (0, ModSeq::ZERO, None);
    'ranges: for (first, last) in uids.ranges_from(from) {
        for row in mailbox.rows(first.max(from)..=last) {
            // A row may have hundreds of long keywords: pending output is bounded in bytes too.
            if reported == BATCH_ROWS || out.len() - begun > BATCH_BYTES {
                next = Some(row.uid);
                break 'ranges;
            }
            reported += 1;
            let Some(sequence) = selected.sequence(row.uid) else { continue };
            // RFC 9586 §3.3: the UID comes first.
            if dialect.uid_only() {
                out.uid_fetch_begin(row.uid.get());
            } else {
                out.fetch_begin(sequence);
                if with_uid {
                    out.raw(b"UID ").number(u64::from(row.uid.get())).space();
                }
            }
            if items == Items::Flags {
                flags::write(out, &state, row.flags, selected.recent().contains(row.uid));
            }
            if dialect.modseq() {
                if items == Items::Flags {
                    out.space();
                }
                out.raw(b"MODSEQ (").number(row.modseq.0).close();
                highest = highest.max(row.modseq);
            }
            out.fetch_end();
        }
    }
    selected.wrote_modseq(highest);
    next
}

/// The first UID that is recent in a session with that view; a read-only session claims none (RFC 3501
/// §2.3.2, §6.3.2). Messages that the view does not have yet are left to the session that reports them first.
pub(super) fn first_recent(view: &Selected) -> Uid {
    let account = view.account();
    if !view.read_only() {
        return account.claim_recent(view.mailbox(), view.uid_next());
    }
    match account.state().mailbox(view.mailbox()) {
        Some(mailbox) => account.recent_from(mailbox),
        None => view.uid_next(),
    }
}
