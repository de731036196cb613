//! Opens one connection: TCP, greeting, EHLO, TLS, EHLO again, AUTH, each step bounded.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use sealpost_base::Clock;
use sealpost_dns::DnsName;
use sealpost_smtp::client::{Answer, Client, Protocol};
use sealpost_smtp::types::{ClientName, Command, Hello, Verb};
use tokio::time::{Instant, timeout_at};

use crate::auth;
use crate::dial::{Dialed, Dialer, Stream};
use crate::open::OpenConnection;
use crate::outcome::{Failure, PeerReply, Reason, Scope, ServerSeen, Step, TlsMode, TlsUse};
use crate::reports::{TlsProblem, TlsReports, TlsSession};
use crate::routes::Credentials;
use crate::security::{Need, Security};
use crate::settings::Settings;
use crate::tls::{Judge, Secured, TlsClient};
use crate::wire::Wire;

/// The parts that opening a connection needs.
pub(crate) struct Opener {
    pub settings: Settings,
    pub dialer: Arc<dyn Dialer>,
    pub tls: TlsClient,
    pub clock: Arc<dyn Clock>,
    pub reports: Arc<dyn TlsReports>,
}

/// The host to connect to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The host for people: its name, or an address literal.
    pub host: String,
    /// The host's name, for reports.
    pub name: Option<DnsName>,
    /// The domain that mail is for, for reports; `None` for a smarthost, which has none.
    pub domain: Option<DnsName>,
    pub security: Security,
    /// TLS from the first byte.
    pub implicit_tls: bool,
    pub credentials: Option<Credentials>,
}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    server: IpAddr,
    /// The address of this node; `None` if the system does not say.
    source: Option<IpAddr>,
}

/// Why a connection did not come about, and whether TLS is to blame.
struct Refusal {
    failure: Failure,
    tls_failed: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal { failure, tls_failed: false }
    }
}

impl Opener {
    /// Connects to `address` before `deadline`.
    ///
    /// # Errors
    /// The failure, with the scope of the connection or a wider one.
    pub async fn open(
        &self,
        target: &Target,
        address: SocketAddr,
        deadline: Instant,
    ) -> Result<OpenConnection, Failure> {
        let refusal = match self.attempt(target, address, deadline, target.security.need.clone()).await {
            Ok(connection) => return Ok(connection),
            Err(refusal) => refusal,
        };
        // RFC 7435 §3: opportunistic security prefers no TLS to no mail. The server may be
        // confused: connect again.
        if !refusal.tls_failed || target.security.need != Need::Nothing || target.implicit_tls {
            return Err(refusal.failure);
        }
        self.attempt(target, address, deadline, Need::Clear).await.map_err(|refusal| refusal.failure)
    }

    async fn attempt(
        &self,
        target: &Target,
        address: SocketAddr,
        deadline: Instant,
        need: Need,
    ) -> Result<OpenConnection, Refusal> {
        let begun = self.clock.monotonic();
        let failed = |reason: Reason| Failure::new(reason, target.host.clone());
        let Dialed { mut stream, source } = self.dial(address, deadline).await.map_err(failed)?;
        let ends = Ends { server: address.ip(), source };
        let mut tls = TlsUse::default();
        if target.implicit_tls {
            let secured = self.secure(target, ends, stream, deadline, &need).await?;
            (stream, tls) = secured;
        }
        let mut wire =
            Wire::from_parts(stream, Client::new(Protocol::Smtp), self.settings.timeouts, deadline);
        self.greeting(&mut wire, target).await?;
        self.hello(&mut wire, target).await?;
        if !target.implicit_tls && need != Need::Clear {
            wire = match self.start_tls(wire, target, ends, &need).await? {
                Started::Clear(wire) => *wire,
                Started::Tls(stream, client) => {
                    let (stream, used) = self.secure(target, ends, stream, deadline, &need).await?;
                    tls = used;
                    let mut wire = Wire::from_parts(stream, client, self.settings.timeouts, deadline);
                    self.hello(&mut wire, target).await?;
                    wire
                }
            };
        }
        self.check_require_tls(&wire, target)?;
        if let Some(credentials) = &target.credentials {
            auth::log_in(&mut wire, credentials, &target.host).await?;
        }
        let server = ServerSeen { host: target.host.clone(), address: address.ip() };
        let settings = &self.settings;
        let mails = settings.mails_per_connection;
        let open = OpenConnection::new(wire, server, tls, settings.timeouts, self.clock.clone(), mails);
        Ok(open.opened_in(self.clock.monotonic().saturating_sub(begun)))
    }

    async fn dial(&self, address: SocketAddr, deadline: Instant) -> Result<Dialed, Reason> {
        let end = Instant::now() + self.settings.timeouts.connect;
        let dial = self.dialer.dial(address, self.settings.source_for(address.ip()));
        match timeout_at(end.min(deadline), dial).await {
            Ok(Ok(dialed)) => Ok(dialed),
            Ok(Err(error)) => Err(match error.kind() {
                std::io::ErrorKind::ConnectionRefused => Reason::ConnectionRefused,
                std::io::ErrorKind::TimedOut => Reason::TimedOut(Step::Connect),
                _ => Reason::Unreachable,
            }),
            Err(_) if end <= deadline => Err(Reason::TimedOut(Step::Connect)),
            Err(_) => Err(Reason::TooSlow),
        }
    }

    async fn greeting(&self, wire: &mut Wire, target: &Target) -> Result<(), Failure> {
        let answer = self.answer(wire, target, Step::Greeting).await?;
        // RFC 5321 §3.1: 220, or 554 from a server that wants no mail.
        match answer.reply.code {
            220 => Ok(()),
            _ => Err(refused(target, &answer)),
        }
    }

    /// EHLO, or HELO for a server that does not know it (RFC 5321 §3.2).
    async fn hello(&self, wire: &mut Wire, target: &Target) -> Result<(), Failure> {
        wire.client.hello(self.settings.ehlo_name.clone(), &mut wire.out);
        let mut answer = self.answer(wire, target, Step::Hello).await?;
        if matches!(answer.reply.code, 500 | 501 | 502 | 504 | 550) {
            let name: ClientName = self.settings.ehlo_name.clone();
            let helo = Command::Hello(Hello { verb: Verb::Helo, name });
            wire.client.command(helo, &mut wire.out);
            answer = self.answer(wire, target, Step::Hello).await?;
        }
        if !answer.reply.is_positive() {
            return Err(refused(target, &answer));
        }
        // A server with the name of this one is this one, at an address that DNS or a firewall leads
        // here.
        let name = answer.reply.lines.first().and_then(|line| line.split(' ').next()).and_then(DnsName::new);
        if target.domain.is_some() && name.is_some_and(|name| self.settings.is_own(&name)) {
            return Err(Failure::new(Reason::MailLoop, target.host.clone()));
        }
        Ok(())
    }

    async fn answer(&self, wire: &mut Wire, target: &Target, step: Step) -> Result<Answer, Failure> {
        wire.answer(step).await.map_err(|reason| Failure::new(reason, target.host.clone()))
    }

    /// STARTTLS (RFC 3207), up to the reply of the server.
    async fn start_tls(
        &self,
        mut wire: Wire,
        target: &Target,
        ends: Ends,
        need: &Need,
    ) -> Result<Started, Refusal> {
        if !wire.client.extensions().has("STARTTLS") {
            return self.without_tls(wire, target, ends, need).map_err(Refusal::from);
        }
        wire.client.command(Command::StartTls, &mut wire.out);
        let answer = wire.answer(Step::Tls).await;
        let answer = answer.map_err(|reason| self.tls_failure(target, ends, reason))?;
        if answer.reply.code != 220 {
            return self.without_tls(wire, target, ends, need).map_err(Refusal::from);
        }
        match wire.into_parts() {
            Some((stream, client)) => Ok(Started::Tls(stream, client)),
            // RFC 3207 §6: input before the handshake may not be from the server that TLS verifies.
            None => Err(self.tls_failure(target, ends, Reason::ProtocolViolation(Step::Tls))),
        }
    }

    fn without_tls(&self, wire: Wire, target: &Target, ends: Ends, need: &Need) -> Result<Started, Failure> {
        self.report(target, ends, Err(TlsProblem::StartTlsNotSupported));
        match need {
            Need::Nothing | Need::Clear => Ok(Started::Clear(Box::new(wire))),
            _ => Err(demanded(Failure::new(Reason::TlsNotOffered, target.host.clone()), target)),
        }
    }

    /// Makes the handshake and judges the certificate.
    async fn secure(
        &self,
        target: &Target,
        ends: Ends,
        stream: Box<dyn Stream>,
        deadline: Instant,
        need: &Need,
    ) -> Result<(Box<dyn Stream>, TlsUse), Refusal> {
        let name = target.security.names.first().cloned().unwrap_or(ServerName::from(ends.server));
        let end = Instant::now() + self.settings.timeouts.tls;
        let secured = match timeout_at(end.min(deadline), self.tls.handshake(stream, &name)).await {
            Ok(Ok(secured)) => secured,
            Ok(Err(_)) => return Err(self.tls_failure(target, ends, Reason::TlsFailed)),
            Err(_) => return Err(self.tls_failure(target, ends, Reason::TimedOut(Step::Tls))),
        };
        let Secured { stream, certificates, parameters } = secured;
        let verified = self.judge(target, ends, &certificates, need)?;
        Ok((stream, TlsUse { mode: target.security.mode, verified, parameters }))
    }

    /// Whether the certificate is good; an error if `need` demands that and it is not.
    fn judge(
        &self,
        target: &Target,
        ends: Ends,
        certificates: &[CertificateDer<'_>],
        need: &Need,
    ) -> Result<bool, Failure> {
        let judge = match need {
            Need::Dane(records) => Judge::Dane(records),
            _ => Judge::Roots,
        };
        let names = &target.security.names;
        let judged = self.tls.verify(&judge, certificates, names, self.clock.now());
        let has_policy = target.security.policy != crate::reports::PolicyUsed::None;
        // RFC 8460 §4.3: without a policy, TLS with any certificate is a success.
        let counts = has_policy && *need != Need::Encryption;
        let reported =
            judged.map_err(TlsProblem::Certificate).or_else(|e| if counts { Err(e) } else { Ok(()) });
        self.report(target, ends, reported);
        match (judged, need) {
            (Ok(()), _) => Ok(true),
            (Err(_), Need::Nothing | Need::Clear | Need::Encryption) => Ok(false),
            (Err(problem), Need::Roots | Need::Dane(_)) => {
                Err(demanded(Failure::new(problem.reason(), target.host.clone()), target))
            }
        }
    }

    fn tls_failure(&self, target: &Target, ends: Ends, reason: Reason) -> Refusal {
        self.report(target, ends, Err(TlsProblem::ValidationFailure));
        let failure = demanded(Failure::new(reason, target.host.clone()), target);
        Refusal { failure, tls_failed: true }
    }

    fn check_require_tls(&self, wire: &Wire, target: &Target) -> Result<(), Failure> {
        // RFC 8689 §4.2.1, step 5.
        match target.security.require_tls && !wire.client.extensions().has("REQUIRETLS") {
            true => Err(Failure::new(Reason::RequireTlsLacking, target.host.clone())),
            false => Ok(()),
        }
    }

    fn report(&self, target: &Target, ends: Ends, result: Result<(), TlsProblem>) {
        let Some(domain) = target.domain.clone() else { return };
        let (policy, host) = (target.security.policy.clone(), target.name.clone());
        let (address, source) = (Some(ends.server), ends.source);
        self.reports.record(TlsSession { domain, policy, host, address, source, result });
    }
}

/// A connection after STARTTLS.
enum Started {
    /// The server does not offer TLS, and policy allows that.
    Clear(Box<Wire>),
    /// The handshake comes next.
    Tls(Box<dyn Stream>, Client),
}

fn refused(target: &Target, answer: &Answer) -> Failure {
    let failure = Failure::new(Reason::GreetingRefused, target.host.clone());
    match answer.reply.is_error() {
        true => failure.with_reply(PeerReply::new(&answer.reply)),
        false => Failure::new(Reason::ProtocolViolation(Step::Greeting), target.host.clone()),
    }
}

/// RFC 8689 §4.2.1: a mail whose sender requires TLS fails at once where TLS is not available.
fn demanded(mut failure: Failure, target: &Target) -> Failure {
    if target.security.mode == TlsMode::Required && target.security.require_tls {
        (failure.permanent, failure.scope) = (true, Scope::Message);
    }
    failure
}
