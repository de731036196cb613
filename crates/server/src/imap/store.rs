//! STORE (RFC 3501 §6.4.6): one log entry, however many messages.

use std::collections::HashMap;

use sealpost_account::event::Event;
use sealpost_account::state::{AccountState, FlagRoom, FlagSetId, Mailbox};
use sealpost_account::{Accounts, Charge, FlagAction, Flags};
use sealpost_base::{Error, UidSet};
use sealpost_imap::types::{Code, Store};
use sealpost_mailbox::memory::{NoMemory, bytes_of, reserve_bytes, try_reserve};

use super::condstore::{Condition, named};
use super::flags;
use super::reply::{Outcome, Reply};
use super::session::Session;
use super::targets;
use super::tell::Telling;
use super::view::{Told, View};

/// What STORE found.
struct Found {
    /// Messages whose flags this command changes.
    changing: UidSet,
    /// Messages in which the flags are now as this command wants them, if they are still there.
    passing: UidSet,
    /// Messages that the command left alone, because they had changed (RFC 7162 §3.1.3).
    modified: UidSet,
    /// Messages that somebody else changed and this client was not told about yet.
    foreign: UidSet,
    /// How many of the messages are still there.
    present: usize,
    /// Room for all of them, if they are much.
    room: Option<Charge>,
}

/// What a STORE asks for.
struct Asked {
    targets: UidSet,
    condition: Option<Condition>,
    action: FlagAction,
    flags: Flags,
}

impl Asked {
    /// The events that do it, and what there is to say of it if there is room for that, in `drawn` or else; the bytes that it takes if
    /// there is not.
    fn decide(
        &self,
        view: &View,
        state: &AccountState,
        accounts: &Accounts,
        drawn: &mut Option<Charge>,
    ) -> sealpost_base::Result<(Vec<Event>, Result<Found, usize>)> {
        let Asked { targets, condition, action, flags } = self;
        let m = view.mailbox_in(state).map_err(|_| Error::not_found("the mailbox is gone"))?;
        let mailbox = m.id();
        let modified = match *condition {
            Some(condition) => failing(state, m, targets, condition, *action, flags),
            None => UidSet::new(),
        };
        let passing = targets.difference(&modified);
        let steps = flags::steps(*action, flags, view.rights(state), state, m)?;
        let mut room = FlagRoom::new(state);
        let (mut changed, mut present, mut events) = (UidSet::new(), 0, Vec::new());
        for (action, flags) in steps {
            room.change(mailbox, &passing, action, &flags)?;
            let (uids, found) = changing(state, m, &passing, action, &flags);
            present = found;
            changed = changed.union(&uids);
            if !uids.is_empty() {
                let unchanged_since = None;
                events.push(Event::FlagsStored { mailbox, uids, action, flags, unchanged_since });
            }
        }
        let foreign = if m.highest_modseq() > view.told() {
            let rows = targets.ranges().flat_map(|(first, last)| m.rows(first..=last));
            rows.filter(|row| row.modseq > view.told()).map(|row| row.uid).collect()
        } else {
            UidSet::new()
        };
        let present = present + modified.len();
        // Those that change are in the log entry too, and are told as known and with their mod-sequences.
        let sets = [&changed, &changed, &changed, &passing, &modified, &foreign];
        let bytes = bytes_of(&sets);
        let room = match drawn.take().filter(|drawn| drawn.bytes() >= bytes) {
            Some(drawn) => Some(drawn),
            None => match try_reserve(accounts, bytes) {
                Ok(room) => room,
                Err(NoMemory) => return Ok((Vec::new(), Err(bytes))),
            },
        };
        Ok((events, Ok(Found { foreign, present, changing: changed, passing, modified, room })))
    }
}

impl Session {
    /// STORE.
    pub(super) async fn store(&mut self, store: &Store, telling: &mut Telling) -> Outcome {
        let view = self.writable()?;
        let targets = targets::resolve(view, &store.set, store.uid)?;
        let asked = Asked {
            targets,
            condition: Condition::of(&store.modifiers),
            action: flags::action(store.action),
            flags: flags::from_wire(&store.flags)?,
        };
        let accounts = self.ctx.accounts.clone();
        let mut drawn = None;
        let (found, position) = loop {
            let decide = |view: &View, state: &AccountState| asked.decide(view, state, &accounts, &mut drawn);
            let committed = self.change_selected(asked.targets.len(), decide).await?;
            match committed.value {
                Ok(found) => break (found, committed.position),
                // Not while the account is held for the decision.
                Err(bytes) => drawn = reserve_bytes(&accounts, bytes).await?,
            }
        };
        let Asked { targets, condition, .. } = asked;
        let Found { changing, passing, modified, foreign, present, room } = found;
        telling.room = room;
        let reported = !store.silent || condition.is_some();
        if store.silent {
            // Only what this client did itself is silent (RFC 3501 §6.4.6).
            telling.known = Told { uids: changing.difference(&foreign), position };
            // RFC 7162 §3.1.3: but its mod-sequence is told, with UNCHANGEDSINCE in any case.
            telling.modseqs = if condition.is_some() { passing } else { changing };
            telling.flags = modified.clone();
        } else {
            telling.flags = targets.clone();
        }
        let modified = named(self.view()?, &modified, store.uid).map(Code::Modified);
        // A message that is gone, which this client does not know yet: those that are there were changed, and the client
        // learns of the others with its next command (RFC 2180 §4.2.3, RFC 5530 §3).
        let gone = present < targets.len() && !store.uid && reported;
        Ok(match modified {
            Some(modified) if gone => {
                return Err(Reply::no(modified, "some of the messages no longer exist").into());
            }
            Some(modified) => Reply::ok_with(modified, "STORE completed, not for all messages"),
            None if gone => {
                Reply::ok_with(Code::ExpungeIssued, "STORE completed, some of the messages no longer exist")
            }
            None => Reply::ok("STORE completed"),
        })
    }
}

/// Those of the messages in which the flags may not be stored, because they changed (RFC 7162 §3.1.3).
fn failing(
    state: &AccountState,
    mailbox: &Mailbox,
    targets: &UidSet,
    condition: Condition,
    action: FlagAction,
    flags: &Flags,
) -> UidSet {
    let rows = targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
    rows.filter(|row| !condition.holds(state, row, action, flags)).map(|row| row.uid).collect()
}

/// Those of the messages whose flags would be different after that, and how many exist at all.
pub(super) fn changing(
    state: &AccountState,
    mailbox: &Mailbox,
    targets: &UidSet,
    action: FlagAction,
    flags: &Flags,
) -> (UidSet, usize) {
    let mut verdicts: HashMap<FlagSetId, bool> = HashMap::new();
    // Neighbours mostly have the same flags.
    let mut before = None;
    let mut present = 0;
    let mut changing = UidSet::new();
    for (first, last) in targets.ranges() {
        for row in mailbox.rows(first..=last) {
            present += 1;
            let changes = match before {
                Some((same, changes)) if same == row.flags => changes,
                _ => *verdicts.entry(row.flags).or_insert_with(|| changes(state, row.flags, action, flags)),
            };
            before = Some((row.flags, changes));
            if changes {
                changing.push(row.uid);
            }
        }
    }
    (changing, present)
}

fn changes(state: &AccountState, id: FlagSetId, action: FlagAction, flags: &Flags) -> bool {
    let set = state.flags(id);
    let has = |name: &String| state.keyword(name).is_some_and(|keyword| set.has(keyword));
    match action {
        FlagAction::Add => !set.system.contains(flags.system) || !flags.keywords.iter().all(has),
        FlagAction::Remove => {
            set.system.without(flags.system) != set.system || flags.keywords.iter().any(has)
        }
        FlagAction::Replace => {
            set.system != flags.system
                || set.keywords.len() != flags.keywords.len()
                || !flags.keywords.iter().all(has)
        }
    }
}
