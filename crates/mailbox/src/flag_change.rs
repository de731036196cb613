//! A change of the flags of many messages, decided on the state at the end of the log.

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, FlagRoom, Mailbox, Row};
use sealpost_account::{Accounts, FlagAction, Flags, Reservation};
use sealpost_base::{ModSeq, Position, Result, UidSet};

use crate::flags::{changing, steps};
use crate::memory::{NoMemory, bytes_of, try_reserve};

/// A flag change that a client requests.
pub struct FlagChange {
    /// The messages to change.
    pub targets: UidSet,
    /// Skip messages that changed after this mod-sequence (RFC 7162 §3.1.3).
    pub unchanged_since: Option<ModSeq>,
    /// What to do with the flags.
    pub action: FlagAction,
    /// The flags.
    pub flags: Flags,
}

/// The effect of a change, and what to report of it.
pub struct FlagsChanged {
    /// Messages whose flags change.
    pub changing: UidSet,
    /// Messages that have the requested flags afterwards, unless expunged.
    pub passing: UidSet,
    /// Messages that were skipped because they had changed (RFC 7162 §3.1.3).
    pub modified: UidSet,
    /// Messages that other sessions changed after the last report to the client.
    pub foreign: UidSet,
    /// How many of the messages still exist.
    pub present: usize,
    /// Memory for these sets, if they are large.
    pub reserved: Option<Reservation>,
}

impl FlagChange {
    /// The events of the change, and its report. The memory of the report is taken from `reserved` or newly
    /// reserved; if there is none, the result has the needed bytes instead. The client knows changes up to
    /// `reported`.
    ///
    /// # Errors
    /// `Denied` if the user may change none of the flags with these rights; `Limit` for too many keywords.
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
        // Changing messages count three times: in the log entry, as known flags, and for mod-sequences.
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

    /// The messages to skip because they changed (RFC 7162 §3.1.3).
    fn failing(&self, state: &AccountState, mailbox: &Mailbox, since: ModSeq) -> UidSet {
        let rows = self.targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
        rows.filter(|row| !self.may_change(state, row, since)).map(|row| row.uid).collect()
    }

    /// Whether the flags of that message may be changed.
    fn may_change(&self, state: &AccountState, row: &Row, since: ModSeq) -> bool {
        if since == ModSeq::ZERO {
            // RFC 7162 §3.1.3, example 8: 0 tests whether the items exist. System flags always do, a keyword
            // does where it is set.
            let set = state.flags(row.flags);
            let has = |name: &String| state.keyword(name).is_some_and(|keyword| set.has(keyword));
            return self.action != FlagAction::Replace
                && self.flags.system == Default::default()
                && !self.flags.keywords.iter().any(has);
        }
        row.modseq <= since
    }
}
