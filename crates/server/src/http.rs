//! The routes of HTTP: what this server answers there, and who does.

use std::sync::Arc;

use sealpost_base::limits::{HTTP_HELD_BODY_BYTES, MESSAGE_BYTES};
use sealpost_http::{Body, Handler, Method, Response, Route, Router, StatusCode};
use sealpost_session::Context;

use crate::sending::Sending;

/// The reply to a connection beyond the limit.
pub(crate) const REFUSAL: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Where a client of JMAP learns the rest (RFC 8620 §2).
const SESSION: &str = "/jmap/session";

/// All routes: `/healthz`, and those of JMAP if `jmap` answers them.
pub(crate) fn router(ctx: Arc<Context>, sending: Option<Sending>, jmap: Option<Arc<dyn Handler>>) -> Router {
    let health = move |_| {
        let (ctx, sending) = (ctx.clone(), sending.clone());
        async move {
            match crate::metrics::http::health(&ctx, sending.as_ref()).await {
                Ok(()) => Response::text(StatusCode::OK, "ok\n"),
                Err(why) => Response::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            }
        }
    };
    let route = |name, method, path, body, handler| Route { name, method, path, body, handler };
    let router =
        Router::default().with(route("HEALTH", Method::GET, "/healthz", Body::None, Arc::new(health)));
    let Some(jmap) = jmap else { return router };
    let well_known = Arc::new(|_| async { Response::redirect(SESSION) });
    let of_jmap = |name, method, path, body| route(name, method, path, body, jmap.clone());
    router
        .with(route("SESSION", Method::GET, "/.well-known/jmap", Body::None, well_known))
        .with(of_jmap("SESSION", Method::GET, SESSION, Body::None))
        .with(of_jmap("API", Method::POST, "/jmap/api", Body::Held(HTTP_HELD_BODY_BYTES)))
        .with(of_jmap("UPLOAD", Method::POST, "/jmap/upload/{account}/", Body::Streamed(MESSAGE_BYTES)))
        .with(of_jmap("DOWNLOAD", Method::GET, "/jmap/download/{account}/{blob}/{name}", Body::None))
        .with(of_jmap("EVENTS", Method::GET, "/jmap/eventsource", Body::None))
}

#[cfg(test)]
pub(crate) mod tests;
