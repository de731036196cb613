//! An address literal: one server, no DNS, no policy.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;

use super::Deliverer;
use crate::envelope::TlsDemand;
use crate::opening::Target;
use crate::outcome::{Failure, Reason, Scope, TlsMode};
use crate::reports::PolicyUsed;
use crate::security::{Need, Security};
use crate::transport::{Connection, Destination, SiteKey};

/// An address literal (RFC 5321 §4.1.3): no DNS, no policy.
pub(super) struct Literal {
    pub(super) deliverer: Deliverer,
    pub(super) address: IpAddr,
    pub(super) site: SiteKey,
}

#[async_trait]
impl Destination for Literal {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let inner = &self.deliverer.0;
        let host = self.site.as_str().to_owned();
        inner.check_address(self.address, &host).map_err(|failure| failure.with_scope(Scope::Site))?;
        if demand == TlsDemand::Require {
            // RFC 8689 §4.2.1: nothing can prove that the address is the right server.
            return Err(Failure::new(Reason::MxNotAuthenticated, host));
        }
        let security = Security {
            need: Need::Nothing,
            mode: TlsMode::Opportunistic,
            names: Vec::new(),
            policy: PolicyUsed::None,
            require_tls: false,
        };
        let target =
            Target { host, name: None, domain: None, security, implicit_tls: false, credentials: None };
        let address = SocketAddr::new(self.address, inner.opener.settings.port);
        let opened = inner.opener.open(&target, address, inner.connect_deadline()).await;
        Ok(Box::new(opened.map_err(|failure| failure.with_scope(Scope::Site))?))
    }
}
