//! The user behind a caller, with a valid login.

use std::sync::Arc;

use sealpost_auth::Scopes;
use sealpost_auth::standing::Standing;
use sealpost_base::limits::JMAP_SEND_BYTES;
use sealpost_base::{AccountId, Permit};
use sealpost_jmap::capability::Capability;
use sealpost_session::Context;
use sealpost_vault::RootKey;

use crate::capability_scopes::is_granted;
use crate::shared::JmapShared;
use crate::usable_capabilities::usable;

/// The account that a caller has logged in as, and the validity of that login.
pub(crate) struct User {
    pub(crate) shared: Arc<JmapShared>,
    pub(crate) id: AccountId,
    pub(crate) name: String,
    pub(crate) root: RootKey,
    /// What the login may do.
    pub(crate) scopes: Scopes,
    pub(crate) standing: Standing,
}

impl User {
    pub(crate) fn ctx(&self) -> &Context {
        &self.shared.ctx
    }

    /// Capabilities whose methods the login may use.
    pub(crate) fn usable(&self) -> Vec<Capability> {
        let usable = usable(self.shared.outbox.is_some()).into_iter();
        usable.filter(|capability| self.grants(*capability)).collect()
    }

    /// Whether the login's scopes grant a capability.
    pub(crate) fn grants(&self, capability: Capability) -> bool {
        is_granted(self.scopes, capability)
    }

    /// Memory for so many bytes, unless they are few.
    pub(crate) async fn permit(&self, bytes: usize) -> Option<Permit> {
        if bytes <= JMAP_SEND_BYTES { None } else { Some(self.shared.kept.acquire(bytes).await) }
    }
}
