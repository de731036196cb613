//! SASL exchanges within AUTHENTICATE: the lines, base64, and the mechanisms PLAIN and LOGIN (RFC 3501 §6.2.2, RFC 4616,
//! RFC 4959).

use sealpost_imap::server::{Event, Line};
use sealpost_imap::types::{Code, Secret};
use zeroize::Zeroizing;

use super::connection::End;
use super::login;
use super::oauth;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use sealpost_auth::failed_logins::Reason;
use sealpost_session::Context;
use sealpost_session::session_log::SessionLog;

/// Name and secret, as SASL brought them.
pub(super) struct Credentials {
    pub(super) name: String,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

/// `authzid NUL authcid NUL passwd` (RFC 4616 §2). Acting for somebody else is not possible here.
pub(super) async fn sasl_plain(
    ctx: &Context,
    responses: &mut Responses,
    log: &mut SessionLog,
    initial: Option<Secret>,
) -> Result<Credentials, Failure> {
    let message = sasl_message(responses, initial, "").await?;
    let mut parts = message.splitn(3, |byte| *byte == 0);
    let (Some(authzid), Some(authcid), Some(password)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Reply::bad("not a PLAIN message").into());
    };
    if !authzid.is_empty() && authzid != authcid {
        let name = String::from_utf8_lossy(authcid).into_owned();
        login::login_failed(ctx, responses, log, Some(&name), Reason::Authorization).await;
        return Err(Reply::no(Code::AuthorizationFailed, "acting for others is not possible").into());
    }
    let name = String::from_utf8_lossy(authcid).into_owned();
    Ok(Credentials { name, secret: Zeroizing::new(password.to_vec()) })
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

/// The initial response, or what the client answers to `+ prompt`.
pub(super) async fn sasl_message(
    responses: &mut Responses,
    initial: Option<Secret>,
    prompt: &str,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let not_base64 = || Failure::Reply(Reply::bad("not base64"));
    if let Some(initial) = initial {
        // RFC 4959 §3: "=" is an initial response of no octets.
        let text = if initial.as_bytes() == b"=" { b"" } else { initial.as_bytes() };
        return base64(text).ok_or_else(not_base64);
    }
    match sasl_line(responses, prompt).await? {
        // RFC 3501 §6.2.2: the client gives up.
        line if &line[..] == b"*" => Err(Reply::bad("AUTHENTICATE cancelled").into()),
        line => base64(&line).ok_or_else(not_base64),
    }
}

/// The line that the client answers to `+ prompt`.
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

/// The name in an initial response of that mechanism, if there is one: for the log alone.
pub(super) fn name_in(mechanism: &str, initial: &Secret) -> Option<String> {
    match mechanism {
        "PLAIN" => {
            let message = base64(initial.as_bytes())?;
            let authcid = message.split(|byte| *byte == 0).nth(1)?;
            Some(String::from_utf8_lossy(authcid).into_owned())
        }
        "LOGIN" => Some(String::from_utf8_lossy(&base64(initial.as_bytes())?).into_owned()),
        "OAUTHBEARER" => oauth::name_in(oauth::Kind::OAuthBearer, initial),
        "XOAUTH2" => oauth::name_in(oauth::Kind::XOAuth2, initial),
        _ => None,
    }
}

/// Decodes base64 strictly: whole groups of four, padding only at the end (RFC 4648 §4).
pub(super) fn base64(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() / 4 * 3));
    for group in text.chunks(4) {
        let last = group.len() == 4 && out.len() / 3 == text.len() / 4 - 1;
        let mut bits = 0u32;
        for (i, byte) in group.iter().enumerate() {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if last && i >= 4 - padding => 0,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    let len = out.len() - padding;
    out.truncate(len);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_strict() {
        let decode = |text: &str| base64(text.as_bytes()).map(|bytes| bytes.to_vec());
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(decode("AGFsaWNlAHNlY3JldA==").unwrap(), b"\0alice\0secret");
        assert_eq!(decode("YWI=").unwrap(), b"ab");
        assert_eq!(decode("YWJj").unwrap(), b"abc");
        for bad in ["Y", "YQ", "YQ=", "Y===", "YQ==YQ==", "=YQ=", "YW Jj", "YQ=a", "===="] {
            assert!(decode(bad).is_none(), "{bad}");
        }
    }
}
