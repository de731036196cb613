//! Email/query (RFC 8621 §4.4).

use sealpost_account::object_id::{email_id_of, object_of};
use sealpost_base::ObjectId;
use sealpost_base::limits::JMAP_QUERY_IDS;
use sealpost_jmap::email::{EmailCondition, EmailQuery as JmapQuery, EmailSortKey};
use sealpost_jmap::standard::QueryRequest;
use sealpost_jmap::{MethodError, State};
use sealpost_search::emails::{EmailQuery, EmailsView};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::filter::filter_of;
use super::sort::sort_of;
use crate::method::Outcome;
use crate::progress::{CallerProgress, query_failure};
use crate::query_part::{first_index, limit_of};
use crate::responder::Responder;
use crate::scope::Scope;
use crate::state_string::{Head, state_of};

/// An email id in a response.
struct EmailId(ObjectId);

impl Serialize for EmailId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&email_id_of(self.0))
    }
}

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let JmapQuery { query, collapse_threads } = JmapQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    let sort = sort_of(&query.sort)?;
    let asked = EmailQuery { filter: filter_of(scope, query.filter.as_ref()).await?, sort };
    let limit = limit_of(&query);
    let bounds = Bounds { collapsed: collapse_threads, most: limit.min(JMAP_QUERY_IDS) };
    let _permit = scope.permit(bounds.most * size_of::<ObjectId>()).await;
    let logs = scope.logs().await?;
    let head = logs.look(|logs| logs.head()).await?;
    let search = scope.email_search(&logs, &asked);
    let pick = |view: &EmailsView<'_>| window(view, scope, head, &query, bounds);
    let found = scope.engine().emails(search, &mut CallerProgress::new(scope), pick).await;
    let window = found.map_err(query_failure)??;
    logs.check_still_readable().await?;
    drop(logs);
    let is_cut = window.first.saturating_add(bounds.most) < window.total && bounds.most < limit;
    let mut response = responder.open("Email/query", call_id);
    response.argument("accountId", scope.id()).await?;
    response.argument("queryState", &window.state).await?;
    response.argument("canCalculateChanges", &window.has_changes).await?;
    response.argument("position", &window.first).await?;
    response.array("ids", &window.ids).await?;
    if query.calculate_total {
        response.argument("total", &window.total).await?;
    }
    if is_cut {
        response.argument("limit", &bounds.most).await?;
    }
    response.close();
    Ok(())
}

/// The requested part of the results.
#[derive(Clone, Copy)]
struct Bounds {
    collapsed: bool,
    most: usize,
}

/// The range of results to return.
struct Window {
    state: State,
    has_changes: bool,
    first: usize,
    ids: Vec<EmailId>,
    total: usize,
}

/// The results from a position or from an anchor (RFC 8620 §5.5).
fn window(
    view: &EmailsView<'_>,
    scope: &Scope<'_>,
    head: Head,
    query: &QueryRequest<EmailCondition, EmailSortKey>,
    bounds: Bounds,
) -> Result<Window, MethodError> {
    let total = view.len(bounds.collapsed);
    let first =
        first_index(query, scope, total, |anchor| view.index(object_of(anchor.as_str())?, bounds.collapsed))?;
    let ids = view.from(first, bounds.collapsed).take(bounds.most).map(EmailId).collect();
    let state = state_of(head, &view.last_changes());
    Ok(Window { state, has_changes: view.has_changes(), first, ids, total })
}
