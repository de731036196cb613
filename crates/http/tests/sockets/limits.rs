//! HTTP/1.1 with hostile clients: each test goes beyond a limit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sealpost_base::MemoryDivision;
use sealpost_base::limits::{HTTP_LARGE_BODY_STALLED, HTTP_REQUEST_HEAD_BYTES, HTTP_REQUEST_HEADERS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{LARGE_PIECES, TestServer, answer, ask, ends};

const HOST: &str = "HTTP/1.1\r\nHost: localhost\r\n";
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn heads_are_bounded() {
    let server = TestServer::start(|_| {}).await;
    let long = format!("GET /hello {HOST}X: {}\r\n\r\n", "x".repeat(HTTP_REQUEST_HEAD_BYTES));
    let many = format!("GET /hello {HOST}{}\r\n", "X: y\r\n".repeat(HTTP_REQUEST_HEADERS));
    for request in [long, many] {
        let mut client = server.connect().await;
        // The server may close the connection before all bytes are sent.
        let _ = client.write_all(request.as_bytes()).await;
        assert_eq!(answer(&mut client).await.status, 431);
        assert!(ends(&mut client).await);
    }
    for request in ["GET /hello HTTP/1.1\r\n\r\n".to_owned(), format!("GET /hello {HOST}Host: other\r\n\r\n")]
    {
        assert_eq!(ask(&mut server.connect().await, &request).await.status, 400, "{request}");
    }
    for request in ["EHLO there\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = server.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        assert!(ends(&mut client).await, "{request}");
    }
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_its_limit() {
    let server = TestServer::start(|_| {}).await;
    for path in ["/echo", "/count", "/hello"] {
        let mut client = server.connect().await;
        let method = if path == "/hello" { "GET" } else { "POST" };
        let request = format!("{method} {path} {HOST}Transfer-Encoding: chunked\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = client.into_split();
        let sending = tokio::spawn(async move {
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            while writer.write_all(chunk.as_bytes()).await.is_ok() {}
        });
        let status = answer(&mut reader).await.status;
        assert_eq!(status, if path == "/hello" { 200 } else { 413 }, "{path}");
        assert!(ends(&mut reader).await, "{path}");
        drop(reader);
        sending.await.unwrap();
    }
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn slow_heads_bodies_and_idle_clients_are_not_waited_for() {
    let change = |s: &mut sealpost_session::Settings| {
        (s.timeouts.http, s.timeouts.http_request) = (SHORT, SHORT);
    };
    let server = TestServer::start(change).await;
    let mut idle = server.connect().await;
    assert!(ends(&mut idle).await);
    let mut slow_head = server.connect().await;
    assert_eq!(ask(&mut slow_head, "GET /hello HTTP/1.1\r\nHo").await.status, 408);
    assert!(ends(&mut slow_head).await);
    let mut slow_body = server.connect().await;
    let request = format!("POST /echo {HOST}Content-Length: 10\r\n\r\nabc");
    assert_eq!(ask(&mut slow_body, &request).await.status, 408);
    assert!(ends(&mut slow_body).await);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_stalled_client_holds_little_and_not_for_long() {
    let server = TestServer::start(|s| s.timeouts.write = 2 * SHORT).await;
    let mut client = server.connect().await;
    client.write_all(format!("GET /large {HOST}\r\n").as_bytes()).await.unwrap();
    crate::support::until(|| server.written.load(Ordering::SeqCst) > 0).await;
    server.until_idle().await;
    let written = server.written.load(Ordering::SeqCst);
    // Allows for what both kernels buffer.
    assert!(written < LARGE_PIECES / 8, "{written} pieces");
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_slow_body_is_cancelled_when_others_need_memory() {
    let memory = sealpost_base::MemoryDivision { work: 4 << 20, ..Default::default() };
    let change = |s: &mut sealpost_session::Settings| {
        (s.memory, s.timeouts.http_request) = (memory, Duration::from_secs(600));
        // The shortest of these timeouts bounds how long a client may hold memory that others need.
        s.timeouts.write = SHORT;
    };
    let server = TestServer::start(change).await;
    // Bodies that reserve all memory, with clients that send nothing.
    let mut slow = Vec::new();
    let begin = format!("POST /echo {HOST}Content-Length: 100000\r\n\r\nx");
    for account in 2..18 {
        let mut client = server.connect().await;
        let begin = begin.replace("/echo", &format!("/echo?account={account}"));
        client.write_all(begin.as_bytes()).await.unwrap();
        slow.push(client);
    }
    crate::support::until(|| server.ctx.budget.waiting() > 0).await;
    let mut quick = server.connect().await;
    assert_eq!(ask(&mut quick, &format!("GET /hello {HOST}\r\n")).await.status, 200);
    assert_eq!(
        ask(&mut quick, &begin.replace("\r\nx", &format!("\r\n{}", "x".repeat(100_000)))).await.status,
        200
    );
    assert_eq!(answer(&mut slow[0]).await.status, 408);
}

/// Memory in which large bodies have this many bytes, so that the largest takes all of them.
const ALL: usize = 1 << 20;

async fn little_memory() -> TestServer {
    TestServer::start(|s| s.memory = MemoryDivision { work: 4 * ALL, ..Default::default() }).await
}

/// A client that announces a body of all memory, and sends a byte of it.
async fn stalled(server: &TestServer, account: u32) -> TcpStream {
    let mut client = server.connect().await;
    let head = format!("POST /hold?account={account} {HOST}Content-Length: {ALL}\r\n\r\n{{");
    client.write_all(head.as_bytes()).await.unwrap();
    client
}

/// The status of the response to a whole body.
async fn hold(server: &TestServer, account: u32, length: usize) -> u16 {
    let head = format!("POST /hold?account={account} {HOST}Content-Length: {length}\r\n\r\n");
    let (mut reader, mut writer) = server.connect().await.into_split();
    let body = [head.into_bytes(), vec![b'x'; length]].concat();
    let sending = async { writer.write_all(&body).await.unwrap() };
    tokio::join!(answer(&mut reader), sending).0.status
}

#[tokio::test(start_paused = true)]
async fn stalled_large_bodies_of_one_account_hardly_delay_another() {
    let server = little_memory().await;
    let mut first = stalled(&server, 1).await;
    crate::support::until(|| server.ctx.budget.in_use() > ALL).await;
    let mut more = Vec::new();
    for _ in 0..5 {
        more.push(stalled(&server, 1).await);
    }
    let began = Instant::now();
    assert_eq!(hold(&server, 2, 60).await, 200);
    assert!(began.elapsed() < SHORT, "{:?}", began.elapsed());
    assert_eq!(hold(&server, 2, ALL).await, 200);
    assert!(began.elapsed() < 2 * HTTP_LARGE_BODY_STALLED, "{:?}", began.elapsed());
    assert_eq!(answer(&mut first).await.status, 408);
}

/// A WebSocket that answers with the length of each message.
async fn socket(server: &TestServer, account: u32) -> TcpStream {
    let mut client = server.connect().await;
    let head = format!(
        "GET /socket?account={account} {HOST}Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: lengths\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(crate::support::head(&mut client).await.0, 101);
    client
}

/// The head of a text message of that many bytes, masked with zeros.
fn announced(length: usize) -> Vec<u8> {
    [&[0x81, 0xff], &(length as u64).to_be_bytes()[..], &[0; 4]].concat()
}

async fn length_told(client: &mut TcpStream, length: usize) {
    let message = [announced(length), vec![b'x'; length]].concat();
    let (mut reader, mut writer) = client.split();
    let told = async {
        let mut frame = vec![0; 2 + length.to_string().len()];
        reader.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[2..], *length.to_string().as_bytes());
    };
    let sending = async { writer.write_all(&message).await.unwrap() };
    tokio::time::timeout(crate::support::SOON, async { tokio::join!(told, sending) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stalled_web_socket_messages_hardly_delay_another_account() {
    let server = little_memory().await;
    let mut first = socket(&server, 1).await;
    first.write_all(&announced(ALL)).await.unwrap();
    crate::support::until(|| server.ctx.budget.in_use() > ALL).await;
    let in_use = server.ctx.budget.in_use();
    let mut more = Vec::new();
    // More than requests have memory for.
    for _ in 0..20 {
        let mut client = socket(&server, 1).await;
        client.write_all(&announced(ALL)).await.unwrap();
        more.push(client);
    }
    let mut other = socket(&server, 2).await;
    assert_eq!((server.ctx.budget.in_use(), server.ctx.budget.waiting()), (in_use, 0), "they hold nothing");
    let began = Instant::now();
    for length in [60, 5_000, 60_000] {
        length_told(&mut other, length).await;
    }
    assert!(began.elapsed() < SHORT, "{:?}", began.elapsed());
    length_told(&mut other, ALL).await;
    assert!(began.elapsed() < 2 * HTTP_LARGE_BODY_STALLED, "{:?}", began.elapsed());
    assert!(ends(&mut first).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_body_of_the_account_ends_a_stalled_one() {
    let server = little_memory().await;
    let mut stalled = stalled(&server, 1).await;
    crate::support::until(|| server.ctx.budget.in_use() > ALL).await;
    assert_eq!(hold(&server, 1, ALL).await, 200);
    assert_eq!(answer(&mut stalled).await.status, 408);
}
