//! The routes of HTTP: what this server answers there, and who does.

mod announcer;
mod endpoint;
pub(crate) mod jmap;
mod oauth;
mod small_body;
mod web_login;

use std::sync::Arc;

use sealpost_http::{Body, Method, Response, Route, Router, StatusCode};
use sealpost_session::Context;

use self::jmap::Jmap;
use crate::sending::Sending;

/// The reply to a connection beyond the limit.
pub(crate) const REFUSAL: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// All routes: `/healthz`, and those of JMAP, of web logins and of OAuth.
pub(crate) fn router(ctx: Arc<Context>, sending: Option<Sending>, jmap: &Arc<Jmap>) -> Router {
    let (logins, oauth) = (web_login::routes(&ctx), oauth::routes(&ctx));
    let health = move |_| {
        let (ctx, sending) = (ctx.clone(), sending.clone());
        async move {
            match crate::metrics::http::health(&ctx, sending.as_ref()).await {
                Ok(()) => Response::text(StatusCode::OK, "ok\n"),
                Err(why) => Response::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            }
        }
    };
    let health = Route {
        name: "HEALTH",
        method: Method::GET,
        path: "/healthz",
        body: Body::None,
        handler: Arc::new(health),
    };
    let all = jmap::routes(jmap).into_iter().chain(logins).chain(oauth);
    all.fold(Router::default().with(health), Router::with)
}

#[cfg(test)]
pub(crate) mod tests;
