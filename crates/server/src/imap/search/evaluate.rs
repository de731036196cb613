//! Whether a message matches, as far as what is known of it decides: yes, no, or not decided yet.

use std::cell::RefCell;

use sealpost_account::Message;
use sealpost_account::object_id::ThreadId;
use sealpost_account::state::{FlagSet, Row};
use sealpost_account::summary::{ShortText, Summary};
use sealpost_base::{ObjectId, Timestamp, Uid};
use sealpost_mime::{Envelope, Text};

use super::area::Area;
use super::key::{Key, Pattern, Query, Scope};

/// What the row of a message says.
pub(super) struct Columns {
    uid: Uid,
    modseq: u64,
    flags: FlagSet,
    recent: bool,
    received: Timestamp,
    saved_day: i64,
    object: ObjectId,
    size: u64,
}

/// Whether a message matches: 0 if not, else how well, from 1 to 100. It is 100 unless FUZZY was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict(pub(super) u8);

/// What else is known of a message.
pub(super) struct Knowledge {
    /// The day in the Date field, if the structure is known.
    sent_day: Option<Option<i64>>,
    /// The thread, if the structure is known.
    thread: Option<ThreadId>,
    /// The stored text.
    text: Option<Text>,
    /// The stored text as a segment has it, and whether with its headers.
    short_text: Option<(ShortText, bool)>,
    /// The lines of the most common header fields.
    summary: Option<Summary>,
    /// Which patterns were found or not, where that is known.
    patterns: RefCell<Vec<Option<bool>>>,
    /// How well fuzzy keys match, where that is known.
    scores: RefCell<Vec<Option<u8>>>,
    /// The message itself was looked through: what was not found is not there.
    scanned: bool,
}

impl Columns {
    /// The columns of a row.
    pub(super) fn new(row: &Row, flags: &FlagSet, message: &Message, area: &Area) -> Self {
        Columns {
            uid: row.uid,
            modseq: row.modseq.0,
            flags: flags.clone(),
            recent: area.recent.contains(row.uid),
            received: message.received,
            saved_day: day(row.saved),
            object: message.first_object(),
            size: message.size(),
        }
    }

    /// The day of INTERNALDATE in UTC, which is the zone that it is told in.
    pub(super) fn received_day(&self) -> i64 {
        day(self.received)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

impl Knowledge {
    /// Nothing but the row.
    pub(super) fn none() -> Self {
        Knowledge {
            sent_day: None,
            thread: None,
            text: None,
            short_text: None,
            summary: None,
            patterns: RefCell::default(),
            scores: RefCell::default(),
            scanned: false,
        }
    }

    /// The summary is known, with its headers.
    pub(super) fn learn_summary(&mut self, summary: Summary) {
        self.sent_day = Some(summary.sent_day());
        self.summary = Some(summary);
    }

    /// The Date field's day; `None` if it is not known, `Some(None)` if there is none.
    pub(super) fn sent(&self) -> Option<Option<i64>> {
        self.sent_day
    }

    /// The stored text, if it is known.
    pub(super) fn text(&self) -> Option<&Text> {
        self.text.as_ref()
    }

    /// The summary, if it is known.
    pub(super) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Whether the pattern is in the message, if the message itself was looked through.
    pub(super) fn found_in_message(&self, number: usize) -> Option<bool> {
        if self.scanned { self.patterns.borrow().get(number).copied().flatten() } else { None }
    }

    /// The score of a fuzzy key that was found out before.
    pub(super) fn known_score(&self, number: usize) -> Option<u8> {
        self.scores.borrow().get(number).copied().flatten()
    }

    pub(super) fn learn_score(&self, number: usize, score: u8) {
        let mut scores = self.scores.borrow_mut();
        if scores.len() <= number {
            scores.resize(number + 1, None);
        }
        scores[number] = Some(score);
    }

    /// The envelope of the message is known.
    pub(super) fn learn_envelope(&mut self, envelope: &Envelope, message: &Message) {
        self.sent_day = Some(envelope.sent_day());
        self.thread = Some(ThreadId::of(envelope, message));
    }

    /// The stored text is known.
    pub(super) fn learn_text(&mut self, text: Text) {
        self.text = Some(text);
    }

    /// The stored text is known from a segment: with its headers, or nothing asks for them.
    pub(super) fn learn_short_text(&mut self, text: ShortText, headers: bool) {
        if !text.is_long() {
            self.sent_day = Some(text.sent_day());
        }
        self.short_text = Some((text, headers));
    }

    /// Every pattern is decided.
    pub(super) fn learn_patterns(&mut self, found: Vec<bool>) {
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

impl Query {
    /// Whether the message matches; `None` if more has to be known.
    pub(super) fn decide(&self, columns: &Columns, known: &Knowledge) -> Option<Verdict> {
        if !self.key(&self.root, columns, known)? {
            return Some(Verdict(0));
        }
        if self.fuzzy.is_empty() {
            return Some(Verdict(100));
        }
        // RFC 6203 §4: the mean of what was matched fuzzily. What decided nothing need not be known.
        let scores = (0..self.fuzzy.len()).filter_map(|number| self.score(number, columns, known));
        let (sum, count) = scores
            .filter(|score| *score > 0)
            .fold((0, 0), |(sum, n), score| (sum + usize::from(score), n + 1));
        Some(Verdict(sum.checked_div(count).map_or(100, |mean| mean.max(1) as u8)))
    }

    pub(super) fn key(&self, key: &Key, columns: &Columns, known: &Knowledge) -> Option<bool> {
        match key {
            Key::Always(value) => Some(*value),
            Key::Uids(uids) => Some(uids.contains(columns.uid)),
            Key::ModSeq(modseq) => Some(columns.modseq >= *modseq),
            Key::System(flags) => Some(columns.flags.system.contains(*flags)),
            Key::Keyword(keyword) => Some(columns.flags.has(*keyword)),
            Key::Recent => Some(columns.recent),
            Key::Saved(days) => Some(days.contain(columns.saved_day)),
            Key::Email(object) => Some(columns.object == *object),
            Key::Thread(thread) => known.thread.map(|found| found == *thread),
            Key::Received(days) => Some(days.contain(columns.received_day())),
            Key::Older(age) => Some(columns.received.seconds() <= self.now - age),
            Key::Younger(age) => Some(columns.received.seconds() >= self.now - age),
            Key::Unborn(_) => Some(false),
            Key::Fuzzy(number) => self.score(*number, columns, known).map(|score| score > 0),
            Key::Larger(size) => Some(columns.size > *size),
            Key::Smaller(size) => Some(columns.size < *size),
            Key::Sent(days) => known.sent_day.map(|day| day.is_some_and(|day| days.contain(day))),
            Key::Pattern(number) => known.pattern(*number, &self.patterns[*number]),
            Key::Not(key) => self.key(key, columns, known).map(|value| !value),
            Key::All(keys) => every(keys.iter().map(|key| self.key(key, columns, known)), true),
            Key::Any(keys) => every(keys.iter().map(|key| self.key(key, columns, known)), false),
        }
    }

    /// Whether messages with these flags match, whatever else they are; `None` if more has to be known.
    pub(super) fn decide_by_flags(&self, flags: &FlagSet) -> Option<Verdict> {
        let matches = of_flags(&self.root, flags)?;
        match (matches, self.fuzzy.is_empty()) {
            (false, _) => Some(Verdict(0)),
            (true, true) => Some(Verdict(100)),
            (true, false) => None,
        }
    }
}

fn of_flags(key: &Key, flags: &FlagSet) -> Option<bool> {
    match key {
        Key::Always(value) => Some(*value),
        Key::System(wanted) => Some(flags.system.contains(*wanted)),
        Key::Keyword(keyword) => Some(flags.has(*keyword)),
        Key::Unborn(_) => Some(false),
        Key::Not(key) => of_flags(key, flags).map(|value| !value),
        Key::All(keys) => every(keys.iter().map(|key| of_flags(key, flags)), true),
        Key::Any(keys) => every(keys.iter().map(|key| of_flags(key, flags)), false),
        _ => None,
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
    /// Whether the lines of a summary hold the string; `None` if it may be elsewhere.
    fn find_in_summary(&self, summary: &Summary) -> Option<bool> {
        let headers = summary.headers();
        match &self.scope {
            Scope::Field(name) if Summary::has_field(name) => {
                let found = self.find_field(name, headers);
                if found || summary.headers_complete() { Some(found) } else { None }
            }
            Scope::Anywhere => self.finder.find(headers.as_bytes()).map(|_| true),
            _ => None,
        }
    }

    /// `Some(false)` if a long text cannot hold the string.
    fn find_in_long(&self, text: &ShortText) -> Option<bool> {
        if text.may_hold(self.finder.needle()) { None } else { Some(false) }
    }

    /// Whether the stored text holds the string; `None` if the text is cut off and it may come later.
    fn find(&self, headers: &str, body: &str, truncated: bool) -> Option<bool> {
        // Headers come first: with any body behind them they are complete.
        let headers_complete = !truncated || !body.is_empty();
        let (found, complete) = match &self.scope {
            Scope::Field(name) => (self.find_field(name, headers), headers_complete),
            Scope::Body => (self.finder.find(body.as_bytes()).is_some(), !truncated),
            Scope::Anywhere => {
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
