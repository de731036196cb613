//! AUTHENTICATE with OAUTHBEARER (RFC 7628) and its predecessor XOAUTH2, whose messages are in
//! `sealpost_auth::sasl::bearer`. Only over TLS (RFC 7628 §3).

use sealpost_imap::types::Secret;

use super::connection::End;
use super::login;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use super::sasl::{sasl_line, sasl_message};
use sealpost_auth::sasl::bearer::{Mechanism, Wrong};
use sealpost_auth::{Denied, Entered, sasl};
use sealpost_session::Context;
use sealpost_session::session_log::SessionLog;

/// The exchange. A failure takes three steps: an error as a challenge, an empty response, NO (RFC 7628
/// §3.2.3).
pub(super) async fn sasl_bearer(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    mechanism: Mechanism,
    initial: Option<Secret>,
) -> Result<Entered, Failure> {
    // RFC 7628 §3: TLS MUST be used.
    if !responses.connection.stream().is_some_and(|stream| stream.is_tls()) {
        let name = initial.as_ref().and_then(|initial| mechanism.name_in(&sasl::base64(initial.as_bytes())?));
        return Err(login::refused_in_clear(ctx, responses, log, name.as_deref()).await.into());
    }
    let message = sasl_message(responses, initial, "").await?;
    let server_name = responses.connection.stream().and_then(|stream| stream.server_name());
    let given = match mechanism.read(&message, server_name) {
        Ok(given) => given,
        Err(Wrong::Syntax) => return Err(Reply::bad("not a message of that mechanism").into()),
        Err(wrong) => {
            let name = mechanism.name_in(&message).unwrap_or_default();
            let (denied, challenge) = (Denied::Credentials, mechanism.challenge(wrong));
            return Err(sasl_failed(ctx, responses, log, &name, &denied, challenge).await);
        }
    };
    let peer = responses.connection.stream().and_then(|stream| stream.peer());
    let checked = tokio::select! {
        checked = ctx.auth.bearer(peer, &given.name, &given.secret) => checked,
        () = ctx.shutdown.wait() => return Err(End::Shutdown.into()),
    };
    match checked {
        Ok(entered) => Ok(entered),
        Err(denied @ (Denied::Credentials | Denied::Expired | Denied::Scope)) => {
            let wrong = if matches!(denied, Denied::Scope) { Wrong::Scope } else { Wrong::NoToken };
            Err(sasl_failed(ctx, responses, log, &given.name, &denied, mechanism.challenge(wrong)).await)
        }
        Err(denied) => Err(login::refused(ctx, responses, log, &given.name, &denied).await.into()),
    }
}

/// Sends the error, waits for the client's empty response (`AQ==`, nothing, or `*`: RFC 7628 §3.2.3, §4.3),
/// and fails.
async fn sasl_failed(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    name: &str,
    denied: &Denied,
    challenge: &str,
) -> Failure {
    // It has failed, whether or not the client waits for the reply.
    let reply = login::refused(ctx, responses, log, name, denied).await;
    match sasl_line(responses, challenge).await {
        Ok(_) => reply.into(),
        Err(failure) => failure,
    }
}
