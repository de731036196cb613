//! LOGIN and AUTHENTICATE (RFC 3501 §6.2.2, §6.2.3); the mechanisms are in `sasl.rs` and `oauth.rs`.

use sealpost_imap::types::{AString, Atom, Code, Secret};

use super::capability;
use super::connection::End;
use super::oauth;
use super::reply::{Failure, Outcome, Reply};
use super::sasl;
use super::session::Session;
use super::sharing;
use crate::auth::{Denied, Entered};
use crate::failed_logins::Reason;
use crate::metrics::Protocol;

impl Session {
    /// LOGIN.
    pub(super) async fn login(&mut self, user: &AString, password: &Secret) -> Outcome {
        // A name that is not UTF-8 is nobody's; it is checked like any other, and costs the same.
        let name = String::from_utf8_lossy(user.as_bytes()).into_owned();
        self.may_log_in(Some(&name)).await?;
        let checked = self.check(&name, password.as_bytes()).await?;
        self.enter(checked, "LOGIN completed").await
    }

    /// AUTHENTICATE.
    pub(super) async fn authenticate(&mut self, mechanism: &Atom, initial: Option<Secret>) -> Outcome {
        let mechanism_name = mechanism.as_str().to_ascii_uppercase();
        let name = initial.as_ref().and_then(|initial| sasl::name_in(&mechanism_name, initial));
        self.may_log_in(name.as_deref()).await?;
        let checked = match mechanism_name.as_str() {
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

    /// `name` is that of who tries, as far as it is known.
    async fn may_log_in(&mut self, name: Option<&str>) -> Result<(), Reply> {
        if self.account.is_some() {
            return Err(Reply::bad("logged in already"));
        }
        if !self.login_allowed() {
            return Err(self.refused_in_clear(name).await);
        }
        Ok(())
    }

    /// What a client is told that sends a secret where others can read it.
    pub(super) async fn refused_in_clear(&mut self, name: Option<&str>) -> Reply {
        self.login_failed(name, Reason::Cleartext).await;
        Reply::no(Code::PrivacyRequired, "use TLS first")
    }

    /// A login failed: for the log.
    pub(super) async fn login_failed(&mut self, name: Option<&str>, reason: Reason) {
        self.log.count("failed_logins", 1);
        let peer = self.connection.stream().and_then(|stream| stream.peer());
        let ctx = &self.ctx;
        ctx.failed_logins.report(&ctx.directory, Protocol::Imap, peer, name, reason).await;
    }

    async fn check(&mut self, name: &str, secret: &[u8]) -> Result<Entered, Failure> {
        let peer = self.connection.stream().and_then(|stream| stream.peer());
        let checked = tokio::select! {
            checked = self.ctx.auth.login(peer, name, secret) => checked,
            // A login that is slowed down would outlast the time that sessions have to end.
            () = self.ctx.shutdown.wait() => return Err(End::Shutdown.into()),
        };
        match checked {
            Ok(entered) => Ok(entered),
            Err(denied) => Err(self.refused(name, &denied).await.into()),
        }
    }

    /// Counts a login that failed; what the client is told.
    pub(super) async fn refused(&mut self, name: &str, denied: &Denied) -> Reply {
        match Reason::of(denied) {
            Some(reason) => self.login_failed(Some(name), reason).await,
            None => self.log.count("failed_logins", 1),
        }
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
