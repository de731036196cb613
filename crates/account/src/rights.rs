//! Rights to a mailbox (RFC 4314 §2): letters, each for a set of operations.

use std::fmt;

use minicbor::{Decode, Encode};

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Rights(#[n(0)] u16);

/// The rights in the order in which they are written.
const LETTERS: [(char, Rights); 11] = [
    ('l', Rights::LOOKUP),
    ('r', Rights::READ),
    ('s', Rights::SEEN),
    ('w', Rights::WRITE),
    ('i', Rights::INSERT),
    ('p', Rights::POST),
    ('k', Rights::CREATE),
    ('x', Rights::DELETE_MAILBOX),
    ('t', Rights::DELETE_MESSAGES),
    ('e', Rights::EXPUNGE),
    ('a', Rights::ADMINISTER),
];

impl Rights {
    /// No rights.
    pub const NONE: Rights = Rights(0);
    /// `l`: the mailbox is listed.
    pub const LOOKUP: Rights = Rights(1);
    /// `r`: SELECT, STATUS.
    pub const READ: Rights = Rights(2);
    /// `s`: `\Seen` can be changed.
    pub const SEEN: Rights = Rights(4);
    /// `w`: flags other than `\Seen` and `\Deleted` can be changed.
    pub const WRITE: Rights = Rights(8);
    /// `i`: APPEND, COPY into the mailbox.
    pub const INSERT: Rights = Rights(16);
    /// `p`: mail can be sent to the mailbox's address; not enforced by IMAP.
    pub const POST: Rights = Rights(32);
    /// `k`: mailboxes can be made below it.
    pub const CREATE: Rights = Rights(64);
    /// `x`: the mailbox can be deleted.
    pub const DELETE_MAILBOX: Rights = Rights(128);
    /// `t`: `\Deleted` can be changed.
    pub const DELETE_MESSAGES: Rights = Rights(256);
    /// `e`: EXPUNGE.
    pub const EXPUNGE: Rights = Rights(512);
    /// `a`: rights can be listed and changed.
    pub const ADMINISTER: Rights = Rights(1024);
    /// All rights: those of the owner.
    pub const ALL: Rights = Rights(2047);

    /// Whether all of `other` are among these.
    pub fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub fn intersects(self, other: Rights) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These and `other`.
    #[must_use]
    pub const fn with(self, other: Rights) -> Self {
        Rights(self.0 | other.0)
    }

    /// These without `other`.
    #[must_use]
    pub const fn without(self, other: Rights) -> Self {
        Rights(self.0 & !other.0)
    }

    /// The right of that letter. The obsolete `c` and `d` stand for several (RFC 4314 §2.1.1): here `c` is
    /// `k` and `x`, `d` is `t` and `e`.
    pub fn of_letter(letter: char) -> Option<Self> {
        match letter {
            'c' => Some(Self::CREATE.with(Self::DELETE_MAILBOX)),
            'd' => Some(Self::DELETE_MESSAGES.with(Self::EXPUNGE)),
            _ => LETTERS.into_iter().find(|(l, _)| *l == letter).map(|(_, right)| right),
        }
    }

    /// Parses the letters of rights.
    ///
    /// # Errors
    /// The first letter that is none (RFC 4314 §3.1: such a command is refused).
    pub fn parse(letters: &str) -> Result<Self, char> {
        letters.chars().try_fold(Rights::NONE, |rights, letter| {
            Self::of_letter(letter).map(|right| rights.with(right)).ok_or(letter)
        })
    }

    /// Each of these rights with its letter, without the obsolete ones.
    pub fn letters(self) -> impl Iterator<Item = char> {
        LETTERS.into_iter().filter(move |(_, right)| self.contains(*right)).map(|(letter, _)| letter)
    }
}

/// As in ACL and MYRIGHTS: with the obsolete `c` or `d` if any of the rights that it stood for is granted
/// (RFC 4314 §2.1.1).
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.letters() {
            write!(f, "{letter}")?;
        }
        for obsolete in ['c', 'd'] {
            if Self::of_letter(obsolete).is_some_and(|members| self.intersects(members)) {
                write!(f, "{obsolete}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4314 §2.1.1: both examples.
    #[test]
    fn obsolete_rights_are_parsed_and_written() {
        assert_eq!(Rights::parse("lrswida").unwrap(), Rights::parse("lrswieta").unwrap());
        assert_eq!(Rights::parse("lrswida").unwrap().to_string(), "lrswitead");
        assert_eq!(Rights::parse("lrswikda").unwrap().to_string(), "lrswikteacd");
        assert_eq!(Rights::parse("c").unwrap(), Rights::parse("kx").unwrap());
        assert_eq!(Rights::parse("x").unwrap().to_string(), "xc");
        assert_eq!(Rights::ALL.to_string(), "lrswipkxteacd");
        assert_eq!(Rights::NONE.to_string(), "");
    }

    /// RFC 4314 §3.1: uppercase and unknown rights are refused; digits are reserved.
    #[test]
    fn an_unknown_right_is_named() {
        for (letters, bad) in [("lrQswicda", 'Q'), ("lrqswicda", 'q'), ("lr0", '0'), ("l r", ' '), ("é", 'é')]
        {
            assert_eq!(Rights::parse(letters), Err(bad));
        }
        assert_eq!(Rights::parse(""), Ok(Rights::NONE));
    }

    #[test]
    fn sets() {
        let lrs = Rights::parse("lrs").unwrap();
        assert!(lrs.contains(Rights::READ) && !lrs.contains(Rights::READ.with(Rights::WRITE)));
        assert!(lrs.intersects(Rights::READ.with(Rights::WRITE)) && !lrs.intersects(Rights::WRITE));
        assert_eq!(lrs.without(Rights::SEEN).with(Rights::INSERT).to_string(), "lri");
        assert!(Rights::ALL.letters().all(|l| Rights::of_letter(l).is_some_and(|r| Rights::ALL.contains(r))));
    }
}
