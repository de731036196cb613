//! API requests (RFC 8620 §3.1): a Request object in, a Response object out while it is made.

use std::sync::Arc;
use std::{fmt, io};

use sealpost_http::{AccountPlace, BodyWriter, Request, RequestBody, Response, ResponseBody, StatusCode};
use sealpost_jmap::Problem;
use sealpost_jmap_session::{ApiError, Caller, ClientGone, ReadRequest, ResponseSink};

use super::super::small_body::media_type;
use super::{Jmap, login, problem};

/// Answers POST.
pub(super) async fn post(jmap: Arc<Jmap>, request: Request) -> Response {
    let Request { head, body } = request;
    let (caller, place) = match login::caller(&jmap, &head).await {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    // RFC 8620 §3.1; a page of another origin cannot send it without asking first (Fetch §2.2.2).
    if media_type(&head.headers) != "application/json" {
        let detail = "The Content-Type of a request is application/json.";
        return problem::response(&Problem::not_json(detail));
    }
    match read(&caller, body, &place).await {
        Ok(request) => run(caller, place, request).await,
        Err(refusal) => refusal,
    }
}

/// The request; its text is released when its values are there.
async fn read(caller: &Caller, body: RequestBody, place: &AccountPlace) -> Result<ReadRequest, Response> {
    let body = body.read_all(place).await.map_err(problem::of_body)?;
    caller.read(&body).await.map_err(|wrong| problem::response(&wrong))
}

/// Runs the request as a part of its response. Nothing is answered before the first bytes are made:
/// until then, a problem may be the answer.
async fn run(caller: Caller, place: AccountPlace, request: ReadRequest) -> Response {
    let run = |out| async move {
        let _place = place;
        caller.api(request, &mut Sink(out)).await.map_err(|error| match error {
            ApiError::Problem(problem) => io::Error::other(NothingRun(problem)),
            ApiError::Ended => io::ErrorKind::ConnectionAborted.into(),
        })
    };
    match ResponseBody::written(run, None).begun().await {
        Ok(body) => Response::new(StatusCode::OK, "application/json", body),
        Err(error) => match error.downcast::<NothingRun>() {
            Ok(NothingRun(problem)) => problem::response(&problem),
            // The login is over, or the client: who is there still may log in again.
            Err(_) => Response::problem(StatusCode::SERVICE_UNAVAILABLE, "the request was interrupted"),
        },
    }
}

/// Sends to the client of a request.
struct Sink(BodyWriter);

#[async_trait::async_trait]
impl ResponseSink for Sink {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone> {
        self.0.write(bytes).await.map_err(|_| ClientGone)
    }
}

/// Nothing of a request was run, because of this.
#[derive(Debug)]
struct NothingRun(Problem);

impl fmt::Display for NothingRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl std::error::Error for NothingRun {}
