//! ContactCard/copy (RFC 9610 §3.6). A caller has contacts in the own account alone, and a copy is between
//! two accounts: so there is always one without them.

use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::standard::CopyRequest;
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::scope::Scope;

pub(crate) async fn copy(scope: &Scope<'_>, arguments: Map<String, Value>) -> Outcome {
    let request = CopyRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    // RFC 8620 §5.4: the account of another owner is valid, but has no contacts.
    let error = match scope.of_account(&request.from_account_id).await? {
        Some(_) => MethodErrorType::FromAccountNotSupportedByMethod,
        None => MethodErrorType::FromAccountNotFound,
    };
    Err(error.into())
}
