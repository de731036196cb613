//! EmailSubmission/get (RFC 8621 §7.1).

use sealpost_jmap::GivenId;
use sealpost_jmap::submission::{EmailSubmission, SubmissionGet, SubmissionProperty};
use serde_json::{Map, Value};

use super::settle::settle;
use super::show::{show, submission_of};
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
    let request = SubmissionGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    settle(scope).await?;
    let bytes = scope.own_state(|state| state.submissions().bytes()).await?;
    let _permit = scope.permit(2 * bytes).await;
    let wanted: Option<Vec<_>> = request
        .ids
        .map(|ids| ids.into_iter().map(|given| (submission_of(&given, &scope.created), given)).collect());
    let (state, list, not_found) = scope
        .own_state(|state| {
            let known = state.submissions();
            let (mut list, mut not_found): (Vec<EmailSubmission>, Vec<GivenId>) = Default::default();
            match &wanted {
                None => list.extend(known.iter().map(|(_, record)| show(&record.value))),
                Some(wanted) => {
                    for (id, given) in wanted {
                        match id.and_then(|id| known.get(id)) {
                            Some(record) => list.push(show(record)),
                            None => not_found.push(given.clone()),
                        }
                    }
                }
            }
            (state_at(known.changed()), list, not_found)
        })
        .await?;
    let mut list = list;
    if let Some(mut properties) = request.properties {
        properties.push(SubmissionProperty::Id);
        list.iter_mut().for_each(|submission| submission.select(&properties));
    }
    responder.respond_get("EmailSubmission/get", call_id, (scope.id(), &state), &list, &not_found).await?;
    Ok(())
}
