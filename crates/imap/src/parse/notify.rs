//! NOTIFY (RFC 5465 §8).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use super::{fetch, multisearch};
use crate::types::{EventGroup, MailboxFilter, Notify, NotifyEvent, NotifyFilter};

/// `notify = "NOTIFY" SP (notify-set / notify-none)`
pub(super) fn notify(cursor: &mut Cursor<'_>) -> Parsed<Notify> {
    match cursor.word(|b| b.is_ascii_alphabetic()).to_ascii_uppercase().as_str() {
        "NONE" => Ok(Notify::None),
        "SET" => {
            cursor.space()?;
            let status = cursor.eat_word("STATUS ");
            let groups = groups(cursor)?;
            Ok(Notify::Set { status, groups })
        }
        _ => Err(Failure::Bad("SET or NONE is missing")),
    }
}

/// `event-groups = event-group *(SP event-group)`
fn groups(cursor: &mut Cursor<'_>) -> Parsed<Vec<EventGroup>> {
    let mut groups = Vec::new();
    let mut names = 0;
    loop {
        let group = group(cursor)?;
        if let NotifyFilter::Mailboxes(filter) = &group.mailboxes {
            names += filter.names().len();
        }
        groups.push(group);
        if groups.len() + names > limits::IMAP_ITEMS {
            return Err(Failure::Bad("too many mailboxes"));
        }
        if cursor.at_end() || !cursor.eat(b' ') || cursor.at_end() {
            break;
        }
    }
    // RFC 5465 §6.1: "Only one of the mailbox specifiers affecting the currently selected mailbox
    // can be specified".
    if groups.iter().filter(|group| is_selected(&group.mailboxes)).count() > 1 {
        return Err(Failure::Bad("the selected mailbox is named twice"));
    }
    Ok(groups)
}

/// `event-group = "(" filter-mailboxes SP events ")"`
fn group(cursor: &mut Cursor<'_>) -> Parsed<EventGroup> {
    cursor.expect(b'(', "a group of events is missing")?;
    let mailboxes = if cursor.eat_word("selected-delayed ") {
        NotifyFilter::SelectedDelayed
    } else {
        let filter = multisearch::filter(cursor)?;
        cursor.space()?;
        if matches!(filter, MailboxFilter::SubtreeOne(_)) {
            return Err(Failure::Bad("subtree-one is no set of mailboxes to be notified of"));
        }
        NotifyFilter::Mailboxes(filter)
    };
    let selected = is_selected(&mailboxes);
    let events =
        if cursor.eat_word("NONE") { Vec::new() } else { cursor.list1(|cursor| event(cursor, selected))? };
    cursor.expect(b')', "a group of events does not end")?;
    if events.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many events"));
    }
    check(&events, selected)?;
    Ok(EventGroup { mailboxes, events })
}

/// `event = message-event / mailbox-event / user-event / event-ext`
fn event(cursor: &mut Cursor<'_>, selected: bool) -> Parsed<NotifyEvent> {
    let name = cursor.atom()?;
    Ok(match name.as_str().to_ascii_lowercase().as_str() {
        "messagenew" => NotifyEvent::MessageNew(attributes(cursor, selected)?),
        "messageexpunge" => NotifyEvent::MessageExpunge,
        "flagchange" => NotifyEvent::FlagChange,
        "mailboxname" => NotifyEvent::MailboxName,
        "subscriptionchange" => NotifyEvent::SubscriptionChange,
        "mailboxmetadatachange" => NotifyEvent::MailboxMetadataChange,
        "servermetadatachange" => NotifyEvent::ServerMetadataChange,
        _ => NotifyEvent::Other(name),
    })
}

/// `[SP "(" fetch-att *(SP fetch-att) ")"]`: "may only be present for the SELECTED/SELECTED-DELAYED
/// mailbox filter".
fn attributes(cursor: &mut Cursor<'_>, selected: bool) -> Parsed<Vec<crate::types::FetchItem>> {
    if !cursor.rest().starts_with(b" (") {
        return Ok(Vec::new());
    }
    cursor.space()?;
    if !selected {
        return Err(Failure::Bad("attributes can be reported for the selected mailbox only"));
    }
    fetch::list(cursor)
}

/// Checks which events require each other, and where they are allowed (RFC 5465 §5, §6.1).
fn check(events: &[NotifyEvent], selected: bool) -> Parsed<()> {
    let has = |wanted: fn(&NotifyEvent) -> bool| events.iter().any(wanted);
    let new = has(|event| matches!(event, NotifyEvent::MessageNew(_)));
    let expunge = has(|event| matches!(event, NotifyEvent::MessageExpunge));
    let flags = has(|event| {
        matches!(event, NotifyEvent::FlagChange)
            || matches!(event, NotifyEvent::Other(name) if name.as_str().eq_ignore_ascii_case("AnnotationChange"))
    });
    if new != expunge {
        return Err(Failure::Bad("MessageNew and MessageExpunge belong together"));
    }
    if flags && !new {
        return Err(Failure::Bad("FlagChange needs MessageNew and MessageExpunge"));
    }
    let of_mailboxes = has(|event| {
        matches!(
            event,
            NotifyEvent::MailboxName
                | NotifyEvent::SubscriptionChange
                | NotifyEvent::MailboxMetadataChange
                | NotifyEvent::ServerMetadataChange
        )
    });
    if selected && of_mailboxes {
        return Err(Failure::Bad("only message events can be reported for the selected mailbox"));
    }
    Ok(())
}

fn is_selected(filter: &NotifyFilter) -> bool {
    matches!(filter, NotifyFilter::SelectedDelayed | NotifyFilter::Mailboxes(MailboxFilter::Selected))
}
