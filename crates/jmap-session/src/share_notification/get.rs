//! ShareNotification/get and ShareNotification/changes (RFC 9670 §3.1, §3.2).

use sealpost_base::limits::JMAP_CHANGES;
use sealpost_jmap::GivenId;
use sealpost_jmap::id::Id;
use sealpost_jmap::share_notification::{
    ShareNotification, ShareNotificationChanges, ShareNotificationChangesResponse, ShareNotificationGet,
    ShareNotificationProperty,
};
use serde_json::{Map, Value};

use super::list::{changes_in, id_of, notice_of, notices, show, state_of};
use crate::method::{Outcome, cannot_calculate};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ShareNotificationGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let known = notices(scope).await?;
    let (mut list, mut not_found): (Vec<ShareNotification>, Vec<GivenId>) = Default::default();
    match request.ids {
        None => list.extend(known.notices.iter().map(show)),
        Some(ids) => {
            for given in ids {
                let wanted = given.id().and_then(notice_of);
                match known.notices.iter().find(|notice| Some(notice.id) == wanted) {
                    Some(notice) => list.push(show(notice)),
                    None => not_found.push(given),
                }
            }
        }
    }
    if let Some(mut properties) = request.properties {
        properties.push(ShareNotificationProperty::Id);
        list.iter_mut().for_each(|notification| notification.select(&properties));
    }
    let state = state_of(known.changes);
    let of = (scope.id(), &state);
    responder.respond_get("ShareNotification/get", call_id, of, &list, &not_found).await?;
    Ok(())
}

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ShareNotificationChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let known = notices(scope).await?;
    let found = changes_in(&request.since_state).and_then(|since| known.since(since));
    let found = found.ok_or_else(|| cannot_calculate("the state is unknown or too old"))?;
    let most = request.most(JMAP_CHANGES);
    if found.created.len() + found.destroyed.len() > most {
        return Err(cannot_calculate("there is no state in between").into());
    }
    let ids = |ids: Vec<u64>| ids.into_iter().filter_map(id_of).collect::<Vec<Id>>();
    let response = ShareNotificationChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state: state_of(known.changes),
        has_more_changes: false,
        created: ids(found.created),
        updated: Vec::new(),
        destroyed: ids(found.destroyed),
    };
    responder.respond("ShareNotification/changes", &response, call_id).await?;
    Ok(())
}
