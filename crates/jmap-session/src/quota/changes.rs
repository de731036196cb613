//! Quota/changes (RFC 9425 §4.3).

use sealpost_jmap::id::Id;
use sealpost_jmap::quota::{QuotaChanges, QuotaChangesResponse, QuotaProperty};
use serde_json::{Map, Value};

use super::list::{Change, Values};
use crate::method::{Outcome, cannot_calculate};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = QuotaChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let since =
        Values::of_state(&request.since_state).ok_or_else(|| cannot_calculate("the state is unknown"))?;
    let now = Values::now(scope).await?;
    let (changes, upto) = since.changes(&now, request.most(usize::MAX));
    let of = |wanted: &[Change]| -> Vec<Id> {
        let such = changes.iter().filter(|(_, change)| wanted.contains(change));
        such.map(|(id, _)| id.clone()).collect()
    };
    let updated = of(&[Change::Used, Change::Updated]);
    let only_used = !updated.is_empty() && of(&[Change::Updated]).is_empty();
    let response = QuotaChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state: upto.state(),
        has_more_changes: upto != now,
        updated_properties: only_used.then(|| vec![QuotaProperty::Used]),
        created: of(&[Change::Created]),
        updated,
        destroyed: of(&[Change::Destroyed]),
    };
    responder.respond("Quota/changes", &response, call_id).await?;
    Ok(())
}
