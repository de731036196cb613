//! COPY and MOVE within a log: one entry, however many messages.

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, Mailbox};
use sealpost_account::{FlagAction, Flags};
use sealpost_base::{MailboxId, Uid, UidSet};

use crate::flags;

/// Whether the messages stay where they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They do.
    Copy,
    /// They go (RFC 6851).
    Move,
}

/// The events that place so many messages in mailbox `to` of the same log, without the flags that these
/// rights do not let the user set there (RFC 4314 §4).
pub fn events(
    state: &AccountState,
    targets: &UidSet,
    source: &Mailbox,
    to: MailboxId,
    rights: Rights,
    kind: Kind,
    count: u32,
) -> Vec<Event> {
    let (from, uids) = (source.id(), targets.clone());
    let mut events = vec![match kind {
        Kind::Copy => Event::Copied { from, uids, to },
        Kind::Move => Event::Moved { from, uids, to },
    }];
    let Some(target) = state.mailbox(to) else { return events };
    let lost = flags::lost(state, source, rights);
    let last = target.uid_next().get().checked_add(count - 1).and_then(Uid::new);
    if let (true, Some(last)) = (lost != Flags::default(), last) {
        events.push(Event::FlagsStored {
            mailbox: to,
            uids: UidSet::range(target.uid_next(), last),
            action: FlagAction::Remove,
            flags: lost,
            unchanged_since: None,
        });
    }
    events
}

/// How many of the messages exist, and how many bytes they have together.
pub fn measure(state: &AccountState, mailbox: &Mailbox, uids: &UidSet) -> (usize, u64) {
    let rows = uids.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
    rows.fold((0, 0), |(count, bytes), row| (count + 1, bytes + state.message_size(row.message)))
}
