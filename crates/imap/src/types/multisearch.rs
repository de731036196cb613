//! ESEARCH, the search of several mailboxes (RFC 7377), and the names of sets of mailboxes it
//! shares with NOTIFY (RFC 5465 §6).

use super::mailbox::Mailbox;
use super::search::Search;

/// `ESEARCH`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiSearch {
    /// `IN (…)`: where; the selected mailbox if absent. At least one, with at most
    /// `limits::IMAP_ITEMS` names.
    pub sources: Option<Vec<MailboxFilter>>,
    /// The search; [`Search::uid`] is true, since the answers are UIDs (RFC 7377 §2.1).
    pub search: Search,
}

/// `filter-mailboxes` (RFC 5465 §8, RFC 7377 §4)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailboxFilter {
    /// `selected`
    Selected,
    /// `inboxes`: where mail is delivered to (RFC 5465 §6.3).
    Inboxes,
    /// `personal`: everything in the personal namespaces (RFC 5465 §6.2).
    Personal,
    /// `subscribed` (RFC 5465 §6.4)
    Subscribed,
    /// `subtree`: these and everything below (RFC 5465 §6.5). At least one.
    Subtree(Vec<Mailbox>),
    /// `subtree-one`: these and their children (RFC 7377 §2.2). At least one.
    SubtreeOne(Vec<Mailbox>),
    /// `mailboxes`: these (RFC 5465 §6.6). At least one.
    Mailboxes(Vec<Mailbox>),
}

impl MailboxFilter {
    /// The mailboxes that are named.
    pub fn names(&self) -> &[Mailbox] {
        match self {
            MailboxFilter::Subtree(names)
            | MailboxFilter::SubtreeOne(names)
            | MailboxFilter::Mailboxes(names) => names,
            _ => &[],
        }
    }

    /// Its first word, as written.
    pub fn name(&self) -> &'static str {
        match self {
            MailboxFilter::Selected => "selected",
            MailboxFilter::Inboxes => "inboxes",
            MailboxFilter::Personal => "personal",
            MailboxFilter::Subscribed => "subscribed",
            MailboxFilter::Subtree(_) => "subtree",
            MailboxFilter::SubtreeOne(_) => "subtree-one",
            MailboxFilter::Mailboxes(_) => "mailboxes",
        }
    }
}
