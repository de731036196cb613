//! The consent: the user's password opens the account, a grant is made, and the client gets a code.
//!
//! The password is asked for each time, also of a user with a web login: so no page can consent in
//! the user's name. Logins are throttled and logged as those of every protocol.

use std::net::IpAddr;

use sealpost_auth::Denied;
use sealpost_auth::failed_logins::Reason;
use sealpost_auth::grant_token::GrantToken;
use sealpost_base::Kind;
use sealpost_base::limits::OAUTH_CODE_LIFETIME;
use sealpost_vault::TokenKind;

use crate::OAuth;
use crate::authorization::Authorization;
use crate::pkce::digest;

/// The name of the protocol in the log of failed logins.
const PROTOCOL: &str = "oauth";

/// Why there is no grant; the page says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentRefused {
    /// No such account or not its password; app passwords make no grants.
    Credentials,
    /// The account is suspended.
    Suspended,
    /// It has as many grants as it may.
    TooMany,
    /// The server is busy, or the store cannot be read.
    Unavailable,
}

impl ConsentRefused {
    /// For the user.
    pub fn text(self) -> &'static str {
        match self {
            ConsentRefused::Credentials => "Wrong name or password.",
            ConsentRefused::Suspended => "This account is suspended. Ask the administrator of the server.",
            ConsentRefused::TooMany => {
                "Too many programs have access to this account. Ask the administrator to revoke one."
            }
            ConsentRefused::Unavailable => "Logins cannot be checked now. Try again later.",
        }
    }
}

impl OAuth {
    /// Makes the grant, if that is the name and the password of an account: the URL that takes the code
    /// to the client. `peer` is the browser's address, `None` on a Unix socket.
    ///
    /// # Errors
    /// Why not; a failed login is logged and counted.
    pub async fn consent(
        &self,
        request: &Authorization,
        name: &str,
        password: &[u8],
        peer: Option<IpAddr>,
    ) -> Result<String, ConsentRefused> {
        let checked = tokio::select! {
            checked = self.ctx.auth.login_by_password(peer, name, password) => checked,
            // A login that is slowed down would outlast the time that requests have to end.
            () = self.ctx.shutdown.wait() => return Err(ConsentRefused::Unavailable),
        };
        let entered = match checked {
            Ok(entered) => entered,
            Err(denied) => return Err(self.refused(name, &denied, peer).await),
        };
        let label = request.client.name.as_deref().unwrap_or("unnamed program");
        let made = self.ctx.directory.add_grant(&entered.record, &entered.root, label).await;
        let (_, slot, secret) = made.map_err(|error| match error.kind() {
            Kind::Limit => ConsentRefused::TooMany,
            _ => {
                tracing::warn!(%error, "a grant could not be made");
                ConsentRefused::Unavailable
            }
        })?;
        let code = GrantToken {
            account: entered.record.name.as_str().to_owned(),
            slot,
            secret,
            scopes: request.scopes,
            at: self.ctx.clock.now().after(OAUTH_CODE_LIFETIME),
            generation: 0,
            client: digest(&[&request.client_id]),
            binding: binding(&request.challenge, request.redirect.as_str()),
        };
        let code = code.seal(TokenKind::Code, self.ctx.directory.token_keys(), &*self.ctx.random);
        let mut parameters = vec![("code", code.as_str())];
        parameters.extend(request.state.as_deref().map(|state| ("state", state)));
        // RFC 9207 §2.
        parameters.push(("iss", &request.issuer));
        Ok(request.redirect.with(&parameters))
    }

    async fn refused(&self, name: &str, denied: &Denied, peer: Option<IpAddr>) -> ConsentRefused {
        if let Some(reason) = Reason::of(denied) {
            let (logins, directory) = (&self.ctx.failed_logins, &self.ctx.directory);
            logins.report(directory, PROTOCOL, peer, Some(name), reason).await;
        }
        match denied {
            Denied::Credentials | Denied::Expired | Denied::Scope => ConsentRefused::Credentials,
            Denied::Suspended => ConsentRefused::Suspended,
            Denied::Busy => ConsentRefused::Unavailable,
            Denied::Unavailable(error) => {
                tracing::warn!(%error, "a login could not be checked");
                ConsentRefused::Unavailable
            }
        }
    }
}

/// What a code is bound to besides its client.
pub(crate) fn binding(challenge: &str, redirect_uri: &str) -> [u8; 32] {
    digest(&[challenge, redirect_uri])
}
