//! From a request to its response: the steps common to all routes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use hyper::body::Incoming;
use sealpost_auth::throttle::Network;
use sealpost_base::limits::HTTP_REQUEST_BYTES;

use crate::HttpShared;
use crate::client::{Client, client};
use crate::compression::compress;
use crate::connection::Connection;
use crate::cors;
use crate::request::{Request, RequestHead};
use crate::request_body::RequestBody;
use crate::response::{Refusal, Response};
use crate::response_body::ResponseBody;
use crate::router::{Found, Route};
use crate::sent_body::SentBody;
use crate::streams::StreamWatch;
use crate::takeover::Takeover;
use crate::work::Work;

/// Fields of every response that its handler does not override: no shared caching, no rendering as a page, no
/// guessing of media types.
const FIELDS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
];

/// Handles one request of a connection.
pub(crate) async fn answer(
    connection: Arc<Connection>,
    request: hyper::Request<Incoming>,
) -> hyper::Response<SentBody> {
    let shared = connection.shared.clone();
    let (parts, incoming) = request.into_parts();
    let found = shared.router.find(&parts.method, parts.uri.path());
    let name = match &found {
        Found::Route(route, _) => route.name,
        _ if parts.method == Method::OPTIONS => "OPTIONS",
        Found::Methods(_) | Found::Nothing => "OTHER",
    };
    connection.begin_request();
    let mut work = Work::begin(&connection, name);
    let (method, headers, version) = (parts.method.clone(), parts.headers.clone(), parts.version);
    let methods = shared.router.methods(parts.uri.path());
    let mut response = match checked(&connection, &parts) {
        Err(refusal) => refusal.into(),
        Ok((client, base_url)) => match found {
            Found::Route(route, params) => {
                let head = RequestHead {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().map(str::to_owned),
                    headers: parts.headers,
                    route: route.name,
                    client: client.address,
                    params,
                    base_url,
                    is_tls: client.is_tls,
                    connection: connection.clone(),
                };
                handle(&shared, route, head, incoming, &mut work).await
            }
            Found::Methods(methods) if method == Method::OPTIONS => {
                drop(methods);
                Response::empty(StatusCode::NO_CONTENT)
            }
            Found::Methods(methods) => {
                let refusal =
                    Response::problem(StatusCode::METHOD_NOT_ALLOWED, "this is not for that method");
                refusal.with(header::ALLOW, cors::list(&methods))
            }
            Found::Nothing => Response::problem(StatusCode::NOT_FOUND, "there is nothing at this path"),
        },
    };
    cors::allow(&mut response, &headers, &shared.ctx.settings.http.allowed_origins);
    if method == Method::OPTIONS
        && let Some(methods) = methods
    {
        cors::answer_preflight(&mut response, &methods);
    }
    let mut response = finished(&shared, response, &method, &headers);
    work.answered(response.status);
    if response.body.is_lasting {
        work.lasts();
        if connection.can_be_taken_over() {
            connection.take_over(Takeover::new(response, version, work, &connection));
            // Free the request's head: it keeps buffers alive that are to be reused.
            drop(headers);
            return std::future::pending().await;
        }
    }
    let shutdown = shared.ctx.shutdown.clone();
    let stopping = async move { shutdown.wait().await }.boxed();
    let body = SentBody::new(
        std::mem::replace(&mut response.body, ResponseBody::empty()),
        work,
        StreamWatch::current(),
        stopping,
    );
    let mut sent = hyper::Response::new(body);
    (*sent.status_mut(), *sent.headers_mut()) = (response.status, response.headers);
    sent
}

/// Checks the client and the host of a request.
fn checked(connection: &Connection, parts: &http::request::Parts) -> Result<(Client, String), Refusal> {
    let ctx = &connection.shared.ctx;
    let client = client(connection.transport, &parts.headers, ctx)?;
    let bad = |why| Refusal(StatusCode::BAD_REQUEST, why);
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(bad("the request has several Host fields")),
        (Some(host), None) => Some(host.to_str().map_err(|_| bad("the Host field is malformed"))?),
        (None, None) => None,
    };
    // RFC 9112 §3.2, RFC 9113 §8.3.1: the authority in the target takes precedence.
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or(host);
    if host.is_none() && parts.version >= Version::HTTP_11 {
        return Err(bad("the request has no Host field"));
    }
    let host = host.unwrap_or(&ctx.hostname);
    let is_host = host.parse::<http::uri::Authority>().is_ok() && !host.contains('@');
    if !is_host {
        return Err(bad("the Host field is malformed"));
    }
    let scheme = if client.is_tls { "https" } else { "http" };
    let url = ctx.settings.http.url.as_ref().map(|url| url.as_str().to_owned());
    Ok((client, url.unwrap_or_else(|| format!("{scheme}://{host}"))))
}

/// Waits for the request's memory, then calls the handler of its route.
async fn handle(
    shared: &Arc<HttpShared>,
    route: &Route,
    head: RequestHead,
    incoming: Incoming,
    work: &mut Work,
) -> Response {
    let network = head.client.map(Network::of);
    let place = network.map(|network| shared.of_address.enter(network));
    if matches!(place, Some(None)) {
        return too_many("too many requests from this address at once");
    }
    work.hold(place.flatten(), shared.budget.acquire(HTTP_REQUEST_BYTES).await);
    if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Response::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the body as it is, not encoded")
            .with(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let body = RequestBody::new(incoming, route.body, &head.connection);
    let answered = AssertUnwindSafe(route.handler.handle(Request { head, body })).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        // The panic hook has logged it.
        shared.ctx.metrics.panics.increment();
        Response::problem(StatusCode::INTERNAL_SERVER_ERROR, "the request met a bug in Sealpost")
    })
}

fn too_many(why: &str) -> Response {
    Response::problem(StatusCode::TOO_MANY_REQUESTS, why)
        .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Completes a response with the fields that every response has.
fn finished(shared: &HttpShared, mut response: Response, method: &Method, request: &HeaderMap) -> Response {
    for (name, value) in FIELDS {
        response.headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    let is_bodiless = method == Method::HEAD
        || matches!(response.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if is_bodiless {
        // RFC 9110 §8.6: the response to HEAD may declare the length of the body.
        if let (&Method::HEAD, Some(length)) = (method, response.body.length) {
            response.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        response.body = ResponseBody::empty();
    } else {
        compress(&mut response, request, &shared.ctx.budget);
        if let Some(length) = response.body.length {
            response.headers.insert(header::CONTENT_LENGTH, length.into());
        }
    }
    response
}
