//! Quota/get (RFC 9425 §4.2).

use sealpost_jmap::GivenId;
use sealpost_jmap::quota::{QuotaGet, QuotaProperty};
use serde_json::{Map, Value};

use super::list::Values;
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = QuotaGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let values = Values::now(scope).await?;
    let known = values.quotas();
    let find = |given: &GivenId| known.iter().find(|(id, _)| given.id() == Some(id));
    let (mut list, not_found) = match &request.ids {
        None => (known.iter().map(|(_, quota)| quota.clone()).collect(), Vec::new()),
        Some(ids) => {
            let found = ids.iter().filter_map(find).map(|(_, quota)| quota.clone());
            let missing = ids.iter().filter(|id| find(id).is_none()).cloned();
            (found.collect::<Vec<_>>(), missing.collect())
        }
    };
    if let Some(mut properties) = request.properties {
        properties.push(QuotaProperty::Id);
        list.iter_mut().for_each(|quota| quota.select(&properties));
    }
    responder.respond_get("Quota/get", call_id, (scope.id(), &values.state()), &list, &not_found).await?;
    Ok(())
}
