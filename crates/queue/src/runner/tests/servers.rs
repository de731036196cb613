//! Scripted servers, and a clock that follows tokio's.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sealpost_base::{Clock, Timestamp};
use sealpost_delivery::envelope::{BodyForm, Envelope, MessageSource, TlsDemand};
use sealpost_delivery::outcome::{
    Attempt, Delivered, Failure, Lacking, Outcome, PeerReply, Reason, Scope, ServerSeen, Step,
    SuccessReports, Timing, TlsUse,
};
use sealpost_delivery::transport::{Choice, Connection, Destination, SiteKey, Transport};
use sealpost_smtp::types::{Host, Reply, ReversePath};
use tokio::time::Instant;

use crate::Queue;
use crate::state::Flags;

/// A wall clock that follows tokio's, and that a test can set.
pub(super) struct TokioClock {
    start: Instant,
    jump: AtomicI64,
}

impl TokioClock {
    pub(super) fn new() -> Self {
        TokioClock { start: Instant::now(), jump: AtomicI64::new(0) }
    }

    pub(super) fn jump(&self, seconds: i64) {
        self.jump.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let jump = self.jump.load(Ordering::SeqCst);
        Timestamp(1_700_000_000_000 + jump).after(self.start.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The behaviour of a destination.
#[derive(Debug, Clone)]
pub(super) enum Behaviour {
    Accept,
    /// Refuses each recipient.
    Refuse(Failure),
    NoConnection,
    /// Takes the message and loses the reply.
    LoseReply,
    /// Closes the connection after a mail. The client sees it, or only at the next mail.
    Close {
        seen: bool,
    },
}

/// A message that a server took.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) at: Timestamp,
    pub(super) sender: String,
    pub(super) recipients: Vec<String>,
    pub(super) message: Vec<u8>,
}

/// All servers. Clones share them.
#[derive(Clone)]
pub(super) struct Servers(Arc<Shared>);

struct Shared {
    clock: Arc<TokioClock>,
    start: Timestamp,
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    first: HashMap<String, Behaviour>,
    second: HashMap<String, Behaviour>,
    takes: Duration,
    deliveries: Vec<Delivery>,
    attempts: HashMap<String, usize>,
    open: HashMap<String, (usize, usize)>,
    marks_of: Option<Queue>,
    marked: usize,
    /// No server answers any more, as if the process under test had been killed.
    dead: bool,
}

impl Servers {
    pub(super) fn new(clock: Arc<TokioClock>) -> Self {
        let start = clock.now();
        Servers(Arc::new(Shared { clock, start, script: Mutex::default() }))
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self) -> Timestamp {
        self.0.start
    }

    pub(super) fn set(&self, domain: &str, behaviour: Behaviour) {
        self.script().first.insert(domain.to_owned(), behaviour);
    }

    pub(super) fn set_second(&self, domain: &str, behaviour: Behaviour) {
        self.script().second.insert(domain.to_owned(), behaviour);
    }

    /// Sets how long each mail takes.
    pub(super) fn take(&self, time: Duration) {
        self.script().takes = time;
    }

    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.script().deliveries.clone()
    }

    /// Attempts to connect to a domain, or to send it a mail.
    pub(super) fn attempts(&self, domain: &str) -> usize {
        self.script().attempts.get(domain).copied().unwrap_or(0)
    }

    pub(super) fn most_connections(&self, domain: &str) -> usize {
        self.script().open.get(domain).map_or(0, |(_, most)| *most)
    }

    /// Verifies at the end of each message that `queue` has marked it as being sent.
    pub(super) fn check_marks(&self, queue: &Queue) {
        self.script().marks_of = Some(queue.clone());
    }

    pub(super) fn marked(&self) -> usize {
        self.script().marked
    }

    /// Simulates a killed process: no server gets anything from it any more.
    pub(super) fn die(&self) -> Servers {
        self.script().dead = true;
        let script = self.script();
        let fresh = Script {
            first: script.first.clone(),
            second: script.second.clone(),
            takes: script.takes,
            deliveries: script.deliveries.clone(),
            attempts: script.attempts.clone(),
            ..Script::default()
        };
        Servers(Arc::new(Shared {
            clock: self.0.clock.clone(),
            start: self.0.start,
            script: Mutex::new(fresh),
        }))
    }
}

#[async_trait]
impl Transport for Servers {
    async fn resolve(
        &self,
        _: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let domain = destination.to_string();
        let site = match choice {
            Choice::First => SiteKey::new(&domain),
            Choice::Second if self.script().second.contains_key(&domain) => {
                SiteKey::new(&format!("smarthost:{domain}:25"))
            }
            Choice::Second => return None,
        };
        Some(Ok(Box::new(Server { servers: self.clone(), domain, choice, site })))
    }
}

struct Server {
    servers: Servers,
    domain: String,
    choice: Choice,
    site: SiteKey,
}

impl Server {
    fn behaviour(&self) -> Behaviour {
        let script = self.servers.script();
        let scripted = match self.choice {
            Choice::First => script.first.get(&self.domain),
            Choice::Second => script.second.get(&self.domain),
        };
        scripted.cloned().unwrap_or(Behaviour::Accept)
    }

    fn count(&self) {
        *self.servers.script().attempts.entry(self.domain.clone()).or_default() += 1;
    }
}

#[async_trait]
impl Destination for Server {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, _: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let Behaviour::NoConnection = self.behaviour() {
            self.count();
            let failure = Failure::new(Reason::ConnectionRefused, self.domain.clone());
            return Err(failure.with_scope(Scope::Site));
        }
        let mut script = self.servers.script();
        let (open, most) = script.open.entry(self.domain.clone()).or_default();
        *open += 1;
        *most = (*most).max(*open);
        drop(script);
        let Server { servers, domain, choice, site } = self;
        let server =
            Server { servers: servers.clone(), domain: domain.clone(), choice: *choice, site: site.clone() };
        Ok(Box::new(Open(server, 0)))
    }
}

/// A connection, and how many mails were sent over it.
struct Open(Server, usize);

impl Open {
    async fn message(&self, source: &dyn MessageSource) -> Option<Vec<u8>> {
        let mut reader = source.open(BodyForm::AsIs).await.ok()?;
        let mut message = Vec::new();
        while let Some(piece) = reader.next().await.ok()? {
            message.extend_from_slice(&piece);
        }
        let queue = self.0.servers.script().marks_of.clone();
        if let Some(queue) = queue {
            let state = queue.state();
            let marked = state.rows().from(crate::MailId(0)).filter(|(_, row)| row.flags.has(Flags::SENDING));
            self.0.servers.script().marked += marked.count();
        }
        Some(message)
    }
}

#[async_trait]
impl Connection for Open {
    async fn send(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt {
        self.0.count();
        let count = envelope.recipients.len();
        let failed = |failure: &Failure| Attempt::failed(count, failure);
        let behaviour = self.0.behaviour();
        if let Behaviour::Refuse(failure) = &behaviour {
            return failed(failure);
        }
        self.1 += 1;
        if matches!(behaviour, Behaviour::Close { .. }) && self.1 > 1 {
            return failed(&Failure::new(Reason::ConnectionLost(Step::Mail), self.0.domain.clone()));
        }
        let takes = self.0.servers.script().takes;
        tokio::time::sleep(takes / 2).await;
        let lost = Failure::new(Reason::ConnectionLost(Step::MessageEnd), self.0.domain.clone());
        let Some(message) = self.message(message).await else {
            return failed(&Failure::new(Reason::LocalFailure, ""));
        };
        if self.0.servers.script().dead {
            std::future::pending::<()>().await;
        }
        let sender = match &envelope.sender {
            ReversePath::Null => String::new(),
            ReversePath::Mailbox(mailbox) => mailbox.to_string(),
        };
        let recipients = envelope.recipients.iter().map(|recipient| recipient.to.to_string()).collect();
        let at = self.0.servers.0.clock.now();
        self.0.servers.script().deliveries.push(Delivery { at, sender, recipients, message });
        tokio::time::sleep(takes / 2).await;
        if self.0.servers.script().dead {
            std::future::pending::<()>().await;
        }
        if let Behaviour::LoseReply = behaviour {
            return failed(&lost);
        }
        let reply = PeerReply::new(&Reply::status(250, (2, 0, 0), "taken"));
        let delivered = Outcome::Delivered(Delivered { reply, reports: SuccessReports::Relayed });
        Attempt {
            recipients: vec![delivered; count],
            server: Some(ServerSeen {
                host: self.0.domain.clone(),
                address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            }),
            tls: TlsUse::default(),
            lacking: Lacking::default(),
            timing: Timing::default(),
        }
    }

    fn is_reusable(&self) -> bool {
        !matches!(self.0.behaviour(), Behaviour::LoseReply | Behaviour::NoConnection)
    }

    async fn disturbed(&mut self) {
        if !matches!(self.0.behaviour(), Behaviour::Close { seen: true }) {
            std::future::pending::<()>().await;
        }
    }

    async fn quit(self: Box<Self>) {}
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some((open, _)) = self.0.servers.script().open.get_mut(&self.0.domain) {
            *open -= 1;
        }
    }
}
