//! A query over emails, independent of any protocol.

use sealpost_account::SystemFlags;
use sealpost_base::{AccountId, MailboxId, Timestamp};

use crate::criterion::TextPart;

/// A mailbox: its log, and its id there.
pub type MailboxPlace = (AccountId, MailboxId);

/// Selects emails of an account, in an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmailQuery {
    /// The condition.
    pub filter: EmailFilter,
    /// The sort order; equal emails are in the order of their logs.
    pub sort: Vec<EmailComparator>,
}

/// A condition on emails. Conditions nest; the translating protocol bounds the depth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EmailFilter {
    /// All emails match, or none.
    Always(bool),
    /// It is in this mailbox.
    In(MailboxPlace),
    /// It is in a mailbox outside this list.
    InOtherThan(Vec<MailboxPlace>),
    /// It was received before that time.
    ReceivedBefore(Timestamp),
    /// It was received at that time or later.
    ReceivedSince(Timestamp),
    /// It has at least this many bytes.
    SizeFrom(u64),
    /// It has fewer bytes than this.
    SizeBelow(u64),
    /// The email, or its thread, has a keyword.
    Keyword(KeywordOf, EmailKeyword),
    /// It has an attachment ([`super::IsAttached`]).
    Attached,
    /// Its text contains this string ([`crate::Criterion::Text`]).
    Text(TextPart, String),
    /// The condition does not hold.
    Not(Box<EmailFilter>),
    /// All of the conditions hold.
    All(Vec<EmailFilter>),
    /// At least one of the conditions holds.
    Any(Vec<EmailFilter>),
}

/// Whose keywords count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeywordOf {
    /// The email itself.
    Email,
    /// All emails of its thread.
    AllInThread,
    /// At least one email of its thread.
    SomeInThread,
}

/// A keyword of an email.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EmailKeyword {
    /// A system flag.
    System(SystemFlags),
    /// A keyword with this name, ignoring case.
    Named(String),
}

/// One criterion of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmailComparator {
    /// The key to compare.
    pub key: EmailSortKey,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// A sort key of emails.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EmailSortKey {
    /// The time of receipt.
    Received,
    /// The size in bytes.
    Size,
    /// The Date field; the time of receipt if there is none.
    Sent,
    /// The name of the first From address, or the address if there is none.
    From(Collation),
    /// The same for To.
    To(Collation),
    /// The base subject (RFC 5256 §2.1).
    Subject(Collation),
    /// Whether the email, or its thread, has a keyword; those without come first.
    Keyword(KeywordOf, EmailKeyword),
}

/// How strings are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// `i;unicode-casemap` (RFC 5051).
    #[default]
    UnicodeCasemap,
    /// `i;ascii-casemap` (RFC 4790 §9.2): ASCII letters ignoring case, everything else byte by byte.
    AsciiCasemap,
}

impl Collation {
    /// All of them with their names.
    pub const NAMES: [(Collation, &'static str); 2] =
        [(Collation::UnicodeCasemap, "i;unicode-casemap"), (Collation::AsciiCasemap, "i;ascii-casemap")];

    /// The collation of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(collation, _)| *collation)
    }

    /// Appends the sort key of `string` to `out`, at most `most` bytes.
    pub fn key(self, string: &str, most: usize, out: &mut Vec<u8>) {
        match self {
            Collation::UnicodeCasemap => sealpost_mime::collate::key(string, most, out),
            Collation::AsciiCasemap => {
                out.extend(string.bytes().take(most).map(|byte| byte.to_ascii_uppercase()));
            }
        }
    }
}

impl EmailFilter {
    /// Whether an email that matches always does: the condition uses nothing that can change.
    fn is_lasting(&self) -> bool {
        match self {
            EmailFilter::In(_) | EmailFilter::InOtherThan(_) | EmailFilter::Keyword(..) => false,
            EmailFilter::Not(filter) => filter.is_lasting(),
            EmailFilter::All(filters) | EmailFilter::Any(filters) => {
                filters.iter().all(EmailFilter::is_lasting)
            }
            _ => true,
        }
    }
}

impl EmailSortKey {
    /// Whether emails keep their order by it.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self, EmailSortKey::Keyword(..))
    }
}

impl EmailQuery {
    /// Whether emails that are not deleted stay in the results, in the same order.
    pub fn is_lasting(&self) -> bool {
        self.filter.is_lasting() && self.sort.iter().all(|comparator| comparator.key.is_lasting())
    }

    /// Its estimated memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        fn of(filter: &EmailFilter) -> usize {
            size_of::<EmailFilter>()
                + match filter {
                    EmailFilter::InOtherThan(places) => size_of_val(&places[..]),
                    EmailFilter::Keyword(_, EmailKeyword::Named(name)) => name.len(),
                    EmailFilter::Text(TextPart::Field(name), string) => name.len() + string.len(),
                    EmailFilter::Text(_, string) => string.len(),
                    EmailFilter::Not(filter) => of(filter),
                    EmailFilter::All(filters) | EmailFilter::Any(filters) => filters.iter().map(of).sum(),
                    _ => 0,
                }
        }
        // A keyword has at most 255 bytes in JMAP; sorts have few comparators.
        of(&self.filter) + self.sort.len() * (size_of::<EmailComparator>() + 64)
    }
}
