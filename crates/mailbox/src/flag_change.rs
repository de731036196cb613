//! A change of the flags of many messages, decided on the state at the end of the log.

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, FlagRoom, Mailbox, Row};
use sealpost_account::{Accounts, FlagAction, Flags, Reservation};
use sealpost_base::{ModSeq, Position, Result, UidSet};

use crate::flags::{changing, steps};
use crate::memory::{NoMemory, bytes_of, try_reserve};

/// The change that a client asks for.
pub struct FlagChange {
    /// In which messages.
    pub targets: UidSet,
    /// Only in messages that did not change after this mod-sequence (RFC 7162 §3.1.3).
    pub unchanged_since: Option<ModSeq>,
    /// What to do with the flags.
    pub action: FlagAction,
    /// The flags.
    pub flags: Flags,
}

/// The effect of a change, and what to report of it.
pub struct FlagsChanged {
    /// Messages whose flags it changes.
    pub changing: UidSet,
    /// Messages in which the flags are now as the change wants them, if they are still there.
    pub passing: UidSet,
    /// Messages that it leaves alone, because they had changed (RFC 7162 §3.1.3).
    pub modified: UidSet,
    /// Messages that others changed after the last report to the client.
    pub foreign: UidSet,
    /// How many of the messages are still there.
    pub present: usize,
    /// Memory for these sets, if they are large.
    pub reserved: Option<Reservation>,
}

impl FlagChange {
    /// The events that do it, and what to report, if there is memory for that, in `reserved` or
    /// else; the bytes that it takes if there is not. Changes up to `reported` are known to the
    /// client.
    ///
    /// # Errors
    /// `Denied` if these rights let the user change none of the flags; `Limit` for too many keywords.
    pub fn decide(
        &self,
        state: &AccountState,
        mailbox: &Mailbox,
        rights: Rights,
        reported: Position,
        accounts: &Accounts,
        reserved: &mut Option<Reservation>,
    ) -> Result<(Vec<Event>, Result<FlagsChanged, usize>)> {
        let FlagChange { targets, unchanged_since, action, flags } = self;
        let id = mailbox.id();
        let modified = match *unchanged_since {
            Some(since) => self.failing(state, mailbox, since),
            None => UidSet::new(),
        };
        let passing = targets.difference(&modified);
        let steps = steps(*action, flags, rights, state, mailbox)?;
        let mut room = FlagRoom::new(state);
        let (mut changed, mut present, mut events) = (UidSet::new(), 0, Vec::new());
        for (action, flags) in steps {
            room.change(id, &passing, action, &flags)?;
            let (uids, found) = changing(state, mailbox, &passing, action, &flags);
            present = found;
            changed = changed.union(&uids);
            if !uids.is_empty() {
                let unchanged_since = None;
                events.push(Event::FlagsStored { mailbox: id, uids, action, flags, unchanged_since });
            }
        }
        let foreign = if mailbox.highest_modseq() > reported {
            let rows = targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
            rows.filter(|row| row.modseq > reported).map(|row| row.uid).collect()
        } else {
            UidSet::new()
        };
        let present = present + modified.len();
        // Changing messages count three times: in the log entry, as known, and for mod-sequences.
        let sets = [&changed, &changed, &changed, &passing, &modified, &foreign];
        let bytes = bytes_of(&sets);
        let reserved = match reserved.take().filter(|reserved| reserved.bytes() >= bytes) {
            Some(reserved) => Some(reserved),
            None => match try_reserve(accounts, bytes) {
                Ok(reserved) => reserved,
                Err(NoMemory) => return Ok((Vec::new(), Err(bytes))),
            },
        };
        let changed = FlagsChanged { changing: changed, passing, modified, foreign, present, reserved };
        Ok((events, Ok(changed)))
    }

    /// Those of the messages in which the flags may not be stored, because they changed (RFC 7162 §3.1.3).
    fn failing(&self, state: &AccountState, mailbox: &Mailbox, since: ModSeq) -> UidSet {
        let rows = self.targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
        rows.filter(|row| !self.may_change(state, row, since)).map(|row| row.uid).collect()
    }

    /// Whether the flags may be stored in that message.
    fn may_change(&self, state: &AccountState, row: &Row, since: ModSeq) -> bool {
        if since == ModSeq::ZERO {
            // Example 8 there: 0 asks whether the items exist. System flags always do, a keyword does where
            // it is set.
            let set = state.flags(row.flags);
            let has = |name: &String| state.keyword(name).is_some_and(|keyword| set.has(keyword));
            return self.action != FlagAction::Replace
                && self.flags.system == Default::default()
                && !self.flags.keywords.iter().any(has);
        }
        row.modseq <= since
    }
}
