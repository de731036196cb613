//! JMAP over HTTP (RFC 8620): the routes, and what their requests have in common.
//!
//! A handler finds out first whose request it is (`login.rs`), and then hands it over to the
//! caller ([`sealpost_jmap_session::Caller`]), which knows no HTTP.

mod api;
mod download;
mod events;
mod login;
mod problem;
mod session;
mod upload;
mod websocket;

use std::sync::Arc;

use sealpost_base::limits::JMAP_UPLOAD_BYTES;
use sealpost_http::{Body, Handler, Method, Route};
use sealpost_jmap_session::JmapShared;
use sealpost_push::Pusher;
use sealpost_session::{Context, Shutdown};
use sealpost_submission::outbox::Outbox;

use super::endpoint::Endpoint;

/// Answers requests of JMAP.
pub(crate) struct Jmap {
    shared: Arc<JmapShared>,
    shutdown: Shutdown,
}

impl Jmap {
    /// Over the server's context. With an outbox, users can submit mail; `push` pushes to devices.
    pub(crate) fn new(ctx: Arc<Context>, outbox: Option<Outbox>, push: Option<Pusher>) -> Self {
        let shared = JmapShared::new(ctx.clone()).sending(outbox).with_push(push);
        Jmap { shutdown: ctx.shutdown.clone(), shared: Arc::new(shared) }
    }
}

/// The routes.
pub(crate) fn routes(jmap: &Arc<Jmap>) -> Vec<Route> {
    let get = |name, path, handler| Route { name, method: Method::GET, path, body: Body::None, handler };
    let session: Arc<dyn Handler> = Arc::new(Endpoint(jmap.clone(), session::get));
    vec![
        // Here too without a redirect: clients are known that forget their credentials on the way.
        get("SESSION", "/.well-known/jmap", session.clone()),
        get("SESSION", "/jmap/session", session),
        get("EVENTS", "/jmap/eventsource", Arc::new(Endpoint(jmap.clone(), events::get))),
        get("WEBSOCKET", "/jmap/ws", Arc::new(Endpoint(jmap.clone(), websocket::get))),
        get(
            "DOWNLOAD",
            "/jmap/download/{account}/{blob}/{name}",
            Arc::new(Endpoint(jmap.clone(), download::get)),
        ),
        Route {
            name: "UPLOAD",
            method: Method::POST,
            path: "/jmap/upload/{account}/",
            body: Body::Streamed(JMAP_UPLOAD_BYTES),
            handler: Arc::new(Endpoint(jmap.clone(), upload::post)),
        },
        Route {
            name: "API",
            method: Method::POST,
            path: "/jmap/api",
            body: Body::Held(jmap.shared.request_bytes()),
            handler: Arc::new(Endpoint(jmap.clone(), api::post)),
        },
    ]
}

#[cfg(test)]
mod tests;
