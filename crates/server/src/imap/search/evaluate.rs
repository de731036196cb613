//! Whether a message matches, as far as what is known of it decides: yes, no, or not decided yet.

use std::cell::RefCell;

use sealpost_account::Message;
use sealpost_account::object_id::ThreadId;
use sealpost_account::state::{FlagSet, Row};
use sealpost_base::{ObjectId, Timestamp, Uid};
use sealpost_mime::{Envelope, Text};

use super::key::{Key, Pattern, Query, Scope};
use crate::imap::view::View;

/// What the row of a message says.
pub(super) struct Columns {
    uid: Uid,
    modseq: u64,
    flags: FlagSet,
    recent: bool,
    received_day: i64,
    saved_day: i64,
    object: ObjectId,
    size: u64,
}

/// What else is known of a message.
pub(super) struct Knowledge {
    /// The day in the Date field, if the structure is known.
    sent_day: Option<Option<i64>>,
    /// The thread, if the structure is known.
    thread: Option<ThreadId>,
    /// The stored text.
    text: Option<Text>,
    /// Which patterns were found or not, where that is known.
    patterns: RefCell<Vec<Option<bool>>>,
}

impl Columns {
    /// The columns of a row.
    pub(super) fn new(row: &Row, flags: &FlagSet, message: &Message, view: &View) -> Self {
        Columns {
            uid: row.uid,
            modseq: row.modseq.0,
            flags: flags.clone(),
            recent: view.recent().contains(row.uid),
            // Days are those of UTC, which is the zone that INTERNALDATE is told in.
            received_day: day(message.received),
            saved_day: day(row.saved),
            object: message.object,
            size: message.size(),
        }
    }
}

impl Knowledge {
    /// Nothing but the row.
    pub(super) fn none() -> Self {
        Knowledge { sent_day: None, thread: None, text: None, patterns: RefCell::new(Vec::new()) }
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

    /// Every pattern is decided.
    pub(super) fn learn_patterns(&mut self, found: Vec<bool>) {
        self.text = None;
        *self.patterns.borrow_mut() = found.into_iter().map(Some).collect();
    }

    fn pattern(&self, number: usize, pattern: &Pattern) -> Option<bool> {
        if let Some(Some(found)) = self.patterns.borrow().get(number) {
            return Some(*found);
        }
        let found = pattern.find(self.text.as_ref()?);
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
    pub(super) fn decide(&self, columns: &Columns, known: &Knowledge) -> Option<bool> {
        self.key(&self.root, columns, known)
    }

    fn key(&self, key: &Key, columns: &Columns, known: &Knowledge) -> Option<bool> {
        match key {
            Key::Always(value) => Some(*value),
            Key::Uids(uids) => Some(uids.contains(columns.uid)),
            Key::ModSeq(modseq) => Some(columns.modseq >= *modseq),
            Key::System(flags) => Some(columns.flags.system.contains(*flags)),
            Key::Keyword(keyword) => Some(columns.flags.has(*keyword)),
            Key::Recent => Some(columns.recent),
            Key::Received(days) => Some(days.contain(columns.received_day)),
            Key::Saved(days) => Some(days.contain(columns.saved_day)),
            Key::Email(object) => Some(columns.object == *object),
            Key::Thread(thread) => known.thread.map(|found| found == *thread),
            Key::Larger(size) => Some(columns.size > *size),
            Key::Smaller(size) => Some(columns.size < *size),
            Key::Sent(days) => known.sent_day.map(|day| day.is_some_and(|day| days.contain(day))),
            Key::Pattern(number) => known.pattern(*number, &self.patterns[*number]),
            Key::Not(key) => self.key(key, columns, known).map(|value| !value),
            Key::All(keys) => self.every(keys, columns, known, true),
            Key::Any(keys) => self.every(keys, columns, known, false),
        }
    }

    /// `value` if all keys are `value`, the opposite if one of them is, and undecided otherwise.
    fn every(&self, keys: &[Key], columns: &Columns, known: &Knowledge, value: bool) -> Option<bool> {
        let mut decided = true;
        for key in keys {
            match self.key(key, columns, known) {
                Some(found) if found != value => return Some(!value),
                Some(_) => {}
                None => decided = false,
            }
        }
        decided.then_some(value)
    }
}

/// The day in UTC, since 1970.
fn day(time: Timestamp) -> i64 {
    time.seconds().div_euclid(86_400)
}

impl Pattern {
    /// Whether the stored text holds the string; `None` if the text is cut off and it may come later.
    fn find(&self, text: &Text) -> Option<bool> {
        // Headers come first: with any body behind them they are complete.
        let headers_complete = !text.truncated || !text.body.is_empty();
        let (found, complete) = match &self.scope {
            Scope::Field(name) => (self.find_field(name, &text.headers), headers_complete),
            Scope::Body => (self.in_body.find(text.body.as_bytes()).is_some(), !text.truncated),
            Scope::Anywhere => {
                let header = self.in_header.find(text.headers.as_bytes()).is_some();
                (header || self.in_body.find(text.body.as_bytes()).is_some(), !text.truncated)
            }
        };
        if found || complete { Some(found) } else { None }
    }

    fn find_field(&self, name: &str, headers: &str) -> bool {
        headers.split('\n').any(|line| {
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
            value.is_some_and(|value| self.in_header.find(value.trim_start().as_bytes()).is_some())
        })
    }
}
