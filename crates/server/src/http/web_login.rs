//! Web logins: a browser trades the password for a cookie, whose secret opens a slot of its own.
//!
//! `POST /login` begins one, `GET /login` says whose it is and lets the browser keep it for longer,
//! `POST /logout` ends it. A request that changes something has to come from a page of this server
//! ([`sealpost_http::Sender`]); `POST /login` may also come from a program, which says nothing of
//! pages, but never from a page of another site, which would log its visitor in to a foreign account.

use std::sync::Arc;
use std::time::Duration;

use sealpost_auth::failed_logins::Reason;
use sealpost_auth::{Denied, Entered};
use sealpost_base::limits::{OAUTH_BODY_BYTES, TOKEN_LABEL_BYTES, WEB_LOGIN_IDLE};
use sealpost_http::{
    Body, HeaderValue, Method, Request, RequestHead, Response, Route, StatusCode, form_pairs, header,
};
use sealpost_oauth::Announce;
use sealpost_session::Context;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::announcer::announcer;
use super::endpoint::Endpoint;
use super::small_body::{media_type, small_body};

/// The name of the protocol in the log of failed logins.
const PROTOCOL: &str = "web";

/// What the routes share.
struct WebLogins {
    ctx: Arc<Context>,
    announce: Announce,
}

/// What a browser sends to log in, as JSON or as a form.
#[derive(Deserialize)]
struct Given {
    username: String,
    password: String,
}

/// The routes.
pub(super) fn routes(ctx: &Arc<Context>) -> Vec<Route> {
    let logins = Arc::new(WebLogins { ctx: ctx.clone(), announce: announcer(ctx) });
    let body = Body::Streamed(OAUTH_BODY_BYTES as u64);
    let (login, info) = (Endpoint(logins.clone(), login), Endpoint(logins.clone(), info));
    let logout = Endpoint(logins, logout);
    let post = |name, path, body, handler| Route { name, method: Method::POST, path, body, handler };
    vec![
        post("LOGIN", "/login", body, Arc::new(login)),
        Route {
            name: "LOGIN",
            method: Method::GET,
            path: "/login",
            body: Body::None,
            handler: Arc::new(info),
        },
        post("LOGOUT", "/logout", body, Arc::new(logout)),
    ]
}

/// Answers POST of name and password.
async fn login(logins: Arc<WebLogins>, request: Request) -> Response {
    let Request { head, body } = request;
    if head.sender().is_foreign() {
        return foreign();
    }
    let kind = media_type(&head.headers);
    let body = match small_body(body).await {
        Ok(body) => body,
        Err(error) => return error.into(),
    };
    let Some(given) = given(&kind, &body) else {
        let what = "send username and password as application/json or as a form";
        return Response::problem(StatusCode::BAD_REQUEST, what);
    };
    let ctx = &logins.ctx;
    let checked = tokio::select! {
        checked = ctx.auth.login_by_password(head.client, &given.username, given.password.as_bytes()) => checked,
        // A login that is slowed down would outlast the time that requests have to end.
        () = ctx.shutdown.wait() => Err(Denied::Busy),
    };
    let entered = match checked {
        Ok(entered) => entered,
        Err(denied) => return refused(ctx, &head, &given.username, &denied).await,
    };
    let made = ctx.directory.add_web_login(&entered.record, &entered.root, &label(&head)).await;
    match made {
        Ok((_, cookie)) => {
            described(&entered).with(header::SET_COOKIE, head.set_cookie(&cookie, WEB_LOGIN_IDLE))
        }
        Err(error) => {
            tracing::warn!(%error, "a web login could not be made");
            later("a login cannot be stored now, try again later")
        }
    }
}

/// Answers GET: whose login it is. The browser keeps the cookie for as long again.
async fn info(logins: Arc<WebLogins>, request: Request) -> Response {
    let head = request.head;
    if head.sender().is_foreign() {
        return foreign();
    }
    match entered(&logins.ctx, &head, For::Using).await {
        Ok((entered, cookie)) => {
            described(&entered).with(header::SET_COOKIE, head.set_cookie(&cookie, WEB_LOGIN_IDLE))
        }
        Err(refusal) => refusal,
    }
}

/// Answers POST: the login ends, here and on all nodes, also that of a suspended account.
async fn logout(logins: Arc<WebLogins>, request: Request) -> Response {
    let head = request.head;
    if !head.sender().is_own_page() {
        return foreign();
    }
    let done =
        Response::empty(StatusCode::NO_CONTENT).with(header::SET_COOKIE, head.set_cookie("", Duration::ZERO));
    let ctx = &logins.ctx;
    let entered = match entered(ctx, &head, For::Ending).await {
        Ok((entered, _)) => entered,
        // It is over already.
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => return done,
        Err(refusal) => return refusal,
    };
    let record = &entered.record;
    match ctx.directory.revoke_app_password(&record.name, entered.slot).await {
        Ok(()) => {}
        Err(error) if error.kind() == sealpost_base::Kind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, "a web login could not be ended");
            return later("the login cannot be ended now, try again later");
        }
    }
    ctx.auth.standings().look(record.id);
    (logins.announce)(record.id);
    done
}

/// What a request shows its cookie for.
enum For {
    Using,
    /// Also of a suspended or removed account: the login must not be back with it.
    Ending,
}

/// The login that the cookie of a request opens, and the cookie.
async fn entered(
    ctx: &Context,
    head: &RequestHead,
    what_for: For,
) -> Result<(Entered, Zeroizing<String>), Response> {
    let Some(cookie) = head.cookie() else {
        return Err(unauthorized("there is no web login"));
    };
    let check = async {
        match what_for {
            For::Using => ctx.auth.web_login(head.client, cookie.as_bytes()).await,
            For::Ending => ctx.auth.web_login_to_end(head.client, cookie.as_bytes()).await,
        }
    };
    let checked = tokio::select! {
        checked = check => checked,
        () = ctx.shutdown.wait() => Err(Denied::Busy),
    };
    match checked {
        Ok(entered) => Ok((entered, cookie)),
        Err(denied) => {
            let refusal = refused(ctx, head, "", &denied).await;
            Err(match refusal.status {
                // The browser need not send it any more.
                StatusCode::UNAUTHORIZED => {
                    refusal.with(header::SET_COOKIE, head.set_cookie("", Duration::ZERO))
                }
                _ => refusal,
            })
        }
    }
}

fn described(entered: &Entered) -> Response {
    let record = &entered.record;
    let account = format!("A{}", record.id);
    let idle = WEB_LOGIN_IDLE.as_secs();
    Response::json(
        json!({"username": record.name.as_str(), "accountId": account, "idleSeconds": idle}).to_string(),
    )
}

fn given(media_type: &str, body: &[u8]) -> Option<Given> {
    match media_type {
        "application/json" => serde_json::from_slice(body).ok(),
        "application/x-www-form-urlencoded" => {
            let (mut username, mut password) = (None, None);
            for (name, value) in form_pairs(std::str::from_utf8(body).ok()?)? {
                match name.as_str() {
                    "username" if username.is_none() => username = Some(value),
                    "password" if password.is_none() => password = Some(value),
                    "username" | "password" => return None,
                    _ => {}
                }
            }
            Some(Given { username: username?, password: password? })
        }
        _ => None,
    }
}

/// What the login is called in lists: what the browser calls itself, as far as that can be shown.
fn label(head: &RequestHead) -> String {
    let field = head.headers.get(header::USER_AGENT).and_then(|field| field.to_str().ok());
    let mut label: String = field.unwrap_or("a browser").chars().filter(|c| !c.is_control()).collect();
    // A field has ASCII only.
    label.truncate(TOKEN_LABEL_BYTES);
    label
}

/// A login failed: for the log, and the response.
async fn refused(ctx: &Context, head: &RequestHead, name: &str, denied: &Denied) -> Response {
    head.login_failed();
    if let Some(reason) = Reason::of(denied) {
        let name = Some(name).filter(|name| !name.is_empty());
        ctx.failed_logins.report(&ctx.directory, PROTOCOL, head.client, name, reason).await;
    }
    match denied {
        Denied::Credentials => unauthorized("wrong name or password"),
        Denied::Expired | Denied::Scope => unauthorized("the web login is over"),
        Denied::Suspended => Response::problem(StatusCode::FORBIDDEN, "this account is suspended"),
        Denied::Busy => later("too many logins at once, try again later"),
        Denied::Unavailable(error) => {
            tracing::warn!(%error, "a web login could not be checked");
            later("logins cannot be checked now, try again later")
        }
    }
}

/// The challenge that RFC 9110 §15.5.2 wants is one for which browsers ask no user.
fn unauthorized(why: &str) -> Response {
    Response::problem(StatusCode::UNAUTHORIZED, why)
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"Sealpost\""))
}

fn foreign() -> Response {
    Response::problem(StatusCode::FORBIDDEN, "this is for pages of this server; send the field Origin")
}

fn later(why: &str) -> Response {
    Response::problem(StatusCode::SERVICE_UNAVAILABLE, why)
        .with(header::RETRY_AFTER, HeaderValue::from_static("5"))
}

#[cfg(test)]
mod tests;
