//! Newtypes for all identifiers, so that the compiler keeps UIDs, sequence numbers and positions apart.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use minicbor::{Decode, Encode};

use crate::{Error, Random, Result};

/// A position in an account's log. The first entry is 1; 0 is the empty log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Position(#[n(0)] pub u64);

impl Position {
    /// Before the first entry.
    pub const ZERO: Position = Position(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Position(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A modification sequence (RFC 7162): the log position of the entry that made the change.
pub type ModSeq = Position;

/// An IMAP unique identifier (RFC 3501 §2.3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Uid(#[n(0)] pub NonZeroU32);

impl Uid {
    /// The smallest UID.
    pub const MIN: Uid = Uid(NonZeroU32::MIN);

    /// `n` as a UID; `None` for 0.
    pub fn new(n: u32) -> Option<Self> {
        NonZeroU32::new(n).map(Uid)
    }

    /// The UID as a number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A mailbox's UIDVALIDITY (RFC 3501 §2.3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct UidValidity(#[n(0)] pub NonZeroU32);

impl fmt::Display for UidValidity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A mailbox of an account: its number in order of creation, never reused. It survives RENAME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct MailboxId(#[n(0)] pub u32);

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

        impl $name {
            /// A new random id.
            pub fn random(random: &dyn Random) -> Self {
                let mut bytes = [0; 16];
                random.fill(&mut bytes);
                $name(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let mut hex = [0; 32];
                for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
                    *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                }
                f.write_str(std::str::from_utf8(&hex).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(s: &str) -> Result<Self> {
                let bad = || Error::invalid(format!("not an id of 32 hex digits: {s:?}"));
                if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(bad());
                }
                let mut bytes = [0; 16];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&s[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
                }
                Ok($name(bytes))
            }
        }
    };
}

random_id! {
    /// An account, independent of its name: 16 random bytes, written as 32 hex digits.
    AccountId
}
random_id! {
    /// A sealed message object: 16 random bytes, written as 32 hex digits.
    ObjectId
}
random_id! {
    /// A submission of an account: 16 random bytes, written as 32 hex digits.
    SubmissionId
}
random_id! {
    /// An identity of an account: 16 bytes, written as 32 hex digits.
    IdentityId
}

impl ObjectId {
    /// `count` consecutive new ids, the first of them random. Objects stored together are thus adjacent in
    /// indexes ordered by name.
    pub fn consecutive(random: &dyn Random, count: usize) -> impl Iterator<Item = Self> + use<> {
        let first = u128::from_be_bytes(Self::random(random).0);
        (0..count as u128).map(move |nth| ObjectId(first.wrapping_add(nth).to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    #[test]
    fn consecutive_ids_follow_each_other() {
        let ids: Vec<_> = ObjectId::consecutive(&SeededRandom::new(1), 300).collect();
        assert_eq!(ids.len(), 300);
        assert_eq!(ids[0], ObjectId::random(&SeededRandom::new(1)));
        let number = |id: &ObjectId| u128::from_be_bytes(id.0);
        assert!(ids.windows(2).all(|two| number(&two[1]) == number(&two[0]).wrapping_add(1)));
    }

    #[test]
    fn ids_round_trip_through_text() {
        let id = ObjectId::random(&SeededRandom::new(1));
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert_eq!("xyz".parse::<ObjectId>().unwrap_err().kind(), crate::Kind::Invalid);
        assert_eq!("é".repeat(16).parse::<ObjectId>().unwrap_err().kind(), crate::Kind::Invalid);
    }
}
