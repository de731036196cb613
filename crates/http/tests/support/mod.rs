//! HTTP over real sockets on the loopback address, and handlers that misbehave on request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use sealpost_base::{AccountId, MemoryDivision, SeededRandom, SystemClock};
use sealpost_http::{
    APPLICATION_PROTOCOLS, Body, Download, Event, Handler, HttpShared, Method, RequestHead, Response,
    ResponseBody, Route, Router, StatusCode, WebSocket, download, event_stream, serve, websocket,
};
use sealpost_session::net::Stream;
use sealpost_session::{Context, Settings};
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longer than any step of these tests.
pub const SOON: Duration = Duration::from_secs(20);
/// Pieces that `/large` writes to a client that reads.
pub const LARGE_PIECES: usize = 10_000;

/// A server that speaks only HTTP.
pub struct TestServer {
    pub ctx: Arc<Context>,
    pub shared: Arc<HttpShared>,
    /// The number of pieces that `/large` has written.
    pub written: Arc<AtomicUsize>,
    /// The number of active handlers of `/large` and `/wait`.
    pub busy: Arc<AtomicUsize>,
    plain: SocketAddr,
    secure: SocketAddr,
    client: Arc<rustls::ClientConfig>,
}

/// Counts one active handler until dropped.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Busy(count.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestServer {
    pub async fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let random = Arc::new(SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let memory = MemoryDivision { work: 256 << 20, ..MemoryDivision::default() };
        let mut settings = Settings { domain: Some("localhost".to_owned()), memory, ..Settings::default() };
        change(&mut settings);
        let ctx = Context::new(settings, Store::memory(), key, None, Arc::new(SystemClock::new()), random);
        let ctx = Arc::new(ctx.unwrap());
        let (written, busy) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let shared = Arc::new(HttpShared::new(ctx.clone(), router(&written, &busy)));
        let (server, client) = tls();
        let plain = listen(shared.clone(), None).await;
        let secure = listen(shared.clone(), Some(server)).await;
        TestServer { ctx, shared, written, busy, plain, secure, client }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.plain).await.unwrap()
    }

    /// A TLS connection that offers only this protocol.
    pub async fn connect_tls(&self, protocol: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut config = (*self.client).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let socket = TcpStream::connect(self.secure).await.unwrap();
        connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap()
    }

    /// A connection that appears to come from `peer`.
    pub fn connect_from(&self, peer: &str) -> Stream {
        let (server, client) = Stream::pair().unwrap();
        let local = "127.0.0.1:80".parse().unwrap();
        let server = server.made_for(SocketAddr::new(peer.parse().unwrap(), 4711), local);
        tokio::spawn(serve(server, self.shared.clone()));
        client
    }

    /// Waits until no handler of `/large` or `/wait` is active.
    pub async fn until_idle(&self) {
        until(|| self.busy.load(Ordering::SeqCst) == 0).await;
    }
}

/// Waits until the condition holds.
pub async fn until(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("it never became so");
}

/// Sends a request on a connection and reads the response.
pub async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

/// A response as received.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

pub async fn line(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(line).unwrap()
}

/// Reads the head of a response, and its status.
pub async fn head(stream: &mut (impl AsyncRead + Unpin)) -> (u16, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push_str(&line(stream).await);
    }
    (head[9..12].parse().unwrap(), head)
}

pub async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let read = async {
        let (status, head) = head(stream).await;
        let mut answer = Answer { status, head, body: Vec::new() };
        if answer.field("transfer-encoding") == Some("chunked") {
            loop {
                let length = usize::from_str_radix(line(stream).await.trim(), 16).unwrap();
                let mut chunk = vec![0; length + 2];
                stream.read_exact(&mut chunk).await.unwrap();
                answer.body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        } else if let Some(length) = answer.field("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut answer.body).await.unwrap();
        }
        answer
    };
    tokio::time::timeout(SOON, read).await.expect("no response came")
}

/// Whether the server closes the connection, after any other response.
pub async fn ends(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut rest = [0; 4096];
    let read = async { while matches!(stream.read(&mut rest).await, Ok(bytes) if bytes > 0) {} };
    tokio::time::timeout(SOON, read).await.is_ok()
}

async fn listen(shared: Arc<HttpShared>, tls: Option<Arc<rustls::ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (shared, tls) = (shared.clone(), tls.clone());
            tokio::spawn(async move {
                let stream = Stream::from_tcp(socket).unwrap();
                let stream = match tls {
                    Some(config) => stream.start_tls(&config, SOON).await.unwrap(),
                    None => stream,
                };
                serve(stream, shared).await;
            });
        }
    });
    address
}

fn tls() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    server.alpn_protocols = APPLICATION_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

/// The account of that number in the query, or the first one.
fn account(head: &RequestHead) -> AccountId {
    let number = head.query_param("account").and_then(|number| number.parse().ok());
    AccountId([number.unwrap_or(1); 16])
}

fn router(written: &Arc<AtomicUsize>, busy: &Arc<AtomicUsize>) -> Router {
    let route =
        |method, path, body, handler: Arc<dyn Handler>| Route { name: "API", method, path, body, handler };
    let get = |path, handler| route(Method::GET, path, Body::None, handler);
    let (written, large_busy, wait_busy) = (written.clone(), busy.clone(), busy.clone());
    let large = move |_| {
        let (written, busy) = (written.clone(), Busy::new(&large_busy));
        let write = |mut out: sealpost_http::BodyWriter| async move {
            let _busy = busy;
            for _ in 0..LARGE_PIECES {
                out.write(vec![7; 16 * 1024]).await?;
                written.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        std::future::ready(Response::new(StatusCode::OK, "image/png", ResponseBody::written(write, None)))
    };
    let wait = move |_| {
        let busy = Busy::new(&wait_busy);
        async move {
            let _busy = busy;
            std::future::pending::<Response>().await
        }
    };
    let file = |request: sealpost_http::Request| async move {
        let file = Download { length: 10, media_type: "text/plain", name: "a", tag: "B" };
        download(&request.head.headers, &file, |range| {
            ResponseBody::bytes(&b"0123456789"[range.start as usize..range.end as usize])
        })
    };
    let echo = |request: sealpost_http::Request| async move {
        let place = request.head.logged_in(account(&request.head), "somebody").unwrap();
        match request.body.read_all(&place).await {
            Ok(body) => Response::json(body.to_vec()),
            Err(error) => error.into(),
        }
    };
    let count = |mut request: sealpost_http::Request| async move {
        let mut bytes = 0;
        loop {
            match request.body.next().await {
                Ok(Some(piece)) => bytes += piece.len(),
                Ok(None) => return Response::text(StatusCode::OK, bytes.to_string()),
                Err(error) => return error.into(),
            }
        }
    };
    let events = |_| async {
        let ping = Event::new("ping", None, "{}").unwrap();
        event_stream(futures::stream::pending(), Some((Duration::from_millis(20), ping)))
    };
    let whoami = |request: sealpost_http::Request| async move {
        let client = request.head.client.map(|address| address.to_string()).unwrap_or_default();
        Response::text(StatusCode::OK, format!("{client} {}", request.head.base_url()))
    };
    let socket = |request: sealpost_http::Request| async move {
        let talk = |mut socket: WebSocket| async move {
            while let Ok((message, _working)) = socket.next().await {
                let length = message.len().to_string();
                drop(message);
                if socket.send(length.as_bytes(), true, true).await.is_err() {
                    break;
                }
            }
            "closed"
        };
        websocket(&request.head, account(&request.head), "lengths", talk)
    };
    Router::default()
        .with(get("/hello", Arc::new(|_| async { Response::text(StatusCode::OK, "hello\n") })))
        .with(get("/large", Arc::new(large)))
        .with(get("/wait", Arc::new(wait)))
        .with(get("/file", Arc::new(file)))
        .with(get("/events", Arc::new(events)))
        .with(get("/whoami", Arc::new(whoami)))
        .with(get("/panic", Arc::new(|_| async { panic!("a handler's bug") })))
        .with(route(Method::POST, "/echo", Body::Held(100_000), Arc::new(echo)))
        .with(route(Method::POST, "/hold", Body::Held(usize::MAX), Arc::new(echo)))
        .with(get("/socket", Arc::new(socket)))
        .with(route(Method::POST, "/count", Body::Streamed(1 << 20), Arc::new(count)))
}
