//! Operations of clients, checked against the state, as the events that perform them.
//!
//! `apply` would ignore what cannot be done; these say why instead.

use std::borrow::Cow;

use sealpost_base::{Error, MailboxId, Result, UidSet, limits};

use crate::event::{Event, Flags};
use crate::metadata::{self, Holder, Refused};
use crate::name::{canonical, check, normal};
use crate::share::check_own;
use crate::sort_order;
use crate::special_use::SpecialUses;
use crate::state::{AccountState, FlagRoom, INBOX, Mailbox, Row};

/// What a new mailbox has besides its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewMailbox {
    /// What it is for. These uses are taken from the mailboxes that have them (RFC 6154 §3).
    pub special_uses: SpecialUses,
    /// Where clients show it among its siblings ([`AccountState::sort_order`]).
    pub sort_order: u32,
    /// Whether its name is subscribed to from now on; `None`: as it was before.
    pub is_subscribed: Option<bool>,
}

/// Makes a mailbox with these special uses, as [`create_mailbox_with`] does.
///
/// # Errors
/// As [`create_mailbox_with`].
pub fn create_mailbox(state: &AccountState, name: &str, uses: SpecialUses) -> Result<Vec<Event>> {
    create_mailbox_with(state, name, NewMailbox { special_uses: uses, ..NewMailbox::default() })
}

/// Makes a mailbox, and superior ones that are missing (RFC 3501 §6.3.3). A trailing `/` is
/// ignored, and the name is made Net-Unicode (RFC 9051 §6.3.4).
///
/// # Errors
/// `Conflict` if it exists, `Invalid` or `Limit` if the name or the number of mailboxes is not
/// allowed, or there is no room for the sort order or the subscription.
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

/// The id that a mailbox gets which is made after `others`.
fn next_mailbox(state: &AccountState, others: usize) -> MailboxId {
    MailboxId(state.next_mailbox_id().0.saturating_add(u32::try_from(others).unwrap_or(u32::MAX)))
}

/// Whether the mailboxes that `events` make are within the limits.
fn room_for_mailboxes(state: &AccountState, events: &[Event]) -> Result<()> {
    if state.mailbox_count() + mailboxes_made(events) > limits::MAILBOXES {
        return Err(Error::limit(format!("an account has at most {} mailboxes", limits::MAILBOXES)));
    }
    Ok(())
}

/// How many mailboxes these events make.
pub fn mailboxes_made(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::MailboxCreated { .. })).count()
}

/// Gives a mailbox these special uses, and takes them from the mailboxes that have them (RFC 6154 §4).
///
/// # Errors
/// `Denied` for the inbox: what clients do with a mailbox of a special use, such as emptying it,
/// would be done to new mail.
pub fn set_special_uses(mailbox: &Mailbox, uses: SpecialUses) -> Result<Vec<Event>> {
    if mailbox.name() == INBOX && !uses.is_empty() {
        return Err(Error::denied("the inbox has no special use"));
    }
    if mailbox.special_uses() == uses {
        return Ok(Vec::new());
    }
    Ok(vec![Event::SpecialUsesSet { mailbox: mailbox.id(), uses: uses.iter().collect() }])
}

/// Gives a mailbox a sort order.
///
/// # Errors
/// `Limit` if the account cannot hold one more small object.
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

/// Subscribes to a name, which need not be a mailbox's, or no longer does (RFC 3501 §6.3.6).
///
/// # Errors
/// `Invalid` or `Limit` if the name, or so many of them, are not allowed.
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

/// What a subscription counts.
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

/// Deletes a mailbox; inferior ones stay (RFC 3501 §6.3.4).
///
/// # Errors
/// `Denied` for the inbox, `NotFound` if there is none, `Invalid` if only inferior ones exist.
pub fn delete_mailbox(state: &AccountState, name: &str) -> Result<Vec<Event>> {
    let mailbox = existing(state, name)?;
    if mailbox.name() == INBOX {
        return Err(Error::denied("the inbox cannot be deleted"));
    }
    Ok(vec![Event::MailboxDeleted { mailbox: mailbox.id() }])
}

/// Renames a mailbox and its inferiors; renaming the inbox moves its messages to a new mailbox and
/// leaves its inferiors (RFC 3501 §6.3.5).
///
/// # Errors
/// `NotFound`, `Conflict` if the new name or that of an inferior is taken, `Invalid` or `Limit` for the name.
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
        // A name that exists only as a level above others (RFC 3501 §6.3.5 does not exclude it):
        // all of them move.
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
    // The new mailbox gets the id after those of the superiors made with it.
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

/// Whether `name` can be given to an inferior of `from`: what has it now may be moved away with it.
fn free(state: &AccountState, from: &str, name: &str) -> Result<()> {
    check(name)?;
    let moves = name.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match state.mailbox_named(name) {
        Some(_) if !moves => Err(Error::conflict(format!("mailbox {name} exists"))),
        _ => Ok(()),
    }
}

/// The mailbox of that name, as written or in the canonical form of names: every name under which a
/// mailbox was created leads to it (RFC 9051 §5.1).
pub fn find<'a>(state: &'a AccountState, name: &str) -> Option<&'a Mailbox> {
    state.mailbox_named(name).or_else(|| state.mailbox_named(&normal(name)))
}

/// Whether mailboxes are below that name.
pub fn is_nonexistent_parent(state: &AccountState, name: &str) -> bool {
    state.has_inferiors(&written(state, name))
}

/// The form of the name that something is called by: as it is written, or else the normal one.
pub fn written<'a>(state: &AccountState, name: &'a str) -> Cow<'a, str> {
    let as_it_is = canonical(name);
    if state.mailbox_named(&as_it_is).is_some() || state.has_inferiors(&as_it_is) {
        return as_it_is;
    }
    normal(name)
}

/// The name as one to subscribe to, and as one that is subscribed to already.
pub fn subscription<'a>(state: &AccountState, name: &'a str) -> Cow<'a, str> {
    let as_it_is = canonical(name);
    if state.is_subscribed(&as_it_is) { as_it_is } else { normal(name) }
}

/// The mailbox of that name.
///
/// # Errors
/// `Invalid` if it exists only as a level above others, `NotFound` if not at all.
pub fn existing<'a>(state: &'a AccountState, name: &str) -> Result<&'a Mailbox> {
    match find(state, name) {
        Some(mailbox) => Ok(mailbox),
        None if is_nonexistent_parent(state, name) => {
            Err(Error::invalid(format!("{name} is no mailbox, only a level above others")))
        }
        None => Err(Error::not_found(format!("no mailbox {name}"))),
    }
}

/// Whether messages with these flags can be added.
///
/// # Errors
/// `Limit`, saying which.
pub fn check_flags(state: &AccountState, flags: &Flags) -> Result<()> {
    FlagRoom::new(state).add(flags)
}

/// Whether the objects that these events put can all be put.
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

/// Bytes of the messages of a mailbox that are `\Deleted`: what EXPUNGE would free (RFC 9208 §4.1.4).
pub fn deleted_bytes(state: &AccountState, mailbox: &Mailbox) -> u64 {
    if mailbox.deleted() == 0 {
        return 0;
    }
    let deleted = |row: &Row| state.flags(row.flags).system.contains(crate::event::SystemFlags::DELETED);
    mailbox.all_rows().filter(deleted).map(|row| state.message_size(row.message)).sum()
}

/// Those of `uids` that the mailbox has and that are `\Deleted`.
pub fn deleted(state: &AccountState, mailbox: &Mailbox, uids: &UidSet) -> UidSet {
    let mut found = UidSet::new();
    for (first, last) in uids.ranges() {
        let rows = mailbox.rows(first..=last);
        rows.filter(|row| state.flags(row.flags).system.contains(crate::event::SystemFlags::DELETED))
            .for_each(|row| found.push(row.uid));
    }
    found
}
