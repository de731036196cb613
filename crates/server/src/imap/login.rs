//! LOGIN and AUTHENTICATE with PLAIN and LOGIN (RFC 3501 §6.2.2, §6.2.3; RFC 4616, RFC 4959).

use sealpost_imap::server::Event;
use sealpost_imap::types::{AString, Atom, Code, Secret};
use zeroize::Zeroizing;

use super::capability;
use super::connection::End;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use crate::auth::Denied;

/// Name and password, as SASL brought them.
struct Credentials {
    name: String,
    password: Zeroizing<Vec<u8>>,
}

impl Session {
    /// LOGIN.
    pub(super) async fn login(&mut self, user: &AString, password: &Secret) -> Outcome {
        self.may_log_in()?;
        // A name that is not UTF-8 is nobody's; it is checked like any other, and costs the same.
        let name = String::from_utf8_lossy(user.as_bytes()).into_owned();
        self.enter(&name, password.as_bytes(), "LOGIN completed").await
    }

    /// AUTHENTICATE.
    pub(super) async fn authenticate(&mut self, mechanism: &Atom, initial: Option<Secret>) -> Outcome {
        self.may_log_in()?;
        let given = if *mechanism == *"PLAIN" {
            self.sasl_plain(initial).await?
        } else if *mechanism == *"LOGIN" {
            self.sasl_login(initial).await?
        } else {
            return Err(Reply::no(Code::Cannot, "no such authentication mechanism").into());
        };
        self.enter(&given.name, &given.password, "AUTHENTICATE completed").await
    }

    fn may_log_in(&self) -> Result<(), Reply> {
        if self.account.is_some() {
            return Err(Reply::bad("logged in already"));
        }
        if !self.login_allowed() {
            return Err(Reply::no(Code::PrivacyRequired, "use TLS first"));
        }
        Ok(())
    }

    async fn enter(&mut self, name: &str, password: &[u8], done: &'static str) -> Outcome {
        let peer = self.connection.stream().and_then(|stream| stream.peer());
        let checked = tokio::select! {
            checked = self.ctx.auth.login(peer, name, password) => checked,
            // A login that is slowed down would outlast the time that sessions have to end.
            () = self.ctx.shutdown.wait() => return Err(End::Shutdown.into()),
        };
        let (record, root) = match checked {
            Ok(entered) => entered,
            Err(denied) => {
                self.log.count("failed_logins", 1);
                return Err(refusal(&denied).into());
            }
        };
        self.account = Some(self.ctx.accounts.open(record.id, &root).await?);
        self.quota = record.quota;
        self.log.user(record.name.as_str());
        self.connection.authenticated(self.ctx.settings.message_size);
        Ok(Reply::ok_with(capability::code(self.stage()), done))
    }

    /// `authzid NUL authcid NUL passwd` (RFC 4616 §2). Acting for somebody else is not possible here.
    async fn sasl_plain(&mut self, initial: Option<Secret>) -> Result<Credentials, Failure> {
        let message = self.sasl_message(initial, b"").await?;
        let mut parts = message.splitn(3, |byte| *byte == 0);
        let (Some(authzid), Some(authcid), Some(password)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Reply::bad("not a PLAIN message").into());
        };
        if !authzid.is_empty() && authzid != authcid {
            return Err(Reply::no(Code::AuthorizationFailed, "acting for others is not possible").into());
        }
        let name = String::from_utf8_lossy(authcid).into_owned();
        Ok(Credentials { name, password: Zeroizing::new(password.to_vec()) })
    }

    /// The old mechanism LOGIN: two prompts, `Username:` and `Password:`. An initial response is the name.
    async fn sasl_login(&mut self, initial: Option<Secret>) -> Result<Credentials, Failure> {
        let name = self.sasl_message(initial, b"VXNlcm5hbWU6").await?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let password = self.sasl_message(None, b"UGFzc3dvcmQ6").await?;
        Ok(Credentials { name, password })
    }

    /// The initial response, or what the client answers to `+ prompt`.
    async fn sasl_message(
        &mut self,
        initial: Option<Secret>,
        prompt: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let not_base64 = || Failure::Reply(Reply::bad("not base64"));
        if let Some(initial) = initial {
            // RFC 4959 §3: "=" is an initial response of no octets.
            let text = if initial.as_bytes() == b"=" { b"" } else { initial.as_bytes() };
            return base64(text).ok_or_else(not_base64);
        }
        self.connection.out().raw(b"+ ").raw(prompt).crlf();
        self.connection.expect_line();
        match self.connection.next().await? {
            // RFC 3501 §6.2.2: the client gives up.
            Event::Line(line) if &line[..] == b"*" => Err(Reply::bad("AUTHENTICATE cancelled").into()),
            Event::Line(line) => base64(&line).ok_or_else(not_base64),
            Event::Bad { reason, .. } => Err(Reply::bad(reason).into()),
            Event::Fatal { reason } => Err(End::Fatal(reason).into()),
            _ => Err(Reply::bad("expected a SASL response").into()),
        }
    }
}

fn refusal(denied: &Denied) -> Reply {
    match denied {
        Denied::Credentials => Reply::no(Code::AuthenticationFailed, "wrong name or password"),
        Denied::Busy => Reply::no(Code::Unavailable, "too many logins at once, try again later"),
        Denied::Unavailable(error) => {
            tracing::warn!(%error, "a login could not be checked");
            Reply::no(Code::Unavailable, "logins cannot be checked now, try again later")
        }
    }
}

/// Decodes base64 strictly: whole groups of four, padding only at the end (RFC 4648 §4).
fn base64(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
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
