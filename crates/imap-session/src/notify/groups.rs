//! The events to which a client has subscribed, per mailbox (RFC 5465 §6).

use std::collections::HashMap;

use sealpost_account::AccountState;
use sealpost_account::name::{canonical, normal};
use sealpost_imap::types::{
    EventGroup, FetchItem, HIERARCHY_DELIMITER, MailboxFilter, NotifyEvent, NotifyFilter,
};

/// The events of the selected mailbox (RFC 5465 §6.1).
#[derive(Debug, Clone, Default)]
pub(crate) struct SelectedEvents {
    /// Whether expunges wait until a command allows them (RFC 5465 §6.1.2).
    pub(crate) delayed: bool,
    /// New messages and expunges, which RFC 5465 §5 couples.
    pub(crate) messages: bool,
    /// Changes of flags.
    pub(crate) flags: bool,
    /// The items to report of new messages.
    pub(crate) items: Vec<FetchItem>,
}

/// Events of mailboxes that are not selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    pub(super) messages: bool,
    pub(super) flags: bool,
    pub(super) names: bool,
    pub(super) subscriptions: bool,
    pub(super) metadata: bool,
}

/// All groups of a NOTIFY SET, merged: an event is wanted for a mailbox if any group wants it (RFC 5465 §6).
/// A lookup takes the same time for a thousand groups as for one, since each change does it for each mailbox.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// For all mailboxes of this user.
    personal: Wanted,
    /// For subscribed mailboxes.
    subscribed: Wanted,
    /// For these mailboxes and all below them.
    subtrees: HashMap<String, Wanted>,
    /// For these mailboxes only.
    named: HashMap<String, Wanted>,
    /// The server's metadata, for any mailboxes.
    pub(super) server_metadata: bool,
}

/// The prefix of mailboxes that belong to other users.
const OTHER_USERS: &str = "Other Users";

/// Sorts the groups of the command by mailbox. Fails for an unknown event.
pub(super) fn sort(asked: Vec<EventGroup>) -> Result<(SelectedEvents, Groups), ()> {
    let (mut selected, mut groups) = (SelectedEvents::default(), Groups::default());
    for EventGroup { mailboxes, events } in asked {
        if events.iter().any(|event| matches!(event, NotifyEvent::Other(_))) {
            return Err(());
        }
        match mailboxes {
            NotifyFilter::SelectedDelayed => selected = of_selected(events, true),
            NotifyFilter::Mailboxes(MailboxFilter::Selected) => selected = of_selected(events, false),
            NotifyFilter::Mailboxes(filter) => {
                groups.server_metadata |= events.contains(&NotifyEvent::ServerMetadataChange);
                groups.add(filter, Wanted::new(&events));
            }
        }
    }
    Ok((selected, groups))
}

fn of_selected(events: Vec<NotifyEvent>, delayed: bool) -> SelectedEvents {
    let mut selected = SelectedEvents { delayed, ..SelectedEvents::default() };
    for event in events {
        match event {
            NotifyEvent::MessageNew(items) => {
                selected.messages = true;
                selected.items = items.into_iter().map(peek).collect();
            }
            NotifyEvent::FlagChange => selected.flags = true,
            _ => {}
        }
    }
    selected
}

/// Unsolicited FETCH responses must not mark messages as read (RFC 5465 §5.2).
fn peek(item: FetchItem) -> FetchItem {
    match item {
        FetchItem::BodySection { section, partial, .. } => {
            FetchItem::BodySection { section, partial, peek: true }
        }
        item => item,
    }
}

impl Groups {
    fn add(&mut self, filter: MailboxFilter, wanted: Wanted) {
        let (names, list) = match filter {
            MailboxFilter::Subscribed => return self.subscribed = self.subscribed.and(wanted),
            MailboxFilter::Subtree(list) => (&mut self.subtrees, list),
            MailboxFilter::Mailboxes(list) => (&mut self.named, list),
            // RFC 5465 §6.3: a subaddress may be delivered anywhere, so these are the same.
            _ => return self.personal = self.personal.and(wanted),
        };
        for name in list {
            // Both as written and as stored (RFC 9051 §5.1): a mailbox created later may have either form.
            for form in [canonical(name.as_str()), normal(name.as_str())] {
                let of_name = names.entry(form.into_owned()).or_default();
                *of_name = of_name.and(wanted);
            }
        }
    }

    /// Memory of the names in the groups, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let names = self.subtrees.keys().chain(self.named.keys());
        names.map(|name| name_bytes(name) + size_of::<Wanted>()).sum()
    }
}

/// Memory of a name, in bytes.
pub(super) fn name_bytes(name: &str) -> usize {
    2 * size_of::<String>() + name.len()
}

impl Wanted {
    fn new(events: &[NotifyEvent]) -> Self {
        Wanted {
            messages: events.contains(&NotifyEvent::MessageExpunge),
            flags: events.contains(&NotifyEvent::FlagChange),
            names: events.contains(&NotifyEvent::MailboxName),
            subscriptions: events.contains(&NotifyEvent::SubscriptionChange),
            metadata: events.contains(&NotifyEvent::MailboxMetadataChange),
        }
    }

    /// Whether any event is wanted.
    pub(super) fn any(self) -> bool {
        self != Wanted::default()
    }

    fn and(self, other: Wanted) -> Wanted {
        Wanted {
            messages: self.messages || other.messages,
            flags: self.flags || other.flags,
            names: self.names || other.names,
            subscriptions: self.subscriptions || other.subscriptions,
            metadata: self.metadata || other.metadata,
        }
    }
}

/// Whether the mailbox belongs to another user.
fn is_others(name: &str) -> bool {
    name.strip_prefix(OTHER_USERS)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(HIERARCHY_DELIMITER))
}

impl Groups {
    /// The events wanted for the mailbox with that name; several groups may include it (RFC 5465 §6).
    pub(super) fn wanted(&self, name: &str, subscribed: bool) -> Wanted {
        let mut wanted = if is_others(name) { Wanted::default() } else { self.personal };
        if subscribed {
            wanted = wanted.and(self.subscribed);
        }
        if !self.subtrees.is_empty() {
            let levels = name.match_indices(HIERARCHY_DELIMITER).map(|(at, _)| &name[..at]);
            let found = levels.chain([name]).filter_map(|level| self.subtrees.get(level));
            wanted = found.fold(wanted, |wanted, of_level| wanted.and(*of_level));
        }
        self.named.get(name).map_or(wanted, |of_name| wanted.and(*of_name))
    }

    /// As [`Groups::wanted`], in that state.
    pub(super) fn wanted_in(&self, state: &AccountState, name: &str) -> Wanted {
        self.wanted(name, state.is_subscribed(name))
    }

    /// Whether any event of a mailbox that is not selected is wanted.
    pub(super) fn any(&self) -> bool {
        let names = self.subtrees.values().chain(self.named.values());
        self.server_metadata
            || [&self.personal, &self.subscribed].into_iter().chain(names).any(|wanted| wanted.any())
    }
}

#[cfg(test)]
mod tests {
    use sealpost_imap::types::Mailbox;

    use super::*;

    fn group(filter: MailboxFilter, events: &[NotifyEvent]) -> EventGroup {
        EventGroup { mailboxes: NotifyFilter::Mailboxes(filter), events: events.to_vec() }
    }

    #[test]
    fn several_groups_may_include_one_mailbox() {
        let named = |name: &str| vec![Mailbox::new(name).unwrap()];
        let messages = [NotifyEvent::MessageNew(Vec::new()), NotifyEvent::MessageExpunge];
        let (_, groups) = sort(vec![
            group(MailboxFilter::Mailboxes(named("INBOX")), &messages),
            group(MailboxFilter::Personal, &[NotifyEvent::SubscriptionChange]),
            group(MailboxFilter::Subtree(named("Lists")), &[NotifyEvent::MailboxName]),
            group(MailboxFilter::Subscribed, &[NotifyEvent::MailboxMetadataChange]),
        ])
        .unwrap();
        let inbox = groups.wanted("INBOX", false);
        assert!(inbox.messages && inbox.subscriptions && !inbox.names && !inbox.metadata);
        assert!(groups.wanted("Lists", true).metadata);
        assert!(groups.wanted("Lists/a/b", false).names);
        assert!(!groups.wanted("Listserv", false).names);
        assert!(!groups.wanted("Other Users/you/Lists", false).any());
        assert!(groups.wanted("Other Users/you/x", true).metadata);
    }

    #[test]
    fn group_names_are_normalized() {
        let named = vec![Mailbox::new("inbox/Entwu\u{308}rfe").unwrap()];
        let names = [NotifyEvent::MailboxName];
        let (_, groups) = sort(vec![group(MailboxFilter::Subtree(named), &names)]).unwrap();
        assert!(groups.wanted("INBOX/Entwürfe/neu", false).names);
        assert!(groups.wanted("INBOX/Entwu\u{308}rfe", false).names, "a name that is kept as written");
    }

    #[test]
    fn an_unknown_event_is_refused() {
        let weather = NotifyEvent::Other(sealpost_imap::types::Atom::new("Weather").unwrap());
        assert!(sort(vec![group(MailboxFilter::Personal, &[weather])]).is_err());
    }
}
