//! Whose request it is.

use std::time::Duration;

use sealpost_http::{
    AccountPlace, Authorization, Method, NoAuthorization, RequestHead, Response, StatusCode, TooMany, header,
};
use sealpost_jmap::Problem;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap_session::{Caller, Credentials};
use zeroize::Zeroizing;

use super::{Jmap, problem};

/// The caller of a request, with its place among those at work for the account.
///
/// # Errors
/// The response that refuses it.
pub(super) async fn caller(jmap: &Jmap, head: &RequestHead) -> Result<(Caller, AccountPlace), Response> {
    let caller = authenticated(jmap, head).await?;
    let place = head.logged_in(caller.account(), caller.name()).map_err(too_many)?;
    Ok((caller, place))
}

/// The caller of a request whose response lasts.
///
/// # Errors
/// The response that refuses it.
pub(super) async fn caller_for_long(jmap: &Jmap, head: &RequestHead) -> Result<Caller, Response> {
    let caller = authenticated(jmap, head).await?;
    head.logged_in_for_long(caller.account(), caller.name()).map_err(too_many)?;
    Ok(caller)
}

async fn authenticated(jmap: &Jmap, head: &RequestHead) -> Result<Caller, Response> {
    let credentials = match head.authorization() {
        Ok(authorization) => credentials(authorization),
        Err(NoAuthorization::Missing) => match head.cookie() {
            Some(cookie) => of_browser(head, cookie).ok_or_else(not_own_page)?,
            None => return Err(problem::unauthorized(head, &without_credentials(NoAuthorization::Missing))),
        },
        Err(why) => return Err(problem::unauthorized(head, &without_credentials(why))),
    };
    let authenticated = jmap.shared.authenticate(&credentials, head.client).await;
    authenticated.map_err(|refused| {
        head.login_failed();
        let mut response = problem::unauthorized(head, &refused.problem());
        if response.status == StatusCode::UNAUTHORIZED && matches!(credentials, Credentials::WebLogin(_)) {
            // The browser need not send it any more.
            response.headers.append(header::SET_COOKIE, head.set_cookie("", Duration::ZERO));
        }
        response
    })
}

/// The credentials of a browser, which it adds by itself: a page of this server has to send the
/// request, and say so if the request may change something. To read, a user may also follow a link.
/// `None` if it does not count.
fn of_browser(head: &RequestHead, cookie: Zeroizing<String>) -> Option<Credentials> {
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    // A WebSocket is opened with GET, and changes what its page wants.
    let is_safe = is_read && !head.headers.contains_key(header::UPGRADE);
    let sender = head.sender();
    let counts = sender.is_own_page() || is_safe && !sender.is_foreign();
    counts.then_some(Credentials::WebLogin(cookie))
}

fn not_own_page() -> Response {
    let detail = "a web login is for pages of this server; send the field Origin";
    problem::response(&Problem::new(ProblemType::About, 403, detail))
}

fn credentials(authorization: Authorization) -> Credentials {
    match authorization {
        Authorization::Basic { user, password } => Credentials::Password { name: user, secret: password },
        Authorization::Bearer(token) => Credentials::Token(token),
    }
}

fn without_credentials(why: NoAuthorization) -> Problem {
    let detail = match why {
        NoAuthorization::Missing => "log in with a name and a password, or with an app password as a token",
        NoAuthorization::UnknownScheme => "the scheme of Authorization is neither Basic nor Bearer",
        NoAuthorization::Malformed => "the Authorization field is malformed",
    };
    Problem::new(ProblemType::About, 401, detail)
}

fn too_many(why: TooMany) -> Response {
    let detail = match why {
        TooMany::Requests => "too many requests of this account at once",
        TooMany::Connections => "too many connections of this account at once",
    };
    problem::response(&Problem::new(ProblemType::About, StatusCode::TOO_MANY_REQUESTS.as_u16(), detail))
}
