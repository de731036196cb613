//! Operations: what a client asks for, checked against the state, as the events that do it.
//!
//! `apply` would ignore what cannot be done; these say why instead.

use std::borrow::Cow;

use sealpost_base::{Error, Result, Uid, UidSet, limits};

use crate::event::{Event, Flags, SpecialUse};
use crate::name::{canonical, check, normal};
use crate::share::check_own;
use crate::state::{AccountState, FlagRoom, INBOX, Mailbox};

/// Makes a mailbox, and superior ones that are missing (RFC 3501 §6.3.3). A trailing `/` is ignored, and the name is made
/// Net-Unicode (RFC 9051 §6.3.4).
///
/// # Errors
/// `Conflict` if it exists, `Invalid` or `Limit` if the name or the number of mailboxes is not allowed.
pub fn create_mailbox(
    state: &AccountState,
    name: &str,
    special_use: Option<SpecialUse>,
) -> Result<Vec<Event>> {
    let name = normal(name.strip_suffix('/').unwrap_or(name));
    check(&name)?;
    check_own(&name)?;
    if state.mailbox_named(&name).is_some() {
        return Err(Error::conflict(format!("mailbox {name} exists")));
    }
    let mut events = superiors(state, &name);
    events.push(Event::MailboxCreated { name: name.into_owned(), special_use });
    if state.mailbox_count() + events.len() > limits::MAILBOXES {
        return Err(Error::limit(format!("an account has at most {} mailboxes", limits::MAILBOXES)));
    }
    Ok(events)
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

/// Renames a mailbox and its inferiors; renaming the inbox moves its messages to a new mailbox and leaves its inferiors
/// (RFC 3501 §6.3.5).
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
    if to.strip_prefix(&*from).is_some_and(|rest| rest.starts_with('/')) {
        return Err(Error::invalid("a mailbox cannot become its own inferior"));
    }
    let mut moved: Vec<_> = state.inferiors(&from).collect();
    let mut events = superiors(state, &to);
    if let Some(mailbox) = state.mailbox_named(&from) {
        for inferior in &moved {
            free(state, &format!("{to}{}", &inferior.name()[from.len()..]))?;
        }
        events.push(Event::MailboxRenamed { mailbox: mailbox.id(), name: to.into_owned() });
        return Ok(events);
    }
    // A name that exists only as a level above others (RFC 3501 §6.3.5 does not exclude it): each of them moves.
    if moved.is_empty() {
        return Err(Error::not_found(format!("no mailbox {from}")));
    }
    // Those further down move with the ones above them.
    let names: Vec<&str> = moved.iter().map(|m| m.name()).collect();
    let topmost = |m: &&Mailbox| {
        !names.iter().any(|n| m.name().strip_prefix(n).is_some_and(|rest| rest.starts_with('/')))
    };
    for inferior in &moved {
        free(state, &format!("{to}{}", &inferior.name()[from.len()..]))?;
    }
    moved.retain(topmost);
    events.push(Event::MailboxCreated { name: to.clone().into_owned(), special_use: None });
    events.extend(moved.iter().map(|m| Event::MailboxRenamed {
        mailbox: m.id(),
        name: format!("{to}{}", &m.name()[from.len()..]),
    }));
    Ok(events)
}

fn rename_inbox(state: &AccountState, to: &str) -> Result<Vec<Event>> {
    let mut events = create_mailbox(state, to, None)?;
    let inbox = state.inbox();
    if !inbox.is_empty() {
        // The new mailbox gets the id after those of the superiors made with it.
        let target = sealpost_base::MailboxId(state.next_mailbox_id().0 + events.len() as u32 - 1);
        events.push(Event::Moved { from: inbox.id(), uids: inbox.uids(), to: target });
    }
    Ok(events)
}

fn free(state: &AccountState, name: &str) -> Result<()> {
    check(name)?;
    match state.mailbox_named(name) {
        Some(_) => Err(Error::conflict(format!("mailbox {name} exists"))),
        None => Ok(()),
    }
}

/// The mailbox of that name, as it is written or else in the form that names are kept in: whatever name a mailbox was
/// made under leads to it (RFC 9051 §5.1).
pub fn find<'a>(state: &'a AccountState, name: &str) -> Option<&'a Mailbox> {
    state.mailbox_named(name).or_else(|| state.mailbox_named(&normal(name)))
}

/// Whether mailboxes are below that name.
pub fn is_level(state: &AccountState, name: &str) -> bool {
    state.has_inferiors(&written(state, name))
}

/// The form of the name that something is called by: as it is written, or else the normal one.
fn written<'a>(state: &AccountState, name: &'a str) -> Cow<'a, str> {
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
        None if is_level(state, name) => {
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

/// Those of `uids` that the mailbox has and that are `\Deleted`.
pub fn deleted(state: &AccountState, mailbox: &Mailbox, uids: &UidSet) -> UidSet {
    let mut found: Vec<Uid> = Vec::new();
    for (first, last) in uids.ranges() {
        let rows = mailbox.rows(first..=last);
        found.extend(
            rows.filter(|row| state.flags(row.flags).system.contains(crate::event::SystemFlags::DELETED))
                .map(|row| row.uid),
        );
    }
    found.into_iter().collect()
}
