//! Principal/set (RFC 9670 §2.3): the operator manages users; a user's own name is the address by which
//! others know whom they share with, so nothing of it can be changed here (§6.1).

use sealpost_jmap::SetError;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::principal::{PrincipalSet, PrincipalSetResponse};
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PrincipalSet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let state = super::state(scope.user(), &scope.shared_accounts().await?).await?;
    if request.if_in_state.as_ref().is_some_and(|wanted| *wanted != state) {
        return Err(MethodErrorType::StateMismatch.into());
    }
    let mut response = PrincipalSetResponse::new(request.account_id, state);
    let forbidden =
        || SetError::from(SetErrorType::Forbidden).describe("the operator of the server manages its users");
    response.not_created.extend(request.create.into_keys().map(|id| (id, forbidden())));
    response.not_updated.extend(request.update.into_keys().map(|id| (id, forbidden())));
    response.not_destroyed.extend(request.destroy.into_iter().map(|id| (id, forbidden())));
    responder.respond("Principal/set", &response, call_id).await?;
    Ok(())
}
