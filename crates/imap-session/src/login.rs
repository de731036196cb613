//! LOGIN and AUTHENTICATE (RFC 3501 §6.2.2, §6.2.3); the mechanisms are in `sasl.rs` and `oauth.rs`.

use sealpost_imap::types::{AString, Atom, Code, Secret};

use super::connection::End;
use super::oauth;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use super::sasl;
use sealpost_auth::failed_logins::Reason;
use sealpost_auth::sasl::bearer::Mechanism;
use sealpost_auth::{Denied, Entered};
use sealpost_session::Context;
use sealpost_session::metrics::Protocol;
use sealpost_session::session_log::SessionLog;

/// LOGIN.
pub(super) async fn login(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    user: &AString,
    password: &Secret,
) -> Result<Entered, Failure> {
    // A name that is not UTF-8 belongs to no account; it is checked like any other, in the same time.
    let name = String::from_utf8_lossy(user.as_bytes()).into_owned();
    may_log_in(ctx, responses, log, Some(&name)).await?;
    check(ctx, responses, log, &name, password.as_bytes()).await
}

/// AUTHENTICATE.
pub(super) async fn authenticate(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    mechanism: &Atom,
    initial: Option<Secret>,
) -> Result<Entered, Failure> {
    let mechanism_name = mechanism.as_str().to_ascii_uppercase();
    let name = initial
        .as_ref()
        .and_then(|initial| sealpost_auth::sasl::name_in(&mechanism_name, initial.as_bytes()));
    may_log_in(ctx, responses, log, name.as_deref()).await?;
    match mechanism_name.as_str() {
        "PLAIN" => {
            let given = sasl::sasl_plain(ctx, responses, log, initial).await?;
            check(ctx, responses, log, &given.name, &given.secret).await
        }
        "LOGIN" => {
            let given = sasl::sasl_login(responses, initial).await?;
            check(ctx, responses, log, &given.name, &given.secret).await
        }
        name => match Mechanism::named(name) {
            Some(mechanism) => oauth::sasl_bearer(ctx, responses, log, mechanism, initial).await,
            None => Err(Reply::no(Code::Cannot, "no such authentication mechanism").into()),
        },
    }
}

/// Whether the client may send a password on this connection.
pub(super) fn is_allowed(ctx: &Context, responses: &Responses) -> bool {
    responses.connection.stream().is_some_and(|stream| ctx.allows_login(stream))
}

/// `name` is the account name of the attempt, if known.
async fn may_log_in(
    ctx: &Context,
    responses: &Responses,
    log: &mut SessionLog,
    name: Option<&str>,
) -> Result<(), Reply> {
    if !is_allowed(ctx, responses) {
        return Err(refused_in_clear(ctx, responses, log, name).await);
    }
    Ok(())
}

/// Replies to a client that sends a secret without TLS.
pub(super) async fn refused_in_clear(
    ctx: &Context,
    responses: &Responses,
    log: &mut SessionLog,
    name: Option<&str>,
) -> Reply {
    login_failed(ctx, responses, log, name, Reason::Cleartext).await;
    Reply::no(Code::PrivacyRequired, "use TLS first")
}

/// Logs a failed login.
pub(super) async fn login_failed(
    ctx: &Context,
    responses: &Responses,
    log: &mut SessionLog,
    name: Option<&str>,
    reason: Reason,
) {
    log.count("failed_logins", 1);
    let peer = responses.connection.stream().and_then(|stream| stream.peer());
    ctx.failed_logins.report(&ctx.directory, Protocol::Imap.name(), peer, name, reason).await;
}

async fn check(
    ctx: &Context,
    responses: &Responses,
    log: &mut SessionLog,
    name: &str,
    secret: &[u8],
) -> Result<Entered, Failure> {
    let peer = responses.connection.stream().and_then(|stream| stream.peer());
    let checked = tokio::select! {
        checked = ctx.auth.login(peer, name, secret) => checked,
        // A throttled login could take longer than sessions have at shutdown.
        () = ctx.shutdown.wait() => return Err(End::Shutdown.into()),
    };
    match checked {
        Ok(entered) => Ok(entered),
        Err(denied) => Err(refused(ctx, responses, log, name, &denied).await.into()),
    }
}

/// Counts a failed login; returns the reply.
pub(super) async fn refused(
    ctx: &Context,
    responses: &Responses,
    log: &mut SessionLog,
    name: &str,
    denied: &Denied,
) -> Reply {
    match Reason::of(denied) {
        Some(reason) => login_failed(ctx, responses, log, Some(name), reason).await,
        None => log.count("failed_logins", 1),
    }
    refusal(denied)
}

fn refusal(denied: &Denied) -> Reply {
    match denied {
        Denied::Credentials => Reply::no(Code::AuthenticationFailed, "wrong name or password"),
        Denied::Expired => Reply::no(Code::AuthenticationFailed, "the token has expired or was revoked"),
        Denied::Scope => Reply::no(Code::AuthorizationFailed, "the token is not for mail"),
        Denied::Suspended => {
            Reply::no(Code::ContactAdmin, "this account is suspended, ask the administrator of the server")
        }
        Denied::Busy => Reply::no(Code::Unavailable, "too many logins at once, try again later"),
        Denied::Unavailable(error) => {
            tracing::warn!(%error, "a login could not be checked");
            Reply::no(Code::Unavailable, "logins cannot be checked now, try again later")
        }
    }
}
