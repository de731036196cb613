//! The OAuth 2.0 authorization server (RFC 6749), as the profile for open public clients has it
//! (draft-ietf-mailmaint-oauth-public): the code flow with PKCE, for native clients that register
//! themselves. Parameters in, JSON, pages and redirect URLs out; the server joins it to HTTP.
//!
//! There is no state but slots and what `sealpost_directory` keeps of their use. A client's id is
//! what it registered, sealed. A consent makes a *grant*: a slot of the account whose secret is in
//! sealed tokens ([`sealpost_auth::grant_token`]). So any node answers any request.
//!
//! Reasons: `docs/decisions/0102-oauth.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod authorization;
mod client;
mod consent;
mod error;
pub mod fuzz;
mod metadata;
mod page;
mod parameters;
mod pkce;
mod redirect_uri;
mod revocation;
mod token;

use std::sync::Arc;

use sealpost_auth::Scopes;
use sealpost_base::AccountId;
use sealpost_directory::AccountName;
use sealpost_session::Context;
use sealpost_vault::slot::SlotId;

pub use authorization::{Authorization, AuthorizationRefused};
pub use consent::ConsentRefused;
pub use error::{ErrorCode, OAuthError};
pub use page::{STYLE, error_page};
pub use parameters::Parameters;

/// Tells other nodes that the record of an account has changed.
pub type Announce = Arc<dyn Fn(AccountId) + Send + Sync>;

/// The authorization server. Cheap to clone.
#[derive(Clone)]
pub struct OAuth {
    ctx: Arc<Context>,
    /// What clients can be granted here.
    supported: Scopes,
    announce: Announce,
}

impl OAuth {
    /// Over the server's context, for clients that use what `supported` is for.
    pub fn new(ctx: Arc<Context>, supported: Scopes, announce: Announce) -> Self {
        OAuth { ctx, supported, announce }
    }

    /// Ends a grant: its tokens open nothing from now on, and sessions that began with them end.
    async fn end(&self, account: AccountId, name: &AccountName, slot: SlotId) -> Result<(), OAuthError> {
        match self.ctx.directory.revoke_app_password(name, slot).await {
            Ok(()) => {}
            // Another request was first.
            Err(e) if e.kind() == sealpost_base::Kind::NotFound => {}
            Err(e) => return Err(OAuthError::unavailable(&e)),
        }
        self.ctx.auth.standings().look(account);
        (self.announce)(account);
        Ok(())
    }
}
