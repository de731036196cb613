//! AUTH (RFC 4954): the login of a submission session. The exchange and its replies; the SASL messages are in
//! `sealpost_auth::sasl`, and that crate checks and slows logins, as for every protocol.

use sealpost_auth::failed_logins::Reason;
use sealpost_auth::sasl::bearer::{Mechanism, Wrong};
use sealpost_auth::sasl::{self, PlainError};
use sealpost_auth::standing::Standing;
use sealpost_auth::{Denied, Entered};
use sealpost_base::AccountId;
use sealpost_directory::AccountName;
use sealpost_session::metrics;
use sealpost_session::sessions::SessionState;
use sealpost_smtp::types::{Auth, Misuse, Reply, Secret};
use sealpost_vault::RootKey;

use super::Service;
use super::connection::End;
use super::replies;
use super::session::Session;

/// The user that the session has logged in as.
pub(super) struct User {
    pub(super) name: AccountName,
    pub(super) id: AccountId,
    /// The session ends when the login is no longer valid.
    pub(super) standing: Standing,
    /// The account's key, if BURL is offered: it opens the user's mailboxes.
    pub(super) root: Option<RootKey>,
}

/// An AUTH that waits for the next message of the client.
pub(super) enum Exchange {
    /// PLAIN: all in one message.
    Plain,
    /// LOGIN: the name comes first.
    LoginName,
    /// LOGIN: then the password.
    LoginPassword(String),
    /// OAUTHBEARER or XOAUTH2: all in one message.
    Bearer(Mechanism),
    /// It has failed, and the session has sent the reason as a challenge. This is the reply to any answer
    /// (RFC 7628 §3.2.3).
    Failed(Reply),
}

impl Exchange {
    /// The exchange of a mechanism (in capitals).
    fn of(mechanism: &str) -> Option<Self> {
        match mechanism {
            "PLAIN" => Some(Exchange::Plain),
            "LOGIN" => Some(Exchange::LoginName),
            name => Mechanism::named(name).map(Exchange::Bearer),
        }
    }

    /// The challenge for the next message. The prompts of LOGIN are `Username:` and `Password:`.
    fn prompt(&self) -> &'static str {
        match self {
            Exchange::LoginName => "VXNlcm5hbWU6",
            Exchange::LoginPassword(_) => "UGFzc3dvcmQ6",
            Exchange::Plain | Exchange::Bearer(_) | Exchange::Failed(_) => "",
        }
    }
}

impl Session {
    /// The mechanisms offered now; `None` without TLS, where others could read a secret.
    pub(super) fn mechanisms(&self) -> Option<&'static str> {
        let stream = self.connection.stream()?;
        if self.service != Service::Submission || !self.shared.ctx.allows_login(stream) {
            return None;
        }
        // RFC 7628 §3: a bearer token only over TLS.
        Some(if stream.is_tls() { "PLAIN LOGIN OAUTHBEARER XOAUTH2" } else { "PLAIN LOGIN" })
    }

    /// AUTH.
    pub(super) async fn auth(&mut self, auth: Auth) -> Result<(), End> {
        if self.service != Service::Submission {
            self.refuse(replies::not_implemented());
            return Ok(());
        }
        if self.hello.is_none() {
            self.out_of_order("Say EHLO first");
            return Ok(());
        }
        // RFC 4954 §4: once, and not within a transaction.
        if self.user.is_some() {
            self.out_of_order("You are authenticated already");
            return Ok(());
        }
        if self.transaction.is_some() {
            self.out_of_order("A transaction is open; send RSET first");
            return Ok(());
        }
        let Some(exchange) = Exchange::of(&auth.mechanism) else {
            self.refuse(replies::no_such_mechanism());
            return Ok(());
        };
        let is_offered =
            self.mechanisms().is_some_and(|offered| offered.split(' ').any(|m| m == auth.mechanism));
        if !is_offered {
            let initial = auth.initial.as_ref().map(|initial| initial.expose().as_bytes());
            let name = initial.and_then(|initial| sasl::name_in(&auth.mechanism, initial));
            self.login_failed(name.as_deref(), Reason::Cleartext).await;
            self.refuse(replies::encryption_required());
            return Ok(());
        }
        match auth.initial {
            None => self.challenge(exchange),
            Some(initial) => match sasl::initial_response(initial.expose().as_bytes()) {
                Some(message) => return self.step(exchange, &message).await,
                None => self.refuse(replies::not_base64()),
            },
        }
        Ok(())
    }

    /// The line that answers a challenge.
    pub(super) async fn auth_line(&mut self, line: Secret) -> Result<(), End> {
        let Some(exchange) = self.exchange.take() else {
            self.refuse(replies::not_implemented());
            return Ok(());
        };
        self.log.begin_command("AUTH");
        if let Exchange::Failed(reply) = exchange {
            self.refuse(reply);
        } else if line.expose() == "*" {
            // RFC 4954 §4.
            self.refuse(replies::auth_cancelled());
        } else {
            match sasl::base64(line.expose().as_bytes()) {
                Some(message) => self.step(exchange, &message).await?,
                None => self.refuse(replies::not_base64()),
            }
        }
        self.flush().await
    }

    /// Ends the exchange after a line that cannot be an answer to a challenge.
    pub(super) fn bad_auth_line(&mut self, misuse: Misuse) {
        self.log.begin_command("AUTH");
        let reply = match (self.exchange.take(), misuse) {
            (Some(Exchange::Failed(reply)), _) => reply,
            // RFC 4954 §4, §6.
            (_, Misuse::LineTooLong) => replies::auth_line_too_long(),
            _ => replies::not_base64(),
        };
        self.refuse(reply);
    }

    fn challenge(&mut self, exchange: Exchange) {
        self.reply(Reply::new(334, exchange.prompt()));
        self.exchange = Some(exchange);
        self.connection.expect_auth_line();
    }

    /// Takes the next message of the client.
    async fn step(&mut self, exchange: Exchange, message: &[u8]) -> Result<(), End> {
        match exchange {
            Exchange::Plain => match sasl::plain(message) {
                Ok(given) => return self.check(&given.name, &given.secret).await,
                Err(PlainError::Syntax) => self.refuse(replies::not_of_mechanism()),
                Err(PlainError::Authorization(name)) => {
                    self.login_failed(Some(&name), Reason::Authorization).await;
                    self.refuse(replies::acting_for_others());
                }
            },
            Exchange::LoginName => {
                let name = String::from_utf8_lossy(message).into_owned();
                self.challenge(Exchange::LoginPassword(name));
            }
            Exchange::LoginPassword(name) => return self.check(&name, message).await,
            Exchange::Bearer(mechanism) => return self.check_bearer(mechanism, message).await,
            Exchange::Failed(reply) => self.refuse(reply),
        }
        Ok(())
    }

    async fn check(&mut self, name: &str, secret: &[u8]) -> Result<(), End> {
        let (ctx, peer) = (self.shared.ctx.clone(), self.peer());
        let checked = tokio::select! {
            checked = ctx.auth.login(peer, name, secret) => checked,
            // A slowed login would last longer than the time that sessions have to end at a stop.
            () = ctx.shutdown.wait() => return Err(End::Stopping),
        };
        match checked {
            Ok(entered) => self.enter(&entered),
            Err(denied) => {
                let reply = self.denied(name, &denied).await;
                self.refuse(reply);
            }
        }
        Ok(())
    }

    async fn check_bearer(&mut self, mechanism: Mechanism, message: &[u8]) -> Result<(), End> {
        let (ctx, peer) = (self.shared.ctx.clone(), self.peer());
        let read = mechanism.read(message, self.connection.stream().and_then(|stream| stream.server_name()));
        let given = match read {
            Ok(given) => given,
            Err(Wrong::Syntax) => {
                self.refuse(replies::not_of_mechanism());
                return Ok(());
            }
            Err(wrong) => {
                let name = mechanism.name_in(message).unwrap_or_default();
                self.bearer_failed(&name, &Denied::Credentials, mechanism.challenge(wrong)).await;
                return Ok(());
            }
        };
        let checked = tokio::select! {
            checked = ctx.auth.bearer(peer, &given.name, &given.secret) => checked,
            () = ctx.shutdown.wait() => return Err(End::Stopping),
        };
        match checked {
            Ok(entered) => self.enter(&entered),
            Err(denied @ (Denied::Credentials | Denied::Expired | Denied::Scope)) => {
                let wrong = if matches!(denied, Denied::Scope) { Wrong::Scope } else { Wrong::NoToken };
                self.bearer_failed(&given.name, &denied, mechanism.challenge(wrong)).await;
            }
            Err(denied) => {
                let reply = self.denied(&given.name, &denied).await;
                self.refuse(reply);
            }
        }
        Ok(())
    }

    /// Says why as a challenge; the client's answer gets the reply (RFC 7628 §3.2.3).
    async fn bearer_failed(&mut self, name: &str, denied: &Denied, challenge: &'static str) {
        // It has failed, whether or not the client stays to hear it.
        let reply = self.denied(name, denied).await;
        self.reply(Reply::new(334, challenge));
        self.exchange = Some(Exchange::Failed(reply));
        self.connection.expect_auth_line();
    }

    fn enter(&mut self, entered: &Entered) {
        let record = &entered.record;
        if !self.connection.stream().is_none_or(|stream| stream.logged_in(record.id)) {
            self.log.count("crowded_logins", 1);
            return self.refuse(replies::crowded_login());
        }
        self.log.user(record.name.as_str(), record.id);
        self.log.state(SessionState::Authenticated);
        let standing = self.shared.ctx.auth.standing(entered);
        let root = self.shared.content_urls.as_ref().map(|_| entered.root.clone());
        self.user = Some(Box::new(User { name: record.name.clone(), id: record.id, standing, root }));
        self.forgive();
        self.reply(replies::authenticated());
    }

    /// Counts a failed login. Returns the reply.
    async fn denied(&mut self, name: &str, denied: &Denied) -> Reply {
        match Reason::of(denied) {
            Some(reason) => self.login_failed(Some(name), reason).await,
            None => self.log.count("failed_logins", 1),
        }
        replies::denied(denied)
    }

    /// Records a failed login in the log.
    async fn login_failed(&mut self, name: Option<&str>, reason: Reason) {
        self.log.count("failed_logins", 1);
        let (ctx, protocol) = (&self.shared.ctx, metrics::Protocol::Submission.name());
        ctx.failed_logins.report(&ctx.directory, protocol, self.peer(), name, reason).await;
    }

    fn peer(&self) -> Option<std::net::IpAddr> {
        self.connection.stream().and_then(|stream| stream.peer())
    }
}
