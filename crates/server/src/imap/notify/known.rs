//! What a client knows of mailboxes that are not selected, and what it has to be told to know them as they are.

use std::collections::BTreeMap;

use sealpost_account::AccountState;
use sealpost_account::metadata::Holder;
use sealpost_account::state::Mailbox;
use sealpost_base::{MailboxId, ModSeq, Position, Uid, UidValidity, limits};

use super::groups::{Groups, Wanted, name_bytes};

/// The mailboxes of one account as the client knows them.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The state that was looked at last.
    pub(super) position: Position,
    mailboxes: BTreeMap<MailboxId, Entry>,
    /// The names among those asked about that are subscribed to, sorted; such a mailbox need not exist
    /// (RFC 3501 §6.3.6).
    subscribed: Vec<String>,
}

/// A mailbox as the client knows it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) subscribed: bool,
    uid_validity: UidValidity,
    uid_next: Uid,
    messages: usize,
    unseen: usize,
    highest_modseq: ModSeq,
    /// Its messages are in another log.
    link: bool,
}

/// Something to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Messages came or went (RFC 5465 §5.2, §5.3).
    Messages {
        mailbox: String,
        /// Changes of flags are wanted too, and how many messages are not `\Seen` has changed.
        unseen: bool,
    },
    /// Flags changed, or what UIDs mean (RFC 5465 §5.1).
    Flags {
        mailbox: String,
        /// How many messages are not `\Seen` has changed.
        unseen: bool,
        /// UIDs mean something else now.
        validity: bool,
    },
    /// This name is to be shown as it is now (RFC 5465 §5.4, §5.5).
    Name(String),
    /// Entries of a mailbox's metadata have changed, or of the server's (RFC 5465 §5.6, §5.7).
    Metadata { mailbox: Option<String>, entries: Vec<String> },
    /// What this client may do with a mailbox that is shared has changed (RFC 5465 §5.9).
    Access { mailbox: String, listed: bool, readable: bool },
    /// A mailbox has another name (RFC 5465 §5.4).
    Renamed { from: String, to: String },
}

/// More mailboxes are asked about than are watched for one client (RFC 5465 §5.8).
#[derive(Debug)]
pub(super) struct Overflow;

impl Entry {
    pub(super) fn new(state: &AccountState, mailbox: &Mailbox) -> Self {
        Entry {
            name: mailbox.name().to_owned(),
            subscribed: state.is_subscribed(mailbox.name()),
            uid_validity: mailbox.uid_validity(),
            uid_next: mailbox.uid_next(),
            messages: mailbox.len(),
            unseen: mailbox.unseen(),
            highest_modseq: mailbox.highest_modseq(),
            link: mailbox.link().is_some(),
        }
    }

    /// The mailbox of a share as it is, under the name it has for this client.
    pub(super) fn of_share(share: &AccountState, name: String, subscribed: bool) -> Self {
        Entry { name, subscribed, ..Entry::new(share, share.inbox()) }
    }

    /// The same under another name.
    pub(super) fn named(self, name: String) -> Self {
        Entry { name, ..self }
    }
}

impl Known {
    /// The mailboxes as they are, all known.
    pub(super) fn new(state: &AccountState, groups: &Groups) -> Result<Self, Overflow> {
        let mut known = Known { position: state.position(), ..Known::default() };
        for mailbox in state.mailboxes() {
            if groups.wanted_in(state, mailbox.name()).any() {
                known.watch(Entry::new(state, mailbox), mailbox.id())?;
            }
        }
        known.subscribed = subscribed(state, groups)?;
        Ok(known)
    }

    /// What is kept of them, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.mailboxes.values().map(|entry| size_of::<Entry>() + name_bytes(&entry.name));
        entries.sum::<usize>() + self.subscribed.iter().map(|name| name_bytes(name)).sum::<usize>()
    }

    fn watch(&mut self, entry: Entry, id: MailboxId) -> Result<(), Overflow> {
        self.mailboxes.insert(id, entry);
        if self.mailboxes.len() > limits::NOTIFY_MAILBOXES { Err(Overflow) } else { Ok(()) }
    }

    /// The names of the mailboxes that are known, and what is wanted of each; without that of `selected`.
    pub(super) fn mailboxes(&self, groups: &Groups, selected: Option<MailboxId>) -> Vec<(String, Wanted)> {
        let others = self.mailboxes.iter().filter(|(id, e)| selected != Some(**id) && !e.link);
        others.map(|(_, e)| (e.name.clone(), groups.wanted(&e.name, e.subscribed))).collect()
    }

    /// What has to be told of metadata. To be asked before [`Known::update`].
    pub(super) fn metadata(&self, state: &AccountState, groups: &Groups) -> Result<Vec<Event>, Overflow> {
        if state.position() == self.position {
            return Ok(Vec::new());
        }
        let mut changed: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        // What is forgotten cannot be told, and what was removed must be (RFC 5465 §5.6).
        for change in state.metadata_changes(self.position).ok_or(Overflow)? {
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

    /// Brings what is known up to date; what has to be told for it. Of the messages of `selected` nothing is told: that
    /// is up to its view.
    pub(super) fn update(
        &mut self,
        state: &AccountState,
        groups: &Groups,
        selected: Option<MailboxId>,
    ) -> Result<Vec<Event>, Overflow> {
        let mut events = Vec::new();
        if state.position() == self.position {
            return Ok(events);
        }
        self.position = state.position();
        let mut before = std::mem::take(&mut self.mailboxes);
        let mut renamed: Vec<(String, String)> = Vec::new();
        for mailbox in state.mailboxes() {
            let now = Entry::new(state, mailbox);
            let was = before.remove(&mailbox.id());
            // What is no longer subscribed was so when that changed.
            let subscribed = now.subscribed || was.as_ref().is_some_and(|was| was.subscribed);
            let wanted = groups.wanted(&now.name, subscribed);
            // Renamed out of what is watched, it is gone from there.
            if !wanted.any() && was.is_none() {
                continue;
            }
            match was {
                None => {
                    // Made, or renamed into what is watched.
                    if wanted.names {
                        affected(&mut events, groups, state, &now.name);
                    }
                }
                Some(was) if was.name != now.name => {
                    if wanted.names || groups.wanted(&was.name, was.subscribed).names {
                        renamed.push((was.name, now.name.clone()));
                    }
                }
                Some(was) => {
                    // The messages of a link are in another log.
                    if selected != Some(mailbox.id()) && mailbox.link().is_none() {
                        events.extend(of_messages(&was, &now, wanted));
                    }
                }
            }
            if groups.wanted(&now.name, now.subscribed).any() {
                self.watch(now, mailbox.id())?;
            }
        }
        for was in before.into_values() {
            if groups.wanted(&was.name, was.subscribed).names {
                affected(&mut events, groups, state, &was.name);
            }
        }
        events.extend(topmost(renamed));
        let subscribed = subscribed(state, groups)?;
        for changed in
            difference(&self.subscribed, &subscribed).chain(difference(&subscribed, &self.subscribed))
        {
            name(&mut events, changed);
        }
        self.subscribed = subscribed;
        Ok(events)
    }
}

/// What has to be told of the messages of a mailbox.
pub(super) fn of_messages(was: &Entry, now: &Entry, wanted: Wanted) -> Option<Event> {
    let validity = was.uid_validity != now.uid_validity;
    let unseen = was.unseen != now.unseen;
    if wanted.messages && !validity && (was.uid_next, was.messages) != (now.uid_next, now.messages) {
        return Some(Event::Messages { mailbox: now.name.clone(), unseen: unseen && wanted.flags });
    }
    let changed = validity || was.highest_modseq != now.highest_modseq;
    let told = changed && (wanted.flags || wanted.messages && validity);
    told.then(|| Event::Flags { mailbox: now.name.clone(), unseen, validity })
}

/// "the mailbox itself and its direct parent (whether it is an existing mailbox or not) are considered to be affected"
/// (RFC 5465 §5.4).
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

/// The subscribed names that are asked about.
fn subscribed(state: &AccountState, groups: &Groups) -> Result<Vec<String>, Overflow> {
    let names = state.subscriptions().filter(|name| groups.wanted(name, true).subscriptions);
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.len() > limits::NOTIFY_MAILBOXES { Err(Overflow) } else { Ok(names) }
}

/// What of `these`, which are sorted, is not among `those`.
fn difference<'a>(these: &'a [String], those: &'a [String]) -> impl Iterator<Item = &'a str> {
    these.iter().filter(|name| those.binary_search(name).is_err()).map(String::as_str)
}
