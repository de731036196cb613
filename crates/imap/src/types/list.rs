//! LIST, LSUB and NAMESPACE: patterns, attributes, options (RFC 3501 §6.3.8, RFC 6154, RFC 5258, RFC 2342).

mod matcher;

use std::fmt;

pub use matcher::{Matched, Matcher};

use super::mailbox::Mailbox;
use super::metadata::Entry;
use super::status::StatusItem;
use super::string::Atom;

/// The LIST command. Plain `LIST reference pattern` has no options and one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Selection options, `LIST (SPECIAL-USE) …`; `None` if there was no list, which is not the
    /// same as an empty one (RFC 5258 §3: with the extended syntax, an empty pattern is no longer
    /// special).
    pub selection: Option<Vec<SelectionOption>>,
    /// The reference name, UTF-8.
    pub reference: Mailbox,
    /// One or more patterns.
    pub patterns: Vec<ListPattern>,
    /// Return options, `RETURN (…)`.
    pub returns: Vec<ReturnOption>,
}

impl List {
    /// Whether only the delimiter and the root of the reference are asked for: `LIST ref ""` (RFC
    /// 3501 §6.3.8).
    pub fn is_delimiter_request(&self) -> bool {
        self.selection.is_none() && matches!(&*self.patterns, [pattern] if pattern.as_str().is_empty())
    }
}

/// A selection option of LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionOption {
    /// `SUBSCRIBED`: subscribed names instead of existing mailboxes (RFC 5258 §3.1).
    Subscribed,
    /// `REMOTE`: remote mailboxes too (RFC 5258 §3.1).
    Remote,
    /// `RECURSIVEMATCH`: also names above those that are selected (RFC 5258 §3.1).
    RecursiveMatch,
    /// `SPECIAL-USE`: only mailboxes with a special use (RFC 6154 §2).
    SpecialUse,
}

/// A return option of LIST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturnOption {
    /// `SUBSCRIBED` (RFC 5258 §3.2).
    Subscribed,
    /// `CHILDREN` (RFC 5258 §4).
    Children,
    /// `SPECIAL-USE` (RFC 6154 §2).
    SpecialUse,
    /// `STATUS (…)` (RFC 5819 §2).
    Status(Vec<StatusItem>),
    /// `METADATA (…)` (RFC 9590 §3).
    Metadata(Vec<Entry>),
    /// `MYRIGHTS` (RFC 8440 §3).
    MyRights,
}

impl SelectionOption {
    /// Every option, with the name it is written with.
    pub const NAMES: [(SelectionOption, &'static str); 4] = [
        (SelectionOption::Subscribed, "SUBSCRIBED"),
        (SelectionOption::Remote, "REMOTE"),
        (SelectionOption::RecursiveMatch, "RECURSIVEMATCH"),
        (SelectionOption::SpecialUse, "SPECIAL-USE"),
    ];

    /// The name it is written with.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(option, _)| *option == self).map_or("", |(_, name)| name)
    }

    /// The option called `name`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(option, _)| *option)
    }
}

/// `list-mailbox`: a name in which `*` stands for anything and `%` for anything within a level.
/// UTF-8, decoded.
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
    /// Extended data items; sent only to clients that used the extended syntax (RFC 5258 §3).
    pub extended: Vec<ListExtension>,
}

/// `mbox-list-extended-item` (RFC 5258 §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListExtension {
    /// `CHILDINFO`: names below this one are selected by these options (RFC 5258 §3.5).
    ChildInfo(Vec<SelectionOption>),
    /// `OLDNAME`: the name as the client wrote it, or the former name (RFC 9051 §6.3.9.7). It is
    /// sent as it was written.
    OldName(Mailbox),
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
        // Every mailbox name is also a pattern: the same rules hold, except for INBOX, which
        // `matches` sees to.
        Mailbox::new(pattern)?;
        Ok(ListPattern(pattern.into()))
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `name` matches. For more than one name, make a [`Matcher`].
    pub fn matches(&self, name: &str) -> bool {
        Matcher::of(self).matches(name).whole()
    }
}

impl fmt::Display for MailboxAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\\{}", self.name())
    }
}
