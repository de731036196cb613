//! NOTIFY (RFC 5465): the changes that a client wants reported unsolicited.

use super::fetch::FetchItem;
use super::multisearch::MailboxFilter;
use super::string::Atom;

/// `NOTIFY`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notify {
    /// `NONE`: of nothing.
    None,
    /// `SET`: of this, and of nothing else.
    Set {
        /// `STATUS`: begin with a STATUS response for each mailbox.
        status: bool,
        /// Events by mailboxes: at least one group, with at most `limits::IMAP_ITEMS` names
        /// together.
        groups: Vec<EventGroup>,
    },
}

/// `event-group` (RFC 5465 §8)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// Which mailboxes.
    pub mailboxes: NotifyFilter,
    /// Which events; empty is `NONE`.
    pub events: Vec<NotifyEvent>,
}

/// `filter-mailboxes` (RFC 5465 §8)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyFilter {
    /// `selected-delayed`: the selected mailbox, but expunges only when a command allows for it
    /// (RFC 5465 §6.1.2).
    SelectedDelayed,
    /// Any other: also `selected` (RFC 5465 §6.1.1).
    Mailboxes(MailboxFilter),
}

/// `event` (RFC 5465 §5)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyEvent {
    /// `MessageNew`, with the items to report of new messages in the selected mailbox.
    MessageNew(Vec<FetchItem>),
    /// `MessageExpunge`
    MessageExpunge,
    /// `FlagChange`
    FlagChange,
    /// `MailboxName`: created, deleted, renamed.
    MailboxName,
    /// `SubscriptionChange`
    SubscriptionChange,
    /// `MailboxMetadataChange`
    MailboxMetadataChange,
    /// `ServerMetadataChange`
    ServerMetadataChange,
    /// Any other, `AnnotationChange` among them.
    Other(Atom),
}

impl NotifyEvent {
    /// The name, as written.
    pub fn name(&self) -> &str {
        match self {
            NotifyEvent::MessageNew(_) => "MessageNew",
            NotifyEvent::MessageExpunge => "MessageExpunge",
            NotifyEvent::FlagChange => "FlagChange",
            NotifyEvent::MailboxName => "MailboxName",
            NotifyEvent::SubscriptionChange => "SubscriptionChange",
            NotifyEvent::MailboxMetadataChange => "MailboxMetadataChange",
            NotifyEvent::ServerMetadataChange => "ServerMetadataChange",
            NotifyEvent::Other(name) => name.as_str(),
        }
    }
}

impl NotifyFilter {
    /// Its first word, as written.
    pub fn name(&self) -> &'static str {
        match self {
            NotifyFilter::SelectedDelayed => "selected-delayed",
            NotifyFilter::Mailboxes(filter) => filter.name(),
        }
    }
}
