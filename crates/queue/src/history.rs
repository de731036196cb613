//! The history of trimmed entries, without header fields and bodies. With it an operator can trace a
//! mail that has left the queue.
//!
//! Before the writer trims entries, it writes their events about mails into objects under
//! `queue/{node}/history/`, sealed under the mail key. Each object has whole entries in order; its
//! name has the first and last position. So a mail's history is in these objects and in the log behind
//! them, and no crash loses or doubles a part of it. History stays for [`limits::QUEUE_HISTORY_AGE`] and
//! within [`limits::QUEUE_HISTORY_BYTES`]; the oldest objects are removed first. Format:
//! `docs/format/queue.md`.

use futures::{Stream, TryStreamExt};
use sealpost_base::{AccountId, Error, Kind, Position, Result, Timestamp, limits};
use sealpost_journal::{Content, EntryName, Journal, Read, Tail};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{AccountKeys, Store};
use zeroize::Zeroizing;

use crate::envelope::{Body, Mail, Recipient};
use crate::event::{Attempted, Batch, Event, Failure, Outcome, printable};
use crate::log::Inner;

/// The purpose that such objects are sealed for.
const LABEL: &str = "queue history";
/// Bytes of one object, about.
const OBJECT_BYTES: usize = 512 * 1024;
/// Bytes of one entry's events; an object has one entry at least.
const ENTRY_BYTES: usize = limits::MAIL_NOTE_BYTES - 256 * 1024;

/// The name of an object: of the entries `first` to `last`.
struct Span {
    first: Position,
    last: Position,
}

impl Span {
    fn name(&self) -> String {
        format!("{:016x}-{:016x}", self.first.0, self.last.0)
    }

    fn parse(path: &str) -> Option<Self> {
        let (first, last) = path.rsplit('/').next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok().map(Position);
        Some(Span { first: number(first)?, last: number(last)? })
    }
}

fn folder(node: AccountId) -> String {
    format!("queue/{node}/history")
}

/// Writes the history of the entries up to `end` that have none yet, and removes history that is too
/// old or too much.
///
/// # Errors
/// Errors of the store. The next call writes the rest, as long as the entries are there.
pub(crate) async fn keep(inner: &Inner, end: Position) -> Result<()> {
    let known = last_position(&inner.store, inner.node).await?;
    if known < end {
        let mut object = Object { first: known.next(), last: known, plain: Vec::new() };
        let places = places(&inner.journal, known, Some(end)).await?;
        let mut batches = std::pin::pin!(batches(&inner.journal, &inner.keys, &places));
        while let Some((position, batch)) = batches.try_next().await? {
            let plain = encode(&batch);
            if !object.plain.is_empty() && object.plain.len() + plain.len() > OBJECT_BYTES {
                object.write(inner).await?;
            }
            object.plain.extend_from_slice(&plain);
            object.last = position;
        }
        // Even if no entry has such events: the next call starts behind them.
        object.last = end;
        object.write(inner).await?;
    }
    remove_old(&inner.store, inner.node, inner.clock.now(), limits::QUEUE_HISTORY_BYTES).await
}

/// An object that is being filled.
struct Object {
    first: Position,
    last: Position,
    plain: Vec<u8>,
}

impl Object {
    async fn write(&mut self, inner: &Inner) -> Result<()> {
        let span = Span { first: self.first, last: self.last };
        let path = format!("{}/{}", folder(inner.node), span.name());
        let sealed = inner.mail_keys.seal_note(LABEL, &path, &self.plain, &*inner.random);
        // An object of that name has the same content.
        inner.store.put_new(&path, sealed).await?;
        (self.first, self.plain) = (self.last.next(), Vec::new());
        Ok(())
    }
}

/// The last position that the history covers.
async fn last_position(store: &Store, node: AccountId) -> Result<Position> {
    let mut last = Position::ZERO;
    let mut listed = store.list(&folder(node), None);
    while let Some(object) = listed.try_next().await? {
        last = Span::parse(&object.path).map_or(last, |span| span.last.max(last));
    }
    Ok(last)
}

/// Removes history that is too old, and the oldest if there is too much.
async fn remove_old(store: &Store, node: AccountId, now: Timestamp, most: u64) -> Result<()> {
    let mut objects: Vec<_> = store.list(&folder(node), None).try_collect().await?;
    objects.sort_by(|a, b| b.path.cmp(&a.path));
    let mut bytes = 0;
    let mut superfluous = Vec::new();
    for object in objects {
        bytes += object.size;
        // The newest one stays: its name has the last position.
        let is_newest = bytes == object.size;
        let is_old = now.since(object.modified) > limits::QUEUE_HISTORY_AGE;
        if !is_newest && (is_old || bytes > most) {
            superfluous.push(object.path);
        }
    }
    superfluous.reverse();
    store.delete_in_order(superfluous).await
}

/// Passes the content of each object of the history to `take`, the oldest first. Returns the
/// position behind which the log continues, and the number of unreadable objects.
///
/// # Errors
/// What the store or `take` says.
pub(crate) async fn read(
    store: &Store,
    node: AccountId,
    mail_keys: &MailKeys,
    mut take: impl FnMut(Batch),
) -> Result<(Position, usize)> {
    let (mut end, mut unreadable) = (Position::ZERO, 0);
    let objects: Vec<_> = store.list(&folder(node), None).try_collect().await?;
    for object in objects {
        let Some(span) = Span::parse(&object.path) else { continue };
        end = end.max(span.last);
        match open(store, mail_keys, &object.path).await {
            Ok(plain) => match decode(&plain) {
                Some(batches) => batches.into_iter().for_each(&mut take),
                None => unreadable += 1,
            },
            Err(e) if e.kind() == Kind::Corrupt => unreadable += 1,
            // Removed since it was listed.
            Err(e) if e.kind() == Kind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok((end, unreadable))
}

/// The objects that cannot be read, and why.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn examine(
    store: &Store,
    node: AccountId,
    mail_keys: &MailKeys,
) -> Result<Vec<(String, Error)>> {
    let mut problems = Vec::new();
    let objects: Vec<_> = store.list(&folder(node), None).try_collect().await?;
    for object in objects {
        let wrong = match open(store, mail_keys, &object.path).await {
            Ok(plain) => decode(&plain).is_none().then(|| Error::corrupt("it has what no version writes")),
            Err(e) if e.kind() == Kind::NotFound => None,
            Err(e) => Some(e),
        };
        problems.extend(wrong.map(|e| (object.path, e)));
    }
    Ok(problems)
}

async fn open(store: &Store, mail_keys: &MailKeys, path: &str) -> Result<Zeroizing<Vec<u8>>> {
    store.read_opened(path, |bytes| mail_keys.open_note(LABEL, path, bytes)).await
}

/// Where the entries behind `known`, up to `end`, are.
pub(crate) async fn places(
    journal: &Journal,
    known: Position,
    end: Option<Position>,
) -> Result<Vec<EntryName>> {
    let mut places = journal.listed_after(&Tail { position: known, ..Tail::EMPTY }).await?;
    places.retain(|place| end.is_none_or(|end| place.position <= end));
    Ok(places)
}

/// The entries there that can be read.
pub(crate) fn batches<'a>(
    journal: &'a Journal,
    keys: &'a AccountKeys,
    places: &'a [EntryName],
) -> impl Stream<Item = Result<(Position, Batch)>> + 'a {
    // Trimmed entries are not there.
    let first = places.first().map_or(Position::ZERO, |place| place.position);
    let known = Tail { position: Position(first.0.saturating_sub(1)), ..Tail::EMPTY };
    journal.entries(keys, known, places).try_filter_map(|read| async move {
        let Read::Entry(entry) = read else { return Ok(None) };
        let Content::Plain(_, plain) = entry.content else { return Ok(None) };
        Ok(Batch::decode(&plain).ok().map(|batch| (entry.position, batch)))
    })
}

/// The encoded events of an entry about mails; empty if it has none.
fn encode(batch: &Batch) -> Vec<u8> {
    let (mut bytes, mut omitted) = (0, 0);
    let mut events = Vec::new();
    for event in batch.events.iter().filter_map(told) {
        bytes += minicbor::to_vec(&event).map_or(0, |encoded| encoded.len());
        if bytes <= ENTRY_BYTES {
            events.push(event);
            continue;
        }
        omitted += 1;
        // The ids of the mails behind it follow from it.
        if let Event::Accepted(mail) = event {
            events.push(Event::Accepted(Box::new(Mail { recipients: Vec::new(), ..*mail })));
        }
    }
    if omitted > 0 {
        tracing::warn!(events = omitted, "the history of the queue lacks events: an entry says too much");
    }
    if events.is_empty() {
        return Vec::new();
    }
    let Batch { at, writer, nonce, first, .. } = *batch;
    Batch { at, writer, nonce, events, first }.encode()
}

/// An event as history keeps it; `None` if it is not about a mail.
fn told(event: &Event) -> Option<Event> {
    match event {
        Event::Accepted(mail) => Some(Event::Accepted(Box::new(without_content(mail)))),
        Event::Attempted(attempted) if attempted.outcomes.is_empty() => None,
        Event::Attempted(attempted) => Some(Event::Attempted(shortened(attempted))),
        Event::Taken(_)
        | Event::DelayReported(_)
        | Event::Held(_)
        | Event::Released(_)
        | Event::Retried(_)
        | Event::Removed(_)
        | Event::Canceled(_) => Some(event.clone()),
        _ => None,
    }
}

/// Sender, recipients, time: as many recipients as fit.
fn without_content(mail: &Mail) -> Mail {
    let mut room = ENTRY_BYTES / 2;
    let recipients = mail.recipients.iter().map_while(|recipient| {
        room = room.checked_sub(recipient.address.len() + 16)?;
        Some(Recipient::new(recipient.address.clone()))
    });
    Mail {
        recipients: recipients.collect(),
        header: Vec::new(),
        body: Body::Inline(Vec::new()),
        envid: None,
        ..mail.clone()
    }
}

fn shortened(attempted: &Attempted) -> Attempted {
    let short = |failure: &Failure| Failure {
        text: printable(&failure.text, limits::QUEUE_REASON_BYTES),
        ..failure.clone()
    };
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Deferred(failure) => Outcome::Deferred(short(failure)),
        Outcome::Failed(failure) => Outcome::Failed(short(failure)),
        done => done.clone(),
    };
    let outcomes = attempted.outcomes.iter().map(|(place, of)| (*place, outcome(of))).collect();
    Attempted { outcomes, ..attempted.clone() }
}

/// The batches of an object; `None` if the bytes are no history.
fn decode(plain: &[u8]) -> Option<Vec<Batch>> {
    let mut decoder = minicbor::Decoder::new(plain);
    let mut batches = Vec::new();
    while decoder.position() < plain.len() {
        batches.push(decoder.decode().ok()?);
    }
    Some(batches)
}

#[cfg(test)]
mod tests;
