//! The token endpoint (RFC 6749 §4.1.3, §6): codes and refresh tokens are exchanged for new tokens.
//!
//! A code is good once. A refresh token is good until it was used; for [`OAUTH_REFRESH_GRACE`] after
//! that it gets the same answer, because the first may be lost. One that comes later shows that two
//! have it, and the grant ends.
//!
//! [`OAUTH_REFRESH_GRACE`]: sealpost_base::limits::OAUTH_REFRESH_GRACE

use std::net::IpAddr;

use sealpost_auth::grant_token::GrantToken;
use sealpost_auth::{Denied, Entered, Scopes};
use sealpost_base::limits::OAUTH_ACCESS_LIFETIME;
use sealpost_directory::Rotation;
use sealpost_vault::TokenKind;
use sealpost_vault::slot::SlotKind;
use serde_json::json;

use crate::OAuth;
use crate::consent::binding;
use crate::error::{ErrorCode, OAuthError};
use crate::parameters::Parameters;
use crate::pkce::{challenge_of, digest, same};

const WRONG: &str = "the code or token is wrong, has expired or was revoked";

impl OAuth {
    /// The response to a request for tokens (RFC 6749 §5.1).
    ///
    /// # Errors
    /// What the client gets instead (§5.2).
    pub async fn token(&self, parameters: &Parameters, peer: Option<IpAddr>) -> Result<String, OAuthError> {
        match parameters.required("grant_type", "grant_type is missing")? {
            "authorization_code" => self.exchange(parameters, peer).await,
            "refresh_token" => self.refresh(parameters, peer).await,
            _ => Err(OAuthError::new(
                ErrorCode::UnsupportedGrantType,
                "grant_type is authorization_code or refresh_token",
            )),
        }
    }

    async fn exchange(&self, parameters: &Parameters, peer: Option<IpAddr>) -> Result<String, OAuthError> {
        let code = parameters.required("code", "code is missing")?;
        let redirect = parameters.required("redirect_uri", "redirect_uri is missing")?;
        let verifier = parameters.required("code_verifier", "code_verifier is missing")?;
        let code = self.shown(TokenKind::Code, code, parameters, peer).await?;
        let challenge = challenge_of(verifier)
            .ok_or_else(|| OAuthError::invalid_request("code_verifier is malformed"))?;
        // Nothing is used up by a client that did not begin the flow.
        if !same(&binding(&challenge, redirect), &code.binding) {
            return Err(OAuthError::invalid_grant("another verifier or redirect URI belongs to the code"));
        }
        if code.at <= self.ctx.clock.now() {
            return Err(OAuthError::invalid_grant(WRONG));
        }
        let entered = self.entered(&code, peer).await?;
        self.rotate(&entered, &code, code.scopes).await
    }

    async fn refresh(&self, parameters: &Parameters, peer: Option<IpAddr>) -> Result<String, OAuthError> {
        let token = parameters.required("refresh_token", "refresh_token is missing")?;
        let token = self.shown(TokenKind::Refresh, token, parameters, peer).await?;
        // RFC 6749 §6: at most what was granted.
        let scopes = match parameters.get("scope")? {
            Some(scope) => Scopes::parse(scope).and(token.scopes),
            None => token.scopes,
        };
        if scopes.is_empty() {
            return Err(OAuthError::new(ErrorCode::InvalidScope, "none of the scopes was granted"));
        }
        let entered = self.entered(&token, peer).await?;
        let used = self.ctx.directory.login_use(entered.record.id, entered.slot).await;
        let used = used.map_err(|error| OAuthError::unavailable(&error))?;
        if used.is_some_and(|used| self.ctx.directory.is_idle(SlotKind::Grant, used.used)) {
            self.end(entered.record.id, &entered.record.name, entered.slot).await?;
            return Err(OAuthError::invalid_grant(WRONG));
        }
        self.rotate(&entered, &token, scopes).await
    }

    /// The code or token that a client shows, if it is this client's. One that this server has not made
    /// counts as a guess.
    async fn shown(
        &self,
        kind: TokenKind,
        text: &str,
        parameters: &Parameters,
        peer: Option<IpAddr>,
    ) -> Result<GrantToken, OAuthError> {
        let client = parameters.required("client_id", "client_id is missing")?;
        let Some(token) = GrantToken::open(kind, text.as_bytes(), self.ctx.directory.token_keys()) else {
            let denied = tokio::select! {
                denied = self.ctx.auth.forged(peer) => denied,
                () = self.ctx.shutdown.wait() => Denied::Busy,
            };
            return Err(match denied {
                Denied::Busy => OAuthError::busy(),
                _ => OAuthError::invalid_grant(WRONG),
            });
        };
        match same(&digest(&[client]), &token.client) {
            true => Ok(token),
            false => Err(OAuthError::invalid_grant("the code or token belongs to another client")),
        }
    }

    /// The account that a token opens.
    async fn entered(&self, token: &GrantToken, peer: Option<IpAddr>) -> Result<Entered, OAuthError> {
        self.ctx.auth.grant(peer, token).await.map_err(|denied| match denied {
            Denied::Busy => OAuthError::busy(),
            Denied::Unavailable(error) => OAuthError::unavailable(&error),
            Denied::Suspended => OAuthError::invalid_grant("the account is suspended"),
            Denied::Credentials | Denied::Expired | Denied::Scope => OAuthError::invalid_grant(WRONG),
        })
    }

    /// Uses a code or token up, and gives out those that follow.
    async fn rotate(
        &self,
        entered: &Entered,
        token: &GrantToken,
        scopes: Scopes,
    ) -> Result<String, OAuthError> {
        let account = entered.record.id;
        let rotated = self.ctx.directory.rotate_grant(&entered.record, entered.slot, token.generation).await;
        match rotated.map_err(|error| OAuthError::unavailable(&error))? {
            Rotation::Next(generation) | Rotation::Repeated(generation) => {
                Ok(self.issued(token, generation, scopes))
            }
            Rotation::Ended => Err(OAuthError::invalid_grant(WRONG)),
            Rotation::Reused => {
                let name = &entered.record.name;
                tracing::warn!(account = %name, slot = %entered.slot, "a code or refresh token was used twice: \
                    its OAuth grant is revoked");
                self.end(account, name, entered.slot).await?;
                Err(OAuthError::invalid_grant("the code or token was used before: the grant is revoked"))
            }
        }
    }

    fn issued(&self, token: &GrantToken, generation: u64, scopes: Scopes) -> String {
        let (keys, random, now) = (self.ctx.directory.token_keys(), &*self.ctx.random, self.ctx.clock.now());
        let refresh = GrantToken { at: now, generation, binding: [0; 32], ..token.clone() };
        let access = GrantToken { at: now.after(OAUTH_ACCESS_LIFETIME), scopes, ..refresh.clone() };
        json!({
            "access_token": access.seal(TokenKind::Access, keys, random).as_str(),
            "token_type": "Bearer",
            "expires_in": OAUTH_ACCESS_LIFETIME.as_secs(),
            "refresh_token": refresh.seal(TokenKind::Refresh, keys, random).as_str(),
            "scope": scopes.to_string(),
        })
        .to_string()
    }
}
