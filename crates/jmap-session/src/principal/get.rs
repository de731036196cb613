//! Principal/get and Principal/changes (RFC 9670 §2.1, §2.2).

use std::collections::HashMap;

use sealpost_base::limits::JMAP_GET_OBJECTS;
use sealpost_jmap::principal::{
    Principal, PrincipalChanges, PrincipalChangesResponse, PrincipalGet, PrincipalProperty,
};
use sealpost_jmap::{GivenId, Id, MethodError};
use serde_json::{Map, Value};

use super::list::{list, state_of};
use crate::method::{Outcome, cannot_calculate};
use crate::responder::Responder;
use crate::scope::Scope;

/// About what one principal takes, in bytes.
const PRINCIPAL_BYTES: usize = 2048;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PrincipalGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let found = list(scope.user(), &scope.shared_accounts().await?).await?;
    let _permit = scope.permit(found.len() * PRINCIPAL_BYTES).await;
    let state = state_of(&found);
    if request.ids.is_none() && found.len() > JMAP_GET_OBJECTS {
        return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, found.len()).into());
    }
    let (mut found, not_found) = chosen(found, request.ids);
    if let Some(mut properties) = request.properties {
        properties.push(PrincipalProperty::Id);
        found.iter_mut().for_each(|principal| principal.select(&properties));
    }
    responder.respond_get("Principal/get", call_id, (scope.id(), &state), &found, &not_found).await?;
    Ok(())
}

/// Those with these ids, and the ids of which there are none.
fn chosen(all: Vec<Principal>, ids: Option<Vec<GivenId>>) -> (Vec<Principal>, Vec<GivenId>) {
    let Some(ids) = ids else { return (all, Vec::new()) };
    let known = all.into_iter().filter_map(|principal| Some((principal.id.clone()?, principal)));
    let known: HashMap<Id, Principal> = known.collect();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for given in ids {
        match given.id().and_then(|id| known.get(id)) {
            Some(principal) => found.push(principal.clone()),
            None => missing.push(given),
        }
    }
    (found, missing)
}

/// Principal/changes: none, or changes that the server cannot calculate.
pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PrincipalChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let state = super::state(scope.user(), &scope.shared_accounts().await?).await?;
    if state != request.since_state {
        return Err(cannot_calculate("the principals are others").into());
    }
    let response = PrincipalChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state: state,
        has_more_changes: false,
        created: Vec::new(),
        updated: Vec::new(),
        destroyed: Vec::new(),
    };
    responder.respond("Principal/changes", &response, call_id).await?;
    Ok(())
}
