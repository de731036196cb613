//! Email/changes (RFC 8621 §4.3): an email is created with its first visible placement, destroyed with
//! its last one, and updated when its mailboxes or keywords change.

use sealpost_account::object_id::email_id_of;
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::object_changes;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    object_changes::changes(scope, responder, arguments, ("Email/changes", call_id), email_id_of).await
}
