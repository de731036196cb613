//! ShareNotification/set (RFC 9670 §3.3): the user dismisses notifications.

use sealpost_jmap::SetError;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::share_notification::{ShareNotificationSet, ShareNotificationSetResponse};
use sealpost_mailbox::share_notices::dismiss;
use serde_json::{Map, Value};

use super::list::{notice_of, notices, state_of};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ShareNotificationSet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let before = notices(scope).await?.changes;
    if request.if_in_state.is_some_and(|wanted| wanted != state_of(before)) {
        return Err(MethodErrorType::StateMismatch.into());
    }
    let mut response = ShareNotificationSetResponse::new(request.account_id, state_of(before));
    let forbidden = || SetError::from(SetErrorType::Forbidden).describe("they can only be destroyed");
    response.not_created.extend(request.create.into_keys().map(|id| (id, forbidden())));
    response.not_updated.extend(request.update.into_keys().map(|id| (id, forbidden())));
    let mut wanted = Vec::new();
    for given in request.destroy {
        match given.resolve(&scope.created).cloned().and_then(|id| Some((notice_of(&id)?, id))) {
            Some((notice, id)) => wanted.push((notice, given, id)),
            None => drop(response.not_destroyed.insert(given, SetErrorType::NotFound.into())),
        }
    }
    let ids: Vec<u64> = wanted.iter().map(|(notice, ..)| *notice).collect();
    let removed = dismiss(scope.resolver(), &ids).await?;
    for ((_, given, id), removed) in wanted.into_iter().zip(removed) {
        match removed {
            true => response.destroyed.push(id),
            false => drop(response.not_destroyed.insert(given, SetErrorType::NotFound.into())),
        }
    }
    let after = scope.account().state().share_notices().changes;
    // RFC 8620 §5.3: others may have changed something in between.
    let is_alone = after == before + response.destroyed.len() as u64;
    response.old_state = is_alone.then(|| state_of(before));
    response.new_state = state_of(after);
    responder.respond("ShareNotification/set", &response, call_id).await?;
    Ok(())
}
