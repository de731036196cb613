//! NOTIFY (RFC 5465): the client is told of what happens in the mailboxes it chose, whether or not a command is in
//! progress.
//!
//! What it knows of them is compared with the account's state whenever the account's bell rings; so nothing is queued
//! for a client that does not read, and what happened many times is told once. The selected mailbox is told of by its
//! view ([`super::tell`]), as far as the client wants it.

mod groups;
mod known;
mod shares;

use sealpost_account::rights::Rights;
use sealpost_account::share;
use sealpost_account::{AccountState, Accounts, Bell, Reservation};
use sealpost_base::{MailboxId, limits};
use sealpost_imap::server::Event as Input;
use sealpost_imap::types::{
    Atom, Code, Entry, HIERARCHY_DELIMITER, ListExtension, ListItem, Mailbox, MailboxAttribute, Notify,
    Response, Status, StatusItem,
};

use super::connection::End;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::tell::{Telling, is_own};
pub(super) use groups::Selected;
use groups::{Groups, Wanted};
use known::{Event, Known, Overflow};
use shares::Shares;

/// The events that can be asked for, for `[BADEVENT]` (RFC 5465 §3.1).
const EVENTS: &str = "(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange \
                      MailboxMetadataChange ServerMetadataChange)";

/// What a client has asked for by NOTIFY, and what it knows.
#[derive(Default)]
pub(super) struct Watch {
    selected: Selected,
    groups: Groups,
    known: Known,
    shares: Shares,
    /// Room for all of this, if it is much.
    charge: Option<Reservation>,
}

/// What is watched up to this size is part of what a connection takes anyway, in bytes.
const SMALL_WATCH: usize = 8 * 1024;

impl Watch {
    /// Counts what is kept, if that is much; whether there is room for it.
    fn weigh(&mut self, accounts: &Accounts) -> Result<(), Overflow> {
        let bytes = self.groups.bytes() + self.known.bytes();
        if bytes <= SMALL_WATCH {
            self.charge = None;
            return Ok(());
        }
        let room = match &self.charge {
            Some(charge) => charge.try_set(bytes),
            None => {
                self.charge = accounts.try_reserve(bytes);
                self.charge.is_some()
            }
        };
        if room { Ok(()) } else { Err(Overflow) }
    }

    /// What is wanted of the selected mailbox.
    pub(super) fn selected(&self) -> &Selected {
        &self.selected
    }

    /// The bells of the shares that are watched.
    pub(super) fn shared_bells(&self) -> impl Iterator<Item = &Bell> {
        self.shares.bells()
    }
}

impl Session {
    /// NOTIFY. Whatever it says, what was known of the selected mailbox until now is told first: it is a NOOP too
    /// (RFC 5465 §3.1).
    pub(super) async fn notify(&mut self, notify: Notify) -> Outcome {
        let Notify::Set { status, groups } = notify else {
            self.watch = Some(Box::default());
            return Ok(Reply::ok("NOTIFY completed"));
        };
        let Ok((selected, groups)) = groups::sort(groups) else {
            return Err(Reply::no(other_code("BADEVENT", Some(EVENTS)), "an event is not known").into());
        };
        self.watch = None;
        self.tell(&Telling::everything()).await?;
        let account = self.account()?.clone();
        let known = Known::new(&account.state(), &groups);
        let Ok(known) = known else {
            let text = format!("at most {} mailboxes can be watched", limits::NOTIFY_MAILBOXES);
            return Err(Reply::no(other_code("NOTIFICATIONOVERFLOW", None), text).into());
        };
        let watched = known.mailboxes(&groups, self.selected_here());
        let mut watch = Box::new(Watch { selected, groups, known, ..Watch::default() });
        if watch.weigh(&self.ctx.accounts).is_err() {
            let text = "not enough memory for so many mailboxes; retry with fewer";
            return Err(Reply::no(other_code("NOTIFICATIONOVERFLOW", None), text).into());
        }
        self.watch = Some(watch);
        if self.watch_shares().await.is_err() {
            self.watch = None;
            let text = format!("at most {} shared mailboxes can be watched", limits::NOTIFY_SHARES);
            return Err(Reply::no(other_code("NOTIFICATIONOVERFLOW", None), text).into());
        }
        for name in self.watch.as_ref().map(|watch| watch.shares.no_access()).unwrap_or_default() {
            self.tell_attributes(&name, vec![no_access()], None);
        }
        if status {
            let viewed = self.view.as_ref().map(|view| view.account().id());
            let shared = self.watch.as_ref().map(|watch| watch.shares.readable(viewed)).unwrap_or_default();
            for (name, wanted) in watched.into_iter().chain(shared) {
                if wanted.messages || wanted.flags {
                    self.tell_status_of(&name, &first_items(wanted)).await?;
                    self.connection.relieve().await?;
                }
            }
        }
        Ok(Reply::ok("NOTIFY completed"))
    }

    /// The next input, telling meanwhile what happens if the client asked for that.
    pub(super) async fn next_input(&mut self) -> Result<Input, End> {
        if self.watch.is_none() {
            return self.next_command().await;
        }
        let deadline = self.connection.idle_deadline();
        loop {
            let watchers = self.watchers();
            // RFC 5465 §6.1.2: whoever counts messages is told of expunges when a command allows for it.
            let delayed = self.watch.as_ref().is_some_and(|watch| watch.selected.delayed);
            Box::pin(self.tell(&Telling { expunges: !delayed, ..Telling::default() })).await?;
            self.tell_modseq_alone();
            if let Some(event) = self.next_or_rung(deadline, watchers, None).await? {
                return Ok(event);
            }
        }
    }

    /// Tells what has changed outside of the selected mailbox, unless it was this client's own doing.
    pub(super) async fn tell_others(&mut self) -> Result<(), End> {
        let selected = self.selected_here();
        let viewed = self.view.as_ref().map(|view| view.account().id());
        let (Some(watch), Some(account)) = (&self.watch, self.account.clone()) else { return Ok(()) };
        if !watch.groups.any() {
            return Ok(());
        }
        let changed = account.state().position() != watch.known.position();
        if changed && self.watch_shares().await.is_err() {
            return self.overflow();
        }
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let shared = watch.shares.update(&self.ctx.accounts, viewed, &self.own).await;
        let events = {
            let state = account.state();
            // One entry since the client was told last: that of its own command.
            let own = is_own(&self.own, account.id(), watch.known.position(), state.position());
            let Watch { groups, known, .. } = &mut **watch;
            let metadata = known.metadata(&state, groups);
            let events = known.update(&state, groups, selected);
            let all = events.and_then(|events| Ok(events.into_iter().chain(metadata?)));
            let here = all.map(|all| if own { Vec::new() } else { all.collect() });
            here.and_then(|here| Ok(here.into_iter().chain(shared?).collect()))
        };
        let accounts = &self.ctx.accounts;
        let events: Vec<Event> = match events.and_then(|events| watch.weigh(accounts).map(|()| events)) {
            Ok(events) => events,
            Err(Overflow) => return self.overflow(),
        };
        for event in events {
            match event {
                Event::Messages { mailbox, unseen } => {
                    let mut items = vec![StatusItem::UidNext, StatusItem::Messages];
                    items.extend(self.dialect.modseq().then_some(StatusItem::HighestModSeq));
                    items.extend(unseen.then_some(StatusItem::Unseen));
                    self.tell_status_of(&mailbox, &items).await?;
                }
                Event::Flags { mailbox, unseen, validity } => {
                    let modseq = self.dialect.modseq();
                    // RFC 5465 §5.1: without any of these there is nothing that could be said.
                    if modseq || unseen || validity {
                        let mut items = vec![StatusItem::UidValidity];
                        items.extend(modseq.then_some(StatusItem::HighestModSeq));
                        items.extend(unseen.then_some(StatusItem::Unseen));
                        self.tell_status_of(&mailbox, &items).await?;
                    }
                }
                Event::Metadata { mailbox, entries } => self.tell_entries(mailbox, entries),
                Event::Access { mailbox, readable: true, .. } => self.tell_mailbox_name(&mailbox, None),
                Event::Access { mailbox, listed, .. } => {
                    // RFC 5465 §5.4: what may no longer be listed is gone for this client.
                    let gone = (!listed).then_some(MailboxAttribute::NonExistent);
                    self.tell_attributes(&mailbox, gone.into_iter().chain([no_access()]).collect(), None);
                }
                Event::Name(name) if self.may_list(&name).await => self.tell_mailbox_name(&name, None),
                Event::Renamed { from, to } if self.may_list(&to).await => {
                    self.tell_mailbox_name(&to, Some(&from));
                }
                Event::Name(_) | Event::Renamed { .. } => {}
            }
            self.connection.relieve().await?;
        }
        Ok(())
    }

    /// The client asked for more than is kept for it: it is told, and nothing more (RFC 5465 §5.8).
    fn overflow(&mut self) -> Result<(), End> {
        self.watch = Some(Box::default());
        let code = other_code("NOTIFICATIONOVERFLOW", None);
        self.connection.out().status(None, Status::Ok, Some(&code), "too many mailboxes to be watched");
        Ok(())
    }

    /// The selected mailbox, if it is one of this account's.
    fn selected_here(&self) -> Option<MailboxId> {
        let (view, account) = (self.view.as_ref()?, self.account.as_ref()?);
        (view.account().id() == account.id()).then(|| view.mailbox())
    }

    /// Whether LIST would show that name: that of another user's mailbox takes the right to know of it (RFC 5465 §5).
    async fn may_list(&self, name: &str) -> bool {
        let Some(account) = self.account.as_ref().filter(|_| share::is_of_others(name)) else { return true };
        if account.state().mailbox_named(name).is_none() {
            return true;
        }
        match Mailbox::new(name) {
            Ok(name) => self.place(&name).await.is_ok_and(|place| place.rights.contains(Rights::LOOKUP)),
            Err(_) => false,
        }
    }

    /// STATUS of a mailbox, if it is still there.
    async fn tell_status_of(&mut self, name: &str, items: &[StatusItem]) -> Result<(), End> {
        let Ok(name) = Mailbox::new(name) else { return Ok(()) };
        match self.tell_status(&name, items).await {
            Err(Failure::End(end)) => Err(end),
            Ok(()) | Err(Failure::Reply(_)) => Ok(()),
        }
    }

    /// "Only the names of changed metadata entries" (RFC 5465 §5.6, §5.7).
    fn tell_entries(&mut self, mailbox: Option<String>, entries: Vec<String>) {
        let mailbox = match mailbox.map(|name| Mailbox::new(&name)) {
            None => None,
            Some(Ok(name)) => Some(name),
            Some(Err(_)) => return,
        };
        let entries: Vec<Entry> = entries.iter().filter_map(|entry| Entry::new(entry).ok()).collect();
        if !entries.is_empty() {
            self.connection.out().response(&Response::MetadataChanged { mailbox, entries });
        }
    }

    fn tell_mailbox_name(&mut self, name: &str, old_name: Option<&str>) {
        if let Some(account) = &self.account {
            let attributes = attributes(&account.state(), name);
            self.tell_attributes(name, attributes, old_name);
        }
    }

    fn tell_attributes(&mut self, name: &str, attributes: Vec<MailboxAttribute>, old_name: Option<&str>) {
        let Ok(mailbox) = Mailbox::new(name) else { return };
        let old_name = old_name.and_then(|name| Mailbox::new(name).ok());
        let extended = old_name.map(ListExtension::OldName).into_iter().collect();
        let item = ListItem { attributes, delimiter: Some(HIERARCHY_DELIMITER), mailbox, extended };
        self.connection.out().response(&Response::List(item));
    }
}

/// `\\NoAccess` (RFC 5465 §8).
fn no_access() -> MailboxAttribute {
    Atom::new("NoAccess").map_or(MailboxAttribute::NoSelect, MailboxAttribute::Other)
}

/// What STATUS begins with (RFC 5465 §3.1).
fn first_items(wanted: Wanted) -> Vec<StatusItem> {
    let mut items = vec![StatusItem::UidValidity];
    if wanted.messages {
        items.extend([StatusItem::UidNext, StatusItem::Messages]);
    }
    if wanted.flags {
        items.push(StatusItem::HighestModSeq);
    }
    items
}

/// A name as LIST would show it now; one that leads nowhere is `\NonExistent` (RFC 5465 §5.4, §5.5).
fn attributes(state: &AccountState, name: &str) -> Vec<MailboxAttribute> {
    let mut attributes = Vec::new();
    let mailbox = state.mailbox_named(name);
    if mailbox.is_none() {
        attributes.push(MailboxAttribute::NonExistent);
    }
    if state.has_inferiors(name) {
        attributes.push(MailboxAttribute::HasChildren);
    } else if mailbox.is_some() {
        attributes.push(MailboxAttribute::HasNoChildren);
    }
    if state.is_subscribed(name) {
        attributes.push(MailboxAttribute::Subscribed);
    }
    attributes
}

fn other_code(name: &str, text: Option<&str>) -> Code {
    match Atom::new(name) {
        Ok(name) => Code::Other(name, text.map(str::to_owned)),
        Err(_) => Code::Cannot,
    }
}
