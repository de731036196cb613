//! Mailbox/changes (RFC 8621 §2.2).

use std::collections::BTreeSet;

use sealpost_account::AccountState;
use sealpost_account::object_id::{mailbox_id, past_mailbox_id};
use sealpost_account::state::MailboxChanged;
use sealpost_base::AccountId;
use sealpost_base::limits::JMAP_CHANGES;
use sealpost_jmap::id::{Id, MailboxId};
use sealpost_jmap::mailbox::{MailboxChangesResponse, MailboxProperty};
use sealpost_jmap::standard::ChangesRequest;
use sealpost_jmap::{MethodError, State};
use sealpost_mailbox::account_changes::{mailboxes_since, positions};
use serde_json::{Map, Value};

use super::list::{id, place_of};
use crate::method::{Outcome, cannot_calculate};
use crate::responder::Responder;
use crate::scope::{Logs, Scope};

/// The changes of mailboxes; each mailbox is in at most one set.
#[derive(Debug, Default)]
pub(crate) struct MailboxChanges {
    pub(super) created: BTreeSet<MailboxId>,
    /// Mailboxes with changed properties.
    pub(super) changed: BTreeSet<MailboxId>,
    /// Mailboxes with changed counts only.
    pub(super) counts: BTreeSet<MailboxId>,
    pub(super) destroyed: BTreeSet<MailboxId>,
}

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ChangesRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let found = scope
        .look(|logs| {
            let found = since(logs, &request.since_state)?;
            Some((logs.state(&positions(logs)), found))
        })
        .await?;
    let (new_state, found) = found.ok_or_else(|| cannot_calculate("the state is unknown or too old"))?;
    let most = request.most(JMAP_CHANGES);
    let response = response(scope, request.since_state, new_state, found, most)?;
    responder.respond("Mailbox/changes", &response, call_id).await?;
    Ok(())
}

fn response(
    scope: &Scope<'_>,
    old_state: State,
    new_state: State,
    found: MailboxChanges,
    most: usize,
) -> Result<MailboxChangesResponse, MethodError> {
    let MailboxChanges { created, changed, counts, destroyed } = found;
    let all = created.len() + changed.len() + counts.len() + destroyed.len();
    if all > most {
        // There is no intermediate state to return.
        return Err(cannot_calculate(format!("{all} mailboxes changed, and at most {most} fit")));
    }
    let only_counts = !counts.is_empty() && changed.is_empty();
    let ids = |ids: BTreeSet<MailboxId>| ids.into_iter().map(Id::from).collect::<Vec<Id>>();
    Ok(MailboxChangesResponse {
        account_id: scope.id().clone(),
        old_state,
        new_state,
        has_more_changes: false,
        created: ids(created),
        updated: ids(changed.into_iter().chain(counts).collect()),
        destroyed: ids(destroyed),
        updated_properties: only_counts.then(|| MailboxProperty::COUNTS.to_vec()),
    })
}

/// Whether mailboxes changed since `state`, or may have.
pub(crate) fn has_changed(logs: &Logs<'_>, state: &State) -> bool {
    since(logs, state).is_none_or(|found| {
        let MailboxChanges { created, changed, counts, destroyed } = found;
        [created, changed, counts, destroyed].iter().any(|ids| !ids.is_empty())
    })
}

/// The changes of mailboxes since `state`. `None` if the state is unknown or too old, or if a mailbox became
/// shared or ceased to be since then, which changes its id.
pub(crate) fn since(logs: &Logs<'_>, state: &State) -> Option<MailboxChanges> {
    let known = logs.known(state)?;
    if known.iter().count() < logs.len() || !logs.has_same_tree(state) {
        return None;
    }
    let (own, _) = logs.own();
    let mut found = MailboxChanges::default();
    for (log, change) in mailboxes_since(logs, &known)? {
        if log == own {
            found.own(logs, change);
        } else if let Some((_, state)) = logs.iter().find(|(other, _)| *other == log) {
            found.shared(log, state, change);
        }
    }
    Some(found.disjoint())
}

impl MailboxChanges {
    /// Adds a change in the account's own log.
    fn own(&mut self, logs: &Logs<'_>, change: MailboxChanged) {
        let shown = |mailbox| place_of(logs, mailbox).map(|placed| placed.id());
        let (own_log, own) = logs.own();
        let is_link = |mailbox| own.link(mailbox).is_some();
        match change {
            MailboxChanged::Created(mailbox) => self.created.extend(shown(mailbox)),
            MailboxChanged::Properties(mailbox) => self.changed.extend(shown(mailbox)),
            // The messages of a link are in another log.
            MailboxChanged::Counts(mailbox) if is_link(mailbox) => {}
            MailboxChanged::Counts(mailbox) => self.counts.extend(shown(mailbox)),
            MailboxChanged::Destroyed(validity) => {
                self.destroyed.insert(id(past_mailbox_id(own_log, validity)));
            }
        }
    }

    /// Adds a change in the log of a shared mailbox. That mailbox is the inbox there; its other properties
    /// are in the account's own log.
    fn shared(&mut self, log: AccountId, state: &AccountState, change: MailboxChanged) {
        let inbox = state.inbox();
        match change {
            MailboxChanged::Counts(mailbox) if mailbox == inbox.id() => {
                self.counts.insert(id(mailbox_id(log, inbox)));
            }
            MailboxChanged::Created(mailbox) | MailboxChanged::Properties(mailbox)
                if mailbox == inbox.id() =>
            {
                self.changed.insert(id(mailbox_id(log, inbox)));
            }
            _ => {}
        }
    }

    /// Keeps each mailbox in one set: created before changed, changed before counts.
    fn disjoint(mut self) -> Self {
        let MailboxChanges { created, changed, counts, destroyed } = &mut self;
        destroyed.retain(|id| !created.contains(id));
        changed.retain(|id| !created.contains(id));
        counts.retain(|id| !created.contains(id) && !changed.contains(id));
        self
    }
}
