//! Names of log entries in stores where one position may have several. A name contains the writer's ballot
//! and the ballot of the previous entry, so that a listing alone shows which entry follows which.

use minicbor::{Decode, Encode};
use sealpost_base::{Position, Random};

/// Hexadecimal digits of a position.
const POSITION_DIGITS: usize = 16;
/// Hexadecimal digits of a ballot.
const BALLOT_DIGITS: usize = 24;
/// The prefix of the name of an object that records the begin of a ballot; after all positions in a listing.
const BEGUN: char = 'w';

/// From this round on, ballots carry a tag. So a writer without the key cannot begin the greatest ballot,
/// after which there would be none.
const TAGGED_ROUNDS: u32 = 1 << 31;

/// A writer's numbered claim to append, as in Paxos: greater ballots take precedence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Ballot {
    /// Greater than every round that the writer knew.
    #[n(0)]
    round: u32,
    /// Random, so that no two ballots are equal.
    #[n(1)]
    writer: u64,
}

impl Ballot {
    /// The ballot of an entry that a conditional create wrote, without a ballot.
    pub const NONE: Ballot = Ballot { round: 0, writer: 0 };

    /// A greater ballot. `None` after four thousand million rounds.
    pub(crate) fn above(self, random: &dyn Random) -> Option<Self> {
        Some(Ballot { round: self.round.checked_add(1)?, writer: random.next_u64() })
    }

    /// A greater ballot for a log whose writers have keys. From [`TAGGED_ROUNDS`] on, half of the writer's
    /// number is random, and the other half is the `tag` of round and nonce.
    pub(crate) fn above_tagged(self, random: &dyn Random, tag: impl Fn(u32, u32) -> u32) -> Option<Self> {
        let above = self.above(random)?;
        if above.round < TAGGED_ROUNDS {
            return Some(above);
        }
        let nonce = (above.writer >> 32) as u32;
        Some(Ballot { writer: u64::from(nonce) << 32 | u64::from(tag(above.round, nonce)), ..above })
    }

    /// Whether a writer with keys may have begun it; `is_tag` checks round, nonce and tag. Writers reach
    /// rounds that need tags only after a planted ballot.
    pub(crate) fn may_count(self, is_tag: impl Fn(u32, u32, u32) -> bool) -> bool {
        self.round < TAGGED_ROUNDS || is_tag(self.round, (self.writer >> 32) as u32, self.writer as u32)
    }

    /// The name of the object that records its begin.
    pub(crate) fn file_name(self) -> String {
        format!("{BEGUN}{self:x}")
    }

    /// The ballot whose begin an object with this name records.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix(BEGUN)?)
    }

    fn parse(hex: &str) -> Option<Self> {
        if hex.len() != BALLOT_DIGITS || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let (round, writer) = hex.split_at(8);
        Some(Ballot {
            round: u32::from_str_radix(round, 16).ok()?,
            writer: u64::from_str_radix(writer, 16).ok()?,
        })
    }
}

impl std::fmt::LowerHex for Ballot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}{:016x}", self.round, self.writer)
    }
}

/// The name of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName {
    /// Its position in the log.
    pub position: Position,
    /// The ballot in which it was written.
    pub(crate) ballot: Ballot,
    /// The ballot of the previous entry.
    pub(crate) parent: Ballot,
}

impl EntryName {
    /// The only entry at its position.
    pub fn plain(position: Position) -> Self {
        EntryName { position, ballot: Ballot::NONE, parent: Ballot::NONE }
    }

    /// Whether it was written without a ballot.
    pub(crate) fn is_plain(&self) -> bool {
        self.ballot == Ballot::NONE
    }

    /// The last segment of its object's path.
    pub fn file_name(&self) -> String {
        let position = self.position.0;
        if self.is_plain() {
            return format!("{position:016x}");
        }
        format!("{position:016x}-{:x}-{:x}", self.ballot, self.parent)
    }

    /// Parses a name from [`EntryName::file_name`].
    pub fn parse(name: &str) -> Option<Self> {
        let (position, rest) = name.split_at_checked(POSITION_DIGITS)?;
        let position = position_in(position)?;
        if rest.is_empty() {
            return Some(EntryName::plain(position));
        }
        let (ballot, parent) = rest.strip_prefix('-')?.split_once('-')?;
        let (ballot, parent) = (Ballot::parse(ballot)?, Ballot::parse(parent)?);
        (ballot != Ballot::NONE).then_some(EntryName { position, ballot, parent })
    }
}

/// The position in a file name or folder name.
pub(crate) fn position_in(segment: &str) -> Option<Position> {
    if segment.len() != 16 || !segment.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(segment, 16).ok().map(Position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_base::SeededRandom;

    #[test]
    fn names_round_trip_and_sort_by_position() {
        let random = SeededRandom::new(1);
        let parent = Ballot::NONE.above(&random).unwrap();
        let ballot = parent.above(&random).unwrap();
        assert!(ballot > parent && parent > Ballot::NONE);
        let place = EntryName { position: Position(17), ballot, parent };
        for place in [place, EntryName::plain(Position(17)), EntryName { parent: Ballot::NONE, ..place }] {
            assert_eq!(EntryName::parse(&place.file_name()), Some(place));
            assert!(place.file_name() < EntryName::plain(Position(18)).file_name());
            assert!(place.file_name() < ballot.file_name());
        }
        assert_eq!(Ballot::of_file(&ballot.file_name()), Some(ballot));
        let name = place.file_name();
        for bad in ["", "12", "w", "g", &name[..40], &name[..65], &format!("{name}0"), "000000000000001é"] {
            assert_eq!(EntryName::parse(bad), None, "{bad}");
            assert_eq!(Ballot::of_file(bad), None, "{bad}");
        }
        assert_eq!(Ballot { round: u32::MAX, writer: 1 }.above(&random), None);
    }

    #[test]
    fn ballots_need_a_tag_from_half_the_rounds() {
        let random = SeededRandom::new(1);
        let (tag, is_tag) =
            (|round: u32, nonce: u32| round ^ nonce, |round, nonce, tag| round ^ nonce == tag);
        let low = Ballot { round: TAGGED_ROUNDS - 2, writer: 7 };
        let last = low.above_tagged(&random, tag).unwrap();
        assert!(low.may_count(is_tag) && last.may_count(is_tag));
        let tagged = last.above_tagged(&random, tag).unwrap();
        assert!(tagged > last && tagged.may_count(is_tag));
        assert!(!Ballot { writer: tagged.writer ^ 1, ..tagged }.may_count(is_tag));
        assert!(!Ballot { round: u32::MAX, writer: u64::MAX }.may_count(is_tag));
    }
}
