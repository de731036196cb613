//! HTTP/1.1 with hostile clients: each test goes beyond a limit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sealpost_base::limits::{HTTP_REQUEST_HEAD_BYTES, HTTP_REQUEST_HEADERS};
use tokio::io::AsyncWriteExt;

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
    for _ in 0..16 {
        let mut client = server.connect().await;
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
