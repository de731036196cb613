//! A message with all of its placements in the mailboxes and logs of an account: JMAP's Email.
//!
//! It consists of the placements that are not flagged `\Deleted` (RFC 8621 §4.1.1), in the account's own log
//! and in those of its shared mailboxes; without any it does not exist. It is seen if all placements are, and
//! has any other flag or keyword that at least one placement has.

use std::collections::BTreeSet;

use sealpost_account::{AccountState, Message, MessageNumber, Row, SystemFlags, ThreadId};
use sealpost_base::{AccountId, MailboxId, ObjectId, Timestamp, limits};

/// A message of an account, with all of its visible placements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// The object that first held it, from which its id is made.
    pub object: ObjectId,
    /// Its thread.
    pub thread: ThreadId,
    /// When it was received; the earliest time if copies differ.
    pub received: Timestamp,
    /// Its size in bytes.
    pub size: u64,
    /// Its flags.
    pub flags: EmailFlags,
    /// The mailboxes that it is in: each the log and the mailbox there. If it has very many placements, those
    /// of the first [`limits::PLACEMENTS_COUNTED`] in each log.
    pub mailboxes: BTreeSet<(AccountId, MailboxId)>,
    /// A log from which it can be read, and its number there.
    pub stored: (AccountId, MessageNumber),
}

/// The flags of a message over all of its visible placements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmailFlags {
    /// System flags, without `\Deleted`.
    pub system: SystemFlags,
    /// Keywords in the case in which they were first written, each once.
    pub keywords: Vec<String>,
}

/// One visible placement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmailPlacement {
    /// The log of the placement.
    pub log: AccountId,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// The placement itself.
    pub row: Row,
}

impl Email {
    /// The message that this object first held. `None` if it has no visible placement in these logs, which
    /// must have maps.
    pub fn find(logs: &[(AccountId, &AccountState)], object: ObjectId) -> Option<Self> {
        let mut found: Option<Email> = None;
        for (log, state) in logs {
            for number in state.maps().into_iter().flat_map(|maps| maps.messages(object)) {
                let Some(one) = Email::in_log(*log, state, number) else { continue };
                match &mut found {
                    None => found = Some(one),
                    Some(email) => email.join(one),
                }
            }
        }
        found
    }

    fn in_log(log: AccountId, state: &AccountState, number: MessageNumber) -> Option<Self> {
        let flags = state.email_flags(number)?;
        let fields = state.message_fields(number)?;
        let keywords = flags.keywords.iter().map(|id| state.keyword_name(*id).to_owned());
        let counted = visible_placements(state, number, limits::PLACEMENTS_COUNTED);
        Some(Email {
            object: fields.first_object,
            thread: fields.thread,
            received: fields.received,
            size: fields.size,
            flags: EmailFlags { system: flags.system, keywords: keywords.collect() },
            mailboxes: counted.map(|(mailbox, _)| (log, mailbox)).collect(),
            stored: (log, number),
        })
    }

    /// Adds another stored copy of the message.
    fn join(&mut self, other: Email) {
        let seen = SystemFlags::SEEN;
        let all_seen = self.flags.system.contains(seen) && other.flags.system.contains(seen);
        self.flags.system = self.flags.system.with(other.flags.system);
        if !all_seen {
            self.flags.system = self.flags.system.without(seen);
        }
        for keyword in other.flags.keywords {
            if !self.flags.keywords.iter().any(|known| known.eq_ignore_ascii_case(&keyword)) {
                self.flags.keywords.push(keyword);
            }
        }
        self.mailboxes.extend(other.mailboxes);
        self.received = self.received.min(other.received);
    }

    /// Where the message is stored, with its key.
    pub fn message(&self, logs: &[(AccountId, &AccountState)]) -> Option<Message> {
        let (log, number) = self.stored;
        logs.iter().find(|(id, _)| *id == log)?.1.message(number)
    }
}

/// All visible placements of the message that this object first held, in logs with maps: the placements that
/// a change of its flags or mailboxes affects.
pub fn placements<'a>(
    logs: &'a [(AccountId, &'a AccountState)],
    object: ObjectId,
) -> impl Iterator<Item = EmailPlacement> + 'a {
    logs.iter().flat_map(move |(log, state)| {
        let numbers = state.maps().into_iter().flat_map(move |maps| maps.messages(object));
        let rows = numbers.flat_map(move |number| visible_placements(state, number, usize::MAX));
        rows.map(move |(mailbox, row)| EmailPlacement { log: *log, mailbox, row })
    })
}

/// The visible ones of the first `most` placements of a message.
fn visible_placements(
    state: &AccountState,
    number: MessageNumber,
    most: usize,
) -> impl Iterator<Item = (MailboxId, Row)> {
    let placements = state.maps().into_iter().flat_map(move |maps| maps.placements(number)).take(most);
    let rows = placements.filter_map(|(mailbox, uid)| Some((mailbox, state.any_mailbox(mailbox)?.row(uid)?)));
    rows.filter(|(_, row)| !state.flags(row.flags).system.contains(SystemFlags::DELETED))
}
