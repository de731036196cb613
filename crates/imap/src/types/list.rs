//! LIST, LSUB and NAMESPACE: patterns, attributes, options (RFC 3501 §6.3.8, RFC 6154, RFC 5258, RFC 2342).

use std::fmt;

use super::mailbox::{HIERARCHY_DELIMITER, Mailbox};
use super::string::Atom;

/// The LIST command. Plain `LIST reference pattern` has no options and one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Selection options, `LIST (SPECIAL-USE) …`; `None` if there was no list, which is not the same as an empty one
    /// (RFC 5258 §3: with the extended syntax, an empty pattern is no longer special).
    pub selection: Option<Vec<SelectionOption>>,
    /// The reference name, UTF-8.
    pub reference: Mailbox,
    /// One or more patterns.
    pub patterns: Vec<ListPattern>,
    /// Return options, `RETURN (…)`.
    pub returns: Vec<ReturnOption>,
}

impl List {
    /// Whether only the delimiter and the root of the reference are asked for: `LIST ref ""` (RFC 3501 §6.3.8).
    pub fn is_delimiter_request(&self) -> bool {
        self.selection.is_none() && matches!(&*self.patterns, [pattern] if pattern.as_str().is_empty())
    }
}

/// What restricts a LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionOption {
    /// `SPECIAL-USE`: only mailboxes with a special use (RFC 6154 §4).
    SpecialUse,
}

/// What a LIST returns besides the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnOption {
    /// `SPECIAL-USE` (RFC 6154 §4).
    SpecialUse,
    /// `CHILDREN` (RFC 5258 §4).
    Children,
}

/// `list-mailbox`: a name in which `*` stands for anything and `%` for anything within a level. UTF-8, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPattern(Box<str>);

/// One LIST or LSUB response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListItem {
    /// Attributes, `\HasNoChildren`.
    pub attributes: Vec<MailboxAttribute>,
    /// The hierarchy delimiter; `None` is NIL, a flat name.
    pub delimiter: Option<char>,
    /// The name.
    pub mailbox: Mailbox,
}

/// `mbx-list-flags` (RFC 3501 §7.2.2, RFC 3348, RFC 6154, RFC 5258).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the attribute of that name")]
pub enum MailboxAttribute {
    NoInferiors,
    NoSelect,
    Marked,
    Unmarked,
    HasChildren,
    HasNoChildren,
    NonExistent,
    Subscribed,
    Remote,
    All,
    Archive,
    Drafts,
    Flagged,
    Junk,
    Sent,
    Trash,
    Important,
    /// Any other, without the backslash.
    Other(Atom),
}

/// Answer to NAMESPACE: personal, other users', shared; an empty list is NIL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// Personal namespaces.
    pub personal: Vec<NamespaceEntry>,
    /// Other users' namespaces.
    pub other: Vec<NamespaceEntry>,
    /// Shared namespaces.
    pub shared: Vec<NamespaceEntry>,
}

/// One namespace: its prefix and delimiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceEntry {
    /// The prefix of names in it; often empty.
    pub prefix: Mailbox,
    /// The hierarchy delimiter; `None` is NIL.
    pub delimiter: Option<char>,
}

impl MailboxAttribute {
    const NAMES: [(MailboxAttribute, &'static str); 17] = [
        (MailboxAttribute::NoInferiors, "NoInferiors"),
        (MailboxAttribute::NoSelect, "Noselect"),
        (MailboxAttribute::Marked, "Marked"),
        (MailboxAttribute::Unmarked, "Unmarked"),
        (MailboxAttribute::HasChildren, "HasChildren"),
        (MailboxAttribute::HasNoChildren, "HasNoChildren"),
        (MailboxAttribute::NonExistent, "NonExistent"),
        (MailboxAttribute::Subscribed, "Subscribed"),
        (MailboxAttribute::Remote, "Remote"),
        (MailboxAttribute::All, "All"),
        (MailboxAttribute::Archive, "Archive"),
        (MailboxAttribute::Drafts, "Drafts"),
        (MailboxAttribute::Flagged, "Flagged"),
        (MailboxAttribute::Junk, "Junk"),
        (MailboxAttribute::Sent, "Sent"),
        (MailboxAttribute::Trash, "Trash"),
        (MailboxAttribute::Important, "Important"),
    ];

    /// The attribute called `name` (no backslash), in any case.
    pub fn new(name: Atom) -> Self {
        let known = Self::NAMES.into_iter().find(|(_, n)| n.eq_ignore_ascii_case(name.as_str()));
        known.map_or(MailboxAttribute::Other(name), |(attribute, _)| attribute)
    }

    /// The name, no backslash.
    pub fn name(&self) -> &str {
        if let MailboxAttribute::Other(name) = self {
            return name.as_str();
        }
        Self::NAMES.iter().find(|(attribute, _)| attribute == self).map_or("", |(_, name)| name)
    }
}

impl ListPattern {
    /// A pattern from its UTF-8 form; `Err` if it is too long for any name or holds control characters.
    pub fn new(pattern: &str) -> Result<Self, super::InvalidMailbox> {
        // Every mailbox name is also a pattern: the same rules hold, except for INBOX, which `matches` sees to.
        Mailbox::new(pattern)?;
        Ok(ListPattern(pattern.into()))
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `reference` and the pattern put together, as LIST interprets them (RFC 3501 §6.3.8): a pattern that begins with
    /// the delimiter stands alone.
    #[must_use]
    pub fn under(&self, reference: &Mailbox) -> ListPattern {
        if self.0.starts_with(HIERARCHY_DELIMITER) || reference.as_str().is_empty() {
            return self.clone();
        }
        ListPattern(format!("{reference}{}", self.0).into())
    }

    /// Whether `name` matches, in time proportional to the product of the two lengths at worst. A first level INBOX
    /// matches in any case.
    pub fn matches(&self, name: &str) -> bool {
        let first = name.split(HIERARCHY_DELIMITER).next().unwrap_or(name);
        let folded = if first.eq_ignore_ascii_case(Mailbox::INBOX) { first.len() } else { 0 };
        glob(self.0.as_bytes(), name.as_bytes(), folded)
    }
}

/// Wildcard match by the set of name positions reachable after each pattern byte: no backtracking. The first
/// `folded` bytes of the name match in any case.
fn glob(pattern: &[u8], name: &[u8], folded: usize) -> bool {
    let mut reachable = vec![false; name.len() + 1];
    reachable[0] = true;
    let mut before = 0;
    for &p in pattern {
        // A wildcard after the same one adds nothing.
        if p == before && matches!(p, b'*' | b'%') {
            continue;
        }
        before = p;
        match p {
            b'*' | b'%' => {
                for i in 0..name.len() {
                    let crosses = p == b'%' && name[i] == HIERARCHY_DELIMITER as u8;
                    reachable[i + 1] |= reachable[i] && !crosses;
                }
            }
            literal => {
                for i in (0..name.len()).rev() {
                    let same = name[i] == literal || (i < folded && name[i].eq_ignore_ascii_case(&literal));
                    reachable[i + 1] = reachable[i] && same;
                }
                reachable[0] = false;
                if !reachable.contains(&true) {
                    return false;
                }
            }
        }
    }
    reachable[name.len()]
}

impl fmt::Display for MailboxAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\\{}", self.name())
    }
}
