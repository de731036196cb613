//! Uploads (RFC 8620 §6.1): the body is stored while it comes.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use sealpost_base::limits::JMAP_UPLOAD_BYTES;
use sealpost_http::{BodyError, Request, RequestBody, Response, ResponseBody, StatusCode, header};
use sealpost_jmap::Problem;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap_session::{ApiError, BodyEnded};

use super::{Jmap, login, problem};

/// What an upload is if its client does not say.
const OCTET_STREAM: &str = "application/octet-stream";

/// Answers POST.
pub(super) async fn post(jmap: Arc<Jmap>, request: Request) -> Response {
    let Request { head, mut body } = request;
    let (caller, _place) = match login::caller(&jmap, &head).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|field| field.to_str().ok());
    let media_type = media_type.filter(|text| !text.is_empty()).unwrap_or(OCTET_STREAM);
    if body.length().is_some_and(|length| length > JMAP_UPLOAD_BYTES) {
        return refused(BodyError::TooLarge(JMAP_UPLOAD_BYTES));
    }
    let mut ended = None;
    let pieces = stream::unfold((&mut body, &mut ended), |(body, ended)| Box::pin(next(body, ended)));
    let stored = caller.upload(head.param("account"), media_type, pieces.boxed()).await;
    match stored {
        Ok(stored) => {
            // A type that JSON can write.
            let json = serde_json::to_vec(&stored).unwrap_or_default();
            Response::new(StatusCode::CREATED, "application/json", ResponseBody::bytes(json))
        }
        Err(ApiError::Problem(wrong)) => problem::response(&wrong),
        Err(ApiError::Ended) => match ended {
            Some(error) => refused(error),
            None => Response::problem(StatusCode::SERVICE_UNAVAILABLE, "the upload was interrupted"),
        },
    }
}

type Rest<'a> = (&'a mut RequestBody, &'a mut Option<BodyError>);

/// The next piece; why there is none is kept for the response.
async fn next<'a>(
    body: &'a mut RequestBody,
    ended: &'a mut Option<BodyError>,
) -> Option<(Result<bytes::Bytes, BodyEnded>, Rest<'a>)> {
    if ended.is_some() {
        return None;
    }
    match body.next().await {
        Ok(piece) => piece.map(|piece| (Ok(piece), (body, ended))),
        Err(error) => {
            *ended = Some(error);
            Some((Err(BodyEnded), (body, ended)))
        }
    }
}

fn refused(error: BodyError) -> Response {
    match error {
        BodyError::TooLarge(_) => {
            let detail = format!("an upload has at most {JMAP_UPLOAD_BYTES} bytes");
            problem::response(&Problem::new(ProblemType::Limit("maxSizeUpload"), 413, detail))
        }
        BodyError::TooMany | BodyError::TimedOut | BodyError::Disconnected => error.into(),
    }
}
