//! The mails of a queue as compact rows: the part of each mail that is always in memory.
//!
//! Rows are in groups of 256 consecutive ids. A group keeps the replies of servers in one buffer: an
//! allocation for each would take as much memory again. A mail with one recipient takes some 50 bytes
//! and the reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealpost_base::{Position, limits};

use crate::MailId;
use crate::event::{Failure, Status, printable};

/// Ids of one group.
const GROUP: u64 = 256;
/// Separates the parts of a text; no printable text contains it.
const SEPARATOR: u8 = 0x1f;

/// The domain of a mail whose recipients have several.
pub const SEVERAL: u32 = u32::MAX;

/// Where a mail's envelope and bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the entry at a position, as the event of that number.
    Entry(Position, u16),
    /// In a segment: its number, and the offset and length of the mail.
    Segment(u32, u32, u32),
}

/// Facts about a mail that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where the mail is.
    pub place: Place,
    /// Bytes of the message.
    pub size: u32,
    /// When it was accepted, in seconds since 1970, as all times here.
    pub accepted: u32,
    /// When it could first be sent. Its expiry counts from then.
    pub released: u32,
    /// When the next attempt is due, or the end of the hold.
    pub next: u32,
    /// The sender's account, as a number of the state's table.
    pub account: u32,
    /// The domain of its recipients, as a number of the state's table; [`SEVERAL`] if they have several.
    pub domain: u32,
    /// The rule that holds it; 0 if none does.
    pub rule: u32,
    /// Recipients that are left.
    pub recipients: u16,
    /// Attempts that were made.
    pub attempts: u8,
    /// More facts.
    pub flags: Flags,
    pub(super) text: (u32, u16),
}

/// Facts about a mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The operator holds it until [`Row::next`].
    pub const HELD: Flags = Flags(1);
    /// A server may have got it: an attempt began, and its outcome is not recorded.
    pub const SENDING: Flags = Flags(2);
    /// The delay was reported, or need not be.
    pub const DELAY_REPORTED: Flags = Flags(4);
    /// It has the null sender.
    pub const FROM_NULL: Flags = Flags(8);
    /// Its sender asked for a later release (RFC 4865), and it was not due since.
    pub const FUTURE: Flags = Flags(16);

    /// Whether that flag is set.
    pub fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }

    /// Sets or clears a flag.
    pub fn set(&mut self, flag: Flags, on: bool) {
        self.0 = if on { self.0 | flag.0 } else { self.0 & !flag.0 };
    }
}

impl Row {
    /// A row without a text.
    #[allow(clippy::too_many_arguments, reason = "the columns of a row")]
    pub(super) fn new(
        place: Place,
        size: u32,
        (accepted, released): (u32, u32),
        account: u32,
        domain: u32,
        recipients: u16,
        flags: Flags,
    ) -> Self {
        Row {
            place,
            size,
            accepted,
            released,
            next: released,
            account,
            domain,
            rule: 0,
            recipients,
            attempts: 0,
            flags,
            text: (0, 0),
        }
    }
}

#[derive(Default, Clone)]
struct Group {
    ids: Vec<u8>,
    rows: Vec<Row>,
    text: Vec<u8>,
    /// Bytes of `text` that no row has.
    garbage: u32,
}

impl Group {
    fn find(&self, id: MailId) -> Option<usize> {
        self.ids.binary_search(&((id.0 % GROUP) as u8)).ok()
    }

    fn set_text(&mut self, at: usize, text: &[u8]) {
        let (old, length) = self.rows[at].text;
        if &self.text[old as usize..old as usize + usize::from(length)] == text {
            return;
        }
        self.garbage += u32::from(length);
        // Mails that failed together mostly have the same text: share that of the row before.
        let shared = at.checked_sub(1).map(|before| self.rows[before].text);
        let shared = shared
            .filter(|(at, length)| &self.text[*at as usize..*at as usize + usize::from(*length)] == text);
        self.rows[at].text = shared.unwrap_or_else(|| {
            let start = self.text.len();
            self.text.extend_from_slice(text);
            (start as u32, text.len() as u16)
        });
        if self.garbage as usize > self.text.len() / 2 + 64 {
            self.compact();
        }
    }

    /// Drops texts that no row uses, and unused capacity.
    fn compact(&mut self) {
        let mut kept: Vec<u8> = Vec::new();
        let mut last: Option<((u32, u16), (u32, u16))> = None;
        for row in &mut self.rows {
            let (at, length) = row.text;
            row.text = match last {
                Some((old, new)) if old == row.text => new,
                _ => {
                    let new = (kept.len() as u32, length);
                    kept.extend_from_slice(&self.text[at as usize..at as usize + usize::from(length)]);
                    last = Some((row.text, new));
                    new
                }
            };
        }
        kept.shrink_to_fit();
        self.text = kept;
        self.garbage = 0;
    }

    fn remove(&mut self, at: usize) {
        self.garbage += u32::from(self.rows[at].text.1);
        self.ids.remove(at);
        self.rows.remove(at);
        if self.rows.capacity() > 8 && self.rows.len() * 2 < self.rows.capacity() {
            self.rows.shrink_to_fit();
            self.ids.shrink_to_fit();
        }
        if self.garbage as usize > self.text.len() / 2 + 64 {
            self.compact();
        }
    }
}

/// All rows, by id. A clone shares the groups until one of the two changes them. Checkpoints are
/// written from a clone.
#[derive(Default, Clone)]
pub struct Rows {
    groups: BTreeMap<u64, Arc<Group>>,
    count: usize,
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The row of a mail.
    pub fn get(&self, id: MailId) -> Option<&Row> {
        let group = self.groups.get(&(id.0 / GROUP))?;
        group.find(id).map(|at| &group.rows[at])
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, id: MailId) -> Option<&mut Row> {
        let group = self.groups.get_mut(&(id.0 / GROUP))?;
        let at = group.find(id)?;
        Some(&mut Arc::make_mut(group).rows[at])
    }

    /// All, in the order of ids, from `first` on.
    pub fn from(&self, first: MailId) -> impl Iterator<Item = (MailId, &Row)> {
        self.groups
            .range(first.0 / GROUP..)
            .flat_map(|(number, group)| {
                group
                    .ids
                    .iter()
                    .zip(&group.rows)
                    .map(move |(id, row)| (MailId(number * GROUP + u64::from(*id)), row))
            })
            .skip_while(move |(id, _)| *id < first)
    }

    /// The last reply for a mail.
    pub fn failure(&self, id: MailId) -> Option<Failure> {
        let group = self.groups.get(&(id.0 / GROUP))?;
        let (at, length) = group.rows[group.find(id)?].text;
        decode_failure(&group.text[at as usize..at as usize + usize::from(length)])
    }

    pub(super) fn set_failure(&mut self, id: MailId, failure: Option<&Failure>) {
        let Some(group) = self.groups.get_mut(&(id.0 / GROUP)) else { return };
        if let Some(at) = group.find(id) {
            Arc::make_mut(group).set_text(at, &failure.map(encode_failure).unwrap_or_default());
        }
    }

    /// Adds a row; ids come in ascending order.
    pub(super) fn insert(&mut self, id: MailId, row: Row) {
        let group = Arc::make_mut(self.groups.entry(id.0 / GROUP).or_default());
        let number = (id.0 % GROUP) as u8;
        if let Err(at) = group.ids.binary_search(&number) {
            group.ids.insert(at, number);
            group.rows.insert(at, Row { text: (0, 0), ..row });
            self.count += 1;
        }
    }

    pub(super) fn remove(&mut self, id: MailId) -> Option<Row> {
        let group = self.groups.get_mut(&(id.0 / GROUP))?;
        let at = group.find(id)?;
        let row = group.rows[at];
        let group = Arc::make_mut(group);
        group.remove(at);
        if group.rows.is_empty() {
            self.groups.remove(&(id.0 / GROUP));
        }
        self.count -= 1;
        Some(row)
    }

    /// Bytes of memory that the rows take, as far as they can be counted.
    pub fn heap_bytes(&self) -> usize {
        // A node of the map has some overhead for each entry, and each of three vectors a header of
        // the allocator.
        let group = |group: &Arc<Group>| {
            112 + size_of::<Group>()
                + group.ids.capacity()
                + group.rows.capacity() * size_of::<Row>()
                + group.text.capacity()
        };
        self.groups.values().map(group).sum()
    }
}

/// Status, host and text, cut so that the whole is at most [`limits::QUEUE_REASON_BYTES`].
pub(super) fn encode_failure(failure: &Failure) -> Vec<u8> {
    let host = printable(&failure.host, 64);
    let text = printable(&failure.text, limits::QUEUE_REASON_BYTES - 6 - host.len());
    let mut bytes = Vec::with_capacity(7 + host.len() + text.len());
    bytes.push(failure.status.class | u8::from(failure.is_reply) << 7);
    bytes.extend_from_slice(&failure.status.subject.to_be_bytes());
    bytes.extend_from_slice(&failure.status.detail.to_be_bytes());
    bytes.extend_from_slice(host.as_bytes());
    bytes.push(SEPARATOR);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

pub(super) fn decode_failure(bytes: &[u8]) -> Option<Failure> {
    let ([class, s1, s2, d1, d2], rest) = bytes.split_first_chunk::<5>()?;
    let rest = std::str::from_utf8(rest).ok()?;
    let (host, text) = rest.split_once(SEPARATOR as char)?;
    let status = Status::new(class & 0x7f, u16::from_be_bytes([*s1, *s2]), u16::from_be_bytes([*d1, *d2]));
    Some(Failure { status, host: host.to_owned(), text: text.to_owned(), is_reply: class & 0x80 != 0 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(next: u32) -> Row {
        let place = Place::Entry(Position(1), 0);
        Row { next, ..Row::new(place, 1, (0, 0), 0, 0, 1, Flags::default()) }
    }

    proptest! {
        #[test]
        fn rows_are_a_map(ops in proptest::collection::vec((0u64..600, 0u8..4, ".{0,40}"), 0..300)) {
            let mut rows = Rows::default();
            let mut naive: BTreeMap<MailId, (u32, Option<Failure>)> = BTreeMap::new();
            for (step, (id, op, text)) in ops.into_iter().enumerate() {
                let id = MailId(id);
                match op {
                    0 => {
                        rows.insert(id, row(step as u32));
                        naive.entry(id).or_insert((step as u32, None));
                    }
                    1 => {
                        prop_assert_eq!(rows.remove(id).map(|row| row.next), naive.remove(&id).map(|(next, _)| next));
                    }
                    _ => {
                        let failure = Failure::at("h", Status::new(4, 4, 1), &text, op == 2);
                        rows.set_failure(id, Some(&failure));
                        if let Some((_, known)) = naive.get_mut(&id) {
                            *known = Some(failure);
                        }
                    }
                }
                prop_assert_eq!(rows.len(), naive.len());
            }
            let found: Vec<_> = rows.from(MailId(0)).map(|(id, row)| (id, row.next)).collect();
            let expected: Vec<_> = naive.iter().map(|(id, (next, _))| (*id, *next)).collect();
            prop_assert_eq!(found, expected);
            for (id, (_, failure)) in &naive {
                prop_assert_eq!(&rows.failure(*id), failure);
            }
        }
    }

    #[test]
    fn texts_are_cut_to_their_limit() {
        let failure = Failure::at(&"h".repeat(500), Status::new(4, 0, 0), &"x".repeat(5000), true);
        let bytes = encode_failure(&failure);
        assert!(bytes.len() <= limits::QUEUE_REASON_BYTES, "{}", bytes.len());
        let kept = decode_failure(&bytes).unwrap();
        assert!(kept.is_reply && kept.text.len() >= 80 && kept.host.len() == 64);
    }
}
