//! Notifies a client of entries that other sessions changed (RFC 5464 §4.4.2): after ENABLE, at the end of
//! commands and in IDLE, by name and never by value.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::AccountState;
use sealpost_account::metadata::{self, Holder};
use sealpost_base::{AccountId, Position};
use sealpost_imap::types::{Entry, Mailbox, Response};

use crate::connection::End;
use crate::own_entries::OwnEntries;
use crate::responses::Responses;
use crate::selected::Selected;
use crate::subscriptions::Subscriptions;
use crate::user::User;

/// Entries in one response.
const ENTRIES: usize = 64;

/// What a session with METADATA enabled has reported.
pub(crate) struct MetadataSubscription {
    /// Changes up to here were reported.
    since: Position,
    /// Later changes by the session itself.
    own: Vec<Position>,
    /// The selected share, and the position up to which its changes were reported.
    share: Option<(AccountId, Position)>,
}

/// Names of changed entries.
type Changed = BTreeMap<Holder, BTreeSet<String>>;

impl MetadataSubscription {
    /// Notes a change by the session itself.
    pub(super) fn own(&mut self, at: Position) {
        self.own.push(at);
    }
}

/// ENABLE METADATA, or METADATA-SERVER; returns whether it was disabled.
pub(crate) fn watch_metadata(user: &User, subscriptions: &mut Subscriptions) -> bool {
    if subscriptions.metadata.is_some() {
        return false;
    }
    let since = user.account().state().position();
    subscriptions.metadata = Some(MetadataSubscription { since, own: Vec::new(), share: None });
    true
}

/// Writes `* METADATA` for entries that other sessions have changed since the last report.
pub(crate) async fn report_metadata(
    user: &User,
    selected: Option<&Selected>,
    subscriptions: &mut Subscriptions,
    responses: &mut Responses,
    own: &OwnEntries,
) -> Result<(), End> {
    report_metadata_of_share(user, selected, subscriptions, responses, own).await?;
    let (Some(watch), account) = (&mut subscriptions.metadata, user.account()) else { return Ok(()) };
    let since = watch.since;
    let changed = {
        let state = account.state();
        watch.since = state.position();
        if watch.since == since {
            return Ok(());
        }
        changed(&state, since, &watch.own)
    };
    watch.own.clear();
    match changed {
        Some(changed) => report_changed(user, responses, changed).await,
        // More changes than the log keeps: every entry may have changed.
        None => {
            let mut after = None;
            loop {
                let (changed, next) = everything(&account.state(), after.as_deref());
                report_changed(user, responses, changed).await?;
                match next {
                    Some(next) => after = Some(next),
                    None => return Ok(()),
                }
            }
        }
    }
}

/// The same for a selected share, whose log has its shared entries.
async fn report_metadata_of_share(
    user: &User,
    selected: Option<&Selected>,
    subscriptions: &mut Subscriptions,
    responses: &mut Responses,
    own: &OwnEntries,
) -> Result<(), End> {
    let (Some(watch), account) = (&mut subscriptions.metadata, user.account()) else { return Ok(()) };
    let share = selected.map(Selected::account).filter(|share| share.id() != account.id());
    let Some(share) = share else {
        watch.share = None;
        return Ok(());
    };
    let changed = {
        let state = share.state();
        let now = (share.id(), state.position());
        let since = match watch.share.replace(now) {
            Some((known, since)) if known == now.0 && since < now.1 => since,
            // It was not selected before, or nothing changed.
            _ => return Ok(()),
        };
        let own: Vec<Position> = own.of(now.0).collect();
        let inbox = Holder::Mailbox(state.inbox().id());
        let changed = changed(&state, since, &own);
        changed.unwrap_or_else(|| everything(&state, None).0).remove(&inbox).unwrap_or_default()
    };
    let link = {
        let state = account.state();
        let link = state.links().find(|(_, link)| link.share == share.id());
        link.map(|(mailbox, _)| Holder::Mailbox(mailbox.id()))
    };
    match link {
        Some(link) if !changed.is_empty() => {
            report_changed(user, responses, Changed::from([(link, changed)])).await
        }
        _ => Ok(()),
    }
}

async fn report_changed(user: &User, responses: &mut Responses, changed: Changed) -> Result<(), End> {
    for (holder, entries) in changed {
        let Some(mailbox) = name_of(user, holder) else { continue };
        let entries: Vec<Entry> = entries.iter().filter_map(|entry| Entry::new(entry).ok()).collect();
        for entries in entries.chunks(ENTRIES) {
            let response = Response::MetadataChanged { mailbox: mailbox.clone(), entries: entries.to_vec() };
            responses.out().response(&response);
            responses.relieve().await?;
        }
    }
    Ok(())
}

/// The mailbox's present name, `Some(None)` for the server; `None` if the mailbox no longer exists.
fn name_of(user: &User, holder: Holder) -> Option<Option<Mailbox>> {
    match holder {
        Holder::Server => Some(None),
        Holder::Mailbox(id) => {
            let state = user.account().state();
            Some(Some(Mailbox::new(state.any_mailbox(id)?.name()).ok()?))
        }
    }
}

/// Entries changed after `since` by other sessions; `None` if some changes are no longer kept.
fn changed(state: &AccountState, since: Position, own: &[Position]) -> Option<Changed> {
    let mut changed = Changed::new();
    for change in state.metadata_changes(since)?.filter(|change| !own.contains(&change.at)) {
        changed.entry(change.holder).or_default().insert(change.entry.clone());
    }
    Some(changed)
}

/// A batch of all entries after the object `after`; and where to continue.
fn everything(state: &AccountState, after: Option<&str>) -> (Changed, Option<String>) {
    let mut changed = Changed::new();
    for (looked, (object, holder, entry)) in metadata::all(state, after).enumerate() {
        changed.entry(holder).or_default().insert(entry.to_owned());
        if looked == ENTRIES {
            return (changed, Some(object.to_owned()));
        }
    }
    (changed, None)
}
