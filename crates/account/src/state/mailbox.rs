//! One mailbox: its rows sorted by UID, packed, and what it remembers of those that are gone.

use std::ops::RangeInclusive;

use minicbor::{Decode, Encode};
use sealpost_base::{MailboxId, ModSeq, Position, Timestamp, Uid, UidSet, UidValidity, limits};

use super::flags::{FlagSetId, KeywordId, KeywordSet};
use super::messages::MessageNumber;
use super::signed::{from_signed, to_signed};
use super::table::{Table, heap_bytes};
use crate::event::SpecialUse;
use crate::share::Link;
use crate::special_use::SpecialUses;

/// Where in a packed row the UID is, the flags are, and the mod-sequence.
const UID: usize = 0;
const FLAGS: usize = 2;
const MODSEQ: usize = 3;

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
    pub(crate) properties_changed: ModSeq,
    pub(crate) counts_changed: ModSeq,
    pub(crate) special_uses: SpecialUses,
    pub(crate) recent_from: Uid,
    pub(crate) keywords: KeywordSet,
    pub(crate) unseen: usize,
    pub(crate) deleted: usize,
    pub(crate) bytes: u64,
    pub(crate) vanished: Vec<Vanished>,
    pub(crate) vanished_floor: ModSeq,
    pub(super) rows: Table<5>,
    pub(crate) link: Option<Link>,
}

/// What a mailbox takes that has nothing in it, in bytes.
const MAILBOX_BYTES: usize = 400;

impl Row {
    fn pack(&self) -> [u64; 5] {
        let numbers = [self.uid.get(), self.message.0, self.flags.0].map(u64::from);
        [numbers[0], numbers[1], numbers[2], self.modseq.0, from_signed(self.saved.0)]
    }

    fn unpack([uid, message, flags, modseq, saved]: [u64; 5]) -> Self {
        Row {
            uid: Uid::new(uid as u32).unwrap_or(Uid::MIN),
            message: MessageNumber(message as u32),
            modseq: Position(modseq),
            flags: FlagSetId(flags as u32),
            saved: Timestamp(to_signed(saved)),
        }
    }
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
            properties_changed: at,
            counts_changed: at,
            special_uses: special_use.into_iter().collect(),
            recent_from: Uid::MIN,
            keywords: KeywordSet::default(),
            unseen: 0,
            deleted: 0,
            bytes: 0,
            vanished: Vec::new(),
            vanished_floor: at,
            rows: Table::default(),
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

    /// When its name, its special uses, its subscription, its sort order, its UIDVALIDITY or the
    /// log that its messages are in changed last.
    pub fn properties_changed(&self) -> ModSeq {
        self.properties_changed
    }

    /// When a message of it came, went, or became seen, a draft or deleted, or no longer so.
    pub fn counts_changed(&self) -> ModSeq {
        self.counts_changed
    }

    /// What it is for.
    pub fn special_uses(&self) -> SpecialUses {
        self.special_uses
    }

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.rows.len()
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

    /// Bytes of all its messages together.
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
        self.rows.find(u64::from(uid.get())).map(Row::unpack)
    }

    /// The rows whose UIDs are in the range, ascending.
    pub fn rows(&self, uids: RangeInclusive<Uid>) -> impl DoubleEndedIterator<Item = Row> + '_ {
        let [first, last] = [uids.start(), uids.end()].map(|uid| u64::from(uid.get()));
        let from = self.rows.lower_bound(first);
        self.rows.range(from, self.rows.lower_bound(last + 1).max(from)).map(Row::unpack)
    }

    /// All rows, ascending by UID.
    pub fn all_rows(&self) -> impl DoubleEndedIterator<Item = Row> + '_ {
        self.rows.iter().map(Row::unpack)
    }

    /// The first row whose flags match. Each distinct set of flags is tested once.
    pub fn first_with(&self, mut is_such: impl FnMut(FlagSetId) -> bool) -> Option<Row> {
        let mut last = None;
        let found = self.rows.find_by::<FLAGS>(|flags| {
            // Mostly the next message has the flags of the one before.
            let known = last.filter(|(known, _)| *known == flags);
            last.insert(known.unwrap_or_else(|| (flags, is_such(FlagSetId(flags as u32))))).1
        });
        found.map(Row::unpack)
    }

    /// The UIDs.
    pub fn uids(&self) -> UidSet {
        self.uids_from(Uid::MIN)
    }

    /// The UIDs from that one on.
    pub fn uids_from(&self, first: Uid) -> UidSet {
        let mut uids = UidSet::new();
        self.rows.runs_from(self.rows.lower_bound(u64::from(first.get())), |first, last| {
            if let (Some(first), Some(last)) = (Uid::new(first as u32), Uid::new(last as u32)) {
                uids.push_range(first, last);
            }
        });
        uids
    }

    /// Rows placed or changed after `modseq`, ascending by UID.
    pub fn changed_since(&self, modseq: ModSeq) -> impl Iterator<Item = Row> + '_ {
        self.changed_since_from(modseq, Uid::MIN)
    }

    /// Those of them that have this UID or a higher one.
    pub fn changed_since_from(&self, modseq: ModSeq, first: Uid) -> impl Iterator<Item = Row> + '_ {
        let any = self.highest_modseq > modseq;
        let from = self.rows.lower_bound(u64::from(first.get()));
        any.then(|| self.rows.above::<MODSEQ>(modseq.0, from)).into_iter().flatten().map(Row::unpack)
    }

    /// UIDs that went away after `modseq`. `None` if that is further back than the mailbox remembers.
    pub fn vanished_since(&self, modseq: ModSeq) -> Option<UidSet> {
        if modseq < self.vanished_floor {
            return None;
        }
        let start = self.vanished.partition_point(|v| v.at <= modseq);
        Some(UidSet::from_ranges(self.vanished[start..].iter().map(|v| (v.first, v.last))))
    }

    /// Adds rows with ascending UIDs that are higher than all others, each block packed once.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows.into_iter().map(|row| row.pack()));
    }

    /// The highest UID that is there; 0 if there is none.
    pub(crate) fn last_uid(&self) -> u32 {
        self.rows.last_key().unwrap_or(0) as u32
    }

    /// Gives the rows whose UIDs are in the range the flags that `change` says, at `at`.
    pub(crate) fn change_flags(
        &mut self,
        (first, last): (Uid, Uid),
        at: ModSeq,
        mut change: impl FnMut(&Row) -> Option<FlagSetId>,
    ) {
        let [first, last] = [first, last].map(|uid| u64::from(uid.get()));
        let (from, to) = (self.rows.lower_bound(first), self.rows.lower_bound(last + 1));
        self.rows.update(from, to, |row| {
            let row = Row::unpack(*row);
            change(&row).map(|flags| Row { flags, modseq: at, ..row }.pack())
        });
    }

    /// Numbers all rows from 1 on.
    pub(crate) fn renumber(&mut self) {
        let mut next = 0;
        self.rows.retain(|row| {
            next += 1;
            row[UID] = next;
            true
        });
    }

    /// Takes the rows of `uids` out, shows them to `gone` in order, and remembers that they went;
    /// which there were.
    pub(crate) fn remove(&mut self, uids: &UidSet, at: ModSeq, mut gone: impl FnMut(Row)) -> UidSet {
        let mut removed = UidSet::new();
        let ranges = uids.ranges().map(|(first, last)| (u64::from(first.get()), u64::from(last.get())));
        self.rows.remove(ranges, |row| {
            let row = Row::unpack(*row);
            removed.push(row.uid);
            gone(row);
        });
        for (first, last) in removed.ranges() {
            self.vanished.push(Vanished { at, first, last });
        }
        if self.vanished.len() > limits::VANISHED_RANGES {
            self.forget_vanished();
        }
        removed
    }

    /// What it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        MAILBOX_BYTES
            + self.rows.heap_bytes()
            + self.name.len() * 2
            + self.keywords.heap_bytes()
            + heap_bytes(self.vanished.capacity() * size_of::<Vanished>())
    }

    /// What so many of its placements take on average, in bytes.
    pub(super) fn rows_bytes(&self, rows: usize) -> usize {
        // In 64 bits both factors are far from overflowing.
        (self.rows.heap_bytes() as u64 * rows as u64).div_ceil(self.rows.len().max(1) as u64) as usize
    }

    /// The rows of UIDs that are `uids` when divided by `divisor`, for a chunk of a checkpoint.
    pub(crate) fn block(&self, block: u32, divisor: u32) -> impl Iterator<Item = Row> + '_ {
        let first = u64::from(block) * u64::from(divisor);
        let from = self.rows.lower_bound(first);
        self.rows.range(from, self.rows.lower_bound(first + u64::from(divisor))).map(Row::unpack)
    }

    /// Which blocks of so many UIDs there are, ascending.
    pub(crate) fn blocks(&self, divisor: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let row = self.rows.get(self.rows.lower_bound(next?))?;
            let block = row[UID] / u64::from(divisor);
            next = Some((block + 1) * u64::from(divisor));
            Some(block as u32)
        })
    }

    /// Drops the older half of what vanished; whole entries only, so that `vanished_since` is all or nothing.
    fn forget_vanished(&mut self) {
        let floor = self.vanished[self.vanished.len() / 2].at;
        self.vanished_floor = self.vanished_floor.max(floor);
        self.vanished.retain(|v| v.at > floor);
    }
}
