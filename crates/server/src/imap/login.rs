//! LOGIN and AUTHENTICATE (RFC 3501 §6.2.2, §6.2.3); the mechanisms are in `sasl.rs` and `oauth.rs`.

use sealpost_imap::types::{AString, Atom, Code, Secret};

use super::capability;
use super::connection::End;
use super::oauth;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::sharing;
use crate::auth::{Denied, Entered};

impl Session {
    /// LOGIN.
    pub(super) async fn login(&mut self, user: &AString, password: &Secret) -> Outcome {
        self.may_log_in()?;
        // A name that is not UTF-8 is nobody's; it is checked like any other, and costs the same.
        let name = String::from_utf8_lossy(user.as_bytes()).into_owned();
        let checked = self.check(&name, password.as_bytes()).await?;
        self.enter(checked, "LOGIN completed").await
    }

    /// AUTHENTICATE.
    pub(super) async fn authenticate(&mut self, mechanism: &Atom, initial: Option<Secret>) -> Outcome {
        self.may_log_in()?;
        let checked = match mechanism.as_str().to_ascii_uppercase().as_str() {
            "PLAIN" => {
                let given = self.sasl_plain(initial).await?;
                self.check(&given.name, &given.secret).await?
            }
            "LOGIN" => {
                let given = self.sasl_login(initial).await?;
                self.check(&given.name, &given.secret).await?
            }
            "OAUTHBEARER" => self.sasl_bearer(oauth::Kind::OAuthBearer, initial).await?,
            "XOAUTH2" => self.sasl_bearer(oauth::Kind::XOAuth2, initial).await?,
            _ => return Err(Reply::no(Code::Cannot, "no such authentication mechanism").into()),
        };
        self.enter(checked, "AUTHENTICATE completed").await
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

    async fn check(&mut self, name: &str, secret: &[u8]) -> Result<Entered, Failure> {
        let peer = self.connection.stream().and_then(|stream| stream.peer());
        let checked = tokio::select! {
            checked = self.ctx.auth.login(peer, name, secret) => checked,
            // A login that is slowed down would outlast the time that sessions have to end.
            () = self.ctx.shutdown.wait() => return Err(End::Shutdown.into()),
        };
        checked.map_err(|denied| self.refused(&denied).into())
    }

    /// Counts a login that failed; what the client is told.
    pub(super) fn refused(&mut self, denied: &Denied) -> Reply {
        self.log.count("failed_logins", 1);
        refusal(denied)
    }

    async fn enter(&mut self, entered: Entered, done: &'static str) -> Outcome {
        let Entered { record, root, .. } = &entered;
        if !self.connection.stream().is_none_or(|stream| stream.logged_in(record.id)) {
            self.log.count("crowded_logins", 1);
            return Err(Reply::no(Code::Limit, "too many connections of this account, close some").into());
        }
        // Loading the account is its own turn already.
        self.seat.take(self.ctx.turns.of(record.id));
        self.account = Some(self.ctx.accounts.open_current(record.id, root).await?);
        self.begin_quota(record);
        record.name.as_str().clone_into(&mut self.user);
        self.log.user(record.name.as_str(), record.id);
        let standing = self.ctx.auth.standing(&entered);
        self.connection.authenticated(self.ctx.settings.message_size, standing);
        if let Some(own) = &self.account {
            sharing::remove_in_background(&self.ctx, own);
        }
        Ok(Reply::ok_with(capability::code(self.stage()), done))
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
