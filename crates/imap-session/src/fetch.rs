//! FETCH (RFC 3501 §6.4.5, §7.4.2).
//!
//! Rows are snapshotted in batches, what is stored with the messages is read ahead by other tasks,
//! and bytes go from the store to the client in chunks, so that a FETCH of a whole mailbox holds no
//! more than a FETCH of one message and a little. Structures and sizes were computed when the
//! message arrived: only bytes that are asked for are read.
//!
//! `\Seen` is set for all messages by one log entry before the first response, so that the flags in
//! the responses are right. A message whose object is damaged is reported by UID, and the others
//! are served.

mod binary;
mod char8;
mod derived;
mod items;
mod messages;
mod pipeline;
mod ranges;
pub(super) mod section;
mod structure;

use std::sync::Arc;

use sealpost_account::MessageNumber;
use sealpost_account::event::{Event, FlagAction, Flags, Message, SystemFlags};
use sealpost_account::object_id::email_id;
use sealpost_account::rights::Rights;
use sealpost_base::{Error, Kind, ModSeq, Timestamp, Uid, UidSet};
use sealpost_imap::types::{Code, DateTime, FetchItem, FetchModifier, PartialRange, SequenceSet, Status};
use sealpost_imap::write::Writer;
use sealpost_mailbox::changes::{self, Part};
use sealpost_mailbox::flags::changing;
use sealpost_mailbox::memory::reserve;
use sealpost_mime::structure::StoredStructure;
use tokio::task::yield_now;

use super::connection::End;
use super::flags;
use super::qresync;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::AlreadySent;
use super::selected::Selected;
use super::targets::{self, Cursor};
use super::updates;
use super::updates::UntaggedUpdates;
use derived::Derived;
pub(super) use items::BodySection;
use items::{FetchField, Plan};
use messages::Messages;
use pipeline::Prepared;
pub(super) use ranges::{Opened, Reads};
use sealpost_session::Context;
use structure::Form;

/// Rows taken from the state at once, and the bytes of their flags: about what a connection may
/// hold without asking. A row may have tens of kilobytes of keywords; one of those is taken at
/// least.
const BATCH_ROWS: usize = 64;
/// Of these, messages that are still being read when the next ones are taken: so reading never
/// waits for a batch to end.
const AHEAD_ROWS: usize = 16;
const BATCH_FLAG_BYTES: usize = 4 * 1024;

/// A message as it was when its batch was taken.
#[derive(Clone)]
pub(super) struct FetchRow {
    uid: Uid,
    sequence: u32,
    modseq: ModSeq,
    saved: Timestamp,
    /// `\Seen` was set because of this command.
    seen: bool,
    /// `FLAGS (…)`, if it will be told.
    flags: Option<Vec<u8>>,
    number: MessageNumber,
    message: Message,
}

/// What went wrong with some of the messages.
#[derive(Default)]
struct Trouble {
    /// Expunged by another session, and this client does not know yet.
    gone: usize,
    /// What other nodes did was read, after something was not there.
    caught_up: bool,
    /// Damaged.
    damaged: UidSet,
    /// Not readable now.
    unavailable: bool,
    /// Encoded in a way that is not known.
    unknown_encoding: bool,
}

/// What a FETCH asks for.
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
    // RFC 7162 §3.1.4.1: those that changed, some at a time unless one log entry is about all of them.
    let mut changed_since = since;
    if let Some(since) = since {
        if vanished {
            tell_earlier(selected, responses, since, set).await?;
        }
        trouble.gone = gone_of(selected, &targets)?;
        if marks {
            targets = changed_among(ctx, selected, since, &targets).await?;
            changed_since = None;
        }
    }
    if marks {
        // Those that are marked are some of them, and told of as long as the command takes.
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
        while let Some(uids) = cursor.next_batch(BATCH_ROWS - messages.len().min(AHEAD_ROWS)) {
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

/// FETCH responses that nobody asked for at this moment (RFC 5465 §5.2): nothing becomes `\Seen`.
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
            // What cannot be read was reported.
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

/// VANISHED (EARLIER) for what of that set went after `since` (RFC 7162 §3.2.6).
async fn tell_earlier(
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

/// Those of the messages that changed after `since`.
async fn changed_among(
    ctx: &Context,
    selected: &Selected,
    since: ModSeq,
    targets: &UidSet,
) -> Result<UidSet, Failure> {
    let look = || {
        let state = selected.account().state();
        let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        let changed: UidSet = mailbox.changed_since(since).map(|row| row.uid).collect();
        Ok(changed.intersection(targets))
    };
    ctx.accounts.cpu_gate().run(selected.uids().len(), look).await
}

/// The first of them from a UID on.
fn changed_from(selected: &Selected, since: ModSeq, from: Uid, targets: &UidSet) -> Result<Part, Failure> {
    let state = selected.account().state();
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    Ok(changes::updated(mailbox, since, from, None, |row| targets.contains(row.uid)))
}

/// How many of the messages are gone.
fn gone_of(selected: &Selected, targets: &UidSet) -> Result<usize, Failure> {
    let state = selected.account().state();
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    Ok(targets.difference(&mailbox.uids()).len())
}

/// Sets `\Seen` where it is not set; those messages. A store that takes no writes must not keep anybody from
/// reading, so that failure is only logged.
async fn mark_seen(selected: &Selected, targets: &UidSet) -> Result<AlreadySent, Reply> {
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

/// Those of the messages that still exist, and the messages that are left for the next time because
/// their flags are long; all of them, if there are keywords to be told first.
fn snapshot<'a>(
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
        return messages.write(selected, responses, plan, AHEAD_ROWS, trouble).await;
    }
    let sources = messages.sources.clone();
    sources.expect(plan, &rows).await;
    let mut left = Vec::new();
    for row in rows {
        let derived = sources.derived(plan, &row);
        let derived = match sources.is_ready(plan, &row) {
            true => derived.await,
            false => responses.await_with_progress(derived).await?,
        };
        let Some(readable) = derived.as_ref().and_then(Derived::readable) else {
            left.push(row);
            continue;
        };
        // In their order.
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

/// The response for a message of which nothing has to be read.
fn write_columns(responses: &mut Responses, row: &FetchRow, plan: &Plan) {
    let mut response = Response { out: responses.out(), row, plan, begun: false };
    response.implicit_flags();
    for item in plan.items() {
        response.column(item);
    }
    response.end();
}

/// The response for a message, as far as it can be read.
async fn write_message(
    selected: &Selected,
    responses: &mut Responses,
    prepared: &mut Prepared,
    plan: &Plan,
    trouble: &mut Trouble,
) -> Result<(), End> {
    let Prepared { row, structure, opened, .. } = prepared;
    let row = &*row;
    let mut response = Response { out: responses.out(), row, plan, begun: false };
    response.implicit_flags();
    let mut begun = response.begun;
    let mut failed: Option<Error> = None;
    let stored = match structure {
        Some(Ok(found)) => found.read().map_err(|error| failed = Some(error)).ok(),
        _ => None,
    };
    for item in plan.items() {
        let mut response = Response { out: responses.out(), row, plan, begun };
        match item {
            FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview => match &stored {
                Some(found) => response.structure(item, found),
                None => continue,
            },
            FetchField::Body(wanted) => {
                let bytes = match opened.first.take() {
                    Some(first) => first,
                    None => opened.reads.open(wanted).await,
                };
                match bytes {
                    Ok(Opened::UnknownEncoding) => trouble.unknown_encoding = true,
                    Ok(bytes) => {
                        response.begin();
                        wanted.write_name(response.out);
                        begun = true;
                        if let Some(error) = send(responses, bytes).await? {
                            failed.get_or_insert(error);
                        }
                    }
                    Err(error) => {
                        failed.get_or_insert(error);
                    }
                }
                continue;
            }
            FetchField::BinarySize(section) => match opened.reads.binary_size(section).await {
                Ok(binary::Size::Bytes(size)) => {
                    response.begin();
                    response.out.raw(b"BINARY.SIZE").section(section).space().number(size);
                }
                Ok(binary::Size::UnknownEncoding) => trouble.unknown_encoding = true,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            },
            _ => response.column(item),
        }
        begun = response.begun;
        // One item may be much.
        responses.relieve().await?;
    }
    if begun {
        responses.out().fetch_end();
    }
    drop(stored);
    if let Some(Err(error)) = opened.reads.outline.take() {
        failed.get_or_insert(error);
    }
    if let Some(Err(error)) = structure.take() {
        failed.get_or_insert(error);
    }
    if let Some(error) = failed {
        report(selected, responses, row.uid, error, trouble).await;
    }
    Ok(())
}

/// The value of a body item. What it says is damage in the middle of a message that was announced
/// already: those bytes are question marks, and the rest is what it was.
async fn send(responses: &mut Responses, opened: Opened) -> Result<Option<Error>, End> {
    match opened {
        Opened::Nil | Opened::UnknownEncoding => {
            responses.out().nil();
            Ok(None)
        }
        Opened::Bytes(bytes) => bytes.send(&mut responses.connection, responses.dialect.takes_nul).await,
    }
}

/// Whether a message that was not found was expunged: a node that stood still for long knows
/// nothing yet of what the others expunged and collected meanwhile.
async fn is_gone(selected: &Selected, uid: Uid, trouble: &mut Trouble) -> Result<bool, Error> {
    if !trouble.caught_up {
        selected.account().refresh().await?;
        trouble.caught_up = true;
    }
    let state = selected.account().state();
    Ok(selected.mailbox_in(&state).map_or(true, |mailbox| mailbox.row(uid).is_none()))
}

/// Says which message cannot be read, as untagged data, and remembers it for the completion.
async fn report(
    selected: &Selected,
    responses: &mut Responses,
    uid: Uid,
    mut error: Error,
    trouble: &mut Trouble,
) {
    if error.kind() == Kind::NotFound {
        match is_gone(selected, uid, trouble).await {
            Ok(true) => {
                trouble.gone += 1;
                return;
            }
            Ok(false) => {}
            Err(unknown) => error = unknown,
        }
    }
    let damaged = matches!(error.kind(), Kind::Corrupt | Kind::NotFound);
    if error.kind() == Kind::Offloaded {
        // It is no secret of the store's: what the owner can do about it.
        tracing::warn!(%uid, %error, "a body is not kept here");
        trouble.unavailable = true;
        let text = format!("message UID {uid}: {error}");
        responses.out().status(None, Status::No, Some(&Code::Unavailable), &text);
        return;
    }
    tracing::error!(%uid, %error, "a message could not be read");
    let (code, text) = if damaged {
        trouble.damaged.insert(uid);
        (Code::Corruption, format!("message UID {uid} is damaged"))
    } else {
        trouble.unavailable = true;
        (Code::Unavailable, format!("message UID {uid} cannot be read now"))
    };
    responses.out().status(None, Status::No, Some(&code), &text);
}

/// The window onto the messages that PARTIAL asks for (RFC 9394 §3.3).
fn partial(uid: bool, modifiers: &[FetchModifier]) -> Result<Option<PartialRange>, Reply> {
    let found = modifiers.iter().find_map(|modifier| match modifier {
        FetchModifier::Partial(range) => Some(*range),
        _ => None,
    });
    if found.is_some() && !uid { Err(Reply::bad("PARTIAL needs UID FETCH")) } else { Ok(found) }
}

/// Whether flags are told of messages; `seen` are those that became `\Seen` by the command.
fn shows_flags(plan: &Plan, seen: &UidSet) -> bool {
    plan.wants_flags() || !seen.is_empty()
}

impl Trouble {
    fn reply(&self, uid: bool) -> Reply {
        if !self.damaged.is_empty() {
            return Reply::no(Code::Corruption, format!("damaged messages, by UID: {}", self.damaged));
        }
        if self.unavailable {
            return Reply::no(Code::Unavailable, "some messages cannot be read now");
        }
        if self.unknown_encoding {
            return Reply::no(Code::UnknownCte, "a part is encoded in a way that is not known here");
        }
        // RFC 2180 §4.1.2; a UID that no longer exists is passed over (RFC 3501 §6.4.8).
        if self.gone > 0 && !uid {
            return Reply::no(Code::ExpungeIssued, "some of the messages no longer exist");
        }
        Reply::ok("FETCH completed")
    }
}

/// One FETCH response: begun with its first item, so that one without any is not sent.
struct Response<'a> {
    out: &'a mut Writer,
    row: &'a FetchRow,
    plan: &'a Plan,
    begun: bool,
}

impl Response<'_> {
    fn begin(&mut self) {
        if self.begun {
            self.out.space();
        } else {
            // RFC 9586 §3.3
            if self.plan.uid_only() {
                self.out.uid_fetch_begin(self.row.uid.get());
            } else {
                self.out.fetch_begin(self.row.sequence);
            }
            self.begun = true;
        }
    }

    fn end(&mut self) {
        if self.begun {
            self.out.fetch_end();
        }
    }

    /// Flags that were not asked for and changed because the message is read. A client that knows
    /// mod-sequences is told whose flags they are, and since when (RFC 7162 §3.2.4).
    fn implicit_flags(&mut self) {
        let (plan, row) = (self.plan, self.row);
        if !row.seen {
            return;
        }
        for item in plan.implied() {
            if !plan.wants(item) {
                self.column(item);
            }
        }
    }

    /// An item that the row itself answers.
    fn column(&mut self, item: &FetchField) {
        let row = self.row;
        match item {
            FetchField::Uid => {
                self.begin();
                self.out.raw(b"UID ").number(u64::from(row.uid.get()));
            }
            FetchField::Flags => {
                self.begin();
                self.out.raw(row.flags.as_deref().unwrap_or(b"FLAGS ()"));
            }
            FetchField::InternalDate => {
                self.begin();
                self.out.raw(b"INTERNALDATE ").date_time(DateTime::utc(row.message.received));
            }
            FetchField::Size => {
                self.begin();
                self.out.raw(b"RFC822.SIZE ").number(row.message.size());
            }
            FetchField::ModSeq => {
                self.begin();
                self.out.raw(b"MODSEQ (").number(row.modseq.0).close();
            }
            FetchField::EmailId => {
                self.begin();
                self.out.raw(b"EMAILID (").raw(email_id(&row.message)).close();
            }
            FetchField::SaveDate => {
                self.begin();
                self.out.raw(b"SAVEDATE ").date_time(DateTime::utc(row.saved));
            }
            FetchField::ThreadId => {
                self.begin();
                self.out.raw(b"THREADID (").raw(row.message.thread.to_string()).close();
            }
            FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview => {}
            FetchField::Body(_) | FetchField::BinarySize(_) => {}
        }
    }

    fn structure(&mut self, item: &FetchField, found: &StoredStructure<'_>) {
        self.begin();
        match item {
            FetchField::Envelope => {
                self.out.raw(b"ENVELOPE ");
                structure::envelope(self.out, &found.envelope);
            }
            FetchField::Structure { extended } => {
                self.out.raw(if *extended { &b"BODYSTRUCTURE "[..] } else { b"BODY " });
                let form = Form { extended: *extended, parameters: self.plan.parameter_form() };
                structure::body(self.out, &mut found.parts.iter(), form);
            }
            // RFC 8970 §3.2: NIL would mean that it comes later, and there is nothing to wait for.
            FetchField::Preview => {
                self.out.raw(b"PREVIEW ").string(found.preview.unwrap_or_default());
            }
            _ => {}
        }
    }
}
