//! Appends of messages: concurrent appends of several sessions to one account share one log entry.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use sealpost_base::{Error, Kind, MailboxId, Position, Result, Timestamp, Uid, UidSet, UidValidity, limits};
use sealpost_directory::Usage;
use tokio::sync::oneshot;

use super::{Account, Committed, Unplaced};
use crate::event::{Event, Flags};
use crate::ingest::Stored;
use crate::state::{AccountState, Applied, FlagRoom};

/// A stored message with the properties that a client gave.
#[derive(Clone)]
pub struct NewMessage {
    /// The message.
    pub stored: Stored,
    /// Its first flags, shared by messages with the same set.
    pub flags: Arc<Flags>,
    /// INTERNALDATE.
    pub received: Timestamp,
}

/// Checks whether a log with that state may hold more. Called at the end of the log, so that concurrent
/// appends cannot pass the limit together.
pub type Check = Arc<dyn Fn(&AccountState, Usage) -> Result<()> + Send + Sync>;

pub(super) struct Waiting {
    mailbox: MailboxId,
    messages: Vec<NewMessage>,
    check: Option<Check>,
    /// Whether to remove the messages from the store if they are refused.
    unplaced: bool,
    done: oneshot::Sender<Answer>,
}

impl Waiting {
    /// As [`Stored::check_age`], for all messages.
    fn check_age(&self) -> Result<()> {
        self.messages.iter().try_for_each(|new| new.stored.check_age())
    }
}

/// The result of placing messages in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The mailbox's UIDVALIDITY.
    pub uid_validity: UidValidity,
    /// Their UIDs, in order.
    pub uids: Vec<Uid>,
    /// The log entry, if it has no other changes.
    pub alone: Option<Position>,
}

/// The result of an append, or an error that several appends share.
type Answer = Result<Placed, (Kind, String)>;

impl Account {
    /// Places stored messages in a mailbox, all or none. Returns their UIDs in order. Durable when it
    /// returns.
    ///
    /// # Errors
    /// `NotFound` if the mailbox does not exist, `Limit` if flags exceed one, store errors.
    pub async fn append(
        &self,
        mailbox: MailboxId,
        messages: Vec<NewMessage>,
    ) -> Result<(UidValidity, Vec<Uid>)> {
        let placed = self.enqueue(mailbox, messages, None, false).await?;
        Ok((placed.uid_validity, placed.uids))
    }

    /// As [`Account::append`], for a caller that needs the position of the log entry, if `check` permits it.
    /// A refused message is removed from the store.
    ///
    /// # Errors
    /// As [`Account::append`], and those of `check`.
    pub async fn append_noting(
        &self,
        mailbox: MailboxId,
        messages: Unplaced,
        check: Option<Check>,
    ) -> Result<Placed> {
        self.enqueue(mailbox, messages.into_messages(), check, true).await
    }

    async fn enqueue(
        &self,
        mailbox: MailboxId,
        messages: Vec<NewMessage>,
        check: Option<Check>,
        unplaced: bool,
    ) -> Result<Placed> {
        let (done, result) = oneshot::channel();
        let waiting = Waiting { mailbox, messages, check, unplaced, done };
        self.appends.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        let account = self.this.upgrade().ok_or_else(|| {
            Error::internal(
                "the account is being evicted from \
            memory",
            )
        })?;
        // A separate task: a client that disconnects must not interrupt the appends of others.
        tokio::spawn(async move { account.append_waiting().await });
        match result.await {
            Ok(result) => result.map_err(|(kind, message)| Error::new(kind, message)),
            Err(_) => Err(Error::retry("the append was interrupted")),
        }
    }

    /// Places a stored message in a mailbox and expunges another one, as one change (RFC 8508 §3.4). `None`
    /// if the message to replace no longer exists; then nothing changes. Durable when it returns. A refused
    /// message is removed from the store.
    ///
    /// # Errors
    /// As [`Account::append`], and those of `check`; `Invalid` if it is not one message.
    pub async fn replace(
        &self,
        (from, uid): (MailboxId, Uid),
        to: MailboxId,
        new: Unplaced,
        check: impl Fn(&AccountState) -> Result<()> + Send + Sync,
    ) -> Result<Option<Placed>> {
        if new.messages().len() != 1 {
            return Err(Error::invalid("one message replaces another"));
        }
        let messages = new.into_messages();
        let new = &messages[0];
        let message = new.stored.message(new.received);
        let allowed = |state: &AccountState| {
            state.mailbox(to).ok_or_else(|| Error::not_found("no such mailbox"))?;
            check(state)?;
            new.stored.check_age()?;
            FlagRoom::new(state).add(&new.flags)?;
            Ok(state.mailbox(from).is_some_and(|m| m.row(uid).is_some()))
        };
        let mut refused = false;
        let decide = |state: &AccountState| {
            let there = allowed(state);
            refused = !matches!(there, Ok(true));
            let (message, flags) = (message.clone(), Flags::clone(&new.flags));
            let event = Event::Replaced { from, uid, to, message, flags };
            Ok((if there? { vec![event] } else { Vec::new() }, ()))
        };
        let committed = self.commit(decide).await;
        if refused {
            self.remove_unplaced(&messages);
        }
        let committed = committed?;
        if committed.applied.is_empty() {
            return Ok(None);
        }
        new.stored.check_age()?;
        let placed = placed(committed.applied.into_iter(), Some(committed.position));
        Ok(Some(placed.map_err(|(kind, message)| Error::new(kind, message))?))
    }

    /// Places stored messages, each in one or several mailboxes, all in one entry. Each message is placed
    /// everywhere or refused alone, and is then removed from the store. `check` gets the usage of all earlier
    /// messages and this one. Durable when it returns.
    ///
    /// The value has for each message why it was refused: `NotFound` if one of its mailboxes does not exist,
    /// `Limit` if its flags exceed one, or the error of `check`.
    ///
    /// # Errors
    /// `Invalid` unless each message has a mailbox; as [`Account::commit`].
    pub async fn append_each<R: From<Error> + Send>(
        &self,
        messages: Unplaced,
        targets: &[Vec<MailboxId>],
        check: impl Fn(&AccountState, Usage) -> Result<(), R> + Send + Sync,
    ) -> Result<Committed<Vec<Result<(), R>>>> {
        if messages.messages().len() != targets.len() || targets.iter().any(Vec::is_empty) {
            return Err(Error::invalid("each message goes into a mailbox"));
        }
        let messages = messages.into_messages();
        let committed = self.commit(|state| {
            let mut taken = Taken { flags: FlagRoom::new(state), usage: Usage::default(), growth: 0 };
            let (mut events, mut next) = (Vec::new(), BTreeMap::new());
            let mut results = Vec::with_capacity(messages.len());
            for (new, mailboxes) in messages.iter().zip(targets) {
                let placed = place_in_all(state, new, mailboxes, &mut taken, &mut next, &check);
                results.push(placed.map(|placed| events.extend(placed)));
            }
            Ok((events, results))
        });
        let committed = committed.await?;
        let refused = messages.iter().zip(&committed.value).filter(|(_, result)| result.is_err());
        let refused: Vec<NewMessage> = refused.map(|(new, _)| new.clone()).collect();
        self.remove_unplaced(&refused);
        messages.iter().try_for_each(|new| new.stored.check_age())?;
        Ok(committed)
    }

    async fn append_waiting(&self) {
        // An append waits here while another one runs. After that its message was appended with it, or is
        // next.
        let mut batch: Vec<Waiting> = Vec::new();
        let committed = self
            .commit(|state| {
                if batch.is_empty() {
                    batch = self.next_appends();
                }
                let mut events = Vec::new();
                let mut taken = Taken { flags: FlagRoom::new(state), usage: Usage::default(), growth: 0 };
                let may_grow = |growth| self.env.may_grow(self.weight(), growth);
                let refused: Vec<_> =
                    batch.iter().map(|w| decide(state, w, &mut taken, &mut events, may_grow).err()).collect();
                Ok((events, refused))
            })
            .await;
        match committed {
            Ok(committed) => {
                let mut applied = committed.applied.into_iter();
                let alone = (batch.len() == 1).then_some(committed.position);
                for (waiting, refused) in batch.into_iter().zip(committed.value) {
                    let result = match refused {
                        Some(e) => {
                            if waiting.unplaced {
                                self.remove_unplaced(&waiting.messages);
                            }
                            Err((e.kind(), e.to_string()))
                        }
                        None => placed(applied.by_ref().take(waiting.messages.len()), alone),
                    };
                    let aged = waiting.check_age().map_err(|e| (e.kind(), e.to_string()));
                    let result = result.and_then(|placed| aged.map(|()| placed));
                    // A cancelled caller does not need the reply.
                    let _ = waiting.done.send(result);
                }
            }
            Err(e) => {
                // A failure may come before the decision; the caller needs an error in any case.
                if batch.is_empty() {
                    batch = self.next_appends();
                }
                for waiting in batch {
                    let _ = waiting.done.send(Err((e.kind(), e.to_string())));
                }
            }
        }
    }
}

impl Account {
    /// Takes as many waiting appends as fit into one entry, at least one if there is any.
    fn next_appends(&self) -> Vec<Waiting> {
        let mut waiting = self.appends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = 0;
        let fit = waiting.iter().take_while(|w| {
            records += w.messages.len();
            records <= limits::ENTRY_RECORDS
        });
        let count = fit.count().max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }
}

/// The usage of earlier appends in the same entry.
struct Taken<'a> {
    flags: FlagRoom<'a>,
    usage: Usage,
    /// Growth of the loaded account, in bytes.
    growth: usize,
}

fn decide(
    state: &AccountState,
    waiting: &Waiting,
    taken: &mut Taken<'_>,
    events: &mut Vec<Event>,
    may_grow: impl Fn(usize) -> Result<()>,
) -> Result<()> {
    let mailbox = waiting.mailbox;
    state.mailbox(mailbox).ok_or_else(|| Error::not_found("no such mailbox"))?;
    let bytes = waiting.messages.iter().map(|new| new.stored.size()).sum();
    let usage = taken.usage.with(Usage::of_messages(waiting.messages.len() as u64, bytes));
    if let Some(check) = &waiting.check {
        check(state, usage)?;
    }
    waiting.check_age()?;
    let growth = taken.growth + AccountState::growth_by_messages(waiting.messages.len());
    may_grow(growth)?;
    for message in &waiting.messages {
        taken.flags.add(&message.flags)?;
    }
    (taken.usage, taken.growth) = (usage, growth);
    events.extend(waiting.messages.iter().map(|new| Event::Appended {
        mailbox,
        message: new.stored.message(new.received),
        flags: Flags::clone(&new.flags),
    }));
    Ok(())
}

/// The events that place a message in all of these mailboxes. `next` has the next UID of each mailbox after
/// earlier messages.
fn place_in_all<R: From<Error>>(
    state: &AccountState,
    new: &NewMessage,
    mailboxes: &[MailboxId],
    taken: &mut Taken<'_>,
    next: &mut BTreeMap<MailboxId, Uid>,
    check: impl Fn(&AccountState, Usage) -> Result<(), R>,
) -> Result<Vec<Event>, R> {
    let mut places = Vec::with_capacity(mailboxes.len());
    for mailbox in mailboxes {
        let found = state.mailbox(*mailbox).ok_or_else(|| Error::not_found("no such mailbox"))?;
        let uid = next.get(mailbox).copied().unwrap_or(found.uid_next());
        let after = uid.get().checked_add(1).and_then(Uid::new);
        places.push((*mailbox, uid, after.ok_or_else(|| Error::limit("the mailbox is full"))?));
    }
    // Every placement counts, as for copies.
    let (count, size) = (mailboxes.len() as u64, new.stored.size());
    let usage = taken.usage.with(Usage::of_messages(count, count.saturating_mul(size)));
    check(state, usage)?;
    new.stored.check_age()?;
    taken.flags.add(&new.flags)?;
    taken.usage = usage;
    next.extend(places.iter().map(|(mailbox, _, after)| (*mailbox, *after)));
    let Some((first, others)) = places.split_first() else { return Ok(Vec::new()) };
    let (mailbox, uid, _) = *first;
    let (message, flags) = (new.stored.message(new.received), Flags::clone(&new.flags));
    let mut events = vec![Event::Appended { mailbox, message, flags }];
    let copied = |to| Event::Copied { from: mailbox, uids: UidSet::range(uid, uid), to };
    events.extend(others.iter().map(|(to, _, _)| copied(*to)));
    Ok(events)
}

fn placed(applied: impl Iterator<Item = Applied>, alone: Option<Position>) -> Answer {
    let mut validity = None;
    let mut all = Vec::new();
    for one in applied {
        match one {
            Applied::Placed { uid_validity, uids, .. } => {
                validity = Some(uid_validity);
                all.extend(UidSet::iter(&uids));
            }
            _ => return Err((Kind::Internal, "a message was appended but not placed".to_owned())),
        }
    }
    match validity {
        Some(uid_validity) => Ok(Placed { uid_validity, uids: all, alone }),
        None => Err((Kind::Invalid, "no message to append".to_owned())),
    }
}
