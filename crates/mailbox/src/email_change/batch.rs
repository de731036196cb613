//! The events of many changes in one log, collected so that one event covers all messages with the same
//! change.
//!
//! They apply in the order: flags, copies, moves, expunges. So copies get the new flags, and the sources of
//! copies still exist.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::state::FlagRoom;
use sealpost_account::{AccountState, Event, FlagAction, Flags, Row, SystemFlags};
use sealpost_base::{AccountId, MailboxId, ObjectId, Uid, UidSet};
use sealpost_directory::Usage;

use super::{EmailChange, EmailRefusal, FlagEdit, Place, PlaceEdit};
use crate::emails::placements;
use crate::flags::changes;
use crate::quota_headroom::QuotaHeadroom;

/// Flag changes that form one event, in the order in which they apply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FlagKey {
    mailbox: MailboxId,
    step: u8,
    system: SystemFlags,
    keywords: Vec<String>,
}

/// The kinds of flag changes, in the order that [`FlagKey`] has them.
const STEPS: [FlagAction; 3] = [FlagAction::Replace, FlagAction::Add, FlagAction::Remove];

/// The changes of one entry.
pub(super) struct Batch<'a> {
    log: AccountId,
    state: &'a AccountState,
    headroom: QuotaHeadroom,
    room: FlagRoom<'a>,
    /// The usage that the copies add.
    added: Usage,
    flags: BTreeMap<FlagKey, BTreeSet<Uid>>,
    copies: BTreeMap<(MailboxId, MailboxId), BTreeSet<Uid>>,
    moves: BTreeMap<(MailboxId, MailboxId), BTreeSet<Uid>>,
    expunges: BTreeMap<MailboxId, BTreeSet<Uid>>,
}

impl<'a> Batch<'a> {
    /// An empty batch for the log with that state, which must have maps.
    pub(super) fn new(log: AccountId, state: &'a AccountState, headroom: QuotaHeadroom) -> Self {
        Batch {
            log,
            state,
            headroom,
            room: FlagRoom::new(state),
            added: Usage::default(),
            flags: BTreeMap::new(),
            copies: BTreeMap::new(),
            moves: BTreeMap::new(),
            expunges: BTreeMap::new(),
        }
    }

    /// Adds the change of a message. `elsewhere`: another log of the account has the message after the
    /// change.
    ///
    /// # Errors
    /// Why it is refused; the batch then has nothing of the change.
    pub(super) fn change(
        &mut self,
        object: ObjectId,
        change: &EmailChange,
        elsewhere: bool,
    ) -> Result<(), EmailRefusal> {
        let logs = [(self.log, self.state)];
        let visible: Vec<(MailboxId, Row)> =
            placements(&logs, object).map(|placement| (placement.mailbox, placement.row)).collect();
        if visible.is_empty() {
            // Another client has just expunged it.
            return if elsewhere { Ok(()) } else { Err(EmailRefusal::NotFound) };
        }
        match change {
            EmailChange::Destroy => self.destroy(object),
            EmailChange::Update { flags, mailboxes } => {
                let routes = match mailboxes {
                    Some(edit) => self.route(&visible, edit, elsewhere)?,
                    None => Routes::default(),
                };
                if let Some(edit) = flags {
                    self.flag(&visible, edit)?;
                }
                self.added = self.added.with(routes.added);
                for (between, uid) in routes.copies {
                    self.copies.entry(between).or_default().insert(uid);
                }
                for (between, uid) in routes.moves {
                    self.moves.entry(between).or_default().insert(uid);
                }
                for (mailbox, uid) in routes.expunges {
                    self.expunges.entry(mailbox).or_default().insert(uid);
                }
            }
        }
        Ok(())
    }

    /// Expunges all placements, including those flagged `\Deleted`.
    fn destroy(&mut self, object: ObjectId) {
        let maps = self.state.maps();
        for number in maps.into_iter().flat_map(|maps| maps.messages(object)) {
            for (mailbox, uid) in maps.into_iter().flat_map(|maps| maps.placements(number)) {
                self.expunges.entry(mailbox).or_default().insert(uid);
            }
        }
    }

    /// Decides which placements to copy, move and expunge to reach the wanted mailboxes.
    fn route(
        &self,
        visible: &[(MailboxId, Row)],
        edit: &PlaceEdit,
        elsewhere: bool,
    ) -> Result<Routes, EmailRefusal> {
        let before: BTreeSet<Place> = visible.iter().map(|(mailbox, _)| (self.log, *mailbox)).collect();
        let mut after = edit.apply(&before);
        after.retain(|(log, _)| *log == self.log);
        if after.is_empty() && !elsewhere {
            return Err(EmailRefusal::Mailboxes);
        }
        let added = || after.difference(&before).map(|(_, mailbox)| *mailbox);
        if added().any(|mailbox| self.state.mailbox(mailbox).is_none()) {
            return Err(EmailRefusal::Mailboxes);
        }
        let mut leaving = visible.iter().filter(|(mailbox, _)| !after.contains(&(self.log, *mailbox)));
        let mut routes = Routes::default();
        for to in added() {
            match leaving.next() {
                Some((from, row)) => routes.moves.push(((*from, to), row.uid)),
                None => {
                    let (from, row) = visible[0];
                    routes.copies.push(((from, to), row.uid));
                    let size = self.state.message_size(row.message);
                    routes.added = routes.added.with(Usage::of_messages(1, size));
                }
            }
        }
        routes.expunges.extend(leaving.map(|(mailbox, row)| (*mailbox, row.uid)));
        self.headroom.check(self.state, self.added.with(routes.added)).or_else(|over| {
            // A change that adds nothing is never refused.
            if routes.added == Usage::default() { Ok(()) } else { Err(over) }
        })?;
        Ok(routes)
    }

    /// Changes the flags of all these placements.
    fn flag(&mut self, visible: &[(MailboxId, Row)], edit: &FlagEdit) -> Result<(), EmailRefusal> {
        let steps: Vec<(FlagAction, &Flags)> = match edit {
            FlagEdit::Replace(flags) => vec![(FlagAction::Replace, flags)],
            FlagEdit::Change { add, remove } => vec![(FlagAction::Add, add), (FlagAction::Remove, remove)],
        };
        let mut found = Vec::new();
        for (action, flags) in steps {
            for (mailbox, row) in visible {
                if !changes(self.state, row.flags, action, flags) {
                    continue;
                }
                let uids = UidSet::range(row.uid, row.uid);
                self.room.change(*mailbox, &uids, action, flags).map_err(EmailRefusal::TooManyFlags)?;
                let step = STEPS.iter().zip(0..).find(|(other, _)| **other == action).map_or(0, |(_, at)| at);
                let (system, keywords) = (flags.system, flags.keywords.clone());
                found.push((FlagKey { mailbox: *mailbox, step, system, keywords }, row.uid));
            }
        }
        for (key, uid) in found {
            self.flags.entry(key).or_default().insert(uid);
        }
        Ok(())
    }

    /// The events, in order.
    pub(super) fn into_events(self) -> Vec<Event> {
        let set = |uids: BTreeSet<Uid>| uids.into_iter().collect::<UidSet>();
        let flags = self.flags.into_iter().map(|(key, uids)| {
            let FlagKey { mailbox, step, system, keywords } = key;
            let (action, flags) = (STEPS[usize::from(step)], Flags { system, keywords });
            Event::FlagsStored { mailbox, uids: set(uids), action, flags, unchanged_since: None }
        });
        let copies = self.copies.into_iter();
        let copies = copies.map(|((from, to), uids)| Event::Copied { from, uids: set(uids), to });
        let moves = self.moves.into_iter();
        let moves = moves.map(|((from, to), uids)| Event::Moved { from, uids: set(uids), to });
        let expunges = self.expunges.into_iter();
        let expunges = expunges.map(|(mailbox, uids)| Event::Expunged { mailbox, uids: set(uids) });
        flags.chain(copies).chain(moves).chain(expunges).collect()
    }
}

/// The copies, moves and expunges of one message.
#[derive(Default)]
struct Routes {
    copies: Vec<((MailboxId, MailboxId), Uid)>,
    moves: Vec<((MailboxId, MailboxId), Uid)>,
    expunges: Vec<(MailboxId, Uid)>,
    added: Usage,
}
