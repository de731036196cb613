//! Decides whether a message matches from its known fields: yes, no, or undecided.

use std::cell::RefCell;

use sealpost_account::ThreadId;
use sealpost_account::state::{FlagSet, MessageFields, Row};
use sealpost_base::{ObjectId, Timestamp, Uid};
use sealpost_index::summary::{ShortText, Summary};
use sealpost_mime::{Envelope, Text};

use crate::criterion::TextPart;
use crate::query::{Bound, Key, Pattern};
use crate::scope::MailboxScope;

/// The fields in the row of a message.
pub(crate) struct RowFields {
    uid: Uid,
    modseq: u64,
    flags: FlagSet,
    marked: bool,
    received: Timestamp,
    saved_day: i64,
    object: ObjectId,
    size: u64,
    thread: ThreadId,
}

/// How well a message matches: 0 if not at all, otherwise 1 to 100. Without FUZZY it is 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relevance(pub(super) u8);

/// Other known fields of a message.
pub(crate) struct KnownFields {
    /// The day in the Date field, if the structure is known.
    sent_day: Option<Option<i64>>,
    /// The stored text.
    text: Option<Text>,
    /// The stored text from a segment, and whether it includes headers.
    short_text: Option<(ShortText, bool)>,
    /// The lines of the most common header fields.
    summary: Option<Summary>,
    /// Which patterns occur, where that is known.
    patterns: RefCell<Vec<Option<bool>>>,
    /// The scores of fuzzy keys, where they are known.
    scores: RefCell<Vec<Option<u8>>>,
    /// Whether the whole message was scanned: other patterns do not occur.
    scanned: bool,
}

impl RowFields {
    /// The fields of a row.
    pub(crate) fn new(row: &Row, flags: &FlagSet, message: &MessageFields, mailbox: &MailboxScope) -> Self {
        RowFields {
            uid: row.uid,
            modseq: row.modseq.0,
            flags: flags.clone(),
            marked: mailbox.marked.contains(row.uid),
            received: message.received,
            saved_day: day(row.saved),
            object: message.first_object,
            thread: message.thread,
            size: message.size,
        }
    }

    /// The day of INTERNALDATE in UTC, the zone in which it is reported.
    pub(crate) fn received_day(&self) -> i64 {
        day(self.received)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl KnownFields {
    /// No fields except those of the row.
    pub(crate) fn none() -> Self {
        KnownFields {
            sent_day: None,
            text: None,
            short_text: None,
            summary: None,
            patterns: RefCell::default(),
            scores: RefCell::default(),
            scanned: false,
        }
    }

    /// Adds the summary, with its headers.
    pub(crate) fn learn_summary(&mut self, summary: Summary) {
        self.sent_day = Some(summary.sent_day());
        self.summary = Some(summary);
    }

    /// The day in the Date field; `None` if it is unknown, `Some(None)` if there is none.
    pub(crate) fn sent(&self) -> Option<Option<i64>> {
        self.sent_day
    }

    /// The stored text, if it is known.
    pub(crate) fn text(&self) -> Option<&Text> {
        self.text.as_ref()
    }

    /// The summary, if it is known.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Whether the pattern is in the message, if the message itself was scanned.
    pub(crate) fn found_in_message(&self, number: usize) -> Option<bool> {
        if self.scanned { self.patterns.borrow().get(number).copied().flatten() } else { None }
    }

    /// The score of a fuzzy key, if it was determined before.
    pub(crate) fn known_score(&self, number: usize) -> Option<u8> {
        self.scores.borrow().get(number).copied().flatten()
    }

    pub(crate) fn learn_score(&self, number: usize, score: u8) {
        let mut scores = self.scores.borrow_mut();
        if scores.len() <= number {
            scores.resize(number + 1, None);
        }
        scores[number] = Some(score);
    }

    /// Adds the envelope.
    pub(crate) fn learn_envelope(&mut self, envelope: &Envelope) {
        self.sent_day = Some(envelope.sent_day());
    }

    /// Adds the stored text.
    pub(crate) fn learn_text(&mut self, text: Text) {
        self.text = Some(text);
    }

    /// Adds the text from a segment: with headers, or no key needs them.
    pub(crate) fn learn_short_text(&mut self, text: ShortText, headers: bool) {
        if !text.is_long() {
            self.sent_day = Some(text.sent_day());
        }
        self.short_text = Some((text, headers));
    }

    /// Decides all patterns.
    pub(crate) fn learn_patterns(&mut self, found: Vec<bool>) {
        self.text = None;
        self.scanned = true;
        *self.patterns.borrow_mut() = found.into_iter().map(Some).collect();
    }

    fn pattern(&self, number: usize, pattern: &Pattern) -> Option<bool> {
        if let Some(Some(found)) = self.patterns.borrow().get(number) {
            return Some(*found);
        }
        let found = match (&self.text, &self.short_text, &self.summary) {
            (Some(text), _, _) => pattern.find(&text.headers, &text.body, text.truncated),
            (None, Some((text, _)), _) if text.is_long() => pattern.find_in_long(text),
            (None, Some((text, headers)), _) => {
                let of_header = if *headers { text.headers() } else { "" };
                pattern.find(of_header, text.body(), text.is_truncated())
            }
            (None, None, Some(summary)) => pattern.find_in_summary(summary),
            (None, None, None) => return None,
        };
        let mut patterns = self.patterns.borrow_mut();
        if patterns.len() <= number {
            patterns.resize(number + 1, None);
        }
        patterns[number] = found;
        found
    }
}

impl Bound {
    /// Whether the message matches; `None` if that depends on unknown fields.
    pub(crate) fn decide(&self, row: &RowFields, known: &KnownFields) -> Option<Relevance> {
        if !self.key(&self.query.root, row, known)? {
            return Some(Relevance(0));
        }
        if self.query.fuzzy.is_empty() {
            return Some(Relevance(100));
        }
        // RFC 6203 §4: the mean of all fuzzy matches. Keys that decided nothing may stay unknown.
        let scores = (0..self.query.fuzzy.len()).filter_map(|number| self.score(number, row, known));
        let (sum, count) = scores
            .filter(|score| *score > 0)
            .fold((0, 0), |(sum, n), score| (sum + usize::from(score), n + 1));
        Some(Relevance(sum.checked_div(count).map_or(100, |mean| mean.max(1) as u8)))
    }

    pub(crate) fn key(&self, key: &Key, row: &RowFields, known: &KnownFields) -> Option<bool> {
        match key {
            Key::Always(value) => Some(*value),
            Key::Uids(mailbox, uids) => Some(*mailbox == self.mailbox && uids.contains(row.uid)),
            Key::ChangedSince(modseq) => Some(row.modseq >= *modseq),
            Key::Flags(flags) => Some(row.flags.system.contains(*flags)),
            Key::Keyword(number) => Some(self.has_keyword(&row.flags, *number)),
            Key::Marked => Some(row.marked),
            Key::Saved(days) => Some(days.contain(row.saved_day)),
            Key::Email(object) => Some(row.object == *object),
            Key::Thread(thread) => Some(row.thread == *thread),
            Key::Received(days) => Some(days.contain(row.received_day())),
            Key::Older(age) => Some(row.received.seconds() <= self.now - age),
            Key::Younger(age) => Some(row.received.seconds() >= self.now - age),
            Key::Fuzzy(number) => self.score(*number, row, known).map(|score| score > 0),
            Key::Larger(size) => Some(row.size > *size),
            Key::Smaller(size) => Some(row.size < *size),
            Key::Sent(days) => known.sent_day.map(|day| day.is_some_and(|day| days.contain(day))),
            Key::Pattern(number) => known.pattern(*number, &self.query.patterns[*number]),
            Key::Not(key) => self.key(key, row, known).map(|value| !value),
            Key::All(keys) => every(keys.iter().map(|key| self.key(key, row, known)), true),
            Key::Any(keys) => every(keys.iter().map(|key| self.key(key, row, known)), false),
        }
    }

    /// Whether messages with these flags match, whatever their content; `None` if that matters.
    pub(crate) fn decide_by_flags(&self, flags: &FlagSet) -> Option<Relevance> {
        let matches = self.of_flags(&self.query.root, flags)?;
        match (matches, self.query.fuzzy.is_empty()) {
            (false, _) => Some(Relevance(0)),
            (true, true) => Some(Relevance(100)),
            (true, false) => None,
        }
    }

    fn of_flags(&self, key: &Key, flags: &FlagSet) -> Option<bool> {
        match key {
            Key::Always(value) => Some(*value),
            Key::Flags(wanted) => Some(flags.system.contains(*wanted)),
            Key::Keyword(number) => Some(self.has_keyword(flags, *number)),
            Key::Not(key) => self.of_flags(key, flags).map(|value| !value),
            Key::All(keys) => every(keys.iter().map(|key| self.of_flags(key, flags)), true),
            Key::Any(keys) => every(keys.iter().map(|key| self.of_flags(key, flags)), false),
            _ => None,
        }
    }

    fn has_keyword(&self, flags: &FlagSet, number: usize) -> bool {
        self.keywords[number].is_some_and(|keyword| flags.has(keyword))
    }
}

/// `value` if all are `value`, the opposite if one of them is, and undecided otherwise.
fn every(found: impl Iterator<Item = Option<bool>>, value: bool) -> Option<bool> {
    let mut decided = true;
    for found in found {
        match found {
            Some(found) if found != value => return Some(!value),
            Some(_) => {}
            None => decided = false,
        }
    }
    decided.then_some(value)
}

/// The day in UTC, since 1970.
fn day(time: Timestamp) -> i64 {
    time.seconds().div_euclid(86_400)
}

impl Pattern {
    /// Whether the lines of a summary contain the string; `None` if it may be elsewhere.
    fn find_in_summary(&self, summary: &Summary) -> Option<bool> {
        let headers = summary.headers();
        match &self.part {
            TextPart::Field(name) if Summary::has_field(name) => {
                let found = self.find_field(name, headers);
                if found || summary.headers_complete() { Some(found) } else { None }
            }
            TextPart::Anywhere => self.finder.find(headers.as_bytes()).map(|_| true),
            _ => None,
        }
    }

    /// `Some(false)` if a long text cannot contain the string.
    fn find_in_long(&self, text: &ShortText) -> Option<bool> {
        if text.may_hold(self.finder.needle()) { None } else { Some(false) }
    }

    /// Whether the stored text contains the string; `None` if the text is truncated and it may come later.
    fn find(&self, headers: &str, body: &str, truncated: bool) -> Option<bool> {
        // Headers come first: with any body after them they are complete.
        let headers_complete = !truncated || !body.is_empty();
        let (found, complete) = match &self.part {
            TextPart::Field(name) => (self.find_field(name, headers), headers_complete),
            TextPart::Body => (self.finder.find(body.as_bytes()).is_some(), !truncated),
            TextPart::Anywhere => {
                let header = self.finder.find(headers.as_bytes()).is_some();
                (header || self.finder.find(body.as_bytes()).is_some(), !truncated)
            }
        };
        if found || complete { Some(found) } else { None }
    }

    fn find_field(&self, name: &str, headers: &str) -> bool {
        headers.split('\n').any(|line| {
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
            value.is_some_and(|value| self.finder.find(value.trim_start().as_bytes()).is_some())
        })
    }
}
