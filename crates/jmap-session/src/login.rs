//! Logins: credentials are checked, throttled and logged as in every protocol.

use std::net::IpAddr;
use std::sync::Arc;

use sealpost_auth::failed_logins::Reason;
use sealpost_auth::{Denied, Entered};
use sealpost_jmap::Problem;
use sealpost_jmap::error::ProblemType;
use sealpost_vault::slot::{account_of_app_password, named_in_web_login};
use zeroize::Zeroizing;

use crate::caller::Caller;
use crate::shared::JmapShared;

/// The protocol's name in the log of failed logins.
const PROTOCOL: &str = "jmap";

/// The credentials of a client, which HTTP reads from the `Authorization` field.
pub enum Credentials {
    /// A name with a password or an app password.
    Password {
        /// The name as the client wrote it.
        name: String,
        /// The secret.
        secret: Zeroizing<String>,
    },
    /// An app password, which names its account, or an access token of OAuth.
    Token(Zeroizing<String>),
    /// The cookie of a web login. HTTP has made sure that a page of this server sends it.
    WebLogin(Zeroizing<String>),
}

/// Why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginRefused {
    /// No such account, or the wrong secret.
    Credentials,
    /// A token or web login that has expired or was revoked.
    Expired,
    /// The right secret of an account that is suspended.
    Suspended,
    /// Too many logins are waiting.
    Busy,
    /// The store could not be read.
    Unavailable,
    /// The server is shutting down.
    Stopping,
}

impl JmapShared {
    /// Checks credentials and returns the caller. `peer` is the client's address, `None` on a Unix socket.
    /// HTTP decides beforehand whether the connection may carry a secret.
    ///
    /// # Errors
    /// The reason; the failure is logged and counted.
    pub async fn authenticate(
        self: &Arc<Self>,
        credentials: &Credentials,
        peer: Option<IpAddr>,
    ) -> Result<Caller, LoginRefused> {
        let auth = &self.ctx.auth;
        let checking = async {
            match credentials {
                Credentials::Password { name, secret } => auth.login(peer, name, secret.as_bytes()).await,
                Credentials::Token(token) => auth.bearer_alone(peer, token.as_bytes()).await,
                Credentials::WebLogin(cookie) => auth.web_login(peer, cookie.as_bytes()).await,
            }
        };
        let checked = tokio::select! {
            checked = checking => checked,
            // A throttled login could take longer than the deadline of requests at shutdown.
            () = self.ctx.shutdown.wait() => return Err(LoginRefused::Stopping),
        };
        match checked {
            Ok(entered) => Ok(self.enter(&entered)),
            Err(denied) => Err(self.refused(credentials, peer, &denied).await),
        }
    }

    fn enter(self: &Arc<Self>, entered: &Entered) -> Caller {
        Caller::new(self.clone(), entered, self.ctx.auth.standing(entered))
    }

    /// Logs a failed login.
    async fn refused(
        &self,
        credentials: &Credentials,
        peer: Option<IpAddr>,
        denied: &Denied,
    ) -> LoginRefused {
        if let Some(reason) = Reason::of(denied) {
            let name = match credentials {
                Credentials::Password { name, .. } => Some(name.clone()),
                Credentials::Token(token) => account_of_app_password(token.as_bytes()),
                Credentials::WebLogin(cookie) => named_in_web_login(cookie.as_bytes()).map(|(name, _)| name),
            };
            let (logins, directory) = (&self.ctx.failed_logins, &self.ctx.directory);
            logins.report(directory, PROTOCOL, peer, name.as_deref(), reason).await;
        }
        match denied {
            Denied::Credentials => LoginRefused::Credentials,
            // Of a token alone; methods look at its scopes.
            Denied::Expired | Denied::Scope => LoginRefused::Expired,
            Denied::Suspended => LoginRefused::Suspended,
            Denied::Busy => LoginRefused::Busy,
            Denied::Unavailable(error) => {
                tracing::warn!(%error, "a login could not be checked");
                LoginRefused::Unavailable
            }
        }
    }
}

impl LoginRefused {
    /// The problem to send to the client.
    pub fn problem(self) -> Problem {
        let (status, detail) = match self {
            LoginRefused::Credentials => (401, "wrong name or password"),
            LoginRefused::Expired => (401, "the token or web login has expired or was revoked"),
            LoginRefused::Suspended => {
                (403, "this account is suspended, ask the administrator of the server")
            }
            LoginRefused::Busy => (503, "too many logins at once, try again later"),
            LoginRefused::Unavailable => (503, "logins cannot be checked now, try again later"),
            LoginRefused::Stopping => (503, "the server stops, try again later"),
        };
        Problem::new(ProblemType::About, status, detail)
    }
}
