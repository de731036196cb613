//! Decides by the text stored with a message, and if necessary by the message itself.

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::{Account, Message};
use sealpost_base::{Error, Result};
use sealpost_mime::{Scanner, TextSink};

use crate::criterion::TextPart;
use crate::evaluate::{KnownFields, Relevance, RowFields};
use crate::find::Candidate;
use crate::query::{Bound, Query};

/// Bytes of a header field's name that are compared; a command bounds the names in a search.
const NAME_BYTES: usize = 1024;
/// Total size of stored texts that are read together, in bytes; at least one text.
pub(crate) const TEXTS_BYTES: usize = 256 * 1024;

/// Which of the messages match by their stored texts; `None` if only the message itself decides. As many
/// texts as fit into [`TEXTS_BYTES`] are read together.
pub(crate) async fn by_stored_texts(
    account: &Account,
    bound: &Bound,
    group: Vec<Candidate>,
) -> Vec<(Candidate, Result<Option<Relevance>>)> {
    let mut done = Vec::new();
    let mut asked = Vec::new();
    for candidate in group {
        let mut known = KnownFields::none();
        match learn_envelope(account, &bound.query, &candidate, &mut known).await {
            Ok(()) => match bound.decide(&candidate.row, &known) {
                None if !bound.query.patterns.is_empty() => asked.push((candidate, known)),
                decided => done.push((candidate, Ok(decided))),
            },
            Err(e) => done.push((candidate, Err(e))),
        }
    }
    let mut rest = asked.into_iter().peekable();
    while rest.peek().is_some() {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some((candidate, _)) = rest.peek()
            && (batch.is_empty() || bytes + text_bytes(candidate) <= TEXTS_BYTES)
        {
            bytes += text_bytes(candidate);
            batch.extend(rest.next());
        }
        let (candidates, mut known): (Vec<Candidate>, Vec<KnownFields>) = batch.into_iter().unzip();
        let messages: Vec<&Message> = candidates.iter().map(|candidate| &candidate.message).collect();
        let mut verdicts = Vec::new();
        account
            .texts(&messages, |at, text| {
                // Taken, so that the text is dropped as soon as it was searched.
                let mut known = std::mem::replace(&mut known[at], KnownFields::none());
                verdicts.push(readable(text).map(|text| {
                    if let Some(text) = text {
                        known.learn_text(text);
                    }
                    bound.decide(&candidates[at].row, &known)
                }));
            })
            .await;
        done.extend(candidates.into_iter().zip(verdicts));
        tokio::task::consume_budget().await;
    }
    done
}

/// The sealed size of a message's stored text, in bytes.
fn text_bytes(candidate: &Candidate) -> usize {
    candidate.message.layout.sealed_text as usize
}

async fn learn_envelope(
    account: &Account,
    query: &Query,
    candidate: &Candidate,
    known: &mut KnownFields,
) -> Result<()> {
    if query.asks_for_structure()
        && let Some(structure) = readable(account.structure(&candidate.message).await)?
    {
        known.learn_envelope(&structure.envelope);
    }
    Ok(())
}

/// Whether the message matches by its complete text, which is read as a stream. For messages whose stored
/// text is truncated, or whose stored text or structure is corrupt.
///
/// # Errors
/// Read errors.
pub(crate) async fn by_message(
    account: &Account,
    bound: &Bound,
    row: &RowFields,
    message: &Message,
) -> Result<Relevance> {
    let mut known = KnownFields::none();
    scan(account, &bound.query, message, &mut known).await?;
    bound
        .decide(row, &known)
        .ok_or_else(|| Error::internal("a search was not decided by everything there is"))
}

/// The stored text, or nothing if it is corrupt: the message may still be intact.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.kind() == sealpost_base::Kind::Corrupt => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads the whole message as a stream, and searches all of its text for every pattern.
async fn scan(
    account: &Account,
    query: &Arc<Query>,
    message: &Message,
    known: &mut KnownFields,
) -> Result<()> {
    let mut scanner = Scanner::with_sink(Matcher::new(query.clone()));
    let mut raw = account.reader(message).raw(0..message.size());
    while let Some(piece) = raw.next().await {
        scanner.push(&piece?);
        tokio::task::yield_now().await;
    }
    let (structure, matcher) = scanner.finish();
    known.learn_envelope(&structure.envelope);
    known.learn_patterns(matcher.finish());
    Ok(())
}

/// Searches a stream of text for patterns; keeps a tail as long as the longest pattern.
struct Matcher {
    query: Arc<Query>,
    found: Vec<bool>,
    /// Bytes of the stream to keep.
    keep: usize,
    header: Vec<u8>,
    body: Vec<u8>,
    aside: Vec<u8>,
    field: Field,
}

/// The header field at the present position.
#[derive(Default)]
struct Field {
    name: Vec<u8>,
    /// After the colon: the part of the value to keep.
    value: Option<Vec<u8>>,
    /// Whether the value has begun.
    begun: bool,
}

impl Matcher {
    fn new(query: Arc<Query>) -> Self {
        let longest = query.patterns.iter().map(|p| p.finder.needle().len());
        let keep = longest.max().unwrap_or(0).saturating_sub(1);
        let found = vec![false; query.patterns.len()];
        Matcher {
            query,
            found,
            keep,
            header: Vec::new(),
            body: Vec::new(),
            aside: Vec::new(),
            field: Field::default(),
        }
    }

    /// Which patterns occur.
    fn finish(mut self) -> Vec<bool> {
        self.end_of_field();
        self.found
    }

    /// Searches the field's value so far, if the query names the field.
    fn look_into_field(&mut self) {
        let Some(value) = &self.field.value else { return };
        for (pattern, found) in self.query.patterns.iter().zip(&mut self.found) {
            if !*found
                && let TextPart::Field(name) = &pattern.part
                && name.as_bytes() == self.field.name
            {
                *found = pattern.finder.find(value).is_some();
            }
        }
    }

    fn end_of_field(&mut self) {
        self.look_into_field();
        self.field = Field::default();
    }

    fn part_of_field(&mut self, mut part: &[u8]) {
        if self.field.value.is_none() {
            let colon = memchr::memchr(b':', part);
            let name = &part[..colon.unwrap_or(part.len())];
            let room = NAME_BYTES.saturating_sub(self.field.name.len());
            self.field.name.extend_from_slice(&name[..name.len().min(room)]);
            let Some(colon) = colon else { return };
            self.field.value = Some(Vec::new());
            part = &part[colon + 1..];
        }
        let keep = self.keep;
        if let Some(value) = &mut self.field.value {
            // The space after the colon belongs to neither.
            let part = if self.field.begun { part } else { part.trim_ascii_start() };
            self.field.begun |= !part.is_empty();
            value.extend_from_slice(part);
        }
        self.look_into_field();
        if let Some(value) = &mut self.field.value {
            forget(value, keep);
        }
    }
}

impl TextSink for Matcher {
    fn header(&mut self, folded_line: &str) {
        self.header.extend_from_slice(folded_line.as_bytes());
        for (pattern, found) in self.query.patterns.iter().zip(&mut self.found) {
            if pattern.part == TextPart::Anywhere && !*found {
                *found = pattern.finder.find(&self.header).is_some();
            }
        }
        forget(&mut self.header, self.keep);
        let mut lines = folded_line.as_bytes().split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            self.part_of_field(line);
            if lines.peek().is_some() {
                self.end_of_field();
            }
        }
    }

    fn body(&mut self, folded_text: &str) {
        look_into_text(&self.query, &mut self.found, &mut self.body, self.keep, folded_text);
    }

    fn aside(&mut self, folded_text: &str) {
        look_into_text(&self.query, &mut self.found, &mut self.aside, self.keep, folded_text);
    }
}

/// Searches the next piece of a text; `passed` is the end of the earlier pieces.
fn look_into_text(query: &Query, found: &mut [bool], passed: &mut Vec<u8>, keep: usize, piece: &str) {
    passed.extend_from_slice(piece.as_bytes());
    for (pattern, found) in query.patterns.iter().zip(found) {
        if matches!(pattern.part, TextPart::Anywhere | TextPart::Body) && !*found {
            *found = pattern.finder.find(passed).is_some();
        }
    }
    forget(passed, keep);
}

/// Keeps the last `keep` bytes.
fn forget(buffer: &mut Vec<u8>, keep: usize) {
    let surplus = buffer.len().saturating_sub(keep);
    buffer.drain(..surplus);
}
