//! Token revocation (RFC 7009): a client gives its grant up. Any token of a grant ends all of it.

use std::net::IpAddr;

use sealpost_auth::grant_token::GrantToken;
use sealpost_auth::{Denied, Entered};
use sealpost_vault::TokenKind;

use crate::OAuth;
use crate::error::OAuthError;
use crate::parameters::Parameters;
use crate::pkce::{digest, same};

impl OAuth {
    /// Revokes the grant of a token. A token that opens nothing is revoked already (§2.2).
    ///
    /// # Errors
    /// What the client gets instead.
    pub async fn revoke(&self, parameters: &Parameters, peer: Option<IpAddr>) -> Result<(), OAuthError> {
        let text = parameters.required("token", "token is missing")?;
        let client = parameters.required("client_id", "client_id is missing")?;
        let keys = self.ctx.directory.token_keys();
        // The hint of §2.1 is not needed: the text tells its kind.
        let mut kinds = [TokenKind::Refresh, TokenKind::Access].into_iter();
        let Some(token) = kinds.find_map(|kind| GrantToken::open(kind, text.as_bytes(), keys)) else {
            return Ok(());
        };
        if !same(&digest(&[client]), &token.client) {
            return Err(OAuthError::invalid_grant("the token belongs to another client"));
        }
        // Also of a suspended account: the grant must not be back when that is resumed.
        match self.ctx.auth.grant_to_end(peer, &token).await {
            Ok(Entered { record, slot, .. }) => self.end(record.id, &record.name, slot).await,
            Err(Denied::Busy) => Err(OAuthError::busy()),
            Err(Denied::Unavailable(error)) => Err(OAuthError::unavailable(&error)),
            // The grant is gone. Of an authentic token there is no other refusal.
            Err(Denied::Expired | Denied::Credentials | Denied::Scope | Denied::Suspended) => Ok(()),
        }
    }
}
