//! The Session resource (RFC 8620 §2).

use std::sync::Arc;

use sealpost_http::{HeaderValue, Request, Response, StatusCode, header};

use super::{Jmap, login};

/// Answers GET.
pub(super) async fn get(jmap: Arc<Jmap>, request: Request) -> Response {
    let head = request.head;
    let (caller, _place) = match login::caller(&jmap, &head).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let session = match caller.session(head.base_url()).await {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(%error, "a Session object cannot be made");
            return Response::problem(StatusCode::SERVICE_UNAVAILABLE, "the account cannot be read now");
        }
    };
    // Types that JSON can write.
    let session = serde_json::to_vec(&session).unwrap_or_default();
    // RFC 8620 §2: clients fetch it again when its state changes, so no cache may have an old one.
    let uncached = HeaderValue::from_static("no-cache, no-store, must-revalidate");
    Response::json(session).with(header::CACHE_CONTROL, uncached)
}
