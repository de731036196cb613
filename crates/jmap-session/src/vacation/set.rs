//! VacationResponse/set (RFC 8621 §8.2): changes the one object; creates and destroys none.

use sealpost_base::{Error, limits};
use sealpost_jmap::SetError;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::standard::{ObjectMap, SetResponse};
use sealpost_jmap::vacation::{VacationResponse, VacationSet};
use sealpost_submission::vacation::Vacation;
use sealpost_submission::vacation::settings::VacationSettings;
use serde_json::{Map, Value};

use super::{is_singleton, object, own, state_of};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = VacationSet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let (vacations, name) = own(scope)?;
    let _permit = scope.permit(4 * limits::VACATION_TEXT_BYTES).await;
    let (wanted, mut others): (Vec<_>, Vec<_>) =
        request.update.into_iter().partition(|(given, _)| is_singleton(given));
    let patch = wanted.into_iter().next();
    let (mut is_mismatch, mut refused) = (false, None);
    let changed = vacations.change(&name, |before| {
        refused = None;
        is_mismatch = request.if_in_state.as_ref().is_some_and(|wanted| *wanted != state_of(before));
        if is_mismatch {
            return Err(Error::conflict("the vacation response has changed"));
        }
        let patched = patch.as_ref().map(|(_, patch)| patched(before, patch));
        Ok(patched.transpose().unwrap_or_else(|error| {
            refused = Some(error);
            None
        }))
        .map(|settings| settings.unwrap_or_else(|| before.settings.clone()))
    });
    let changed = changed.await;
    if is_mismatch {
        return Err(MethodErrorType::StateMismatch.into());
    }
    let changed = changed?;
    if changed.now != changed.before {
        // Streams of this account's clients on this node hear of it at once.
        let user = scope.user();
        user.ctx().auth.standings().look(user.id);
    }
    let mut response: SetResponse<VacationResponse> =
        SetResponse::new(request.account_id, state_of(&changed.now));
    response.old_state = Some(state_of(&changed.before));
    match (patch, refused) {
        (Some((given, _)), Some(error)) => drop(response.not_updated.insert(given, error)),
        (Some((given, _)), None) => response.updated.extend(given.id().cloned().map(|id| (id, None))),
        (None, _) => {}
    }
    for (given, _) in others.drain(..) {
        response.not_updated.insert(given, SetErrorType::NotFound.into());
    }
    // RFC 8621 §8: there is one, always.
    response.not_created =
        request.create.into_keys().map(|id| (id, SetErrorType::Singleton.into())).collect();
    for given in request.destroy {
        let error = if is_singleton(&given) { SetErrorType::Singleton } else { SetErrorType::NotFound };
        response.not_destroyed.insert(given, error.into());
    }
    responder.respond("VacationResponse/set", &response, call_id).await?;
    Ok(())
}

/// The settings with the changes of a client.
fn patched(before: &Vacation, patch: &ObjectMap) -> Result<VacationSettings, SetError> {
    let changed = VacationResponse::for_update(PatchObject::new(patch.clone())?)?;
    let conflicts = changed.conflicts(&object(before));
    if !conflicts.is_empty() {
        return Err(SetError::invalid_properties(conflicts, "set by the server alone"));
    }
    let old = before.settings.clone();
    let settings = VacationSettings {
        is_enabled: changed.is_enabled.unwrap_or(old.is_enabled),
        from: changed.from_date.map_or(old.from, |date| date.map(|date| date.timestamp())),
        to: changed.to_date.map_or(old.to, |date| date.map(|date| date.timestamp())),
        subject: changed.subject.unwrap_or(old.subject),
        text: changed.text_body.unwrap_or(old.text),
        html: changed.html_body.unwrap_or(old.html),
        round: old.round,
    };
    match settings.wrong() {
        Some((property, why)) => Err(SetError::invalid_properties(vec![property.to_owned()], why)),
        None => Ok(settings),
    }
}
