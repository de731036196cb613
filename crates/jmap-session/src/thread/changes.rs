//! Thread/changes (RFC 8621 §3.2).

use sealpost_account::ThreadId;
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
    let call = ("Thread/changes", call_id);
    object_changes::changes(scope, responder, arguments, call, |thread: ThreadId| thread.to_string()).await
}
