//! Nodes of one installation, and the servers of the world around them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use rustls::RootCertStore;
use sealpost_base::{FakeClock, Result, SeededRandom, Timestamp};
use sealpost_delivery::dial::{Dialed, Dialer, Stream};
use sealpost_delivery::tls::TlsClient;
use sealpost_directory::{AccountName, AccountRecord, Address, AliasName, NewAccount, Secret};
use sealpost_dns::scripted::ScriptedResolver;
use sealpost_dns::{DnsName, Mx, Record};
use sealpost_queue::envelope::{Body, Facts, Mail, Recipient, Source, TlsDemand};
use sealpost_server::sending::{Network, Sending};
use sealpost_session::{Context, Settings};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

/// 2026-11-20 12:00:00 UTC.
const NOW: Timestamp = Timestamp(1_795_176_000_000);
/// How long anything may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// An installation: its store and keys, the time, other servers.
pub struct World {
    pub store: Store,
    pub clock: Arc<FakeClock>,
    pub peers: Peers,
    pub data: tempfile::TempDir,
    pub settings: Settings,
    pub owners: HashMap<String, (AccountRecord, RootKey)>,
    key: ServerKeys,
    zone: ScriptedResolver,
}

/// A server that runs.
pub struct Node {
    pub ctx: Arc<Context>,
    pub sending: Sending,
}

impl World {
    /// With the accounts `me` and `you` at `localhost`, of which `both` is an alias.
    pub async fn new() -> Self {
        Self::over(Store::memory()).await
    }

    pub async fn over(store: Store) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (hostname, domain) = ("localhost".to_owned(), Some("localhost".to_owned()));
        let mut settings = Settings { hostname, domain, ..Settings::default() };
        settings.sending.allow_private = true;
        let mut world = World {
            store,
            clock: Arc::new(FakeClock::new(NOW)),
            peers: Peers::default(),
            data,
            settings,
            owners: HashMap::new(),
            key: ServerKeys::generate(&SeededRandom::new(1)),
            zone: ScriptedResolver::new(),
        };
        let directory = world.context(world.data.path()).directory.clone();
        for name in ["me", "you"] {
            let account = AccountName::parse(&format!("{name}@localhost")).unwrap();
            let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
            let made = directory.create(&account, new).await.unwrap();
            world.owners.insert(name.to_owned(), made);
        }
        let both = ["me@localhost", "you@localhost"].map(|target| Address::parse(target).unwrap());
        directory.set_alias(&AliasName::parse("both@localhost").unwrap(), &both).await.unwrap();
        world
    }

    fn context(&self, data: &Path) -> Arc<Context> {
        let settings = Settings { data: Some(data.to_owned()), ..self.settings.clone() };
        let random = Arc::new(SeededRandom::new(3));
        let (key, clock) = (self.key.clone(), self.clock.clone());
        Arc::new(Context::new(settings, self.store.clone(), key, None, clock, random).unwrap())
    }

    /// A node on the data directory of the world.
    pub async fn start(&self) -> Node {
        self.try_start(self.data.path()).await.unwrap()
    }

    pub async fn try_start(&self, data: &Path) -> Result<Node> {
        let ctx = self.context(data);
        let network = Network {
            resolver: Arc::new(self.zone.clone()),
            dialer: Arc::new(self.peers.clone()),
            tls: TlsClient::new(RootCertStore::empty()).unwrap(),
        };
        let sending = Sending::start_on(ctx.clone(), &self.key, network).await?;
        Ok(Node { ctx, sending })
    }

    /// Mail for `domain` goes to a server at `address`.
    pub fn mail_server(&self, domain: &str, address: &str) {
        let exchange = DnsName::new(&format!("mx.{domain}")).unwrap();
        self.zone.add(domain, Record::Mx(Mx { preference: 10, exchange }));
        let IpAddr::V4(address) = address.parse().unwrap() else { panic!("{address} is not IPv4") };
        self.zone.add(&format!("mx.{domain}"), Record::A(address));
    }

    /// A mail from `me`.
    pub fn mail(&self, to: &[&str]) -> Mail {
        let text = b"From: me@localhost\r\nSubject: Hello\r\n\r\nText.\r\n".to_vec();
        let header = b"Received: by localhost\r\n".to_vec();
        let facts = Facts { size: (header.len() + text.len()) as u64, received: 1, ..Facts::default() };
        Mail {
            accepted: sealpost_base::Clock::now(&*self.clock),
            account: Some(self.owners["me"].0.id),
            from: "me@localhost".to_owned(),
            recipients: to.iter().copied().map(Recipient::new).collect(),
            ret: None,
            envid: None,
            facts,
            tls: TlsDemand::Policy,
            release: None,
            header,
            body: Body::Inline(text),
            message_id: Some("1@localhost".to_owned()),
            source: Source::Submission,
            submission: None,
            report_on: None,
        }
    }
}

impl Node {
    /// Waits until nothing is queued.
    pub async fn drained(&self) {
        let mut changes = self.sending.queue().changes();
        let empty = changes.wait_for(|_| self.sending.queue().state().is_empty());
        tokio::time::timeout(TIMEOUT, empty).await.expect("mail stays in the queue").unwrap();
    }

    /// Waits until the log has so many outcomes that are to be tried again.
    pub async fn deferred(&self, outcomes: u64) {
        let mut changes = self.sending.queue().changes();
        let deferred = changes.wait_for(|_| self.sending.queue().state().totals().deferred >= outcomes);
        tokio::time::timeout(TIMEOUT, deferred).await.expect("no attempt was deferred").unwrap();
    }

    /// The last reply about the only mail.
    pub fn last_failure(&self) -> String {
        let state = self.sending.queue().state();
        let (id, _) = state.rows().from(sealpost_queue::MailId(0)).next().expect("a queued mail");
        state.left(id, 0).flatten().map(|failure| failure.to_string()).unwrap_or_default()
    }

    pub async fn stop(self) {
        self.ctx.shutdown.begin();
        self.sending.stop(tokio::time::Instant::now() + TIMEOUT).await;
    }

    /// The messages in the inbox of an account, as they are stored.
    pub async fn inbox(&self, world: &World, name: &str) -> Vec<String> {
        let (record, root) = &world.owners[name];
        let account = self.ctx.accounts.open(record.id, root).await.unwrap();
        account.refresh().await.unwrap();
        let messages: Vec<_> = {
            let state = account.state();
            state.inbox().all_rows().filter_map(|row| state.message(row.message)).collect()
        };
        let mut texts = Vec::new();
        for message in messages {
            let pieces: Vec<_> = account.reader(&message).raw(0..u64::MAX).try_collect().await.unwrap();
            texts.push(String::from_utf8(pieces.concat()).unwrap());
        }
        texts
    }
}

/// What a server says when it has the whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Take,
    RefuseRecipients,
}

/// The servers behind addresses. One that is not there refuses connections.
#[derive(Clone, Default)]
pub struct Peers(Arc<Mutex<HashMap<IpAddr, Peer>>>);

/// A server that offers nothing but SMTP; clones share what it received.
#[derive(Clone)]
pub struct Peer {
    answer: Answer,
    /// A message is answered for each permit.
    permits: Arc<Semaphore>,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Peers {
    pub fn put(&self, address: &str, answer: Answer) -> Peer {
        let permits = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        self.put_peer(address, Peer { answer, permits, messages: Arc::default() })
    }

    /// One that answers messages only when it [may](Peer::answer_one).
    pub fn put_waiting(&self, address: &str) -> Peer {
        let permits = Arc::new(Semaphore::new(0));
        self.put_peer(address, Peer { answer: Answer::Take, permits, messages: Arc::default() })
    }

    fn put_peer(&self, address: &str, peer: Peer) -> Peer {
        self.0.lock().unwrap().insert(address.parse().unwrap(), peer.clone());
        peer
    }
}

impl Peer {
    /// The messages that it got, each with its envelope before it.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }

    pub fn answer_one(&self) {
        self.permits.add_permits(1);
    }

    /// Waits until it has got so many messages, whether or not it has answered.
    pub async fn got(&self, messages: usize) {
        let got = async {
            while self.messages().len() < messages {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, got).await.expect("the message did not arrive");
    }

    async fn serve(self, stream: Box<dyn Stream>) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 mx ESMTP\r\n").await?;
        let (mut envelope, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
            let reply = match &*verb {
                "MAIL" => {
                    envelope.clone_from(&line);
                    "250 ok\r\n"
                }
                "RCPT" if self.answer == Answer::RefuseRecipients => "550 5.1.1 no such user\r\n",
                "RCPT" => {
                    envelope.push_str(&line);
                    "250 ok\r\n"
                }
                "DATA" => {
                    stream.write_all(b"354 go ahead\r\n").await?;
                    let mut message = envelope.clone();
                    while !message.ends_with("\r\n.\r\n") {
                        if stream.read_line(&mut message).await? == 0 {
                            return Ok(());
                        }
                    }
                    self.messages.lock().unwrap().push(message);
                    self.permits.acquire().await.expect("it is never closed").forget();
                    "250 2.0.0 taken\r\n"
                }
                "QUIT" => return stream.write_all(b"221 bye\r\n").await,
                _ => "250 ok\r\n",
            };
            stream.write_all(reply.as_bytes()).await?;
        }
    }
}

#[async_trait]
impl Dialer for Peers {
    async fn dial(&self, address: SocketAddr, _source: Option<IpAddr>) -> io::Result<Dialed> {
        let peer = self.0.lock().unwrap().get(&address.ip()).cloned();
        let Some(peer) = peer.filter(|_| address.port() == 25) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(peer.serve(Box::new(theirs)));
        Ok(Dialed { stream: Box::new(ours), source: None })
    }
}
