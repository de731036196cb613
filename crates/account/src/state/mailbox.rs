//! One mailbox: its rows as columns sorted by UID, and what it remembers of those that are gone.

use std::ops::RangeInclusive;

use minicbor::{Decode, Encode};
use sealpost_base::{MailboxId, ModSeq, Position, Timestamp, Uid, UidSet, UidValidity, limits};

use super::flags::{FlagSetId, KeywordId, KeywordSet};
use super::messages::MessageNumber;
use crate::event::SpecialUse;
use crate::share::Link;
use crate::special_use::SpecialUses;

/// A placement of a message in a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its UID there.
    pub uid: Uid,
    /// The message.
    pub message: MessageNumber,
    /// When it last changed.
    pub modseq: ModSeq,
    /// Its flags.
    pub flags: FlagSetId,
    /// When it was placed here (RFC 8514 SAVEDATE).
    pub saved: Timestamp,
}

/// A mailbox and its placements.
#[derive(Clone)]
pub struct Mailbox {
    pub(crate) id: MailboxId,
    pub(crate) name: String,
    pub(crate) uid_validity: UidValidity,
    pub(crate) uid_next: Uid,
    pub(crate) created: ModSeq,
    pub(crate) highest_modseq: ModSeq,
    pub(crate) special_uses: SpecialUses,
    pub(crate) recent_from: Uid,
    pub(crate) keywords: KeywordSet,
    pub(crate) unseen: usize,
    pub(crate) deleted: usize,
    pub(crate) bytes: u64,
    pub(crate) vanished: Vec<Vanished>,
    pub(crate) vanished_floor: ModSeq,
    pub(crate) columns: Columns,
    pub(crate) link: Option<Link>,
}

/// Rows as columns: 28 bytes each.
#[derive(Clone, Default)]
pub(crate) struct Columns {
    pub(crate) uids: Vec<u32>,
    pub(crate) messages: Vec<u32>,
    pub(crate) flags: Vec<u32>,
    pub(crate) modseqs: Vec<u64>,
    pub(crate) saved: Vec<i64>,
}

/// UIDs that went away together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Vanished {
    #[n(0)]
    pub(crate) at: ModSeq,
    #[n(1)]
    pub(crate) first: Uid,
    #[n(2)]
    pub(crate) last: Uid,
}

impl Mailbox {
    pub(crate) fn new(
        id: MailboxId,
        name: String,
        uid_validity: UidValidity,
        special_use: Option<SpecialUse>,
        at: Position,
    ) -> Self {
        Mailbox {
            id,
            name,
            uid_validity,
            uid_next: Uid::MIN,
            created: at,
            highest_modseq: at,
            special_uses: special_use.into_iter().collect(),
            recent_from: Uid::MIN,
            keywords: KeywordSet::default(),
            unseen: 0,
            deleted: 0,
            bytes: 0,
            vanished: Vec::new(),
            vanished_floor: at,
            columns: Columns::default(),
            link: None,
        }
    }

    /// Which mailbox of the account this is.
    pub fn id(&self) -> MailboxId {
        self.id
    }

    /// The full name, `/` between levels.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// UIDVALIDITY.
    pub fn uid_validity(&self) -> UidValidity {
        self.uid_validity
    }

    /// UIDNEXT.
    pub fn uid_next(&self) -> Uid {
        self.uid_next
    }

    /// When the mailbox was made.
    pub fn created(&self) -> ModSeq {
        self.created
    }

    /// HIGHESTMODSEQ (RFC 7162 §3.1.2.1).
    pub fn highest_modseq(&self) -> ModSeq {
        self.highest_modseq
    }

    /// What it is for.
    pub fn special_uses(&self) -> SpecialUses {
        self.special_uses
    }

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.columns.uids.len()
    }

    /// Whether no message is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages are not `\Seen`.
    pub fn unseen(&self) -> usize {
        self.unseen
    }

    /// How many messages are `\Deleted`.
    pub fn deleted(&self) -> usize {
        self.deleted
    }

    /// The share that its messages are in; it has none itself then.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Octets of all its messages together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages from this UID on have not been shown as recent to any session.
    pub fn recent_from(&self) -> Uid {
        self.recent_from
    }

    /// Keywords that messages of this mailbox have had.
    pub fn keywords(&self) -> impl Iterator<Item = KeywordId> + '_ {
        self.keywords.iter()
    }

    /// The row of that UID.
    pub fn row(&self, uid: Uid) -> Option<Row> {
        self.index(uid).map(|i| self.row_at(i))
    }

    /// The rows whose UIDs are in the range, ascending.
    pub fn rows(&self, uids: RangeInclusive<Uid>) -> impl DoubleEndedIterator<Item = Row> + '_ {
        self.span(*uids.start(), *uids.end()).map(|i| self.row_at(i))
    }

    /// All rows, ascending by UID.
    pub fn all_rows(&self) -> impl DoubleEndedIterator<Item = Row> + '_ {
        (0..self.len()).map(|i| self.row_at(i))
    }

    /// The UIDs.
    pub fn uids(&self) -> UidSet {
        self.columns.uids.iter().filter_map(|n| Uid::new(*n)).collect()
    }

    /// Rows placed or changed after `modseq`, ascending by UID.
    pub fn changed_since(&self, modseq: ModSeq) -> impl Iterator<Item = Row> + '_ {
        let any = self.highest_modseq > modseq;
        let len = if any { self.len() } else { 0 };
        (0..len).filter(move |i| self.columns.modseqs[*i] > modseq.0).map(|i| self.row_at(i))
    }

    /// UIDs that went away after `modseq`. `None` if that is further back than the mailbox remembers.
    pub fn vanished_since(&self, modseq: ModSeq) -> Option<UidSet> {
        if modseq < self.vanished_floor {
            return None;
        }
        let start = self.vanished.partition_point(|v| v.at <= modseq);
        Some(UidSet::from_ranges(self.vanished[start..].iter().map(|v| (v.first, v.last))))
    }

    pub(crate) fn index(&self, uid: Uid) -> Option<usize> {
        let n = uid.get();
        let uids = &self.columns.uids;
        // Without holes the UID says where it is; holes only move it towards the front.
        let guess = n.checked_sub(*uids.first()?)? as usize;
        let end = uids.len().min(guess + 1);
        if uids[end - 1] == n {
            return Some(end - 1);
        }
        uids[..end].binary_search(&n).ok()
    }

    /// The indices of the rows whose UIDs are in `first..=last`.
    pub(crate) fn span(&self, first: Uid, last: Uid) -> std::ops::Range<usize> {
        let uids = &self.columns.uids;
        let start = uids.partition_point(|n| *n < first.get());
        let end = start + uids[start..].partition_point(|n| *n <= last.get());
        start..end
    }

    pub(crate) fn row_at(&self, i: usize) -> Row {
        let c = &self.columns;
        Row {
            uid: Uid::new(c.uids[i]).unwrap_or(Uid::MIN),
            message: MessageNumber(c.messages[i]),
            modseq: Position(c.modseqs[i]),
            flags: FlagSetId(c.flags[i]),
            saved: Timestamp(c.saved[i]),
        }
    }

    pub(crate) fn push(&mut self, row: Row) {
        let c = &mut self.columns;
        c.uids.push(row.uid.get());
        c.messages.push(row.message.0);
        c.flags.push(row.flags.0);
        c.modseqs.push(row.modseq.0);
        c.saved.push(row.saved.0);
    }

    /// Takes the rows of `uids` out and remembers that they went; gives them back in order.
    pub(crate) fn remove(&mut self, uids: &UidSet, at: ModSeq) -> Vec<Row> {
        let mut gone = Vec::new();
        for (first, last) in uids.ranges() {
            gone.extend(self.rows(first..=last));
        }
        let (Some(first), Some(_)) = (gone.first(), gone.last()) else { return gone };
        let start = self.index(first.uid).unwrap_or(0);
        let mut keep = gone.iter().peekable();
        let mut to = start;
        for i in start..self.len() {
            if keep.peek().is_some_and(|row| row.uid.get() == self.columns.uids[i]) {
                keep.next();
            } else {
                self.columns.shift(i, to);
                to += 1;
            }
        }
        self.columns.truncate(to);
        let set: UidSet = gone.iter().map(|row| row.uid).collect();
        for (first, last) in set.ranges() {
            self.vanished.push(Vanished { at, first, last });
        }
        if self.vanished.len() > limits::VANISHED_RANGES {
            self.forget_vanished();
        }
        gone
    }

    /// Drops the older half of what vanished; whole entries only, so that `vanished_since` is all or nothing.
    fn forget_vanished(&mut self) {
        let floor = self.vanished[self.vanished.len() / 2].at;
        self.vanished_floor = self.vanished_floor.max(floor);
        self.vanished.retain(|v| v.at > floor);
    }
}

impl Columns {
    fn shift(&mut self, from: usize, to: usize) {
        self.uids[to] = self.uids[from];
        self.messages[to] = self.messages[from];
        self.flags[to] = self.flags[from];
        self.modseqs[to] = self.modseqs[from];
        self.saved[to] = self.saved[from];
    }

    fn truncate(&mut self, len: usize) {
        self.uids.truncate(len);
        self.messages.truncate(len);
        self.flags.truncate(len);
        self.modseqs.truncate(len);
        self.saved.truncate(len);
    }
}
