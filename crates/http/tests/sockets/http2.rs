//! HTTP/2 with hyper as a client, and with hostile clients.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealpost_base::limits::{HTTP_REQUEST_BYTES, HTTP_REQUESTS_PER_ADDRESS, HTTP_STREAMS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::support::{LARGE_PIECES, SOON, TestServer, ends, until};

type Sender = SendRequest<http_body_util::Either<Empty<Bytes>, Full<Bytes>>>;

/// A connection of a client.
pub struct Client {
    sender: Sender,
    pub driver: JoinHandle<()>,
}

impl Client {
    pub async fn connect(server: &TestServer) -> Self {
        let tls = server.connect_tls(b"h2").await;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Client { sender, driver }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> hyper::Result<hyper::Response<hyper::body::Incoming>> {
        let body = match body {
            Some(bytes) => http_body_util::Either::Right(Full::new(bytes.into())),
            None => http_body_util::Either::Left(Empty::new()),
        };
        let uri = format!("https://localhost{path}");
        let request = hyper::Request::builder().method(method).uri(uri).body(body).unwrap();
        self.sender.clone().send_request(request).await
    }
}

/// Status and body of a response.
pub async fn get(client: &Client, path: &str) -> hyper::Result<(u16, Bytes)> {
    let response = client.send("GET", path, None).await?;
    Ok((response.status().as_u16(), response.into_body().collect().await?.to_bytes()))
}

#[tokio::test]
async fn many_streams_share_a_connection() {
    let server = TestServer::start(|_| {}).await;
    let client = Client::connect(&server).await;
    // Two unread responses must not block others.
    let large = [
        client.send("GET", "/large", None).await.unwrap(),
        client.send("GET", "/large", None).await.unwrap(),
    ];
    let all = futures::future::join_all((0..100).map(|_| get(&client, "/hello"))).await;
    assert!(all.into_iter().all(|one| one.unwrap() == (200, Bytes::from("hello\n"))));
    let paths: Vec<_> = (0..20).map(|account| format!("/echo?account={account}")).collect();
    let body = |n| Some(vec![b'a' + n as u8; 5000 * n]);
    let bodies = paths.iter().enumerate().map(|(n, path)| client.send("POST", path, body(n)));
    for (n, response) in futures::future::join_all(bodies).await.into_iter().enumerate() {
        let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() == 5000 * n && body.iter().all(|byte| *byte == b'a' + n as u8));
    }
    let written = server.written.load(Ordering::SeqCst);
    assert!(written < LARGE_PIECES / 8, "no more than the client's windows: {written} pieces");
    drop(large);
    server.until_idle().await;
    assert_eq!(get(&client, "/whoami").await.unwrap().1, "127.0.0.1 https://localhost");
    let too_large = client.send("POST", "/echo", Some(vec![0; 100_001])).await.unwrap();
    assert_eq!(too_large.status(), 413);
    assert_eq!(get(&client, "/hello").await.unwrap().0, 200, "it goes on");
}

#[tokio::test(start_paused = true)]
async fn bodies_that_wait_do_not_block_their_connection() {
    let server = TestServer::start(|_| {}).await;
    let client = Client::connect(&server).await;
    let bodies = (0..8).map(|_| client.send("POST", "/echo", Some(vec![b'x'; 100_000])));
    let answers = futures::future::join_all(bodies).await;
    let statuses: Vec<_> = answers.iter().map(|one| one.as_ref().unwrap().status().as_u16()).collect();
    assert!(statuses.contains(&200) && statuses.iter().all(|s| [200, 429].contains(s)), "{statuses:?}");
    drop(answers);
    assert_eq!(get(&client, "/hello").await.unwrap().0, 200);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_ends() {
    let server = TestServer::start(|s| s.timeouts.write = Duration::from_millis(300)).await;
    let client = Client::connect(&server).await;
    let response = client.send("GET", "/large", None).await.unwrap();
    server.until_idle().await;
    assert_eq!(get(&client, "/hello").await.unwrap().0, 200, "the connection lives");
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn requests_per_address_and_streams_per_connection_are_bounded() {
    let server = TestServer::start(|_| {}).await;
    let streams = HTTP_STREAMS as usize;
    let mut waiting = Vec::new();
    for _ in 0..HTTP_REQUESTS_PER_ADDRESS.div_ceil(streams) {
        let client = std::sync::Arc::new(Client::connect(&server).await);
        for _ in 0..=streams {
            let client = client.clone();
            waiting.push(tokio::spawn(async move { client.send("GET", "/wait", None).await.map(drop) }));
        }
    }
    until(|| server.busy.load(Ordering::SeqCst) == HTTP_REQUESTS_PER_ADDRESS).await;
    let client = Client::connect(&server).await;
    assert_eq!(get(&client, "/hello").await.unwrap().0, 429);
    waiting.iter().for_each(JoinHandle::abort);
    server.until_idle().await;
    assert_eq!(get(&client, "/hello").await.unwrap().0, 200);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = TestServer::start(|s| s.timeouts.http = Duration::from_millis(200)).await;
    let client = Client::connect(&server).await;
    assert_eq!(get(&client, "/hello").await.unwrap().0, 200);
    tokio::time::timeout(SOON, client.driver).await.unwrap().unwrap();
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// GET https://localhost/wait, by indices of RFC 7541's static table.
const GET_WAIT: &[u8] = b"\x82\x87\x04\x05/wait\x41\x09localhost";

/// Sends the preface, then frames from `flood`. Returns whether the server closes the connection before
/// `most` of them.
async fn is_cut_off(server: &TestServer, most: u32, flood: impl Fn(u32) -> Vec<u8>) -> bool {
    let client = server.connect_tls(b"h2").await;
    let (mut reader, mut writer) = tokio::io::split(client);
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    writer.write_all(&preface).await.unwrap();
    let reading = tokio::spawn(async move { ends(&mut reader).await });
    let mut sent = 0;
    while sent < most && writer.write_all(&flood(sent)).await.is_ok() {
        sent += 1;
    }
    let is_cut = sent < most || tokio::time::timeout(SOON, reading).await.is_ok_and(|ended| ended.unwrap());
    until(|| server.busy.load(Ordering::SeqCst) == 0).await;
    is_cut
}

#[tokio::test]
async fn data_waiting_for_a_window_holds_memory_until_a_timeout() {
    let server = TestServer::start(|s| s.timeouts.write = Duration::from_secs(1)).await;
    let mut client = server.connect_tls(b"h2").await;
    // RFC 9113 §6.5.2: streams begin with a window of one byte.
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    let get_hello = b"\x82\x87\x04\x06/hello\x41\x09localhost";
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, get_hello);
    client
        .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &request].concat())
        .await
        .unwrap();
    let mut data = Vec::new();
    while data.is_empty() {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        client.read_exact(&mut payload).await.unwrap();
        if head[3] == 0 {
            data = payload;
        }
    }
    assert_eq!((&data[..], server.ctx.budget.in_use()), (&b"h"[..], HTTP_REQUEST_BYTES));
    until(|| server.ctx.budget.in_use() == 0).await;
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_end_the_connection() {
    let server = TestServer::start(|_| {}).await;
    let reset = |n: u32| {
        let stream = 2 * n + 1;
        let open = frame(HEADERS, END_STREAM | END_HEADERS, stream, GET_WAIT);
        [open, frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())].concat()
    };
    assert!(is_cut_off(&server, 20_000, reset).await);
    let requests = server.ctx.metrics.of(sealpost_session::metrics::Protocol::Http).commands();
    assert!(requests < 1000, "{requests} requests were begun");
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_head_without_an_end_ends_the_connection() {
    let server = TestServer::start(|_| {}).await;
    let flood = |n: u32| {
        // A literal field without indexing: "x: " and 4000 letters.
        let field = [&b"\x00\x01x\x7f\xa1\x1e"[..], &[b'y'; 4000]].concat();
        match n {
            0 => frame(HEADERS, END_STREAM, 1, GET_WAIT),
            _ => frame(CONTINUATION, 0, 1, &field),
        }
    };
    assert!(is_cut_off(&server, 20_000, flood).await);
    let empty = |n: u32| match n {
        0 => frame(HEADERS, END_STREAM, 1, GET_WAIT),
        _ => frame(CONTINUATION, 0, 1, &[]),
    };
    assert!(is_cut_off(&server, 200_000, empty).await);
}

#[tokio::test]
async fn pings_do_not_keep_a_connection_without_requests() {
    let server = TestServer::start(|s| s.timeouts.http = Duration::from_millis(300)).await;
    let mut client = server.connect_tls(b"h2").await;
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    client.write_all(&preface).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(client);
    let pings = tokio::spawn(async move {
        while writer.write_all(&frame(PING, 0, 0, &[0; 8])).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(ends(&mut reader).await);
    drop(reader);
    tokio::time::timeout(SOON, pings).await.unwrap().unwrap();
}
