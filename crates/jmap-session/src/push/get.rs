//! PushSubscription/get (RFC 8620 §7.2.1).

use sealpost_jmap::date::UtcDate;
use sealpost_jmap::push::{PushProperty, PushSubscription, PushSubscriptionGet, PushSubscriptionGetResponse};
use sealpost_jmap::{GivenId, Id};
use sealpost_push::Subscription;
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PushSubscriptionGet::from_arguments(arguments)?;
    let user = scope.user();
    let known = match &user.shared.push {
        Some(push) => push.subscriptions(user.id, user.standing.slot()).await?,
        None => Vec::new(),
    };
    let known: Vec<PushSubscription> = known.iter().map(shown).collect();
    let find = |given: &GivenId| known.iter().find(|it| it.id.is_some() && it.id.as_ref() == given.id());
    let (mut list, not_found) = match &request.ids {
        None => (known.clone(), Vec::new()),
        Some(ids) => {
            let found = ids.iter().filter_map(find).cloned().collect();
            (found, ids.iter().filter(|given| find(given).is_none()).cloned().collect())
        }
    };
    if let Some(mut properties) = request.properties {
        properties.push(PushProperty::Id);
        list.iter_mut().for_each(|it| it.select(&properties));
    }
    let response = PushSubscriptionGetResponse { list, not_found };
    responder.respond("PushSubscription/get", &response, call_id).await?;
    Ok(())
}

/// The id of a subscription for clients.
pub(super) fn id_of(subscription: &Subscription) -> Id {
    Id::new(subscription.id.to_string()).expect("hexadecimal digits are safe characters")
}

/// A subscription without its URL and keys, which no response shows.
fn shown(subscription: &Subscription) -> PushSubscription {
    PushSubscription {
        id: Some(id_of(subscription)),
        device_client_id: Some(subscription.device.clone()),
        url: None,
        keys: None,
        // What the client has set, and not what it is to set.
        verification_code: Some(subscription.is_verified.then(|| subscription.code.clone())),
        expires: Some(Some(UtcDate::new(subscription.expires))),
        types: Some(subscription.types.clone()),
    }
}
