//! Email/copy (RFC 8621 §4.7). A copy is between two accounts, and a caller has one: the response is always
//! an error.

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
