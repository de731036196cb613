//! Mailbox/changes (RFC 8621 §2.2).

use std::collections::BTreeSet;

use sealpost_account::AccountState;
use sealpost_account::object_id::{mailbox_id, past_mailbox_id};
use sealpost_account::state::{MailboxChanged, ObjectKind};
use sealpost_base::AccountId;
use sealpost_base::limits::JMAP_CHANGES;
use sealpost_jmap::State;
use sealpost_jmap::id::{Id, MailboxId};
use sealpost_jmap::mailbox::{MailboxChangesResponse, MailboxProperty};
use sealpost_jmap::standard::ChangesRequest;
use sealpost_mailbox::account_changes::{AccountMailboxChanges, mailboxes_since};
use serde_json::{Map, Value};

use super::list::{id, place_of};
use crate::method::{Outcome, too_old};
use crate::responder::Responder;
use crate::scope::{Logs, Scope};

/// The changes of mailboxes; each mailbox is in at most one set.
#[derive(Debug)]
pub(crate) struct MailboxChanges {
    pub(super) created: BTreeSet<MailboxId>,
    /// Mailboxes with changed properties.
    pub(super) changed: BTreeSet<MailboxId>,
    /// Mailboxes with changed counts only.
    pub(super) counts: BTreeSet<MailboxId>,
    pub(super) destroyed: BTreeSet<MailboxId>,
    /// The state that they lead to.
    new_state: State,
    /// Whether there are more changes after it.
    more: bool,
}

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ChangesRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let most = request.most(JMAP_CHANGES);
    let found =
        scope.look_after(&request.since_state, |logs| since(logs, &request.since_state, most)).await?;
    let response = response(scope, request.since_state, found.ok_or_else(too_old)?);
    responder.respond("Mailbox/changes", &response, call_id).await?;
    Ok(())
}

fn response(scope: &Scope<'_>, old_state: State, found: MailboxChanges) -> MailboxChangesResponse {
    let MailboxChanges { created, changed, counts, destroyed, new_state, more } = found;
    let only_counts = !counts.is_empty() && changed.is_empty();
    let ids = |ids: BTreeSet<MailboxId>| ids.into_iter().map(Id::from).collect::<Vec<Id>>();
    MailboxChangesResponse {
        account_id: scope.id().clone(),
        old_state,
        new_state,
        has_more_changes: more,
        created: ids(created),
        updated: ids(changed.into_iter().chain(counts).collect()),
        destroyed: ids(destroyed),
        updated_properties: only_counts.then(|| MailboxProperty::COUNTS.to_vec()),
    }
}

/// Whether mailboxes changed since `state`, or may have.
pub(crate) fn has_changed(logs: &Logs<'_>, state: &State) -> bool {
    since(logs, state, usize::MAX).is_none_or(|found| {
        let MailboxChanges { created, changed, counts, destroyed, .. } = found;
        [created, changed, counts, destroyed].iter().any(|ids| !ids.is_empty())
    })
}

/// The changes of at most `most` mailboxes since `state`. `None` if the state is unknown or too old, or if a
/// mailbox became shared or ceased to be since then, which changes its id.
pub(crate) fn since(logs: &Logs<'_>, state: &State, most: usize) -> Option<MailboxChanges> {
    let known = logs.known(state)?;
    if known.positions.iter().count() < logs.len() || !logs.has_same_tree(state) {
        return None;
    }
    let (own, _) = logs.own();
    let AccountMailboxChanges { changes, upto, more } = mailboxes_since(logs, &known, most)?;
    let new_state = if more { logs.state_at(&upto) } else { logs.state(ObjectKind::Mailboxes) };
    let mut found = MailboxChanges {
        created: BTreeSet::new(),
        changed: BTreeSet::new(),
        counts: BTreeSet::new(),
        destroyed: BTreeSet::new(),
        new_state,
        more,
    };
    for (log, change) in changes {
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
        let MailboxChanges { created, changed, counts, destroyed, .. } = &mut self;
        destroyed.retain(|id| !created.contains(id));
        changed.retain(|id| !created.contains(id));
        counts.retain(|id| !created.contains(id) && !changed.contains(id));
        self
    }
}
