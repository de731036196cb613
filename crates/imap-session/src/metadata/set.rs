//! SETMETADATA (RFC 5464 §4.3), and special uses set through it (RFC 6154 §4).

use sealpost_account::event::Event;
use sealpost_account::metadata::{self, Holder, Refused};
use sealpost_account::{AccountState, SpecialUse, SpecialUses, ops};
use sealpost_base::limits;
use sealpost_directory::Usage;
use sealpost_imap::types::{Atom, Code, Entry, MailboxAttribute, MetadataCode, SetMetadata};
use sealpost_mailbox::quota_headroom::QuotaHeadroom;

use super::{Shelf, Source, source};
use crate::filters;
use crate::mailboxes::special_use;
use crate::own_entries::OwnEntries;
use crate::reply::{Failure, Outcome, Reply};
use crate::subscriptions::Subscriptions;
use crate::user::User;

/// An entry with its new value.
type Change<'a> = (&'a str, Option<&'a [u8]>);

/// SETMETADATA: all entries or none.
pub(crate) async fn set_metadata(
    user: &mut User,
    subscriptions: &mut Subscriptions,
    own: &mut OwnEntries,
    set: &SetMetadata,
) -> Outcome {
    let longest = set.entries.iter().filter_map(|(_, value)| value.as_ref()).map(Vec::len).max();
    if longest.is_some_and(|bytes| bytes > limits::METADATA_VALUE_BYTES) {
        return Err(refusal(Refused::TooLong(limits::METADATA_VALUE_BYTES)).into());
    }
    // RFC 5464 §3.2.1.1, §4.1: the operator sets entries that all users of the server see.
    if set.mailbox.is_none() && set.entries.iter().any(|(entry, _)| !entry.is_private()) {
        return Err(Reply::no(Code::NoPerm, "shared entries of the server cannot be set").into());
    }
    if set.mailbox.is_none() {
        set.entries.iter().try_for_each(|(entry, value)| filters::check(entry, value.as_deref()))?;
    }
    user.refresh_quota().await?;
    let source = source(user, set.mailbox.as_ref()).await?;
    let uses = new_uses(&source, &set.entries)?;
    let stored = set.entries.iter().filter(|(entry, _)| !super::is_computed(&source, entry.as_str()));
    let stored = stored.map(|(entry, value)| (entry, (entry.as_str(), value.as_deref())));
    if source.is_of_one_log() {
        let all: Vec<Change<'_>> = stored.map(|(_, change)| change).collect();
        change(user, subscriptions, own, &source.private, user.own_headroom(), &all, uses).await?;
        return Ok(Reply::ok("SETMETADATA completed"));
    }
    // Two logs cannot change atomically: the second change is checked before the first is made.
    let (private, shared): (Vec<_>, Vec<_>) = stored.partition(|(entry, _)| entry.is_private());
    let private: Vec<Change<'_>> = private.into_iter().map(|(_, change)| change).collect();
    let shared: Vec<Change<'_>> = shared.into_iter().map(|(_, change)| change).collect();
    {
        let state = source.private.account.state();
        check(&state, user.own_headroom(), &decide(&state, source.private.holder, &private, uses)?)?;
    }
    // Shared entries count for the owner of the mailbox.
    let headroom = match &source.resolved {
        Some(resolved) => user.headroom_at(resolved).await?,
        None => user.own_headroom(),
    };
    change(user, subscriptions, own, &source.shared, headroom, &shared, None).await?;
    change(user, subscriptions, own, &source.private, user.own_headroom(), &private, uses).await?;
    Ok(Reply::ok("SETMETADATA completed"))
}

/// Changes entries in one log, as one entry.
async fn change(
    user: &User,
    subscriptions: &mut Subscriptions,
    own: &mut OwnEntries,
    shelf: &Shelf,
    headroom: QuotaHeadroom,
    changes: &[Change<'_>],
    uses: Option<SpecialUses>,
) -> Result<(), Failure> {
    let committed = shelf
        .account
        .commit(|state| {
            let decided = decide(state, shelf.holder, changes, uses)
                .and_then(|events| check(state, headroom, &events).map(|()| events));
            Ok(match decided {
                Ok(events) => (events, Ok(())),
                Err(reply) => (Vec::new(), Err(reply)),
            })
        })
        .await?;
    own.note(shelf.account.id(), &committed);
    committed.value?;
    let own = user.account().id() == shelf.account.id();
    if let Some(watch) = subscriptions.metadata.as_mut().filter(|_| own) {
        watch.own(committed.position);
    }
    Ok(())
}

impl Source {
    fn is_of_one_log(&self) -> bool {
        self.private.account.id() == self.shared.account.id()
    }
}

/// Checks whether there may be that much metadata (RFC 9208 §5.4).
fn check(state: &AccountState, headroom: QuotaHeadroom, events: &[Event]) -> Result<(), Reply> {
    let annotations = metadata::growth(state, events);
    Ok(headroom.check(state, Usage { annotations, ..Usage::default() })?)
}

fn decide(
    state: &AccountState,
    holder: Holder,
    changes: &[Change<'_>],
    uses: Option<SpecialUses>,
) -> Result<Vec<Event>, Reply> {
    let mut events = Vec::new();
    if let Holder::Mailbox(id) = holder {
        let gone = || Reply::no(Code::NonExistent, "the mailbox is gone");
        let mailbox = state.any_mailbox(id).ok_or_else(gone)?;
        if let Some(uses) = uses {
            let set = ops::set_special_uses(mailbox, uses);
            events = set.map_err(|error| Reply::no(Code::UseAttr, error.to_string()))?;
        }
    }
    events.extend(metadata::set(state, holder, changes).map_err(refusal)?);
    Ok(events)
}

fn refusal(refused: Refused) -> Reply {
    let (code, text) = match refused {
        Refused::TooLong(most) => (MetadataCode::MaxSize(most as u64), "a value is too long"),
        Refused::TooMany => (MetadataCode::TooMany, "too many metadata entries; remove some first"),
    };
    Reply::no(Code::Metadata(code), text)
}

/// The special uses for the mailbox, if they are among the entries; checked like those of CREATE (RFC 6154
/// §4).
fn new_uses(source: &Source, entries: &[(Entry, Option<Vec<u8>>)]) -> Result<Option<SpecialUses>, Reply> {
    let given = entries
        .iter()
        .rev()
        .find(|(entry, _)| entry.as_str() == metadata::SPECIAL_USE && source.mailbox.is_some());
    let Some((_, value)) = given else { return Ok(None) };
    let text = std::str::from_utf8(value.as_deref().unwrap_or_default());
    let text = text.map_err(|_| Reply::no(Code::UseAttr, "special uses are attributes"))?;
    text.split_ascii_whitespace().map(use_of).collect::<Result<SpecialUses, Reply>>().map(Some)
}

fn use_of(attribute: &str) -> Result<SpecialUse, Reply> {
    let atom = attribute.strip_prefix('\\').and_then(|name| Atom::new(name).ok());
    let atom = atom.ok_or_else(|| Reply::no(Code::UseAttr, "special uses are attributes"))?;
    special_use(&MailboxAttribute::new(atom))
}
