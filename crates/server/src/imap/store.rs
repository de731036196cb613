//! STORE (RFC 3501 §6.4.6): one log entry, however many messages.

use std::collections::HashMap;

use sealpost_account::event::Event;
use sealpost_account::state::{AccountState, FlagRoom, FlagSetId, Mailbox};
use sealpost_account::{FlagAction, Flags};
use sealpost_base::{Error, UidSet};
use sealpost_imap::types::{Code, Store};

use super::flags;
use super::reply::{Outcome, Reply};
use super::session::Session;
use super::targets;
use super::tell::Telling;
use super::view::Told;

/// What STORE found.
struct Found {
    /// Messages whose flags this command changes.
    changing: UidSet,
    /// Messages that somebody else changed and this client was not told about yet.
    foreign: UidSet,
    /// How many of the messages are still there.
    present: usize,
}

impl Session {
    /// STORE.
    pub(super) async fn store(&mut self, store: &Store, telling: &mut Telling) -> Outcome {
        let view = self.writable()?;
        if !store.modifiers.is_empty() {
            return Err(Reply::bad("unknown STORE modifier").into());
        }
        let targets = targets::resolve(view, &store.set, store.uid)?;
        let wanted = flags::from_wire(&store.flags)?;
        let action = flags::action(store.action);
        let (mailbox, told) = (view.mailbox(), view.told());
        let committed = view
            .account()
            .commit(|state| {
                let m = state.mailbox(mailbox).ok_or_else(|| Error::not_found("the mailbox is gone"))?;
                FlagRoom::new(state).change(mailbox, &targets, action, &wanted)?;
                let (changing, present) = changing(state, m, &targets, action, &wanted);
                let foreign = m.changed_since(told).map(|row| row.uid).filter(|uid| targets.contains(*uid));
                let found = Found { foreign: foreign.collect(), present, changing };
                let uids = found.changing.clone();
                let flags = wanted.clone();
                let event = Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None };
                Ok((if found.changing.is_empty() { Vec::new() } else { vec![event] }, found))
            })
            .await?;
        let found = committed.value;
        if store.silent {
            // Only what this client did itself is silent (RFC 3501 §6.4.6).
            let mut uids = found.changing;
            for (first, last) in found.foreign.ranges() {
                uids.remove_range(first, last);
            }
            telling.known = Told { uids, position: committed.position };
        } else {
            telling.flags = targets.clone();
        }
        // RFC 2180 §4.2.1, §4.2.3: a message that is gone fails the command, unless nobody would have been told of it.
        if found.present < targets.len() && !store.uid && !store.silent {
            return Err(Reply::no(Code::ExpungeIssued, "some of the messages no longer exist").into());
        }
        Ok(Reply::ok("STORE completed"))
    }
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
    let mut present = 0;
    let mut changing = Vec::new();
    for (first, last) in targets.ranges() {
        for row in mailbox.rows(first..=last) {
            present += 1;
            let changes =
                verdicts.entry(row.flags).or_insert_with(|| changes(state, row.flags, action, flags));
            if *changes {
                changing.push(row.uid);
            }
        }
    }
    (changing.into_iter().collect(), present)
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
