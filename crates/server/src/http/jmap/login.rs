//! Whose request it is.

use sealpost_http::{
    AccountPlace, Authorization, NoAuthorization, RequestHead, Response, StatusCode, TooMany,
};
use sealpost_jmap::Problem;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap_session::{Caller, Credentials};

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
    let authorization = head.authorization().map_err(|why| problem::response(&without_credentials(why)))?;
    let authenticated = jmap.shared.authenticate(&credentials(authorization), head.client).await;
    authenticated.map_err(|refused| {
        head.login_failed();
        problem::response(&refused.problem())
    })
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
