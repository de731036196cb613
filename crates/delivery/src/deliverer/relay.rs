//! A smarthost: the operator configures it, and it gets credentials if its certificate is good.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use sealpost_base::limits::MX_ATTEMPTS;
use sealpost_dns::DnsName;
use sealpost_smtp::types::Host;

use super::{Deliverer, Failures};
use crate::envelope::TlsDemand;
use crate::open::OpenConnection;
use crate::opening::Target;
use crate::outcome::{Failure, Reason, Scope, TlsMode};
use crate::reports::PolicyUsed;
use crate::routes::{Smarthost, SmarthostTls};
use crate::security::{Need, Security, server_name};
use crate::transport::{Connection, Destination, SiteKey};

/// A smarthost.
pub(super) struct Relay {
    pub(super) deliverer: Deliverer,
    pub(super) smarthost: Arc<Smarthost>,
    pub(super) site: SiteKey,
}

impl Relay {
    fn security(&self, demand: TlsDemand) -> Security {
        let names = match &self.smarthost.host {
            Host::Ipv4(address) => Some(IpAddr::V4(*address).into()),
            Host::Ipv6(address) => Some(IpAddr::V6(*address).into()),
            host => host.as_domain().and_then(DnsName::new).as_ref().and_then(server_name),
        };
        let require_tls = demand == TlsDemand::Require;
        let (need, mode) = match self.smarthost.tls {
            SmarthostTls::StartTls | SmarthostTls::Implicit => (Need::Roots, TlsMode::Required),
            _ if require_tls => (Need::Roots, TlsMode::Required),
            SmarthostTls::None => (Need::Clear, TlsMode::None),
            SmarthostTls::Opportunistic => (Need::Nothing, TlsMode::Opportunistic),
        };
        Security { need, mode, names: names.into_iter().collect(), policy: PolicyUsed::None, require_tls }
    }

    async fn open(&self, demand: TlsDemand) -> Result<OpenConnection, Failure> {
        let inner = &self.deliverer.0;
        let deadline = inner.connect_deadline();
        let host = &self.smarthost.host;
        let addresses = match (host, host.as_domain().and_then(DnsName::new)) {
            (Host::Ipv4(address), _) => vec![IpAddr::V4(*address)],
            (Host::Ipv6(address), _) => vec![IpAddr::V6(*address)],
            (_, Some(name)) => inner.addresses(&name, &name).await.map_err(waiting)?.addresses,
            (_, None) => return Err(Failure::new(Reason::BadDestination, host.to_string())),
        };
        let target = Target {
            host: host.to_string(),
            name: None,
            domain: None,
            security: self.security(demand),
            implicit_tls: self.smarthost.tls == SmarthostTls::Implicit,
            credentials: self.smarthost.credentials.clone(),
        };
        let mut failures = Failures::default();
        for address in addresses.into_iter().take(MX_ATTEMPTS) {
            let address = SocketAddr::new(address, self.smarthost.port);
            match inner.opener.open(&target, address, deadline).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.add(failure),
            }
        }
        Err(waiting(failures.into_failure(&target.host)))
    }
}

/// Makes a failure of a smarthost temporary: the operator has to repair it, and mail waits for that. A
/// failure of the message itself stays permanent.
fn waiting(mut failure: Failure) -> Failure {
    failure.permanent &= failure.scope == Scope::Message;
    failure
}

#[async_trait]
impl Destination for Relay {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let limit = self.deliverer.0.opener.settings.timeouts.connect_total;
        let too_slow = || Failure::new(Reason::TooSlow, self.site.as_str()).with_scope(Scope::Site);
        let open = tokio::time::timeout(limit, self.open(demand)).await;
        Ok(Box::new(open.unwrap_or_else(|_| Err(too_slow()))?))
    }
}
