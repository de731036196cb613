//! OAuth over HTTP: what clients discover, the endpoints of the authorization server, and the page
//! that asks a user for consent. The server itself is `sealpost_oauth`, which knows no HTTP.

mod authorize;
mod discovery;
mod endpoints;
mod form;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sealpost_base::limits::OAUTH_BODY_BYTES;
use sealpost_http::{Body, Handler, Method, Request, Response, Route, StatusCode, header};
use sealpost_oauth::OAuth;
use sealpost_session::Context;

use super::announcer::announcer;
use super::endpoint::Endpoint;

/// The routes.
pub(super) fn routes(ctx: &Arc<Context>) -> Vec<Route> {
    let supported = sealpost_jmap_session::supported_scopes();
    let oauth = Arc::new(OAuth::new(ctx.clone(), supported, announcer(ctx)));
    let get = |name, path, handler: Arc<dyn Handler>| Route {
        name,
        method: Method::GET,
        path,
        body: Body::None,
        handler,
    };
    let post = |name, path, handler: Arc<dyn Handler>| Route {
        name,
        method: Method::POST,
        path,
        body: Body::Streamed(OAUTH_BODY_BYTES as u64),
        handler,
    };
    let resource: Arc<dyn Handler> = Arc::new(Endpoint(oauth.clone(), discovery::resource));
    vec![
        get(
            "DISCOVERY",
            "/.well-known/oauth-authorization-server",
            Arc::new(Endpoint(oauth.clone(), discovery::server)),
        ),
        get("DISCOVERY", "/.well-known/oauth-protected-resource", resource.clone()),
        get("DISCOVERY", "/.well-known/oauth-protected-resource/{first}/{second}", resource),
        get("AUTHORIZE", "/oauth/style.css", Arc::new(style)),
        get("AUTHORIZE", "/oauth/authorize", Arc::new(Endpoint(oauth.clone(), authorize::get))),
        post("AUTHORIZE", "/oauth/authorize", Arc::new(Endpoint(oauth.clone(), authorize::post))),
        post("REGISTER", "/oauth/register", Arc::new(Endpoint(oauth.clone(), endpoints::register))),
        post("TOKEN", "/oauth/token", Arc::new(Endpoint(oauth.clone(), endpoints::token))),
        post("REVOKE", "/oauth/revoke", Arc::new(Endpoint(oauth, endpoints::revoke))),
    ]
}

async fn style(_: Request) -> Response {
    let style = sealpost_http::ResponseBody::bytes(sealpost_oauth::STYLE);
    let cached = sealpost_http::HeaderValue::from_static("max-age=3600");
    Response::new(StatusCode::OK, "text/css; charset=utf-8", style).with(header::CACHE_CONTROL, cached)
}
