//! The network of a test: names, addresses and the servers behind them, and a deliverer that knows
//! nothing else.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rustls::RootCertStore;
use sealpost_base::{FakeClock, SeededRandom, Timestamp};
use sealpost_delivery::deliverer::{Deliverer, Parts};
use sealpost_delivery::dial::{Dialed, Dialer};
use sealpost_delivery::envelope::{Envelope, MessageFacts, MessageInMemory, Recipient, TlsDemand};
use sealpost_delivery::outcome::{Attempt, Failure, Outcome, Reason};
use sealpost_delivery::reports::{TlsReports, TlsSession};
use sealpost_delivery::routes::Routes;
use sealpost_delivery::settings::Settings;
use sealpost_delivery::sts::PoliciesInMemory;
use sealpost_delivery::tls::TlsClient;
use sealpost_delivery::transport::{Choice, Connection, Destination, Transport};
use sealpost_dns::scripted::ScriptedResolver;
use sealpost_dns::{DnsName, Mx, Record};
use sealpost_smtp::types::{ClientName, Host, LocalPart, Mailbox, ReversePath};

use crate::server::Server;

/// The time in all tests: certificates are made for it.
pub const NOW: i64 = 1_795_000_000;

/// The address of this node, if its settings name no other.
pub const OWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 250));

/// Where a connection went, and from which address.
type Dialled = (SocketAddr, Option<IpAddr>);

/// Connections lead to servers in memory.
#[derive(Clone, Default)]
pub struct Net {
    servers: Arc<Mutex<HashMap<SocketAddr, Server>>>,
    dialled: Arc<Mutex<Vec<Dialled>>>,
}

impl Net {
    pub fn put(&self, address: &str, server: &Server) {
        self.servers.lock().unwrap().insert(address.parse().unwrap(), server.clone());
    }

    /// The addresses that were connected to, in order.
    pub fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(|(address, _)| address.to_string()).collect()
    }

    /// The source addresses that were asked for.
    pub fn sources(&self) -> Vec<Option<IpAddr>> {
        self.dialled.lock().unwrap().iter().map(|(_, source)| *source).collect()
    }
}

#[async_trait]
impl Dialer for Net {
    async fn dial(&self, address: SocketAddr, source: Option<IpAddr>) -> io::Result<Dialed> {
        self.dialled.lock().unwrap().push((address, source));
        let server = self.servers.lock().unwrap().get(&address).cloned();
        let Some(server) = server else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        if server.is_silent() {
            return std::future::pending().await;
        }
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(server.serve(Box::new(theirs)));
        Ok(Dialed { stream: Box::new(ours), source: source.or(Some(OWN_ADDRESS)) })
    }
}

/// Keeps the sessions that were reported.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<TlsSession>>>);

impl TlsReports for Reports {
    fn record(&self, session: TlsSession) {
        self.0.lock().unwrap().push(session);
    }
}

impl Reports {
    /// The results, by the names of RFC 8460.
    pub fn results(&self) -> Vec<&'static str> {
        let name = |session: &TlsSession| session.result.map_or_else(|problem| problem.name(), |()| "ok");
        self.0.lock().unwrap().iter().map(name).collect()
    }

    /// The two ends of the connections: this node's address and the server's.
    pub fn ends(&self) -> Vec<(Option<IpAddr>, Option<IpAddr>)> {
        self.0.lock().unwrap().iter().map(|session| (session.source, session.address)).collect()
    }
}

/// Everything that a deliverer sees.
pub struct World {
    pub net: Net,
    pub zone: ScriptedResolver,
    pub reports: Reports,
    pub settings: Settings,
    pub routes: Routes,
    pub roots: RootCertStore,
    pub clock: Arc<FakeClock>,
    pub policies: Arc<PoliciesInMemory>,
}

impl World {
    /// Where `d.example` has one mail server, `mx.d.example` at 192.0.2.1, in a zone that is not signed.
    pub fn new(server: &Server) -> Self {
        let world = World::empty();
        world.zone.add("d.example", mx(10, "mx.d.example"));
        world.zone.add("mx.d.example", a("192.0.2.1"));
        world.net.put("192.0.2.1:25", server);
        world
    }

    /// The same in a signed zone.
    pub fn signed(server: &Server) -> Self {
        let world = World::empty();
        world.zone.add_secure("d.example", mx(10, "mx.d.example"));
        world.zone.add_secure("mx.d.example", a("192.0.2.1"));
        world.net.put("192.0.2.1:25", server);
        world
    }

    pub fn empty() -> Self {
        let mut settings = Settings::new(ClientName::new("me.example").unwrap());
        settings.allow_private = true;
        World {
            net: Net::default(),
            zone: ScriptedResolver::new(),
            reports: Reports::default(),
            settings,
            routes: Routes::default(),
            roots: RootCertStore::empty(),
            clock: Arc::new(FakeClock::new(Timestamp::from_seconds(NOW))),
            policies: Arc::new(PoliciesInMemory::default()),
        }
    }

    pub fn deliverer(&self) -> Deliverer {
        self.deliverer_by(Arc::new(self.net.clone()))
    }

    /// A deliverer that opens connections by `dialer`.
    pub fn deliverer_by(&self, dialer: Arc<dyn Dialer>) -> Deliverer {
        Deliverer::new(Parts {
            settings: self.settings.clone(),
            routes: self.routes.clone(),
            resolver: Arc::new(self.zone.clone()),
            dialer,
            tls: TlsClient::new(self.roots.clone()).unwrap(),
            policies: self.policies.clone(),
            reports: Arc::new(self.reports.clone()),
            clock: self.clock.clone(),
            random: Arc::new(SeededRandom::new(1)),
        })
    }

    pub async fn destination(&self, domain: &str) -> Result<Box<dyn Destination>, Failure> {
        let host = domain.strip_prefix('[').map_or_else(
            || Host::domain(domain),
            |literal| Host::literal(literal.strip_suffix(']').unwrap()),
        );
        let sender = ReversePath::Mailbox(mailbox("alice@me.example"));
        self.deliverer().resolve(&sender, &host.unwrap(), Choice::First).await.unwrap()
    }

    pub async fn connect(&self, domain: &str, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        self.destination(domain).await?.connect(demand).await
    }

    /// One mail to bob at `d.example`, over a connection of its own.
    pub async fn send(&self) -> Attempt {
        self.send_with(TlsDemand::Policy, &envelope(&["bob@d.example"])).await
    }

    pub async fn send_with(&self, demand: TlsDemand, envelope: &Envelope) -> Attempt {
        let mut envelope = envelope.clone();
        envelope.tls = demand;
        let mut connection = match self.connect("d.example", demand).await {
            Ok(connection) => connection,
            Err(failure) => return Attempt::failed(envelope.recipients.len(), &failure),
        };
        let attempt = connection.send(&envelope, &message(MESSAGE)).await;
        connection.quit().await;
        attempt
    }
}

/// A small message.
pub const MESSAGE: &str = "Subject: x\r\n\r\n.\r\nhello\r\n";

pub fn message(text: &str) -> MessageInMemory {
    MessageInMemory(text.as_bytes().to_vec().into())
}

pub fn mx(preference: u16, exchange: &str) -> Record {
    Record::Mx(Mx { preference, exchange: DnsName::new(exchange).unwrap() })
}

pub fn a(address: &str) -> Record {
    match address.parse().unwrap() {
        IpAddr::V4(v4) => Record::A(v4),
        IpAddr::V6(v6) => Record::Aaaa(v6),
    }
}

pub fn mailbox(address: &str) -> Mailbox {
    let (local, host) = address.rsplit_once('@').unwrap();
    Mailbox { local: LocalPart::new(local).unwrap(), host: Host::domain(host).unwrap() }
}

pub fn envelope(recipients: &[&str]) -> Envelope {
    Envelope {
        sender: ReversePath::Mailbox(mailbox("alice@me.example")),
        recipients: recipients.iter().map(|to| Recipient::new(mailbox(to))).collect(),
        ret: None,
        envid: None,
        facts: MessageFacts::default(),
        tls: TlsDemand::Policy,
        report_on: None,
    }
}

/// The failure of the only recipient.
pub fn failure(attempt: &Attempt) -> Failure {
    assert_eq!(attempt.recipients.len(), 1);
    attempt.recipients[0].failure().expect("a failure").clone()
}

pub fn reason(attempt: &Attempt) -> Reason {
    failure(attempt).reason
}

pub fn is_delivered(attempt: &Attempt) -> bool {
    attempt.recipients.iter().all(|outcome| matches!(outcome, Outcome::Delivered(_)))
}

/// Runs `future` and returns how much of the paused time it took.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let begun = tokio::time::Instant::now();
    let result = future.await;
    (result, begun.elapsed())
}
