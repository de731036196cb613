//! VacationResponse/get (RFC 8621 §8.1).

use sealpost_base::limits;
use sealpost_jmap::vacation::{VacationGet, VacationProperty};
use serde_json::{Map, Value};

use super::{is_singleton, object, own, state_of};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = VacationGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let (vacations, name) = own(scope)?;
    let _permit = scope.permit(2 * limits::VACATION_TEXT_BYTES).await;
    let vacation = vacations.get(&name).await?;
    let (mut list, mut not_found) = (vec![object(&vacation)], Vec::new());
    if let Some(ids) = request.ids {
        let (own, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(is_singleton);
        list.truncate(own.len());
        not_found = others;
    }
    if let Some(mut properties) = request.properties {
        properties.push(VacationProperty::Id);
        list.iter_mut().for_each(|response| response.select(&properties));
    }
    let state = state_of(&vacation);
    responder.respond_get("VacationResponse/get", call_id, (scope.id(), &state), &list, &not_found).await?;
    Ok(())
}
