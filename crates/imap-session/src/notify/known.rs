//! A client's knowledge of mailboxes that are not selected, and the events that update it.

use std::collections::BTreeMap;

use sealpost_account::AccountState;
use sealpost_account::metadata::Holder;
use sealpost_account::state::Mailbox;
use sealpost_base::{MailboxId, Position, limits};
use sealpost_mailbox::watch::{KnownMailboxes, MessagesChange, Observed, TooMany, TreeChange};

use super::groups::{Groups, Wanted};

/// The mailboxes of one account as the client knows them.
#[derive(Debug, Default)]
pub(super) struct NotifyBaseline(KnownMailboxes);

/// An event to report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Messages were added or expunged (RFC 5465 §5.2, §5.3).
    Messages {
        mailbox: String,
        /// Flag changes are wanted too, and the number of messages without `\Seen` has changed.
        unseen: bool,
    },
    /// Flags changed, or UIDVALIDITY (RFC 5465 §5.1).
    Flags {
        mailbox: String,
        /// The number of messages without `\Seen` has changed.
        unseen: bool,
        /// UIDVALIDITY has changed.
        validity: bool,
    },
    /// Report this name as it is now (RFC 5465 §5.4, §5.5).
    Name(String),
    /// Metadata entries of a mailbox, or of the server, have changed (RFC 5465 §5.6, §5.7).
    Metadata { mailbox: Option<String>, entries: Vec<String> },
    /// This user's rights to a shared mailbox have changed (RFC 5465 §5.9).
    Access { mailbox: String, listed: bool, readable: bool },
    /// A mailbox was renamed (RFC 5465 §5.4).
    Renamed { from: String, to: String },
}

/// The client names more mailboxes than one client may watch (RFC 5465 §5.8).
#[derive(Debug)]
pub(super) struct Overflow;

impl From<TooMany> for Overflow {
    fn from(TooMany: TooMany) -> Self {
        Overflow
    }
}

impl Observed for Groups {
    fn mailbox(&self, name: &str, subscribed: bool) -> bool {
        self.wanted(name, subscribed).any()
    }

    fn subscription(&self, name: &str) -> bool {
        self.wanted(name, true).subscriptions
    }

    fn most(&self) -> usize {
        limits::NOTIFY_MAILBOXES
    }
}

impl NotifyBaseline {
    /// A baseline in which the client knows the present mailboxes.
    pub(super) fn new(state: &AccountState, groups: &Groups) -> Result<Self, Overflow> {
        Ok(NotifyBaseline(KnownMailboxes::new(state, groups)?))
    }

    /// The position of the last read.
    pub(super) fn position(&self) -> Position {
        self.0.position()
    }

    /// Memory of the known state, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The names of the known mailboxes except `selected`, and the events wanted for each.
    pub(super) fn mailboxes(&self, groups: &Groups, selected: Option<MailboxId>) -> Vec<(String, Wanted)> {
        let others = self.0.mailboxes().filter(|(id, known)| selected != Some(*id) && !known.link);
        others.map(|(_, known)| (known.name.clone(), groups.wanted(&known.name, known.subscribed))).collect()
    }

    /// The metadata events to report. Call it before [`NotifyBaseline::update`].
    pub(super) fn metadata(&self, state: &AccountState, groups: &Groups) -> Result<Vec<Event>, Overflow> {
        if state.position() == self.position() {
            return Ok(Vec::new());
        }
        let mut changed: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        // Removed entries must be reported too (RFC 5465 §5.6), so too old changes are an overflow.
        for change in state.metadata_changes(self.position()).ok_or(Overflow)? {
            let mailbox = match change.holder {
                Holder::Server if groups.server_metadata => None,
                Holder::Server => continue,
                Holder::Mailbox(id) => match state.mailbox(id).map(Mailbox::name) {
                    Some(name) if groups.wanted_in(state, name).metadata => Some(name.to_owned()),
                    _ => continue,
                },
            };
            let entries = changed.entry(mailbox).or_default();
            if !entries.contains(&change.entry) {
                entries.push(change.entry.clone());
            }
        }
        Ok(changed.into_iter().map(|(mailbox, entries)| Event::Metadata { mailbox, entries }).collect())
    }

    /// Updates the known state; returns the events to report. Leaves out messages of `selected`, which its
    /// view reports.
    pub(super) fn update(
        &mut self,
        state: &AccountState,
        groups: &Groups,
        selected: Option<MailboxId>,
    ) -> Result<Vec<Event>, Overflow> {
        let (mut events, mut renamed, mut subscriptions) = (Vec::new(), Vec::new(), Vec::new());
        for change in self.0.update(state, groups)? {
            match change {
                // Created, or renamed to a watched name.
                TreeChange::Created(now) => {
                    if groups.wanted(&now.name, now.subscribed).names {
                        affected(&mut events, groups, state, &now.name);
                    }
                }
                TreeChange::Renamed { was, now } => {
                    let wanted = groups.wanted(&now.name, now.subscribed || was.subscribed);
                    if wanted.names || groups.wanted(&was.name, was.subscribed).names {
                        renamed.push((was.name, now.name));
                    }
                }
                // The messages of a link are in another log.
                TreeChange::Messages { mailbox, was, now, change } => {
                    if selected != Some(mailbox) && !now.link {
                        // A mailbox that was unsubscribed was subscribed before that change.
                        let wanted = groups.wanted(&now.name, now.subscribed || was.subscribed);
                        events.extend(of_messages(&now.name, change, wanted));
                    }
                }
                // Renamed to an unwatched name: for this client it was deleted.
                TreeChange::Destroyed(was) => {
                    if groups.wanted(&was.name, was.subscribed).names {
                        affected(&mut events, groups, state, &was.name);
                    }
                }
                TreeChange::Subscription(name) => subscriptions.push(name),
            }
        }
        events.extend(topmost(renamed));
        subscriptions.iter().for_each(|subscription| name(&mut events, subscription));
        Ok(events)
    }
}

/// The event to report for the messages of a mailbox.
pub(super) fn of_messages(mailbox: &str, change: MessagesChange, wanted: Wanted) -> Option<Event> {
    let MessagesChange { validity, counts, unseen, any } = change;
    let mailbox = mailbox.to_owned();
    if wanted.messages && !validity && counts {
        return Some(Event::Messages { mailbox, unseen: unseen && wanted.flags });
    }
    let reports = (validity || any) && (wanted.flags || wanted.messages && validity);
    reports.then_some(Event::Flags { mailbox, unseen, validity })
}

/// "the mailbox itself and its direct parent (whether it is an existing mailbox or not) are
/// considered to be affected" (RFC 5465 §5.4).
fn affected(events: &mut Vec<Event>, groups: &Groups, state: &AccountState, made: &str) {
    name(events, made);
    if let Some((parent, _)) = made.rsplit_once('/')
        && groups.wanted_in(state, parent).names
    {
        name(events, parent);
    }
}

fn name(events: &mut Vec<Event>, name: &str) {
    if !events.iter().any(|event| matches!(event, Event::Name(known) if known == name)) {
        events.push(Event::Name(name.to_owned()));
    }
}

/// "No additional MailboxName events are sent for children" (RFC 5465 §5.4).
fn topmost(renamed: Vec<(String, String)>) -> Vec<Event> {
    let follows = |(from, to): &(String, String)| {
        renamed.iter().any(|(above, above_to)| {
            let below = from.strip_prefix(above.as_str()).filter(|rest| rest.starts_with('/'));
            below.is_some_and(|rest| to.strip_prefix(above_to.as_str()) == Some(rest))
        })
    };
    let top: Vec<bool> = renamed.iter().map(|pair| !follows(pair)).collect();
    let pairs = renamed.into_iter().zip(top);
    pairs.filter(|(_, top)| *top).map(|((from, to), _)| Event::Renamed { from, to }).collect()
}
