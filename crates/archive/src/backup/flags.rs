//! [`Flags`]: the flags of a message, with Gmail's labels.

/// A message's flags: system flags as bits, keywords, and Gmail's labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Bits of [`Flags::SEEN`] and the others. `\Recent` is never among them: it is not a property
    /// of the message.
    pub system: u8,
    /// Keywords and flags of extensions (these with their backslash), sorted, each once.
    pub keywords: Vec<Box<str>>,
    /// Gmail's labels (X-GM-LABELS), in UTF-8, sorted, each once; `\Inbox` and the like with their backslash.
    pub labels: Vec<Box<str>>,
}

impl Flags {
    /// `\Seen`
    pub const SEEN: u8 = 1;
    /// `\Answered`
    pub const ANSWERED: u8 = 2;
    /// `\Flagged`
    pub const FLAGGED: u8 = 4;
    /// `\Deleted`
    pub const DELETED: u8 = 8;
    /// `\Draft`
    pub const DRAFT: u8 = 16;

    /// The system flags with their bits.
    pub const SYSTEM: [(u8, &'static str); 5] = [
        (Self::SEEN, "\\Seen"),
        (Self::ANSWERED, "\\Answered"),
        (Self::FLAGGED, "\\Flagged"),
        (Self::DELETED, "\\Deleted"),
        (Self::DRAFT, "\\Draft"),
    ];

    /// System flags alone.
    pub fn of_system(system: u8) -> Self {
        Flags { system, ..Flags::default() }
    }

    /// Flags from their names, in any order; `\Recent` is left out.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Flags::default();
        for name in names {
            flags.add(name);
        }
        flags
    }

    /// Adds the flag called `name`, unless it is there (flags compare without case, RFC 3501
    /// §2.3.2) or `\Recent`.
    pub fn add(&mut self, name: &str) {
        if let Some((bit, _)) = Self::SYSTEM.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)) {
            self.system |= bit;
        } else if !name.eq_ignore_ascii_case("\\Recent")
            && !self.keywords.iter().any(|have| have.eq_ignore_ascii_case(name))
        {
            let at = self.keywords.partition_point(|have| **have < *name);
            self.keywords.insert(at, name.into());
        }
    }

    /// The names of all flags, labels not included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let system = Self::SYSTEM.iter().filter(|(bit, _)| self.system & bit != 0).map(|(_, name)| *name);
        system.chain(self.keywords.iter().map(|keyword| &**keyword))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_sets() {
        let flags = Flags::from_names(["\\seen", "b", "\\Recent", "a", "B", "\\Draft"]);
        assert_eq!(flags.names().collect::<Vec<_>>(), ["\\Seen", "\\Draft", "a", "b"]);
    }
}
