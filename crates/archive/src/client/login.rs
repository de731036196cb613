//! Logging in: PLAIN, LOGIN, OAUTHBEARER, XOAUTH2, by what the server offers.

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Code, Response, Secret};
use sealpost_mime::encode::base64_text as base64;
use zeroize::Zeroizing;

use super::connection::Connection;
use super::{Capabilities, Credential, Done, Server};

/// Authenticates, and takes the capabilities that the server then announces, if any.
///
/// # Errors
/// `Denied` if the server refuses the credential, `Invalid` if it offers no mechanism for it.
pub(super) async fn login(connection: &mut Connection, server: &Server) -> Result<()> {
    connection.learn_capabilities().await?;
    let credential = server.credentials.credential().await?;
    let offers = connection.capabilities().clone();
    let user = &*server.user;
    let mut told = None;
    let on = |event: Event| {
        if let Event::Response(Response::Capability(names)) = event {
            told = Some(Capabilities::new(&names));
        }
        Ok(())
    };
    let done = match &credential {
        Credential::Token(token) if offers.has("AUTH=OAUTHBEARER") => {
            let response = bearer(user, &server.host, server.port, token);
            authenticate(connection, &offers, "OAUTHBEARER", &response, on).await?
        }
        Credential::Token(token) if offers.has("AUTH=XOAUTH2") => {
            authenticate(connection, &offers, "XOAUTH2", &xoauth2(user, token), on).await?
        }
        Credential::Token(_) => {
            let why = "the server accepts no OAuth tokens (neither OAUTHBEARER nor XOAUTH2)";
            return Err(Error::invalid(why));
        }
        Credential::Password(password) if offers.has("AUTH=PLAIN") => {
            authenticate(connection, &offers, "PLAIN", &plain(user, password), on).await?
        }
        Credential::Password(password) if !offers.has("LOGINDISABLED") => {
            let (user, password) = (user.as_bytes(), password.as_bytes());
            connection.run(|w| w.raw(b"LOGIN ").string(user).space().string(password), on).await?
        }
        Credential::Password(password) if offers.has("AUTH=LOGIN") => {
            let lines = [user.as_bytes(), password.as_bytes()];
            in_lines(connection, "LOGIN", &lines, on).await?
        }
        Credential::Password(_) => {
            let why = "the server accepts no passwords on this connection; try --tls starttls or --tls \
                       implicit";
            return Err(Error::invalid(why));
        }
    };
    let what = format!("the login of {user}");
    let code = done.ok(&what).map_err(|e| match e.kind() {
        // Without a code: what else would a NO to a login mean?
        Kind::Invalid => Error::denied(e.to_string()),
        _ => e,
    })?;
    if let Some(Code::Capability(names)) = code {
        told = Some(Capabilities::new(&names));
    }
    connection.set_capabilities(told.unwrap_or_default());
    Ok(())
}

/// `AUTHENTICATE mechanism`, with one response; at once if the server takes it so (RFC 4959).
async fn authenticate(
    connection: &mut Connection,
    offers: &Capabilities,
    mechanism: &str,
    response: &[u8],
    on: impl FnMut(Event) -> Result<()>,
) -> Result<Done> {
    if !offers.has("SASL-IR") {
        return in_lines(connection, mechanism, &[response], on).await;
    }
    let response = Zeroizing::new(base64(response));
    // A challenge after that is an error's description (RFC 7628 §3.2.3): `run` answers it with an
    // empty line.
    let response = response.as_bytes();
    connection.run(|w| w.raw(b"AUTHENTICATE ").raw(mechanism).space().raw(response), on).await
}

/// `AUTHENTICATE mechanism`, with a response for each challenge.
async fn in_lines(
    connection: &mut Connection,
    mechanism: &str,
    responses: &[&[u8]],
    mut on: impl FnMut(Event) -> Result<()>,
) -> Result<Done> {
    let tag = connection.queue(|w| w.raw(b"AUTHENTICATE ").raw(mechanism));
    connection.flush().await?;
    let mut responses = responses.iter();
    loop {
        let event = connection.next().await?;
        if Connection::completion(&event) == Some(tag)
            && let Event::Response(Response::Status { status, code, text, .. }) = event
        {
            return Ok(Done { status, code, text });
        }
        match event {
            Event::Response(Response::Continue(_)) => {
                let line = responses.next().map(|response| Zeroizing::new(base64(response)));
                let mut line = line.unwrap_or_default();
                line.push_str("\r\n");
                connection.send(line.as_bytes()).await?;
            }
            event => on(event)?,
        }
    }
}

/// `[authzid] NUL authcid NUL passwd` (RFC 4616 §2)
fn plain(user: &str, password: &Secret) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat())
}

/// RFC 7628 §3.1; `,` and `=` in the name are escaped as RFC 5801 §4 has it.
fn bearer(user: &str, host: &str, port: u16, token: &Secret) -> Zeroizing<Vec<u8>> {
    let user = user.replace('=', "=3D").replace(',', "=2C");
    let head = format!("n,a={user},\x01host={host}\x01port={port}\x01auth=Bearer ");
    Zeroizing::new([head.as_bytes(), token.as_bytes(), b"\x01\x01"].concat())
}

/// Google's and Microsoft's, from before there was a standard.
fn xoauth2(user: &str, token: &Secret) -> Zeroizing<Vec<u8>> {
    let head = format!("user={user}\x01auth=Bearer ");
    Zeroizing::new([head.as_bytes(), token.as_bytes(), b"\x01\x01"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_as_specified() {
        let secret = |text: &str| Secret::new(text.as_bytes().to_vec());
        assert_eq!(&**plain("tim", &secret("tanstaaftanstaaf")), b"\0tim\0tanstaaftanstaaf");
        // RFC 7628 §4.1, without the fields that are not needed
        assert_eq!(
            &**bearer("user@example.com", "server.example.com", 143, &secret("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==")),
            b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
        );
        assert_eq!(&**xoauth2("a@b", &secret("t")), b"user=a@b\x01auth=Bearer t\x01\x01");
    }
}
