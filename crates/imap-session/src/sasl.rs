//! SASL exchanges within AUTHENTICATE: the lines (RFC 3501 §6.2.2, RFC 4959), and the mechanisms
//! PLAIN and LOGIN.

use sealpost_imap::server::{Event, Line};
use sealpost_imap::types::{Code, Secret};
use zeroize::Zeroizing;

use super::connection::End;
use super::login;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use sealpost_auth::failed_logins::Reason;
use sealpost_auth::sasl::{self, Credentials, PlainError};
use sealpost_session::Context;
use sealpost_session::session_log::SessionLog;

/// PLAIN. Authorization as another user is not supported.
pub(super) async fn sasl_plain(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    initial: Option<Secret>,
) -> Result<Credentials, Failure> {
    match sasl::plain(&sasl_message(responses, initial, "").await?) {
        Ok(credentials) => Ok(credentials),
        Err(PlainError::Syntax) => Err(Reply::bad("not a PLAIN message").into()),
        Err(PlainError::Authorization(name)) => {
            login::login_failed(ctx, responses, log, Some(&name), Reason::Authorization).await;
            Err(Reply::no(Code::AuthorizationFailed, "authorization as another user is not supported").into())
        }
    }
}

/// The old mechanism LOGIN: two prompts, `Username:` and `Password:`. An initial response is the name.
pub(super) async fn sasl_login(
    responses: &mut Responses,
    initial: Option<Secret>,
) -> Result<Credentials, Failure> {
    let name = sasl_message(responses, initial, "VXNlcm5hbWU6").await?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let secret = sasl_message(responses, None, "UGFzc3dvcmQ6").await?;
    Ok(Credentials { name, secret })
}

/// The initial response, or the client's response to `+ prompt`.
pub(super) async fn sasl_message(
    responses: &mut Responses,
    initial: Option<Secret>,
    prompt: &str,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let not_base64 = || Failure::Reply(Reply::bad("not base64"));
    if let Some(initial) = initial {
        return sasl::initial_response(initial.as_bytes()).ok_or_else(not_base64);
    }
    match sasl_line(responses, prompt).await? {
        // RFC 3501 §6.2.2: the client cancels.
        line if &line[..] == b"*" => Err(Reply::bad("AUTHENTICATE cancelled").into()),
        line => sasl::base64(&line).ok_or_else(not_base64),
    }
}

/// The client's response to `+ prompt`.
pub(super) async fn sasl_line(responses: &mut Responses, prompt: &str) -> Result<Line, Failure> {
    responses.out().raw(b"+ ").raw(prompt).crlf();
    responses.connection.expect_line();
    match responses.connection.next().await? {
        Event::Line(line) => Ok(line),
        Event::Bad { reason, .. } => Err(Reply::bad(reason).into()),
        Event::Fatal { reason } => Err(End::Fatal(reason).into()),
        _ => Err(Reply::bad("expected a SASL response").into()),
    }
}
