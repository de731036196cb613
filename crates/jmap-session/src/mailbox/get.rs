//! Mailbox/get (RFC 8621 §2.1).

use std::collections::HashSet;

use sealpost_account::state::ObjectKind;
use sealpost_base::limits::JMAP_GET_OBJECTS;
use sealpost_jmap::id::MailboxId;
use sealpost_jmap::mailbox::{MailboxGet, MailboxProperty};
use sealpost_jmap::{GivenId, MethodError};
use serde_json::{Map, Value};

use super::list::{count, list};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = MailboxGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let ids: Option<HashSet<&str>> =
        request.ids.as_ref().map(|ids| ids.iter().filter_map(GivenId::id).map(|id| id.as_str()).collect());
    let (state, found) = scope
        .look(|logs| {
            let state = logs.state(ObjectKind::Mailboxes);
            let found = match &ids {
                Some(ids) => Ok(list(logs, |id| ids.contains(id.as_str()))),
                None => match count(logs) {
                    many if many > JMAP_GET_OBJECTS => Err(many),
                    _ => Ok(list(logs, |_| true)),
                },
            };
            (state, found)
        })
        .await?;
    let mut found =
        found.map_err(|many| MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, many))?;
    let not_found = match &request.ids {
        None => Vec::new(),
        Some(ids) => {
            let known: HashSet<&str> =
                found.iter().filter_map(|mailbox| mailbox.id.as_ref()).map(MailboxId::as_str).collect();
            let is_known = |id: &&GivenId| id.id().is_some_and(|id| known.contains(id.as_str()));
            ids.iter().filter(|id| !is_known(id)).cloned().collect()
        }
    };
    if let Some(mut properties) = request.properties {
        properties.push(MailboxProperty::Id);
        found.iter_mut().for_each(|mailbox| mailbox.select(&properties));
    }
    responder.respond_get("Mailbox/get", call_id, (scope.id(), &state), &found, &not_found).await?;
    Ok(())
}
