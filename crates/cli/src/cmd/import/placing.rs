//! Places messages in mailboxes: one log entry for many of them, each in all of its mailboxes or in none.

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_account::state::FlagRoom;
use sealpost_account::{Account, AccountState, Event, Flags, NewMessage, ops};
use sealpost_base::{Error, Kind, MailboxId, Result, Uid, UidSet};
use sealpost_directory::{Quotas, Usage};

use super::labels::Target;

/// Attempts to place messages while a client deletes their mailboxes.
const ATTEMPTS: usize = 5;

/// A message and the mailboxes that it is to be in.
pub struct Placement {
    /// Where it stands in the archive.
    pub at: String,
    pub source: Source,
    /// At least one.
    pub to: Vec<String>,
}

/// A message to be placed.
pub enum Source {
    /// It is stored and nowhere yet.
    New(NewMessage),
    /// It is in that mailbox already, and has so many bytes.
    Placed((MailboxId, Uid), u64),
}

impl Source {
    /// Its bytes.
    pub fn size(&self) -> u64 {
        match self {
            Source::New(new) => new.stored.size(),
            Source::Placed(_, size) => *size,
        }
    }
}

/// The mailbox called so, which is made, and subscribed to, if it is not there.
///
/// # Errors
/// `Invalid` or `Limit` if there can be none; what the store says.
pub async fn ensure(account: &Account, target: &Target) -> Result<MailboxId> {
    let name = &target.name;
    let make = |state: &AccountState| match state.mailbox_named(name) {
        Some(mailbox) if mailbox.link().is_some() => {
            Err(Error::invalid("it is shared: import into another one and move the messages"))
        }
        Some(_) => Ok((Vec::new(), ())),
        None => {
            let mut events = ops::create_mailbox(state, name, target.uses)?;
            events.push(Event::Subscribed { name: name.clone(), on: true });
            Ok((events, ()))
        }
    };
    account.commit(make).await?;
    let made = account.state().mailbox_named(name).map(|m| m.id());
    made.ok_or_else(|| Error::retry(format!("the mailbox {name} was removed just now")))
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// It is where it is to be.
    Whole,
    /// It is, but without keywords: the account has as many as it can have.
    WithoutKeywords,
    /// Nowhere, and why.
    Refused(String),
}

/// Places these as one log entry; one by one if something about one of them is refused. What became of each.
///
/// # Errors
/// What the store says.
pub async fn place_each(
    account: &Account,
    quotas: &Quotas,
    placements: &mut [Placement],
) -> Result<Vec<Placed>> {
    if !over_quota(account, quotas, placements) {
        match place(account, placements).await {
            Ok(()) => return Ok(vec![Placed::Whole; placements.len()]),
            Err(e) if !is_of_message(&e) => return Err(e),
            Err(_) => {}
        }
    }
    let mut outcomes = Vec::with_capacity(placements.len());
    for placement in placements.chunks_mut(1) {
        outcomes.push(match over_quota(account, quotas, placement) {
            true => Placed::Refused("the account's quota is used up".to_owned()),
            false => place_one(account, placement).await?,
        });
    }
    Ok(outcomes)
}

async fn place_one(account: &Account, placement: &mut [Placement]) -> Result<Placed> {
    let refused = match place(account, placement).await {
        Ok(()) => return Ok(Placed::Whole),
        Err(e) if is_of_message(&e) => e,
        Err(e) => return Err(e),
    };
    match placement {
        [Placement { source: Source::New(new), .. }] if !new.flags.keywords.is_empty() => {
            Arc::make_mut(&mut new.flags).keywords.clear();
        }
        _ => return Ok(Placed::Refused(refused.to_string())),
    }
    match place(account, placement).await {
        Ok(()) => Ok(Placed::WithoutKeywords),
        Err(e) if is_of_message(&e) => Ok(Placed::Refused(e.to_string())),
        Err(e) => Err(e),
    }
}

/// What is wrong with one message, its flags or its mailbox; other errors end the import.
pub fn is_of_message(e: &Error) -> bool {
    matches!(e.kind(), Kind::Limit | Kind::Invalid | Kind::Conflict)
}

/// Whether these would be more than the account may hold; each counts in every mailbox.
fn over_quota(account: &Account, quotas: &Quotas, placements: &[Placement]) -> bool {
    let used = sealpost_account::usage::of(&account.state());
    let sizes = placements.iter().map(|placement| (placement.to.len() as u64, placement.source.size()));
    let (messages, bytes) =
        sizes.fold((0, 0), |(messages, bytes), (count, size)| (messages + count, bytes + size * count));
    quotas.exceeded(used, Usage::of_messages(messages, bytes)).is_some()
}

/// Places these, in this order, all or none. A mailbox that a client deleted meanwhile is created
/// again.
///
/// # Errors
/// `Limit` if flags pass one; what the store says.
async fn place(account: &Account, placements: &[Placement]) -> Result<()> {
    for _ in 1..ATTEMPTS {
        match account.commit(|state| Ok((events(state, placements)?, ()))).await {
            Err(e) if e.kind() == Kind::NotFound => {
                for name in placements.iter().flat_map(|placement| &placement.to) {
                    ensure(account, &Target::plain(name.clone())).await?;
                }
            }
            placed => {
                placed?;
                return placements.iter().try_for_each(Placement::check_age);
            }
        }
    }
    Err(Error::retry("the mailboxes that messages go to are being deleted"))
}

impl Placement {
    /// A message that was stored too long ago may be taken for garbage.
    fn check_age(&self) -> Result<()> {
        match &self.source {
            Source::New(new) => new.stored.check_age(),
            Source::Placed(..) => Ok(()),
        }
    }
}

fn events(state: &AccountState, placements: &[Placement]) -> Result<Vec<Event>> {
    let (mut room, mut next, mut events) = (FlagRoom::new(state), NextUids::default(), Vec::new());
    for placement in placements {
        let mut to = placement.to.iter().map(|name| match state.mailbox_named(name) {
            Some(mailbox) => Ok(mailbox.id()),
            None => Err(Error::not_found(format!("no mailbox {name}"))),
        });
        let (from, uid) = match &placement.source {
            Source::Placed(there, _) => *there,
            Source::New(new) => {
                placement.check_age()?;
                room.add(&new.flags)?;
                let Some(mailbox) = to.next().transpose()? else { continue };
                let flags = Flags::clone(&new.flags);
                events.push(Event::Appended { mailbox, message: new.stored.message(new.received), flags });
                (mailbox, next.take(state, mailbox)?)
            }
        };
        for to in to {
            let to = to?;
            events.push(Event::Copied { from, uids: UidSet::range(uid, uid), to });
            next.take(state, to)?;
        }
    }
    Ok(events)
}

/// The UIDs that replay will give (RFC 3501 §2.3.1.1: ascending, in the order of the log).
#[derive(Default)]
struct NextUids(HashMap<MailboxId, Uid>);

impl NextUids {
    fn take(&mut self, state: &AccountState, mailbox: MailboxId) -> Result<Uid> {
        let first = state.mailbox(mailbox).map_or(Uid::MIN, |m| m.uid_next());
        let next = self.0.entry(mailbox).or_insert(first);
        let uid = *next;
        *next = next.get().checked_add(1).and_then(Uid::new).ok_or_else(|| Error::limit("no UID is left"))?;
        Ok(uid)
    }
}
