//! Identity/get (RFC 8621 §6.1).

use sealpost_jmap::GivenId;
use sealpost_jmap::identity::{Identity, IdentityGet, IdentityProperty};
use serde_json::{Map, Value};

use super::list::{identity_of, refresh};
use super::show::show;
use crate::method::Outcome;
use crate::record_state::state_at;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = IdentityGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    refresh(scope).await?;
    let bytes = scope.own_state(|state| state.identities().bytes()).await?;
    let _permit = scope.permit(2 * bytes).await;
    let (state, known) = scope
        .own_state(|state| {
            let known = state.identities();
            let all: Vec<Identity> = known.iter().map(|(id, record)| show(id, &record.value)).collect();
            (state_at(known.changed()), all)
        })
        .await?;
    let find = |given: &GivenId| {
        let id = identity_of(given, &scope.created).map(super::id_of);
        known.iter().find(|identity| id.is_some() && identity.id == id)
    };
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    match &request.ids {
        None => list.clone_from(&known),
        Some(ids) => {
            for given in ids {
                match find(given) {
                    Some(identity) => list.push(identity.clone()),
                    None => not_found.push(given.clone()),
                }
            }
        }
    }
    if let Some(mut properties) = request.properties {
        properties.push(IdentityProperty::Id);
        list.iter_mut().for_each(|identity| identity.select(&properties));
    }
    responder.respond_get("Identity/get", call_id, (scope.id(), &state), &list, &not_found).await?;
    Ok(())
}
