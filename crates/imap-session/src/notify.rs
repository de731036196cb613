//! NOTIFY (RFC 5465): reports changes of the mailboxes that the client has chosen, during a command or
//! between commands.
//!
//! When a log watcher notifies, the session compares the client's known state with the account's state. So
//! nothing is queued for a stalled client, and repeated changes are reported once. The view reports on the
//! selected mailbox ([`super::updates`]), as far as the client wants it.

mod groups;
mod known;
mod shares;

use sealpost_account::rights::Rights;
use sealpost_account::share;
use sealpost_account::{AccountState, Accounts, LogWatcher, Reservation};
use sealpost_base::{MailboxId, limits};
use sealpost_imap::types::{
    Atom, Code, Entry, HIERARCHY_DELIMITER, ListExtension, ListItem, Mailbox, MailboxAttribute, Notify,
    Response, Status, StatusItem,
};

use super::connection::End;
use super::own_entries::OwnEntries;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::status;
use super::subscriptions::Subscriptions;
use super::user::User;
pub(super) use groups::SelectedEvents;
use groups::{Groups, Wanted};
use known::{Event, NotifyBaseline, Overflow};
use shares::Shares;

/// All events, for `[BADEVENT]` (RFC 5465 §3.1).
const EVENTS: &str = "(MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange \
                      MailboxMetadataChange ServerMetadataChange)";

/// A client's subscription by NOTIFY, and its known state.
#[derive(Default)]
pub(super) struct NotifySubscription {
    selected: SelectedEvents,
    groups: Groups,
    known: NotifyBaseline,
    shares: Shares,
    /// The memory of the subscription, if it is large.
    charge: Option<Reservation>,
}

/// The arguments of NOTIFY SET.
pub(super) struct Asked {
    /// Whether to report the present state first.
    status: bool,
    selected: SelectedEvents,
    groups: Groups,
}

/// Subscriptions up to this size, in bytes, are covered by the memory of a connection.
const SMALL_WATCH: usize = 8 * 1024;

impl NotifySubscription {
    /// Reserves memory for the known state, if it is large.
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

    /// The bytes that the memory of the connection covers: all if it is small.
    pub(super) fn kept_bytes(&self) -> usize {
        if self.charge.is_some() { 0 } else { self.groups.bytes() + self.known.bytes() }
    }

    /// The events wanted for the selected mailbox.
    pub(super) fn selected(&self) -> &SelectedEvents {
        &self.selected
    }

    /// The log watchers of the watched shares.
    pub(super) fn shared_watchers(&self) -> impl Iterator<Item = &LogWatcher> {
        self.shares.log_watchers()
    }
}

/// The arguments of NOTIFY SET; `None` for NOTIFY NONE.
///
/// # Errors
/// `NO [BADEVENT]` for an unknown event.
pub(super) fn asked(notify: Notify) -> Result<Option<Asked>, Reply> {
    let Notify::Set { status, groups } = notify else { return Ok(None) };
    let Ok((selected, groups)) = groups::sort(groups) else {
        return Err(Reply::no(other_code("BADEVENT", Some(EVENTS)), "unknown event"));
    };
    Ok(Some(Asked { status, selected, groups }))
}

/// Starts the subscription. Reports the present state first, if requested.
pub(super) async fn subscribe(
    user: &User,
    viewed: Option<&Selected>,
    subscriptions: &mut Subscriptions,
    responses: &mut Responses,
    Asked { status, selected, groups }: Asked,
) -> Outcome {
    let known = NotifyBaseline::new(&user.account().state(), &groups);
    let overflow = |text: String| Failure::from(Reply::no(other_code("NOTIFICATIONOVERFLOW", None), text));
    let Ok(known) = known else {
        return Err(overflow(format!("at most {} mailboxes can be watched", limits::NOTIFY_MAILBOXES)));
    };
    let watched = known.mailboxes(&groups, selected_here(user, viewed));
    let mut watch = Box::new(NotifySubscription { selected, groups, known, ..NotifySubscription::default() });
    if watch.weigh(user.accounts()).is_err() {
        return Err(overflow("not enough memory for so many mailboxes; retry with fewer".to_owned()));
    }
    let NotifySubscription { shares, groups, .. } = &mut *watch;
    if shares.follow_links(user, groups).await.is_err() {
        return Err(overflow(format!("at most {} shared mailboxes can be watched", limits::NOTIFY_SHARES)));
    }
    let (no_access_to, shared) =
        (shares.no_access(), shares.readable(viewed.map(|view| view.account().id())));
    subscriptions.notify = Some(watch);
    for name in no_access_to {
        report_attributes(responses, &name, vec![no_access()], None);
    }
    if status {
        for (name, wanted) in watched.into_iter().chain(shared) {
            if wanted.messages || wanted.flags {
                report_status(user, responses, &name, &first_items(wanted)).await?;
                responses.relieve().await?;
            }
        }
    }
    Ok(Reply::ok("NOTIFY completed"))
}

/// Reports changes outside the selected mailbox, except those of this client.
pub(super) async fn report_others(
    user: &User,
    viewed: Option<&Selected>,
    subscriptions: &mut Subscriptions,
    responses: &mut Responses,
    own: &OwnEntries,
) -> Result<(), End> {
    let Some(watch) = subscriptions.notify.as_mut().filter(|watch| watch.groups.any()) else { return Ok(()) };
    match watch.changes(user, viewed, own).await {
        Ok(events) => {
            for event in events {
                report_event(user, responses, event).await?;
                responses.relieve().await?;
            }
        }
        // More than the server keeps for a client: report the overflow, and end (RFC 5465 §5.8).
        Err(Overflow) => {
            **watch = NotifySubscription::default();
            let code = other_code("NOTIFICATIONOVERFLOW", None);
            responses.out().status(None, Status::Ok, Some(&code), "too many mailboxes to be watched");
        }
    }
    Ok(())
}

impl NotifySubscription {
    /// Updates the client's known state; returns the events to report.
    async fn changes(
        &mut self,
        user: &User,
        viewed: Option<&Selected>,
        own: &OwnEntries,
    ) -> Result<Vec<Event>, Overflow> {
        let account = user.account();
        if account.state().position() != self.known.position() {
            self.shares.follow_links(user, &self.groups).await?;
        }
        let shared = self.shares.update(user, viewed.map(|view| view.account().id()), own).await;
        let events: Vec<Event> = {
            let state = account.state();
            // One entry since the last report, by the client's own command.
            let own = own.is_all_since(account.id(), self.known.position(), state.position());
            let metadata = self.known.metadata(&state, &self.groups);
            let events = self.known.update(&state, &self.groups, selected_here(user, viewed))?;
            let all = events.into_iter().chain(metadata?);
            let here: Vec<Event> = if own { Vec::new() } else { all.collect() };
            here.into_iter().chain(shared?).collect()
        };
        self.weigh(user.accounts())?;
        Ok(events)
    }
}

async fn report_event(user: &User, responses: &mut Responses, event: Event) -> Result<(), End> {
    let modseq = responses.dialect.modseq();
    match event {
        Event::Messages { mailbox, unseen } => {
            let mut items = vec![StatusItem::UidNext, StatusItem::Messages];
            items.extend(modseq.then_some(StatusItem::HighestModSeq));
            items.extend(unseen.then_some(StatusItem::Unseen));
            report_status(user, responses, &mailbox, &items).await?;
        }
        Event::Flags { mailbox, unseen, validity } => {
            // RFC 5465 §5.1: otherwise there is nothing to report.
            if modseq || unseen || validity {
                let mut items = vec![StatusItem::UidValidity];
                items.extend(modseq.then_some(StatusItem::HighestModSeq));
                items.extend(unseen.then_some(StatusItem::Unseen));
                report_status(user, responses, &mailbox, &items).await?;
            }
        }
        Event::Metadata { mailbox, entries } => report_entries(responses, mailbox, entries),
        Event::Access { mailbox, readable: true, .. } => report_name(user, responses, &mailbox, None),
        Event::Access { mailbox, listed, .. } => {
            // RFC 5465 §5.4: for this client, a mailbox that it may no longer list was deleted.
            let gone = (!listed).then_some(MailboxAttribute::NonExistent);
            report_attributes(responses, &mailbox, gone.into_iter().chain([no_access()]).collect(), None);
        }
        Event::Name(name) if may_list(user, &name).await => report_name(user, responses, &name, None),
        Event::Renamed { from, to } if may_list(user, &to).await => {
            report_name(user, responses, &to, Some(&from));
        }
        Event::Name(_) | Event::Renamed { .. } => {}
    }
    Ok(())
}

/// The selected mailbox, if it belongs to this account.
fn selected_here(user: &User, viewed: Option<&Selected>) -> Option<MailboxId> {
    viewed.filter(|view| view.account().id() == user.account().id()).map(Selected::mailbox)
}

/// Whether LIST would show that name: that of another user's mailbox requires the right to list it (RFC 5465
/// §5).
async fn may_list(user: &User, name: &str) -> bool {
    if !share::is_of_others(name) || user.account().state().mailbox_named(name).is_none() {
        return true;
    }
    match Mailbox::new(name) {
        Ok(name) => user.resolve(&name).await.is_ok_and(|resolved| resolved.rights.contains(Rights::LOOKUP)),
        Err(_) => false,
    }
}

/// Writes STATUS of a mailbox, if it still exists.
async fn report_status(
    user: &User,
    responses: &mut Responses,
    name: &str,
    items: &[StatusItem],
) -> Result<(), End> {
    let Ok(name) = Mailbox::new(name) else { return Ok(()) };
    match status::report_status(user, responses, &name, items).await {
        Err(Failure::End(end)) => Err(end),
        Ok(()) | Err(Failure::Reply(_)) => Ok(()),
    }
}

/// "Only the names of changed metadata entries" (RFC 5465 §5.6, §5.7).
fn report_entries(responses: &mut Responses, mailbox: Option<String>, entries: Vec<String>) {
    let mailbox = match mailbox.map(|name| Mailbox::new(&name)) {
        None => None,
        Some(Ok(name)) => Some(name),
        Some(Err(_)) => return,
    };
    let entries: Vec<Entry> = entries.iter().filter_map(|entry| Entry::new(entry).ok()).collect();
    if !entries.is_empty() {
        responses.out().response(&Response::MetadataChanged { mailbox, entries });
    }
}

fn report_name(user: &User, responses: &mut Responses, name: &str, old_name: Option<&str>) {
    let attributes = attributes(&user.account().state(), name);
    report_attributes(responses, name, attributes, old_name);
}

fn report_attributes(
    responses: &mut Responses,
    name: &str,
    attributes: Vec<MailboxAttribute>,
    old_name: Option<&str>,
) {
    let Ok(mailbox) = Mailbox::new(name) else { return };
    let old_name = old_name.and_then(|name| Mailbox::new(name).ok());
    let extended = old_name.map(ListExtension::OldName).into_iter().collect();
    let item = ListItem { attributes, delimiter: Some(HIERARCHY_DELIMITER), mailbox, extended };
    responses.out().response(&Response::List(item));
}

/// `\\NoAccess` (RFC 5465 §8).
fn no_access() -> MailboxAttribute {
    Atom::new("NoAccess").map_or(MailboxAttribute::NoSelect, MailboxAttribute::Other)
}

/// The initial STATUS items (RFC 5465 §3.1).
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

/// The attributes of a name as in LIST; `\NonExistent` for a name without a mailbox (RFC 5465 §5.4, §5.5).
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
