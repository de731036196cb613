//! ContactCard/copy (RFC 9610 §3.6). A caller has the contacts of one account, and a copy is between
//! two: so there is always an account without them.

use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::standard::CopyRequest;
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::scope::Scope;

pub(crate) fn copy(scope: &Scope<'_>, arguments: Map<String, Value>) -> Outcome {
    let request = CopyRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    Err(MethodError::from(MethodErrorType::FromAccountNotFound).into())
}
