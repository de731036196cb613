//! The Session resource (RFC 8620 §2).

use std::sync::Arc;

use sealpost_http::{HeaderValue, Request, Response, header};

use super::{Jmap, login};

/// Answers GET.
pub(super) async fn get(jmap: Arc<Jmap>, request: Request) -> Response {
    let head = request.head;
    let (caller, _place) = match login::caller(&jmap, &head).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    // Types that JSON can write.
    let session = serde_json::to_vec(&caller.session(head.base_url())).unwrap_or_default();
    // RFC 8620 §2: clients fetch it again when its state changes, so no cache may have an old one.
    let uncached = HeaderValue::from_static("no-cache, no-store, must-revalidate");
    Response::json(session).with(header::CACHE_CONTROL, uncached)
}
