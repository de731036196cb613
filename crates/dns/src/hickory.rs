//! The resolvers of the `hickory` crates behind our trait: own recursion from the root with DNSSEC
//! validation, or the system's name servers, whose answers are validated here all the same. Nothing
//! else in this project names hickory.
//!
//! TCP input from name servers passes a bound on messages first (`hickory/provider.rs`), because
//! hickory's caches count entries, not bytes. The machine's clock decides whether signatures are
//! still valid: hickory takes no other.

mod aliases;
mod convert;
mod provider;
mod roots;

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::Resolver as StubResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::proto::dnssec::{Proof, TrustAnchors};
use hickory_resolver::proto::op::{Message, Query};
use hickory_resolver::proto::rr::Record as HickoryRecord;
use hickory_resolver::recursor::{DnssecConfig, DnssecPolicy, Recursor, RecursorOptions};
use sealpost_base::limits::{DNS_CACHED_MESSAGES, DNS_CACHED_ZONES};
use sealpost_base::{Error, Result};

use crate::answer::{Answer, LookupError, RecordType};
use crate::name::DnsName;
use crate::resolver::Resolver;
use aliases::Source;
use provider::Provider;

/// Hops from one name server to the next, and aliases, before a lookup fails.
const RECURSION: u8 = 16;
/// How long the system's name server may take for one try.
const TRY_TIME: Duration = Duration::from_secs(4);
/// The port of name servers.
const DNS_PORT: u16 = 53;

/// How recursion begins.
#[derive(Debug, Clone)]
pub struct RecursionSettings {
    /// Addresses of root servers; empty for those of the internet.
    pub roots: Vec<IpAddr>,
    /// DNSKEY records of the root in the form of zone files; `None` for those of the internet.
    pub trust_anchor: Option<String>,
    /// Whether name servers are queried over IPv6 too.
    pub ipv6: bool,
    /// The port of name servers; 53 but in tests.
    pub port: u16,
    /// Whether name servers may have loopback and private addresses. Never on the internet.
    pub allow_private: bool,
}

impl Default for RecursionSettings {
    fn default() -> Self {
        RecursionSettings {
            roots: Vec::new(),
            trust_anchor: None,
            ipv6: true,
            port: DNS_PORT,
            allow_private: false,
        }
    }
}

/// Asks from the root downwards, and validates.
pub struct RecursiveResolver(Recursor<Provider>);

impl RecursiveResolver {
    /// A resolver by `settings`. Call it within a runtime.
    ///
    /// # Errors
    /// `Invalid` if the trust anchor cannot be read.
    pub fn new(settings: &RecursionSettings) -> Result<Self> {
        let roots = match settings.roots.is_empty() {
            true => roots::addresses(settings.ipv6),
            false => settings.roots.clone(),
        };
        let mut dnssec = DnssecConfig::default();
        dnssec.trust_anchor = anchors(settings.trust_anchor.as_deref())?;
        dnssec.validation_cache_size = Some(DNS_CACHED_MESSAGES);
        let mut options = RecursorOptions {
            ns_cache_size: DNS_CACHED_ZONES,
            response_cache_size: DNS_CACHED_MESSAGES as u64,
            recursion_limit: RECURSION,
            ns_recursion_limit: RECURSION,
            case_randomization: true,
            ..RecursorOptions::default()
        };
        if settings.allow_private {
            options.deny_server.clear();
        }
        if !settings.ipv6 {
            let all = "::/0".parse().map_err(|_| Error::internal("a network is not parsed"))?;
            options.deny_server.push(all);
        }
        let policy = DnssecPolicy::ValidateWithStaticKey(dnssec);
        let recursor = Recursor::new(&roots, policy, None, options, Provider::new(settings.port));
        let recursor =
            recursor.map_err(|e| Error::internal(format!("the resolver cannot be set up: {e}")))?;
        Ok(RecursiveResolver(recursor))
    }
}

#[async_trait]
impl Source for RecursiveResolver {
    async fn ask(
        &self,
        name: &DnsName,
        kind: RecordType,
    ) -> std::result::Result<Vec<HickoryRecord>, LookupError> {
        let query = Query::query(convert::to_hickory(name)?, convert::kind(kind));
        let now = tokio::time::Instant::now().into_std();
        let message = self.0.resolve(query, now, true).await;
        message.map(|message| message.answers).map_err(|error| convert::recursor_error(&error))
    }
}

#[async_trait]
impl Resolver for RecursiveResolver {
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> std::result::Result<Answer, LookupError> {
        aliases::follow(self, name, kind).await
    }
}

/// Asks the system's name servers, and validates their answers.
pub struct ForwardingResolver(StubResolver<Provider>);

impl ForwardingResolver {
    /// A resolver that asks `servers`, at most three (as resolvers do since ever). Call it within a runtime.
    ///
    /// # Errors
    /// `Invalid` if there is no server, or if the trust anchor cannot be read.
    pub fn new(servers: &[IpAddr], port: u16, trust_anchor: Option<&str>) -> Result<Self> {
        if servers.is_empty() {
            return Err(Error::invalid("no name server is configured; see /etc/resolv.conf"));
        }
        let server = |ip: &IpAddr| {
            let connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
            NameServerConfig::new(*ip, true, connections)
        };
        let servers = servers.iter().take(3).map(server).collect();
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = StubResolver::builder_with_config(config, Provider::new(port));
        let options = builder.options_mut();
        (options.validate, options.edns0) = (true, true);
        // Without them an answer looks like one of another name.
        options.preserve_intermediates = true;
        options.use_hosts_file = ResolveHosts::Never;
        (options.timeout, options.attempts) = (TRY_TIME, 2);
        options.cache_size = DNS_CACHED_MESSAGES as u64;
        if let Some(anchor) = anchors(trust_anchor)? {
            builder = builder.with_trust_anchor(anchor);
        }
        let resolver = builder.build();
        let resolver =
            resolver.map_err(|e| Error::internal(format!("the resolver cannot be set up: {e}")))?;
        Ok(ForwardingResolver(resolver))
    }

    /// The servers in the text of a `resolv.conf`.
    pub fn servers(resolv_conf: &str) -> Vec<IpAddr> {
        let address = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())??.parse().ok()
        };
        resolv_conf.lines().filter_map(address).collect()
    }
}

#[async_trait]
impl Source for ForwardingResolver {
    async fn ask(
        &self,
        name: &DnsName,
        kind: RecordType,
    ) -> std::result::Result<Vec<HickoryRecord>, LookupError> {
        let found = self.0.lookup(convert::to_hickory(name)?, convert::kind(kind)).await;
        found.map(|found| found.answers().to_vec()).map_err(|error| convert::net_error(&error))
    }
}

#[async_trait]
impl Resolver for ForwardingResolver {
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> std::result::Result<Answer, LookupError> {
        aliases::follow(self, name, kind).await
    }
}

/// The answer in a whole message as a name server sends it, nothing of it validated.
///
/// # Errors
/// As [`Resolver::lookup`]; bytes that are no message are [`LookupError::Failed`].
pub fn answer_in_message(
    message: &[u8],
    name: &DnsName,
    kind: RecordType,
) -> std::result::Result<Answer, LookupError> {
    let message = Message::from_vec(message).map_err(|_| LookupError::Failed("not a DNS message"))?;
    let mut records = message.answers;
    records.iter_mut().for_each(|record| record.proof = Proof::Insecure);
    match convert::answer(name, kind, &records)? {
        convert::Said::Answer(answer) => Ok(answer),
        convert::Said::Alias(_) => Err(LookupError::NoData { secure: false }),
    }
}

/// Whether the messages in a stream, cut into `pieces`, keep the bounds on their size.
pub fn watch_messages(pieces: &[&[u8]]) -> bool {
    let mut watch = provider::MessageWatch::default();
    pieces.iter().all(|piece| watch.push(piece).is_ok())
}

fn anchors(text: Option<&str>) -> Result<Option<Arc<TrustAnchors>>> {
    let Some(text) = text else { return Ok(None) };
    let anchors = TrustAnchors::from_str(text)
        .map_err(|e| Error::invalid(format!("the trust anchor is not a DNSKEY record: {e}")))?;
    if anchors.is_empty() {
        return Err(Error::invalid("the trust anchor has no DNSKEY record"));
    }
    Ok(Some(Arc::new(anchors)))
}

#[cfg(test)]
mod tests;
