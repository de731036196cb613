//! Sort keys: numbers and shortened strings, compared as bytes (RFC 5051). Nothing else of a message is kept.
//!
//! Keys fit into the memory acquired from the budget. A string is compared by its first
//! [`limits::SORT_KEY_BYTES`] bytes; if all strings together do not fit, by half of that, and so on. Messages
//! that are equal up to there are in mailbox order.

use std::cmp::Ordering;

use sealpost_base::limits;
use sealpost_index::summary::{Parts, Summary, SummaryAddress};
use sealpost_mime::collate;
use sealpost_mime::header::subject;

use super::strings::Strings;
use crate::summaries::{SortRow, sent};

/// Estimated bytes of a key's string, for acquiring memory.
const STRING_BYTES: usize = 200;
/// The least bytes of a string that are compared, however little memory there is.
const LEAST_BYTES: usize = 16;

/// One criterion of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comparator {
    /// The key to compare.
    pub key: SortKey,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// A sort key of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortKey {
    /// When the message was received: INTERNALDATE.
    Received,
    /// The Date field; INTERNALDATE if there is none.
    Sent,
    /// The size in bytes.
    Size,
    /// How well a fuzzy search matches; the best first.
    Relevance,
    /// The base subject (RFC 5256 §2.1).
    Subject,
    /// The mailbox part of the first From address.
    From,
    /// The same of To.
    To,
    /// The same of Cc.
    Cc,
    /// The name of the first From address, or the address if there is none (RFC 5957 §3).
    DisplayFrom,
    /// The same of To.
    DisplayTo,
}

/// The keys of the messages to be sorted.
pub(crate) struct Keys {
    columns: Vec<Column>,
    /// The message of each row.
    rows: Vec<u32>,
    /// Bytes of strings that memory is left for.
    room: usize,
    strings: usize,
    /// The most bytes of a string that are kept.
    most: usize,
    /// The string under construction.
    string: Vec<u8>,
}

/// One key of all messages.
struct Column {
    key: SortKey,
    descending: bool,
    values: Values,
}

enum Values {
    Numbers(Vec<i64>),
    Strings(Strings),
}

/// The values of a key as numbers.
enum Ranked<'a> {
    Numbers(&'a [i64]),
    Ranks(Vec<u32>),
}

impl Ranked<'_> {
    fn value(&self, row: usize) -> i64 {
        match self {
            Ranked::Numbers(numbers) => numbers[row],
            Ranked::Ranks(ranks) => i64::from(ranks[row]),
        }
    }
}

impl Keys {
    /// Memory for the keys of that many messages.
    pub(crate) fn bytes(messages: usize, criteria: &[Comparator]) -> usize {
        let per_message: usize =
            criteria.iter().map(|c| if is_string(c.key) { STRING_BYTES } else { 8 }).sum();
        messages.saturating_mul(per_message + 32)
    }

    /// Starts without keys; together they take at most about `bytes`.
    pub(crate) fn new(criteria: &[Comparator], bytes: usize) -> Self {
        let column = |Comparator { key, descending }| {
            let values = if is_string(key) {
                Values::Strings(Strings::default())
            } else {
                Values::Numbers(Vec::new())
            };
            Column { key, descending, values }
        };
        let columns = distinct(criteria).into_iter().map(column).collect();
        let room = bytes.min(u32::MAX as usize);
        Keys { columns, rows: Vec::new(), room, strings: 0, most: limits::SORT_KEY_BYTES, string: Vec::new() }
    }

    /// The needed parts of the summaries; `None` if no summaries are needed.
    pub(crate) fn parts(&self) -> Option<Parts> {
        let keys = || self.columns.iter().map(|column| column.key);
        if keys().any(is_string) {
            return Some(Parts::FIELDS);
        }
        keys().any(|key| key == SortKey::Sent).then_some(Parts::DATE)
    }

    /// Whether there are keys for that many messages, all complete.
    pub(crate) fn are_whole(&self, messages: usize) -> bool {
        self.rows.len() == messages && self.most == limits::SORT_KEY_BYTES
    }

    /// Adds the keys of a message.
    pub(crate) fn push(&mut self, at: usize, row: SortRow, summary: Option<&Summary>) {
        self.rows.push(at as u32);
        for column in &mut self.columns {
            match &mut column.values {
                Values::Numbers(numbers) => numbers.push(number(column.key, row, summary)),
                Values::Strings(strings) => {
                    self.string.clear();
                    if let Some(summary) = summary {
                        string(column.key, summary, self.most, &mut self.string);
                    }
                    self.strings += strings.push(&self.string);
                }
            }
        }
        while self.strings > self.room && self.most > LEAST_BYTES {
            self.shorten();
        }
    }

    /// Halves the kept bytes of each string.
    fn shorten(&mut self) {
        self.most = (self.most / 2).max(LEAST_BYTES);
        self.strings = 0;
        for column in &mut self.columns {
            if let Values::Strings(strings) = &mut column.values {
                self.strings += strings.shorten(self.most);
            }
        }
    }

    /// The messages, sorted.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> {
        let columns: Vec<(Ranked<'_>, bool)> =
            self.columns.iter().map(|column| (column.ranked(), column.descending)).collect();
        let directed = |value: i64, reverse: bool| if reverse { !value } else { value };
        let first =
            |row| columns.first().map_or(0, |(ranked, reverse)| directed(ranked.value(row), *reverse));
        let mut order: Vec<(i64, u32)> = (0..self.rows.len()).map(|row| (first(row), row as u32)).collect();
        let others = columns.get(1..).unwrap_or_default();
        let by_others = |a: usize, b: usize| {
            let compare = |(ranked, reverse): &(Ranked<'_>, bool)| {
                directed(ranked.value(a), *reverse).cmp(&directed(ranked.value(b), *reverse))
            };
            others.iter().map(compare).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        // RFC 5256 §3: "an implicit sort criterion of sequence number", which REVERSE does not affect.
        order.sort_unstable_by(|a, b| {
            let (one, other) = (a.1 as usize, b.1 as usize);
            a.0.cmp(&b.0)
                .then_with(|| by_others(one, other))
                .then_with(|| self.rows[one].cmp(&self.rows[other]))
        });
        order.into_iter().map(|(_, row)| self.rows[row as usize] as usize)
    }
}

impl Column {
    fn ranked(&self) -> Ranked<'_> {
        match &self.values {
            Values::Numbers(numbers) => Ranked::Numbers(numbers),
            Values::Strings(strings) => Ranked::Ranks(strings.ranks()),
        }
    }
}

/// The criteria without repeated keys, which cannot change the order.
pub(crate) fn distinct(criteria: &[Comparator]) -> Vec<Comparator> {
    let mut distinct: Vec<Comparator> = Vec::new();
    for criterion in criteria {
        if distinct.iter().all(|before| before.key != criterion.key) {
            distinct.push(*criterion);
        }
    }
    distinct
}

fn is_string(key: SortKey) -> bool {
    !matches!(key, SortKey::Received | SortKey::Sent | SortKey::Size | SortKey::Relevance)
}

fn number(key: SortKey, row: SortRow, summary: Option<&Summary>) -> i64 {
    match key {
        SortKey::Size => i64::try_from(row.size).unwrap_or(i64::MAX),
        SortKey::Sent => sent(row, summary),
        // RFC 6203 §6: the highest score first.
        SortKey::Relevance => 100 - i64::from(row.relevance),
        _ => row.received,
    }
}

fn string(key: SortKey, summary: &Summary, most: usize, out: &mut Vec<u8>) {
    match key {
        SortKey::Subject => {
            collate::key(&subject::base(summary.subject().unwrap_or_default()).text, most, out);
        }
        SortKey::From => mailbox(summary.from().next(), most, out),
        SortKey::To => mailbox(summary.to().next(), most, out),
        SortKey::Cc => mailbox(summary.cc().next(), most, out),
        SortKey::DisplayFrom => display(summary.from().next(), most, out),
        SortKey::DisplayTo => display(summary.to().next(), most, out),
        SortKey::Received | SortKey::Sent | SortKey::Size | SortKey::Relevance => {}
    }
}

/// `addr-mailbox` of the first address (RFC 5256 §3).
fn mailbox(address: Option<SummaryAddress<'_>>, most: usize, out: &mut Vec<u8>) {
    collate::key(address.and_then(|address| address.mailbox).unwrap_or_default(), most, out);
}

/// The sort value of an address (RFC 5957 §3).
fn display(address: Option<SummaryAddress<'_>>, most: usize, out: &mut Vec<u8>) {
    let Some(SummaryAddress { name, mailbox, host }) = address else { return };
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        return collate::key(name, most, out);
    }
    match (mailbox, host) {
        (Some(mailbox), Some(host)) => collate::key(&format!("{mailbox}@{host}"), most, out),
        (Some(mailbox), None) => collate::key(mailbox, most, out),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use sealpost_mime::Scanner;

    use super::*;

    fn summary(mail: &str) -> Summary {
        let mut scanner = Scanner::new();
        scanner.push(mail.as_bytes());
        let (structure, text) = scanner.finish();
        Summary::new(&structure, &text.into_text())
    }

    fn order(criteria: &[(SortKey, bool)], mails: &[(&str, i64, u64)], bytes: usize) -> Vec<usize> {
        let criteria: Vec<_> = criteria
            .iter()
            .map(|(key, descending)| Comparator { key: *key, descending: *descending })
            .collect();
        let mut keys = Keys::new(&criteria, bytes);
        for (at, (mail, received, size)) in mails.iter().enumerate() {
            let row = SortRow { received: *received, size: *size, relevance: 100 };
            keys.push(at, row, Some(&summary(mail)));
        }
        keys.order().collect()
    }

    #[test]
    fn every_key() {
        let mails = [
            ("From: B <z@x>\r\nTo: g: a@x;\r\nSubject: Re: b\r\n\r\n", 3, 30),
            (
                "From: a <y@x>\r\nTo: M@x\r\nCc: q@x\r\nSubject: A\r\nDate: 1 Jan 1970 00:00:01 +0000\r\n\r\n",
                2,
                20,
            ),
            ("From: =?utf-8?q?=C3=A4?= <x@x>\r\nTo: c@x\r\nSubject: [l] \u{e1}\r\n\r\n", 1, 10),
            ("Subject: (fwd)\r\n\r\n", 4, 40),
        ];
        let by = |key| order(&[(key, false)], &mails, 1 << 20);
        assert_eq!(by(SortKey::Received), [2, 1, 0, 3]);
        assert_eq!(by(SortKey::Size), [2, 1, 0, 3]);
        assert_eq!(by(SortKey::Sent), [1, 2, 0, 3], "by arrival without a date, then in mailbox order");
        assert_eq!(by(SortKey::From), [3, 2, 1, 0]);
        assert_eq!(by(SortKey::DisplayFrom), [3, 1, 2, 0]);
        assert_eq!(by(SortKey::To), [3, 2, 0, 1], "the name of a group is its mailbox");
        assert_eq!(by(SortKey::DisplayTo), [3, 2, 0, 1]);
        assert_eq!(by(SortKey::Cc), [0, 2, 3, 1]);
        assert_eq!(by(SortKey::Subject), [3, 1, 2, 0]);
        assert_eq!(order(&[(SortKey::Cc, true), (SortKey::Size, true)], &mails, 1 << 20), [1, 3, 0, 2]);
        assert_eq!(
            order(&[(SortKey::Cc, true)], &mails, 1 << 20),
            [1, 0, 2, 3],
            "equal ones are not reversed"
        );
    }

    #[test]
    fn strings_are_cut_to_fit_the_memory() {
        let mail = |tail: &str| format!("Subject: {}{tail}\r\n\r\n", "x".repeat(100));
        let mails = [mail("b"), mail("a"), "Subject: w\r\n\r\n".to_owned()];
        let mails: Vec<_> = mails.iter().map(|mail| (mail.as_str(), 0, 0)).collect();
        assert_eq!(order(&[(SortKey::Subject, false)], &mails, 1000), [2, 1, 0]);
        assert_eq!(
            order(&[(SortKey::Subject, false)], &mails, 100),
            [2, 0, 1],
            "equal as far as they are kept"
        );
        assert_eq!(order(&[(SortKey::Subject, false)], &mails, 0), [2, 0, 1]);
        let long = format!("Subject: {}b\r\n\r\n", "x".repeat(limits::SORT_KEY_BYTES));
        let same = format!("Subject: {}a\r\n\r\n", "x".repeat(limits::SORT_KEY_BYTES));
        assert_eq!(order(&[(SortKey::Subject, false)], &[(&long, 0, 0), (&same, 0, 0)], 1 << 20), [0, 1]);
    }
}
