//! Metadata: entries of mailboxes and of the server, by name, with values (RFC 5464).
//!
//! They are the account's small objects, `meta/{holder}{entry}`, where the holder is the mailbox's
//! id in eight hex digits, or `server`, and the entry begins with a slash and is in lower case. So
//! they follow a mailbox through RENAME, go with it when it is deleted
//! ([`crate::AccountState::apply`] sees to that), and are in checkpoints like everything else.
//!
//! What is computed, such as `/private/specialuse`, is not here; its changes are.

mod entry;

use std::ops::Bound;

use sealpost_base::{Error, limits};

use crate::event::Event;
use crate::state::AccountState;

pub(crate) use entry::PREFIX;
pub use entry::{Change, Holder, SPECIAL_USE};

/// The prefix of the names of entries that all users of a mailbox see (RFC 5464 §3.1).
const SHARED: &str = "/shared";

/// Why entries cannot be set (RFC 5464 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A value is longer than this many bytes.
    TooLong(usize),
    /// There would be too many entries, or too many bytes of them.
    TooMany,
}

impl Refused {
    /// The same, for callers that need no reason.
    pub fn error(self) -> Error {
        match self {
            Refused::TooLong(most) => Error::limit(format!("a value has at most {most} bytes")),
            Refused::TooMany => Error::limit("too many metadata entries; remove some first"),
        }
    }
}

/// The value of an entry; names are compared without regard to case.
pub fn value<'a>(state: &'a AccountState, holder: Holder, entry: &str) -> Option<&'a [u8]> {
    state.object(&holder.object(entry))
}

/// The entries with values that are `top` or below it, with `top` empty all, by name from behind `after` on.
pub fn entries<'a>(
    state: &'a AccountState,
    holder: Holder,
    top: &str,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
    let prefix = holder.prefix();
    let top = top.to_ascii_lowercase();
    let begin = match after {
        Some(after) => Bound::Excluded(holder.object(after)),
        None => Bound::Included(holder.object(&top)),
    };
    let at = prefix.len();
    let inside = format!("{prefix}/");
    // What is below `top` does not follow it at once: `/a b` sorts before `/a/b`.
    state
        .objects_from(begin)
        .take_while(move |(name, _)| name.starts_with(&inside) && name[at..].starts_with(&*top))
        .map(move |(name, value)| (&name[at..], value))
}

/// All entries of the account from behind the object `after` on: the object's name, whose entry it
/// is, the entry's name.
pub fn all<'a>(
    state: &'a AccountState,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a str, Holder, &'a str)> + use<'a> {
    let begin = match after {
        Some(after) => Bound::Excluded(after.to_owned()),
        None => Bound::Included(PREFIX.to_owned()),
    };
    let objects = state.objects_from(begin).take_while(|(name, _)| name.starts_with(PREFIX));
    objects.filter_map(|(name, _)| Holder::of_object(name).map(|(holder, entry)| (name, holder, entry)))
}

/// Whether `entry` is `top` or below it.
pub fn is_within(entry: &str, top: &str) -> bool {
    entry.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Bytes of all metadata of the account, names included.
pub fn bytes(state: &AccountState) -> usize {
    state.objects(PREFIX).map(|(name, value)| name.len() + value.len()).sum()
}

/// The events that give entries these values, or take them away; all or none. An entry that has the
/// value already is no event.
///
/// # Errors
/// As RFC 5464 §4.3 tells them apart.
pub fn set(
    state: &AccountState,
    holder: Holder,
    changes: &[(&str, Option<&[u8]>)],
) -> Result<Vec<Event>, Refused> {
    let mut count = entries(state, holder, "", None).count();
    let (mut metadata, mut objects, mut all) = (bytes(state), state.objects_bytes(), state.object_count());
    let mut grows = false;
    let mut events: Vec<Event> = Vec::new();
    for (entry, value) in changes {
        let name = holder.object(entry);
        let before = match events.iter().rev().find_map(|event| changed_by(event, &name)) {
            Some(earlier) => earlier,
            None => state.object(&name),
        };
        if before == *value {
            continue;
        }
        let size = |value: Option<&[u8]>| value.map_or(0, |value| name.len() + value.len());
        let (old, new) = (size(before), size(*value));
        let more = usize::from(value.is_some());
        let fewer = usize::from(before.is_some());
        count = count + more - fewer;
        all = all + more - fewer;
        metadata = metadata + new - old;
        objects = objects + new - old;
        grows |= new > old || more > fewer;
        events.push(match value {
            Some(value) if value.len() > limits::METADATA_VALUE_BYTES => {
                return Err(Refused::TooLong(limits::METADATA_VALUE_BYTES));
            }
            Some(value) => Event::ObjectPut { name, value: value.to_vec() },
            None => Event::ObjectRemoved { name },
        });
    }
    let full = count > limits::METADATA_ENTRIES
        || metadata > limits::METADATA_BYTES
        || objects > limits::ACCOUNT_OBJECTS_BYTES
        || all > limits::ACCOUNT_OBJECTS;
    if full && grows { Err(Refused::TooMany) } else { Ok(ordered(events)) }
}

/// By how many bytes the metadata of an account would be more after these events; 0 if it would be less.
pub fn growth(state: &AccountState, events: &[Event]) -> u64 {
    let size = |name: &str, value: Option<&[u8]>| value.map_or(0, |value| (name.len() + value.len()) as u64);
    let (mut more, mut less) = (0, 0);
    for event in events {
        let (name, value) = match event {
            Event::ObjectPut { name, value } => (name, Some(value.as_slice())),
            Event::ObjectRemoved { name } => (name, None),
            _ => continue,
        };
        if name.starts_with(PREFIX) {
            more += size(name, value);
            less += size(name, state.object(name));
        }
    }
    u64::saturating_sub(more, less)
}

/// What an event of the same change makes of that object.
fn changed_by<'a>(event: &'a Event, name: &str) -> Option<Option<&'a [u8]>> {
    match event {
        Event::ObjectPut { name: put, value } if put == name => Some(Some(value)),
        Event::ObjectRemoved { name: removed } if removed == name => Some(None),
        _ => None,
    }
}

/// Removals first, and of several changes of one object the last.
fn ordered(events: Vec<Event>) -> Vec<Event> {
    let mut last: Vec<Event> = Vec::new();
    for event in events {
        let (Event::ObjectPut { name, .. } | Event::ObjectRemoved { name }) = &event else { continue };
        let name = name.clone();
        last.retain(|other| changed_by(other, &name).is_none());
        last.push(event);
    }
    last.sort_by_key(|event| matches!(event, Event::ObjectPut { .. }));
    last
}

/// The events that give `to` the entries that `from` has (RFC 5464 §4.1: when the inbox is renamed).
///
/// # Errors
/// `TooMany` if they exceed the limits.
pub(crate) fn copy(state: &AccountState, from: Holder, to: Holder) -> Result<Vec<Event>, Refused> {
    let changes: Vec<_> = entries(state, from, "", None).map(|(entry, value)| (entry, Some(value))).collect();
    set(state, to, &changes)
}

/// The entries of a mailbox that all its users see.
pub(crate) fn shared(state: &AccountState, holder: Holder) -> Vec<(String, Vec<u8>)> {
    let shared = entries(state, holder, SHARED, None).filter(|(entry, _)| is_within(entry, SHARED));
    shared.map(|(entry, value)| (entry.to_owned(), value.to_vec())).collect()
}

/// The events after which these are the shared entries of a mailbox, and there are no others.
///
/// # Errors
/// `TooMany` if they exceed the limits.
pub(crate) fn set_shared(
    state: &AccountState,
    holder: Holder,
    wanted: &[(String, Vec<u8>)],
) -> Result<Vec<Event>, Refused> {
    let before = shared(state, holder);
    let unwanted = before.iter().filter(|(entry, _)| wanted.iter().all(|(other, _)| other != entry));
    let unwanted = unwanted.map(|(entry, _)| (entry.as_str(), None));
    let wanted = wanted.iter().map(|(entry, value)| (entry.as_str(), Some(value.as_slice())));
    set(state, holder, &unwanted.chain(wanted).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use sealpost_base::{AccountId, MailboxId, Timestamp};
    use sealpost_vault::entry::Origin;

    use super::*;
    use crate::event::Batch;
    use crate::ops;

    const BOX: Holder = Holder::Mailbox(MailboxId(2));

    fn state() -> AccountState {
        AccountState::new(AccountId([9; 16]))
    }

    fn apply(state: &mut AccountState, events: Vec<Event>) {
        let position = state.position().next();
        state.apply(position, Origin::Owner, &Batch { at: Timestamp(0), events });
    }

    fn put(state: &mut AccountState, holder: Holder, changes: &[(&str, Option<&[u8]>)]) {
        let events = set(state, holder, changes).unwrap();
        apply(state, events);
    }

    fn names(state: &AccountState, holder: Holder, top: &str) -> Vec<String> {
        entries(state, holder, top, None).map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn entries_follow_their_mailbox_and_go_with_it() {
        let mut state = state();
        put(&mut state, BOX, &[("/Private/Comment", Some(b"mine")), ("/shared/comment", Some(b""))]);
        put(&mut state, Holder::Server, &[("/private/x", Some(b"s"))]);
        assert_eq!(value(&state, BOX, "/private/comment"), Some(&b"mine"[..]));
        assert_eq!(names(&state, BOX, ""), ["/private/comment", "/shared/comment"]);
        assert_eq!(names(&state, Holder::Server, ""), ["/private/x"]);
        let name = state.mailbox(MailboxId(2)).unwrap().name().to_owned();
        let events = ops::rename_mailbox(&state, &name, "another").unwrap();
        apply(&mut state, events);
        assert_eq!(names(&state, BOX, "").len(), 2);
        let events = ops::delete_mailbox(&state, "another").unwrap();
        apply(&mut state, events);
        assert!(names(&state, BOX, "").is_empty());
        assert_eq!(bytes(&state), "meta/server/private/x".len() + 1);
        assert_eq!(state.objects_bytes(), bytes(&state));
    }

    #[test]
    fn renaming_the_inbox_copies_its_entries() {
        let mut state = state();
        let inbox = Holder::Mailbox(state.inbox().id());
        put(&mut state, inbox, &[("/private/comment", Some(b"inbox"))]);
        let events = ops::rename_mailbox(&state, "INBOX", "a/b").unwrap();
        apply(&mut state, events);
        let copy = Holder::Mailbox(state.mailbox_named("a/b").unwrap().id());
        assert_eq!(value(&state, copy, "/private/comment"), Some(&b"inbox"[..]));
        assert_eq!(value(&state, inbox, "/private/comment"), Some(&b"inbox"[..]));
    }

    #[test]
    fn pages_and_trees() {
        let mut state = state();
        let given =
            ["/private/a", "/private/a b", "/private/a/b", "/private/a/b/c", "/private/b", "/shared/a"];
        let changes: Vec<_> = given.iter().map(|name| (*name, Some(&b"x"[..]))).collect();
        put(&mut state, BOX, &changes);
        assert_eq!(names(&state, BOX, ""), given);
        assert_eq!(names(&state, BOX, "/private/a"), &given[..4]);
        let within: Vec<_> = given.iter().filter(|name| is_within(name, "/private/a")).collect();
        assert_eq!(within, [&given[0], &given[2], &given[3]]);
        let rest: Vec<_> = entries(&state, BOX, "/private", Some("/private/a/b")).map(|(n, _)| n).collect();
        assert_eq!(rest, &given[3..5]);
    }

    #[test]
    fn the_last_change_of_an_entry_counts_without_empty_writes() {
        let mut state = state();
        put(&mut state, BOX, &[("/private/a", Some(b"1")), ("/private/A", Some(b"2")), ("/private/b", None)]);
        assert_eq!(value(&state, BOX, "/private/a"), Some(&b"2"[..]));
        assert!(set(&state, BOX, &[("/private/a", Some(b"2")), ("/private/c", None)]).unwrap().is_empty());
        put(&mut state, BOX, &[("/private/a", None)]);
        assert_eq!((value(&state, BOX, "/private/a"), bytes(&state)), (None, 0));
    }

    #[test]
    fn limits_are_kept_and_shrinking_is_always_possible() {
        let mut state = state();
        let long = vec![0; limits::METADATA_VALUE_BYTES + 1];
        let too_long = Refused::TooLong(limits::METADATA_VALUE_BYTES);
        assert_eq!(set(&state, BOX, &[("/private/a", Some(&long))]).unwrap_err(), too_long);
        let names: Vec<String> = (0..=limits::METADATA_ENTRIES).map(|n| format!("/private/{n}")).collect();
        let changes: Vec<_> = names.iter().map(|name| (name.as_str(), Some(&b""[..]))).collect();
        assert_eq!(set(&state, BOX, &changes).unwrap_err(), Refused::TooMany);
        put(&mut state, BOX, &changes[1..]);
        assert_eq!(set(&state, BOX, &changes[..1]).unwrap_err(), Refused::TooMany);
        assert!(set(&state, Holder::Server, &changes[..1]).is_ok());
        // Bytes of all mailboxes together.
        let most = limits::METADATA_BYTES / limits::METADATA_VALUE_BYTES;
        let value = &long[1..];
        let mut put_some = 0;
        for n in 0..most {
            let name = format!("/private/{n}");
            match set(&state, Holder::Mailbox(MailboxId(3)), &[(&name, Some(value))]) {
                Ok(events) => apply(&mut state, events),
                Err(refused) => {
                    assert_eq!(refused, Refused::TooMany);
                    break;
                }
            }
            put_some += 1;
        }
        assert!(put_some >= most - 2 && put_some < most, "{put_some}");
        assert!(bytes(&state) <= limits::METADATA_BYTES);
        put(&mut state, BOX, &[("/private/7", None)]);
    }

    #[test]
    fn changes_are_remembered_for_a_while() {
        let mut state = state();
        let start = state.position();
        put(&mut state, BOX, &[("/private/a", Some(b"1"))]);
        put(&mut state, Holder::Server, &[("/shared/b", Some(b"1"))]);
        let changes = |state: &AccountState, since| {
            let changes = state.metadata_changes(since)?;
            Some(changes.map(|change| change.entry.clone()).collect::<Vec<_>>())
        };
        assert_eq!(changes(&state, start).unwrap(), ["/private/a", "/shared/b"]);
        assert_eq!(changes(&state, start.next()).unwrap(), ["/shared/b"]);
        for n in 0..limits::METADATA_CHANGES {
            put(&mut state, BOX, &[("/private/a", Some(n.to_string().as_bytes()))]);
        }
        assert_eq!(changes(&state, start), None);
        assert!(changes(&state, state.position()).unwrap().is_empty());
    }
}
