//! Operations of clients: checked against the state, and translated to the events that perform them.
//!
//! `apply` ignores impossible events; these functions report why they are impossible.

use std::borrow::Cow;

use sealpost_base::{Error, MailboxId, Result, UidSet, limits};

use crate::event::{Event, Flags};
use crate::metadata::{self, Holder, Refused};
use crate::name::{canonical, check, normal};
use crate::share::check_own;
use crate::sort_order;
use crate::special_use::SpecialUses;
use crate::state::{AccountState, FlagRoom, INBOX, Mailbox, Row};

/// The properties of a new mailbox beside its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewMailbox {
    /// Its special uses, which are removed from the mailboxes that have them (RFC 6154 §3).
    pub special_uses: SpecialUses,
    /// Its position among its siblings ([`AccountState::sort_order`]).
    pub sort_order: u32,
    /// Whether its name becomes subscribed; `None` keeps the present subscription.
    pub is_subscribed: Option<bool>,
}

/// Creates a mailbox with these special uses, as [`create_mailbox_with`] does.
///
/// # Errors
/// As [`create_mailbox_with`].
pub fn create_mailbox(state: &AccountState, name: &str, uses: SpecialUses) -> Result<Vec<Event>> {
    create_mailbox_with(state, name, NewMailbox { special_uses: uses, ..NewMailbox::default() })
}

/// Creates a mailbox and its missing parents (RFC 3501 §6.3.3). Ignores a trailing `/`, and converts the name
/// to Net-Unicode (RFC 9051 §6.3.4).
///
/// # Errors
/// `Conflict` if it exists; `Invalid` or `Limit` if the name or the number of mailboxes is not allowed, or
/// another sort order or subscription exceeds the limits.
pub fn create_mailbox_with(state: &AccountState, name: &str, new: NewMailbox) -> Result<Vec<Event>> {
    let name = normal(name.strip_suffix('/').unwrap_or(name));
    check(&name)?;
    check_own(&name)?;
    if state.mailbox_named(&name).is_some() {
        return Err(Error::conflict(format!("mailbox {name} exists")));
    }
    let mut events = superiors(state, &name);
    let mailbox = next_mailbox(state, events.len());
    events.push(Event::MailboxCreated { name: name.to_string(), special_use: None });
    room_for_mailboxes(state, &events)?;
    if !new.special_uses.is_empty() {
        events.push(Event::SpecialUsesSet { mailbox, uses: new.special_uses.iter().collect() });
    }
    if new.sort_order != 0 {
        events.extend(set_sort_order(state, mailbox, new.sort_order)?);
    }
    if let Some(on) = new.is_subscribed {
        events.extend(subscribe(state, &name, on)?);
    }
    Ok(events)
}

/// The id of a mailbox that is created after `others` new ones.
fn next_mailbox(state: &AccountState, others: usize) -> MailboxId {
    MailboxId(state.next_mailbox_id().0.saturating_add(u32::try_from(others).unwrap_or(u32::MAX)))
}

/// Checks that the mailboxes that `events` create are within the limits.
fn room_for_mailboxes(state: &AccountState, events: &[Event]) -> Result<()> {
    if state.mailbox_count() + mailboxes_made(events) > limits::MAILBOXES {
        return Err(Error::limit(format!("an account has at most {} mailboxes", limits::MAILBOXES)));
    }
    Ok(())
}

/// The number of mailboxes that these events create.
pub fn mailboxes_made(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::MailboxCreated { .. })).count()
}

/// Gives a mailbox these special uses, and removes them from the mailboxes that have them (RFC 6154 §4).
///
/// # Errors
/// `Denied` for the inbox: actions of clients on a mailbox with a special use, such as emptying it, would
/// affect new mail.
pub fn set_special_uses(mailbox: &Mailbox, uses: SpecialUses) -> Result<Vec<Event>> {
    if mailbox.name() == INBOX && !uses.is_empty() {
        return Err(Error::denied("the inbox has no special use"));
    }
    if mailbox.special_uses() == uses {
        return Ok(Vec::new());
    }
    Ok(vec![Event::SpecialUsesSet { mailbox: mailbox.id(), uses: uses.iter().collect() }])
}

/// Sets the sort order of a mailbox.
///
/// # Errors
/// `Limit` if the account cannot hold another small object.
pub fn set_sort_order(state: &AccountState, mailbox: MailboxId, order: u32) -> Result<Vec<Event>> {
    if state.sort_order(mailbox) == order {
        return Ok(Vec::new());
    }
    let name = sort_order::object_of(mailbox);
    let events = vec![match sort_order::value(order) {
        Some(value) => Event::ObjectPut { name, value },
        None => Event::ObjectRemoved { name },
    }];
    check_objects(state, &events)?;
    Ok(events)
}

/// Subscribes to a name, or unsubscribes; no mailbox need have it (RFC 3501 §6.3.6).
///
/// # Errors
/// `Invalid` or `Limit` if the name, or that many names, are not allowed.
pub fn subscribe(state: &AccountState, name: &str, on: bool) -> Result<Vec<Event>> {
    let name = subscription(state, name);
    if state.is_subscribed(&name) == on {
        return Ok(Vec::new());
    }
    if on {
        check(&name)?;
        let others = state.subscriptions().map(cost);
        let bytes = others.sum::<usize>() + cost(&name);
        if state.subscriptions().count() >= limits::MAILBOXES || bytes > limits::SUBSCRIPTIONS_BYTES {
            return Err(Error::limit("there are too many subscriptions, or they are too long"));
        }
    }
    Ok(vec![Event::Subscribed { name: name.into_owned(), on }])
}

/// How much a subscription counts, in bytes.
fn cost(name: &str) -> usize {
    name.len() + 32
}

fn superiors(state: &AccountState, name: &str) -> Vec<Event> {
    name.match_indices('/')
        .map(|(at, _)| &name[..at])
        .filter(|superior| state.mailbox_named(superior).is_none())
        .map(|superior| Event::MailboxCreated { name: superior.to_owned(), special_use: None })
        .collect()
}

/// Deletes a mailbox; its children stay (RFC 3501 §6.3.4).
///
/// # Errors
/// `Denied` for the inbox, `NotFound` if it does not exist, `Invalid` for a nonexistent parent.
pub fn delete_mailbox(state: &AccountState, name: &str) -> Result<Vec<Event>> {
    let mailbox = existing(state, name)?;
    if mailbox.name() == INBOX {
        return Err(Error::denied("the inbox cannot be deleted"));
    }
    Ok(vec![Event::MailboxDeleted { mailbox: mailbox.id() }])
}

/// Renames a mailbox and its children. Renaming the inbox moves its messages to a new mailbox, and its
/// children stay (RFC 3501 §6.3.5).
///
/// # Errors
/// `NotFound`; `Conflict` if the new name or that of a child is taken; `Invalid` or `Limit` for the name.
pub fn rename_mailbox(state: &AccountState, from: &str, to: &str) -> Result<Vec<Event>> {
    let to = normal(to.strip_suffix('/').unwrap_or(to));
    check(&to)?;
    check_own(&to)?;
    check_own(from)?;
    if state.mailbox_named(&to).is_some() {
        return Err(Error::conflict(format!("mailbox {to} exists")));
    }
    if canonical(from) == INBOX {
        return rename_inbox(state, &to);
    }
    let from = written(state, from);
    if to == from && state.has_inferiors(&from) {
        return Err(Error::conflict(format!("{to} is in use as a level above mailboxes")));
    }
    if to.strip_prefix(&*from).is_some_and(|rest| rest.starts_with('/')) {
        return Err(Error::invalid("a mailbox cannot become its own inferior"));
    }
    let inferiors: Vec<_> = state.inferiors(&from).collect();
    for inferior in &inferiors {
        free(state, &from, &format!("{to}{}", &inferior.name()[from.len()..]))?;
    }
    let mut events = superiors(state, &to);
    match state.mailbox_named(&from) {
        Some(mailbox) => {
            events.push(Event::MailboxRenamed { mailbox: mailbox.id(), name: to.into_owned() });
        }
        None if inferiors.is_empty() => return Err(Error::not_found(format!("no mailbox {from}"))),
        // A nonexistent parent (RFC 3501 §6.3.5 does not exclude it): all mailboxes below it move.
        None => {
            events.push(Event::MailboxCreated { name: to.clone().into_owned(), special_use: None });
            events.push(Event::HierarchyRenamed { from: from.into_owned(), to: to.into_owned() });
        }
    }
    room_for_mailboxes(state, &events)?;
    Ok(events)
}

fn rename_inbox(state: &AccountState, to: &str) -> Result<Vec<Event>> {
    let mut events = create_mailbox(state, to, SpecialUses::default())?;
    let inbox = state.inbox();
    // The new mailbox gets the id after those of the parents created with it.
    let target = next_mailbox(state, events.len() - 1);
    if !inbox.is_empty() {
        events.push(Event::Moved { from: inbox.id(), uids: inbox.uids(), to: target });
    }
    // RFC 5464 §4.1: the inbox keeps its annotations, and the new mailbox gets them too.
    events.extend(
        metadata::copy(state, Holder::Mailbox(inbox.id()), Holder::Mailbox(target))
            .map_err(Refused::error)?,
    );
    Ok(events)
}

/// Checks that `name` is free for a child of `from`; a mailbox that moves away with it does not count.
fn free(state: &AccountState, from: &str, name: &str) -> Result<()> {
    check(name)?;
    let moves = name.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match state.mailbox_named(name) {
        Some(_) if !moves => Err(Error::conflict(format!("mailbox {name} exists"))),
        _ => Ok(()),
    }
}

/// The mailbox with that name, as written or in canonical form: every name under which a mailbox was created
/// finds it (RFC 9051 §5.1).
pub fn find<'a>(state: &'a AccountState, name: &str) -> Option<&'a Mailbox> {
    state.mailbox_named(name).or_else(|| state.mailbox_named(&normal(name)))
}

/// Whether there are mailboxes below that name.
pub fn is_nonexistent_parent(state: &AccountState, name: &str) -> bool {
    state.has_inferiors(&written(state, name))
}

/// The form of the name that exists: as written, or else the normal one.
pub fn written<'a>(state: &AccountState, name: &'a str) -> Cow<'a, str> {
    let as_it_is = canonical(name);
    if state.mailbox_named(&as_it_is).is_some() || state.has_inferiors(&as_it_is) {
        return as_it_is;
    }
    normal(name)
}

/// The form of the name for a subscription, or of the existing subscription.
pub fn subscription<'a>(state: &AccountState, name: &'a str) -> Cow<'a, str> {
    let as_it_is = canonical(name);
    if state.is_subscribed(&as_it_is) { as_it_is } else { normal(name) }
}

/// The mailbox with that name.
///
/// # Errors
/// `Invalid` for a nonexistent parent, `NotFound` if there is none.
pub fn existing<'a>(state: &'a AccountState, name: &str) -> Result<&'a Mailbox> {
    match find(state, name) {
        Some(mailbox) => Ok(mailbox),
        None if is_nonexistent_parent(state, name) => {
            Err(Error::invalid(format!("{name} is no mailbox, only a level above others")))
        }
        None => Err(Error::not_found(format!("no mailbox {name}"))),
    }
}

/// Checks that messages with these flags can be added.
///
/// # Errors
/// `Limit`, naming the limit.
pub fn check_flags(state: &AccountState, flags: &Flags) -> Result<()> {
    FlagRoom::new(state).add(flags)
}

/// Checks that all objects in these events can be stored.
///
/// # Errors
/// `Limit` if the account cannot hold them.
pub fn check_objects(state: &AccountState, events: &[Event]) -> Result<()> {
    let (mut count, mut bytes) = (state.object_count(), state.objects_bytes());
    for event in events {
        let Event::ObjectPut { name, value } = event else { continue };
        let old = state.object(name).map(|old| name.len() + old.len());
        count += usize::from(old.is_none());
        bytes = bytes - old.unwrap_or(0) + name.len() + value.len();
    }
    if count > limits::ACCOUNT_OBJECTS || bytes > limits::ACCOUNT_OBJECTS_BYTES {
        return Err(Error::limit("the account has reached its limit on mailbox records"));
    }
    Ok(())
}

/// Bytes of the `\Deleted` messages of a mailbox: what EXPUNGE would free (RFC 9208 §4.1.4).
pub fn deleted_bytes(state: &AccountState, mailbox: &Mailbox) -> u64 {
    if mailbox.deleted() == 0 {
        return 0;
    }
    let deleted = |row: &Row| state.flags(row.flags).system.contains(crate::event::SystemFlags::DELETED);
    mailbox.all_rows().filter(deleted).map(|row| state.message_size(row.message)).sum()
}

/// The messages in `uids` that the mailbox has and that are `\Deleted`.
pub fn deleted(state: &AccountState, mailbox: &Mailbox, uids: &UidSet) -> UidSet {
    let mut found = UidSet::new();
    for (first, last) in uids.ranges() {
        let rows = mailbox.rows(first..=last);
        rows.filter(|row| state.flags(row.flags).system.contains(crate::event::SystemFlags::DELETED))
            .for_each(|row| found.push(row.uid));
    }
    found
}
