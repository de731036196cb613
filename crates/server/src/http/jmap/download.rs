//! Downloads of blobs (RFC 8620 §6.2).

use std::io;
use std::sync::Arc;

use futures::StreamExt;
use sealpost_base::Kind;
use sealpost_http::{Download, Request, Response, ResponseBody, StatusCode, download};

use super::{Jmap, login};

/// Answers GET.
pub(super) async fn get(jmap: Arc<Jmap>, request: Request) -> Response {
    let head = request.head;
    let (caller, place) = match login::caller(&jmap, &head).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let blob = head.param("blob");
    let found = match caller.download(head.param("account"), blob).await {
        Ok(Some(found)) => found,
        // Does not tell whether another account has one.
        Ok(None) => return Response::problem(StatusCode::NOT_FOUND, "there is no such blob"),
        Err(error) => {
            tracing::warn!(%error, "a blob cannot be downloaded");
            let status = match error.kind() {
                Kind::Denied => StatusCode::UNAUTHORIZED,
                Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            return Response::problem(status, "the blob cannot be read");
        }
    };
    // RFC 8620 §6.2: the client says what it takes the blob for.
    let media_type = head.query_param("accept").unwrap_or_default();
    let file =
        Download { length: found.size(), media_type: &media_type, name: head.param("name"), tag: blob };
    download(&head.headers, &file, |range| {
        let pieces = found.bytes(range).map(move |piece| {
            let _place = &place;
            piece.map_err(io::Error::other)
        });
        ResponseBody::stream(pieces, None)
    })
}
