//! Identity/changes (RFC 8621 §6.2).

use sealpost_jmap::identity::IdentityChanges;
use serde_json::{Map, Value};

use super::list::{id_of, refresh};
use crate::method::Outcome;
use crate::record_state::changes_response;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = IdentityChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    refresh(scope).await?;
    let response = scope.own_state(|state| {
        let known = state.identities();
        let find = |since, most| known.changes(since, state.position(), most);
        changes_response(state, known.changed(), request, find, id_of)
    });
    let response = response.await??;
    responder.respond("Identity/changes", &response, call_id).await?;
    Ok(())
}
