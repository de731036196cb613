//! A push service on loopback, with TLS under a test authority: keeps what it gets, and answers as
//! the test says. Any name leads to it, at any public address.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{RootCertStore, ServerConfig};
use sealpost_base::SeededRandom;
use sealpost_delivery::dial::{Dialed, Dialer};
use sealpost_delivery::tls::TlsClient;
use sealpost_dns::Record;
use sealpost_dns::scripted::{Script, ScriptedResolver};
use sealpost_jmap_session::JmapPayloads;
use sealpost_push::{Parts, Pusher};
use sealpost_session::Context;
use sealpost_vault::mail_key::MailKeys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// How long a test waits for a push.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it came.
#[derive(Debug)]
pub struct Received {
    pub head: String,
    pub body: Vec<u8>,
}

impl Received {
    /// A header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The service.
pub struct PushService {
    address: SocketAddr,
    roots: RootCertStore,
    received: UnboundedReceiver<Received>,
    replies: Arc<Mutex<VecDeque<&'static str>>>,
}

impl PushService {
    pub async fn start() -> Self {
        let names = ["push.example.org".to_owned(), "*.example.org".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into());
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = unbounded_channel();
        let replies: Arc<Mutex<VecDeque<&'static str>>> = Arc::default();
        let answers = replies.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, sender, answers) = (acceptor.clone(), sender.clone(), answers.clone());
                tokio::spawn(async move {
                    // A client that does not trust the certificate leaves.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = serve(stream, sender, answers).await;
                    }
                });
            }
        });
        PushService { address, roots, received, replies }
    }

    /// The status line of the reply to the next request; 201 if there is none.
    pub fn reply(&self, status: &'static str) {
        self.replies.lock().unwrap().push_back(status);
    }

    /// The next request.
    pub async fn next(&mut self) -> Received {
        timeout(PATIENCE, self.received.recv()).await.expect("a push in time").unwrap()
    }

    /// Whether no request is there.
    pub fn is_quiet(&mut self) -> bool {
        self.received.try_recv().is_err()
    }

    /// A pusher of this node that reaches the service and nothing else.
    pub async fn pusher(&self, ctx: &Arc<Context>, data: Option<PathBuf>) -> Pusher {
        pusher(ctx, Some(self.address), self.roots.clone(), data).await
    }
}

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<TcpStream>,
    sender: UnboundedSender<Received>,
    replies: Arc<Mutex<VecDeque<&'static str>>>,
) -> io::Result<()> {
    let (mut input, mut head_end) = (Vec::new(), None);
    let (head, body) = loop {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            read => input.extend_from_slice(&piece[..read]),
        }
        head_end = head_end.or_else(|| input.windows(4).position(|four| four == b"\r\n\r\n"));
        let Some(end) = head_end else { continue };
        let head = String::from_utf8(input[..end].to_vec()).unwrap();
        let received = Received { head, body: input[end + 4..].to_vec() };
        let length: usize = received.field("Content-Length").unwrap().parse().unwrap();
        if received.body.len() >= length {
            break (received.head, received.body);
        }
    };
    let status = replies.lock().unwrap().pop_front().unwrap_or("201 Created");
    sender.send(Received { head, body }).unwrap();
    stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await?;
    stream.shutdown().await
}

/// A pusher in a world with few names: `push.example.org` is on the internet, `inside.example.org` is
/// not, `away.example.org` cannot be looked up now.
pub async fn pusher(
    ctx: &Arc<Context>,
    service: Option<SocketAddr>,
    roots: RootCertStore,
    data: Option<PathBuf>,
) -> Pusher {
    let zone = ScriptedResolver::new();
    for (name, address) in [("push.example.org", "8.8.4.4"), ("inside.example.org", "10.1.2.3")] {
        zone.add(name, Record::A(address.parse().unwrap()));
    }
    zone.script("away.example.org", Script::Fail);
    let parts = Parts {
        store: ctx.store.clone(),
        mail_keys: MailKeys::generate(&SeededRandom::new(1)),
        accounts: ctx.accounts.clone(),
        directory: ctx.directory.clone(),
        resolver: Arc::new(zone),
        dialer: Arc::new(Redirect(service)),
        tls: Arc::new(TlsClient::new(roots).unwrap()),
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        payloads: Arc::new(JmapPayloads),
        contact: "mailto:postmaster@example.org".to_owned(),
        data,
    };
    Pusher::start(parts).await.unwrap()
}

/// Leads every connection to one server, or nowhere. Nothing on the internet is reached.
struct Redirect(Option<SocketAddr>);

#[async_trait]
impl Dialer for Redirect {
    async fn dial(&self, address: SocketAddr, _: Option<IpAddr>) -> io::Result<Dialed> {
        assert_eq!(address, "8.8.4.4:443".parse().unwrap(), "the address that the name leads to");
        let service = self.0.ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok(Dialed { stream: Box::new(TcpStream::connect(service).await?), source: None })
    }
}
