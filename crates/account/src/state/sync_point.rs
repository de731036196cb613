//! How far a client has followed the changes of one kind of objects (RFC 8620 §5.2).
//!
//! Mostly that is a log position. One entry may change more objects than a response may have, so a
//! response can end within an entry: the client then knows the changes of its objects up to an id.
//! As each object is in one of both parts, a client knows each object as it was at one position.

use std::num::NonZeroU32;

use sealpost_base::{IdentityId, ObjectId, Position, SubmissionId, UidValidity};

use crate::contacts::{AddressBookId, CardId};
use crate::thread::ThreadId;

/// Objects with a state of their own, which changes when one of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Messages.
    Emails,
    /// Which messages are in threads.
    Threads,
    /// Mailboxes with their counts: each change of a message may be one of its mailboxes.
    Mailboxes,
    /// Address books.
    AddressBooks,
    /// Contact cards.
    Cards,
}

/// The id of an object whose changes clients follow, as a number in the same order.
pub trait ChangeKey: Copy + Ord {
    /// Tells the kinds apart in a state string. No hexadecimal digit, and each has its own.
    const LETTER: char;

    /// The number.
    fn to_number(self) -> u128;

    /// The id with that number; `None` if there is none.
    fn from_number(number: u128) -> Option<Self>;
}

/// How far a client has followed the changes in one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncPoint<T> {
    /// It knows all changes up to this position.
    pub position: Position,
    /// Of the entry after that, it knows the changes of objects up to this id; `None`: of no object.
    pub within: Option<T>,
}

impl<T> From<Position> for SyncPoint<T> {
    fn from(position: Position) -> Self {
        SyncPoint { position, within: None }
    }
}

impl<T: Copy + Ord> SyncPoint<T> {
    /// The position at which the client knows that object.
    pub fn of(&self, id: T) -> Position {
        match self.within {
            Some(last) if id <= last => self.position.next(),
            _ => self.position,
        }
    }
}

/// What became of things between two points. Nothing is in it twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// Not there at the first point, and there at the second.
    pub created: Vec<T>,
    /// There at both, and different at the second, or perhaps so.
    pub updated: Vec<T>,
    /// There at the first point, and not at the second.
    pub destroyed: Vec<T>,
    /// The second point: the next one to ask for.
    pub upto: SyncPoint<T>,
    /// Something changed after that.
    pub more: bool,
}

/// Where a page of changes ends, of which so many follow: the changes at their positions, sorted.
/// A page has whole entries if the first one fits, else a part of it, but at least one change. `None`
/// if all of them fit.
pub(super) fn page_end<T: Copy + Ord>(changes: &[(Position, T)], most: usize) -> Option<SyncPoint<T>> {
    let most = most.max(1);
    let (last, (beyond, _)) = (changes.get(most - 1)?, changes.get(most)?);
    let before = |position: Position| Position(position.0.saturating_sub(1));
    Some(match changes.first() {
        Some((first, _)) if first == beyond => SyncPoint { position: before(*first), within: Some(last.1) },
        _ => before(*beyond).into(),
    })
}

macro_rules! keys {
    ($($letter:literal $key:ty: $to:expr, $from:expr;)*) => {$(
        impl ChangeKey for $key {
            const LETTER: char = $letter;

            fn to_number(self) -> u128 {
                ($to)(self)
            }

            fn from_number(number: u128) -> Option<Self> {
                ($from)(number)
            }
        }
    )*};
}

fn small<N: TryFrom<u128>, T>(number: u128, key: impl Fn(N) -> T) -> Option<T> {
    N::try_from(number).ok().map(key)
}

keys! {
    'k' AddressBookId: |key: Self| key.0.into(), |number| small(number, AddressBookId);
    'p' CardId: |key: Self| key.0.into(), |number| small(number, CardId);
    'i' IdentityId: |key: Self| u128::from_be_bytes(key.0), |number: u128| Some(IdentityId(number.to_be_bytes()));
    'm' ObjectId: |key: Self| u128::from_be_bytes(key.0), |number: u128| Some(ObjectId(number.to_be_bytes()));
    's' SubmissionId: |key: Self| u128::from_be_bytes(key.0), |number: u128| Some(SubmissionId(number.to_be_bytes()));
    't' ThreadId: |key: Self| key.0.into(), |number| small(number, ThreadId);
    'v' UidValidity: |key: Self| key.0.get().into(), |number| small(number, NonZeroU32::new)?.map(UidValidity);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_whole_entries_if_one_fits() {
        let at = |rows: &[(u64, u32)]| rows.iter().map(|(at, id)| (Position(*at), *id)).collect::<Vec<_>>();
        let changes = at(&[(2, 7), (2, 9), (5, 1), (5, 3), (5, 4)]);
        assert_eq!(page_end(&changes, 5), None);
        assert_eq!(page_end(&changes, 4), Some(Position(4).into()));
        assert_eq!(page_end(&changes, 2), Some(Position(4).into()));
        let within = SyncPoint { position: Position(1), within: Some(7) };
        assert_eq!(page_end(&changes, 1), Some(within));
        assert_eq!(page_end(&changes[2..], 2), Some(SyncPoint { position: Position(4), within: Some(3) }));
        assert_eq!(page_end(&changes, 0), Some(within));
        assert_eq!([6, 7, 8].map(|id| within.of(id).0), [2, 2, 1]);
    }

    #[test]
    fn each_key_is_read_back_and_has_a_letter() {
        fn check<T: ChangeKey + std::fmt::Debug>(key: T) -> char {
            assert_eq!(T::from_number(key.to_number()), Some(key));
            T::LETTER
        }
        let letters = [
            check(AddressBookId(7)),
            check(CardId(u32::MAX)),
            check(IdentityId([9; 16])),
            check(ObjectId([255; 16])),
            check(SubmissionId([1; 16])),
            check(ThreadId(u64::MAX)),
            check(UidValidity(NonZeroU32::MIN)),
        ];
        assert!(letters.iter().all(|letter| !letter.is_ascii_hexdigit()));
        assert_eq!(letters.iter().collect::<std::collections::BTreeSet<_>>().len(), letters.len());
        assert_eq!((CardId::from_number(1 << 32), UidValidity::from_number(0)), (None, None));
    }
}
